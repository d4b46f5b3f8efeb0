#!/bin/sh
# The simulator with fresh seeds (SEEDS of them, 10,000 unless said otherwise; SEED_FIRST is printed), the same runs from the other
# compiler, and what it covers of the engine.
# timeout: 36000
set -u

sim=build/tests/sim/sim
seeds=${SEEDS:-10000}
first=${SEED_FIRST:-$(date +%s)}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
mkdir -p build-logs

report() { # report STATUS NAME
    if [ "$1" -eq 0 ]; then
        echo "PASS $2"
    else
        echo "FAIL $2"
        failed=1
    fi
}

echo "seeds $first to $((first + seeds - 1))"
middle=$((first + seeds / 2))
"$sim" --seeds "$first-$((middle - 1))" --quiet --keep-going >"$work/1" 2>&1 &
one=$!
"$sim" --seeds "$middle-$((first + seeds - 1))" --quiet --keep-going >"$work/2" 2>&1
two=$?
wait $one
one=$?
cat "$work/1" "$work/2"
report $((one + two)) sim.fresh_seeds

if cmake -S . -B build-clang -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release >build-logs/clang.out 2>&1 &&
    cmake --build build-clang -j "$JOBS" --target sim >>build-logs/clang.out 2>&1; then
    "$sim" --seeds 1-20 --keep-going --hashes >"$work/gcc" 2>&1
    build-clang/tests/sim/sim --seeds 1-20 --keep-going --hashes >"$work/clang" 2>&1
    diff "$work/gcc" "$work/clang"
    report $? sim.same_run_with_clang
else
    tail -n 20 build-logs/clang.out
    report 1 sim.same_run_with_clang
fi

tests/sim/coverage
report $? sim.coverage
exit $failed
