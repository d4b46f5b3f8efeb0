#!/bin/sh
# Every fuzzer over its kept inputs and then a fixed number of runs from a fixed seed, about 10 CPU-seconds each, with libFuzzer
# and the address and undefined-behaviour sanitizers. The same runs each time; tests/nightly/10-fuzz.sh does fresh ones.
# timeout: 1800
set -u

runs() { # runs FUZZER: what takes about 10 CPU-seconds here
    case $1 in
    fuzz_wire) echo 100000 ;;
    fuzz_rpc) echo 80000 ;;
    fuzz_conn) echo 1500 ;;
    fuzz_http) echo 12000 ;;
    fuzz_config) echo 30000 ;;
    fuzz_token) echo 1000 ;;
    fuzz_keys) echo 60000 ;;
    fuzz_tls) echo 3000 ;;
    fuzz_messages) echo 900 ;;
    fuzz_store) echo 150 ;;
    *) echo 1000 ;;
    esac
}

logs=build-logs/fuzz
failed=0
mkdir -p "$logs"
if ! { cmake --preset fuzz && cmake --build build-fuzz -j "$JOBS" --target fuzzers; } >build-logs/fuzz.out 2>&1; then
    grep -E "^FAILED:|error:|Error|undefined reference" build-logs/fuzz.out | head -n 60
    echo "FAIL fuzz.build"
    exit 1
fi
new=$(mktemp -d) || exit 1
trap 'rm -rf "$new"' EXIT

for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    kept=tests/fuzz/corpus/$name
    count=$(find "$kept" -type f 2>/dev/null | wc -l)
    if [ "$count" -eq 0 ]; then
        echo "FAIL fuzz.$name: no kept inputs in $kept"
        failed=1
        continue
    fi
    mkdir -p "$new/$name" # what it finds new is not kept
    if "build-fuzz/tests/fuzz/$name" -seed=1 -runs=$((count + $(runs "$name"))) -timeout=120 -rss_limit_mb=2560 \
        -malloc_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$logs/$name-" "$new/$name" "$kept" \
        >"$logs/$name.suite.out" 2>&1; then
        echo "PASS fuzz.$name"
    else
        tail -n 40 "$logs/$name.suite.out"
        echo "FAIL fuzz.$name"
        failed=1
    fi
done
exit "$failed"
