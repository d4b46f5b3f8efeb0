#!/bin/sh
# The released Python SDK against a real server: tests/sdk/python.
# timeout: 840
set -eu
cd "$(dirname "$0")/../.."
sh tools/python-env.sh
. tools/env.sh
exec "$PYTHON" -B tests/sdk/python/run.py
