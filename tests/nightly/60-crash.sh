#!/bin/sh
# The crash test with 100 kills at moments from a fresh seed, which it prints.
# timeout: 1200
exec "$(dirname "$0")/../crash/suite.sh" --kills 100 --settle 240
