#!/bin/sh
# The load generator in small, on a real server: tests/cli/test_load.py. The figures of a real load come
# from running it by hand. Prints PASS, FAIL or SKIP and a name, a line each.
# timeout: 400
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
export PERDURE_ROOT="$root"
tools/python-env.sh
. tools/env.sh
exec "$PYTHON" tests/cli/run.py --jobs 1 load
