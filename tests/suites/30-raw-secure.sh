#!/bin/sh
# TLS, API keys, client certificates and roles, shown to a real server by clients of both sorts:
# tests/raw. Prints PASS, FAIL or SKIP and a name, a line each.
# timeout: 600
# parallel: yes
exec "$(dirname "$0")/../raw/suite.sh" secure
