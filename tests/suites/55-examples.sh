#!/bin/sh
# The examples, each on a server of its own: its result, a kill -9 of the server in its midst, a kill of
# the example itself. Prints PASS or FAIL and a name, a line each.
# timeout: 600
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
export PERDURE_ROOT="$root"
tools/python-env.sh
tools/node-env.sh
tools/go-env.sh
tools/java-env.sh
. tools/env.sh
exec "$PYTHON" tests/examples/run.py
