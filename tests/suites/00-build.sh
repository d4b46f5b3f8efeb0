#!/bin/sh
# Builds what the other suites run: build/perdure as users have it, and the programs of
# tests/interop and tests/bench.
# timeout: 1800
set -u

log=build-logs/build.out
mkdir -p build-logs
if cmake --preset release >"$log" 2>&1 &&
    cmake --build build -j "$JOBS" --target perdure test_programs >>"$log" 2>&1; then
    echo "PASS release"
else
    grep -E "^FAILED:|error:|Error|undefined reference" "$log" | head -n 60
    tail -n 5 "$log"
    echo "FAIL release"
    exit 1
fi
