#!/bin/sh
# Every fuzzer for FUZZ_SECONDS (3,600 unless set), from its kept inputs and a fresh seed, JOBS of them at a time. What each finds
# new is left in build-logs/fuzz/FUZZER, an input that fails beside it as FUZZER-crash-*; docs/testing.md says what to do with both.
# timeout: 40000
set -u
seconds=${FUZZ_SECONDS:-3600}
logs=build-logs/fuzz

mkdir -p "$logs"
if ! { cmake --preset fuzz && cmake --build build-fuzz -j "$JOBS" --target fuzzers; } >build-logs/fuzz.out 2>&1; then
    grep -E "^FAILED:|error:|Error|undefined reference" build-logs/fuzz.out | head -n 60
    echo "FAIL fuzz.build"
    exit 1
fi
# No form of -jobs: one process a fuzzer, so that a run is repeated by the seed in its output.
for source in tests/fuzz/fuzz_*.c; do
    basename "$source" .c
done | xargs -P "$JOBS" -I NAME sh -c '
    logs=$1 seconds=$2 name=$3 kept=tests/fuzz/corpus/$3
    mkdir -p "$logs/$name"
    if "build-fuzz/tests/fuzz/$name" -max_total_time="$seconds" -rss_limit_mb=2560 -malloc_limit_mb=4096 -timeout=120 \
        -print_final_stats=1 -artifact_prefix="$logs/$name-" "$logs/$name" "$kept" >"$logs/$name.out" 2>&1; then
        echo "PASS fuzz.$name"
    else
        tail -n 40 "$logs/$name.out"
        echo "FAIL fuzz.$name"
        exit 1
    fi' sh "$logs" "$seconds" NAME
