#!/bin/sh
# perdure bench in small, on a real server: tests/cli/test_bench.py. The figures of a real load come
# from make bench. Prints PASS, FAIL or SKIP and a name, a line each.
# timeout: 400
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
export PERDURE_ROOT="$root"
tools/python-env.sh
. tools/env.sh
exec "$PYTHON" tests/cli/run.py --jobs 1 bench
