#!/bin/sh
# The crash test with what it needs: suite.sh ARGUMENTS-OF-crash.py
set -eu
cd "$(dirname "$0")/../.."
for tool in python node go; do
    sh "tools/$tool-env.sh"
done
. tools/env.sh
mkdir -p build-sdk
PERDURE_CRASH_GO=$PERDURE_ROOT/build-sdk/go-crash
export PERDURE_CRASH_GO
(cd tests/sdk/go && "$GO" build -o "$PERDURE_CRASH_GO" ./crash)
"$PYTHON" -B tests/crash/self_test.py
exec "$PYTHON" -B tests/crash/crash.py "$@"
