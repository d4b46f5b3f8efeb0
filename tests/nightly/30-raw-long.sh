#!/bin/sh
# The tests by hand whole, where `make test` runs them shortened: real keepalive and ping times, ten
# minutes of idleness and of a child, 100,000 events and timers, 10,000 generations, 100 kills.
# timeout: 14400
export PERDURE_NIGHTLY=1
exec "$(dirname "$0")/../raw/suite.sh" --skip "raw.overload.*" # 46-soak.sh
