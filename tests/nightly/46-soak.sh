#!/bin/sh
# Hours of more than the server can do, and of hubs whose workers come and go: no call fails inside, and memory, tables and files
# level off. SOAK_SECONDS (3600) each.
# timeout: 90000
export PERDURE_NIGHTLY=1
exec "$(dirname "$0")/../raw/suite.sh" overload
