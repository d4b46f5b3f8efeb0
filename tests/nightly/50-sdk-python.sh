#!/bin/sh
# The tests with the Python SDK whole, where `make test` runs them shortened: ten idle minutes, 10,000
# generations.
# timeout: 1500
PERDURE_NIGHTLY=1
export PERDURE_NIGHTLY
exec "$(dirname "$0")/../suites/50-sdk-python.sh"
