# env.sh - sourced by tests and by people (sh or bash): where the test tools are. Installs nothing;
# run tools/python-env.sh, node-env.sh, go-env.sh or java-env.sh first, which do so once.
#
#   PERDURE_ROOT               the checkout
#   PERDURE                    the server and command, build/perdure, unless set before
#   PERDURE_ASAN               the same under the sanitizers, built by tests/suites/02-unit.sh
#   PYTHON                     of .tools/python: durabletask, grpcio, grpcio-tools, h2, pytest
#   NODE, NPM, NODE_PATH       NODE_PATH lets require() find @microsoft/durabletask-js
#   GO, GOPATH, GOBIN, ...     GO >= 1.26; modules and programs stay in .tools/go
#   JAVA, JAVAC, JAVA_CLASSPATH   the class path of the Java SDK: .tools/java/lib/*
#
# Found from $PERDURE_ROOT, from this file in bash, or from the current folder upwards.
if [ -z "${PERDURE_ROOT:-}" ]; then
    if [ -n "${BASH_SOURCE:-}" ]; then
        PERDURE_ROOT=$(cd "$(dirname "$BASH_SOURCE")/.." && pwd)
    else
        PERDURE_ROOT=$(git rev-parse --show-toplevel 2>/dev/null || pwd)
    fi
fi
PERDURE=${PERDURE:-$PERDURE_ROOT/build/perdure}
PERDURE_ASAN=${PERDURE_ASAN:-$PERDURE_ROOT/build-asan/perdure}
export PERDURE_ROOT PERDURE PERDURE_ASAN

PYTHON=$PERDURE_ROOT/.tools/python/bin/python
export PYTHON

if [ -x "$PERDURE_ROOT/.tools/node-dist/bin/node" ]; then
    PATH=$PERDURE_ROOT/.tools/node-dist/bin:$PATH
fi
NODE=$(command -v node || true)
NPM=$(command -v npm || true)
NODE_PATH=$PERDURE_ROOT/.tools/node/node_modules
export NODE NPM NODE_PATH

if [ -x "$PERDURE_ROOT/.tools/go-dist/go/bin/go" ]; then
    PATH=$PERDURE_ROOT/.tools/go-dist/go/bin:$PATH
fi
GO=$(command -v go || true)
GOPATH=$PERDURE_ROOT/.tools/go
GOBIN=$GOPATH/bin
GOCACHE=$GOPATH/cache
GOTOOLCHAIN=local       # no toolchain is fetched behind our back
GOFLAGS="-modcacherw -buildvcs=false" # rm -rf .tools works; a checkout of another owner builds
CGO_ENABLED=0
export GO GOPATH GOBIN GOCACHE GOTOOLCHAIN GOFLAGS CGO_ENABLED

JAVA=$(command -v java || true)
JAVAC=$(command -v javac || true)
JAVA_CLASSPATH="$PERDURE_ROOT/.tools/java/lib/*"
export JAVA JAVAC JAVA_CLASSPATH
export PATH
