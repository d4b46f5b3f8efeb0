#!/bin/sh
# The tests of what has threads, under the thread sanitizer: those that include pthread.h, and those
# of loop/ and engine/.
# timeout: 1200
set -u

names=$(git grep -l -E '#include (<pthread\.h>|"(loop|engine)/)' -- 'tests/unit/test_*.c' 'tests/store/test_*.c' |
    sed 's|^tests/||; s|\.c$||')
if [ -z "$names" ]; then
    echo "SKIP tsan: no test with threads"
    exit 0
fi
log=build-logs/tsan.out
mkdir -p build-logs
# shellcheck disable=SC2046 # a list of words
if ! { cmake --preset tsan && cmake --build build-tsan -j "$JOBS" --target $(echo "$names" | tr / _); } >"$log" 2>&1; then
    grep -E "^FAILED:|error:|Error|undefined reference" "$log" | head -n 60
    echo "FAIL tsan_build"
    exit 1
fi
rm -f build-logs/tsan.xml
ctest --preset tsan -j "$JOBS" -R "^($(echo $names | tr ' ' '|'))\$" --test-output-size-passed 4000000 \
    --test-output-size-failed 4000000 --output-junit "$PWD/build-logs/tsan.xml"
status=$?
echo "JUNIT build-logs/tsan.xml"
exit $status
