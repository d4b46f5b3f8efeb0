#!/bin/sh
# The released JavaScript SDK against a real server: tests/sdk/js.
# timeout: 360
set -eu
cd "$(dirname "$0")/../.."
sh tools/node-env.sh
. tools/env.sh
exec python3 -B tests/sdk/run.py js "$NODE" tests/sdk/js/main.js
