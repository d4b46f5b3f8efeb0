#!/bin/sh
# Scale and overload in small, on real servers: tests/scale; `make scale` runs the full sizes. Prints PASS or FAIL, the case
# and its figures, a line each.
# timeout: 600
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
export PERDURE="${PERDURE:-$root/build/perdure}"
exec python3 tests/scale/run.py --small
