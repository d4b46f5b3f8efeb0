#!/bin/sh
# Every fuzzer for two minutes, from its kept inputs. What it finds is left in build-logs/fuzz.
# timeout: 3600
set -u
seconds=${FUZZ_SECONDS:-120}
failed=0

mkdir -p build-logs/fuzz
if ! { cmake --preset fuzz && cmake --build build-fuzz -j "$JOBS" --target unit_tests; } >build-logs/fuzz.out 2>&1; then
    grep -E "^FAILED:|error:|Error|undefined reference" build-logs/fuzz.out | head -n 60
    echo "FAIL fuzz_build"
    exit 1
fi
for fuzzer in build-fuzz/tests/fuzz/fuzz_*; do
    [ -x "$fuzzer" ] || continue
    name=${fuzzer##*/}
    mkdir -p "build-logs/fuzz/$name" # new inputs of this run
    kept=tests/fuzz/corpus/$name
    [ -d "$kept" ] || kept=
    # shellcheck disable=SC2086 # no kept inputs, no argument
    if "$fuzzer" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
        -artifact_prefix="build-logs/fuzz/$name-" "build-logs/fuzz/$name" $kept >"build-logs/fuzz/$name.out" 2>&1; then
        echo "PASS $name"
    else
        tail -n 40 "build-logs/fuzz/$name.out"
        echo "FAIL $name"
        failed=1
    fi
done
exit $failed
