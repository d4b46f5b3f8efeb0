#!/bin/sh
# suite.sh MODULE...: what each tests/suites/3?-raw-*.sh runs. With PERDURE_SANITIZED=1 on the server
# under sanitizers, and then any word of a sanitizer fails the test.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
export PERDURE_ROOT="$root"
tools/python-env.sh
if [ "${PERDURE_SANITIZED:-0}" = 1 ]; then
    PERDURE=${PERDURE_ASAN:-$root/build-asan/perdure}
    if [ ! -x "$PERDURE" ]; then # otherwise suite 02 has built it
        { cmake --preset asan && cmake --build build-asan --target perdure; } >/dev/null
    fi
    export PERDURE
    export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
fi
. tools/env.sh
exec "$PYTHON" tests/raw/run.py "$@"
