#!/bin/sh
# Ten minutes of load at concurrency 64: the store's log stays bounded.
# timeout: 1200
set -u
cmake --build build -j "$JOBS" --target perdure test_programs >/dev/null 2>&1
exec python3 tests/bench/wal_bound.py "${WAL_SECONDS:-600}"
