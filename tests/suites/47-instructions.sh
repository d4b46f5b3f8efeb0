#!/bin/sh
# What the core costs, counted: five scenarios in one thread under callgrind, instructions of src/ only, held to
# tests/bench/instructions.txt. Fails when one grows by more than 10 % and the file was not updated on purpose; the check itself
# is checked by a copy of the file with a count that is too small.
# timeout: 600
set -u

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root" || exit 1
if ! command -v valgrind >/dev/null 2>&1; then
    echo "FAIL instructions: valgrind is not installed (tools/deps.sh)"
    exit 1
fi
mkdir -p build-logs
if ! { cmake --preset release && cmake --build build -j "${JOBS:-2}" --target bench_instructions; } >build-logs/instructions.out 2>&1; then
    grep -E "^FAILED:|error:|Error|undefined reference" build-logs/instructions.out | head -n 60
    echo "FAIL instructions_build"
    exit 1
fi
python3 tests/bench/instructions.py --build build
status=$?
python3 tests/bench/test_instructions.py || status=1
exit $status
