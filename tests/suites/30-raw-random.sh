#!/bin/sh
# Random calls and answers from fixed seeds, over kills too: nothing gets stuck, every history is
# legal: tests/raw. Prints PASS, FAIL or SKIP and a name, a line each.
# timeout: 600
# parallel: yes
exec "$(dirname "$0")/../raw/suite.sh" random
