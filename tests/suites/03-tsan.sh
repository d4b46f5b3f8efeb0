#!/bin/sh
# Under the thread sanitizer: the tests of what has threads (those that include pthread.h, and those of loop/ and engine/), and
# a whole server, driven by the hand-made clients and workers of tests/raw; any report fails. A planted race must be
# reported, with the same suppressions (tests/tsan/suppressions.txt: one frame each, with a reason).
# timeout: 1800
set -u

suppressions=$PWD/tests/tsan/suppressions.txt
export TSAN_OPTIONS="suppressions=$suppressions history_size=4 second_deadlock_stack=1"
log=build-logs/tsan.out
mkdir -p build-logs
failed=0

verdict() { # NAME STATUS
    if [ "$2" -eq 0 ]; then echo "PASS $1"; else echo "FAIL $1"; failed=1; fi
}

# Each line is a comment, or race:FUNCTION after a comment.
awk '/^#/ { reason = 1; next } /^race:[A-Za-z0-9_]+$/ && reason { reason = 0; next } { bad = 1; print "not a reasoned frame: " $0 }
    END { exit bad }' "$suppressions"
verdict tsan.suppressions_have_reasons $?

names=$(git grep -l -E '#include (<pthread\.h>|"(loop|engine)/)' -- 'tests/unit/test_*.c' 'tests/store/test_*.c' |
    sed 's|^tests/||; s|\.c$||')
# shellcheck disable=SC2046 # a list of words
if ! { cmake --preset tsan && cmake --build build-tsan -j "$JOBS" --target perdure planted_race $(echo "$names" | tr / _); } >"$log" 2>&1; then
    grep -E "^FAILED:|error:|Error|undefined reference" "$log" | head -n 60
    echo "FAIL tsan_build"
    exit 1
fi

build-tsan/tests/tsan/planted_race >build-logs/tsan-planted.out 2>&1
status=$?
[ "$status" -ne 0 ] && grep -q "WARNING: ThreadSanitizer: data race" build-logs/tsan-planted.out &&
    grep -q "arena_alloc" build-logs/tsan-planted.out
verdict tsan.a_planted_race_is_reported $?

rm -f build-logs/tsan.xml
# shellcheck disable=SC2086
ctest --preset tsan -j "$JOBS" -R "^($(echo $names | tr ' ' '|'))\$" --test-output-size-passed 4000000 \
    --test-output-size-failed 4000000 --output-junit "$PWD/build-logs/tsan.xml" || failed=1
echo "JUNIT build-logs/tsan.xml"

# The server with all its threads. Left out: what measures memory or speed, and what a server ten times slower cannot do in time.
PERDURE_ROOT=$PWD PERDURE=$PWD/build-tsan/perdure PERDURE_SANITIZED=1
export PERDURE_ROOT PERDURE PERDURE_SANITIZED
tools/python-env.sh || exit 1
. tools/env.sh
"$PYTHON" tests/raw/run.py --jobs 4 --skip without_a_deadline --skip raw.start.large --skip many_events_in \
    --skip thousand --skip memory_after --skip kill_at_random --skip no_busy --skip workers_lost_at_random \
    --skip hundred_thousand --skip no_event_is_lost start activities events children history wait restart |
    sed 's/^\(PASS\|FAIL\|SKIP\) raw\./\1 tsan.raw./' >build-logs/tsan-raw.out
cat build-logs/tsan-raw.out
grep -q '^PASS' build-logs/tsan-raw.out && ! grep -q '^FAIL' build-logs/tsan-raw.out
verdict tsan.server $?
exit "$failed"
