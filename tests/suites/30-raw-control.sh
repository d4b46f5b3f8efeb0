#!/bin/sh
# Children, events, suspend, terminate, many instances, continue-as-new, histories, shown to a real server by hand-made
# workers and clients: tests/raw. Prints PASS, FAIL or SKIP and a name, a line each.
# timeout: 600
# parallel: yes
exec "$(dirname "$0")/../raw/suite.sh" children events suspend manage continue history
