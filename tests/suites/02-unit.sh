#!/bin/sh
# All cmocka programs and the kept inputs of the fuzzers, under the address and undefined-behaviour
# sanitizers. Also builds the server that way, build-asan/perdure, for suites that send it bad bytes.
# timeout: 1800
set -u

failed=0
mkdir -p build-logs

build() { # build TARGET
    if ! cmake --build build-asan -j "$JOBS" --target "$1" >build-logs/asan.out 2>&1; then
        grep -E "^FAILED:|error:|Error|undefined reference" build-logs/asan.out | head -n 60
        tail -n 5 build-logs/asan.out
        echo "FAIL build_$1"
        failed=1
        return 1
    fi
    echo "PASS build_$1"
}

cmake --preset asan >build-logs/asan.out 2>&1 || cat build-logs/asan.out
build perdure
if build unit_tests; then
    rm -f build-logs/unit.xml
    ctest --preset asan -j "$JOBS" --test-output-size-passed 4000000 \
        --test-output-size-failed 4000000 --output-junit "$PWD/build-logs/unit.xml" || failed=1
    echo "JUNIT build-logs/unit.xml"
fi
exit $failed
