#!/bin/sh
# All cmocka programs and the kept inputs of the fuzzers, under the address and undefined-behaviour
# sanitizers. Also builds the server that way, build-asan/perdure, for suites that send it bad bytes.
# timeout: 900
set -u

log=build-logs/asan.out
mkdir -p build-logs
if ! { cmake --preset asan && cmake --build build-asan -j "$JOBS" --target unit_tests perdure; } >"$log" 2>&1; then
    grep -E "error|FAILED|Error" "$log" | head -n 60
    tail -n 5 "$log"
    echo "FAIL asan_build"
    exit 1
fi
rm -f build-logs/unit.xml
ctest --preset asan -j "$JOBS" --test-output-size-passed 4000000 \
    --test-output-size-failed 4000000 --output-junit "$PWD/build-logs/unit.xml"
status=$?
echo "JUNIT build-logs/unit.xml"
exit $status
