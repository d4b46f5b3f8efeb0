#!/bin/sh
# The released Go SDK against a real server: tests/sdk/go.
# timeout: 480
# parallel: yes
set -eu
cd "$(dirname "$0")/../.."
sh tools/go-env.sh
. tools/env.sh
mkdir -p build-sdk
(cd tests/sdk/go && "$GO" build -o "$PERDURE_ROOT/build-sdk/go-sdk" .)
exec python3 -B tests/sdk/run.py go build-sdk/go-sdk
