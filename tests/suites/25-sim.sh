#!/bin/sh
# The simulator: seeds 1 to 300, each fault, limit, way of recovery and row of the spec reached at least once; and the same seed
# gives the same run, in another process.
# timeout: 1800
set -u

sim=${BUILD_DIR:-build}/tests/sim/sim
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
mkdir -p build-logs

# Two halves at once; the hit tables are joined below.
half() { # half A-B
    "$sim" --seeds "$1" --quiet --keep-going --hits=table >"$work/$1.out" 2>"$work/$1.err"
    echo $? >"$work/$1.rc"
}
half 1-150 &
half 151-300 &
wait
for part in 1-150 151-300; do
    grep -v '^hit ' "$work/$part.out"
    cat "$work/$part.err"
    if [ "$(cat "$work/$part.rc")" -eq 0 ]; then
        echo "PASS sim.seeds_$part"
    else
        echo "FAIL sim.seeds_$part"
        failed=1
    fi
done

# hit COUNT NAME, of both halves together.
sed -n 's/^hit //p' "$work"/*.out | awk '
    { n = $1; $1 = ""; name = substr($0, 2); if (!(name in sum)) order[++k] = name; sum[name] += n }
    END { for (i = 1; i <= k; i++) printf "%10d  %s\n", sum[order[i]], order[i] }' >build-logs/sim-hits.txt
cat build-logs/sim-hits.txt
awk '$1 == 0 { $1 = ""; print substr($0, 2) }' build-logs/sim-hits.txt | sort >"$work/zero"
cat tests/sim/not_built.txt tests/sim/impossible.txt | grep -v '^#' | grep -v '^$' | sort >"$work/later"
if [ -s build-logs/sim-hits.txt ] && ! comm -23 "$work/zero" "$work/later" | grep .; then
    echo "PASS sim.everything_is_reached"
else
    echo "the above was never reached"
    echo "FAIL sim.everything_is_reached"
    failed=1
fi
if comm -13 "$work/zero" "$work/later" | grep .; then
    echo "the above is reached, or is no row: see tests/sim/not_built.txt and tests/sim/impossible.txt"
    echo "FAIL sim.not_built_is_not_reached"
    failed=1
else
    echo "PASS sim.not_built_is_not_reached"
fi

"$sim" --seeds 1-20 --keep-going --hashes >"$work/once" 2>&1 &
"$sim" --seeds 1-20 --keep-going --hashes >"$work/twice" 2>&1
wait
if [ "$(wc -l <"$work/once")" -ge 20 ] && cmp "$work/once" "$work/twice"; then
    echo "PASS sim.same_seed_same_run"
else
    diff "$work/once" "$work/twice"
    echo "FAIL sim.same_seed_same_run"
    failed=1
fi
exit $failed
