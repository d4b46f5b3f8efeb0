#!/bin/sh
# Style, layers, headers, lint: what can be told without running the product.
# timeout: 600
set -u
failed=0

check() { # check NAME COMMAND...
    name=$1
    shift
    if "$@" >build-logs/check.out 2>&1; then
        echo "PASS $name"
    else
        head -n 60 build-logs/check.out
        echo "FAIL $name"
        failed=1
    fi
}

mkdir -p build-logs
# The messages' headers, and what is compiled how.
[ -e build/build.ninja ] || cmake --preset release >/dev/null
[ ! -d proto ] || cmake --build build -j "$JOBS" --target perdure_proto >/dev/null

check layers_self_test tools/check-layers.py --self-test
check layers tools/check-layers.py
check leaks_self_test tools/check-leaks.py --self-test
check leaks tools/check-leaks.py
check runner_self_test tests/tools/test_runner.py
check headers tools/check-headers.sh build
check format tools/check-format.sh
check tidy tools/check-tidy.sh build
exit $failed
