#!/bin/sh
# The thirty deliberate bugs against seeds that nobody has tried: each that the simulator is to catch is caught within
# MUTATION_SEEDS (2,000) of them, and its run is shrunk to fewer than 50 actions of clients and workers.
# timeout: 14400
set -u
first=${MUTATION_FIRST:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
echo "seeds from $first on: MUTATION_FIRST=$first make nightly SUITES=mutations"
exec tests/sim/mutate --search --seeds "${MUTATION_SEEDS:-2000}" --first "$first" --shrink
