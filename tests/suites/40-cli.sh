#!/bin/sh
# The command, and the server as an operator meets it: addresses, flags, signals, HTTP pages. On a
# real server: tests/cli. Prints PASS, FAIL or SKIP and a name, a line each.
# timeout: 600
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
export PERDURE_ROOT="$root"
tools/python-env.sh
. tools/env.sh
exec "$PYTHON" tests/cli/run.py commands keys server http check docs
