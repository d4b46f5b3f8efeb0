#!/bin/sh
# Makes .tools/bench: the peers of tests/bench/compare.py, at the versions pinned in tests/bench/peers.
# Instant when it is there.
#
#   .tools/bench/python    Temporal's command and its SDK
#   .tools/bench/node      Restate's server and its SDK
#   .tools/bench/bin       durabletask-go's server
#
# The Python in-memory backend is that of .tools/python; nghttpd, h2load and strace are Debian's
# (tools/deps.sh bench).
set -eu
"$(dirname "$0")/deps.sh" bench
"$(dirname "$0")/python-env.sh"
"$(dirname "$0")/node-env.sh"
"$(dirname "$0")/go-env.sh"
. "$(dirname "$0")/stamp.sh"
peers=$root/tests/bench/peers
stamp_begin bench "$peers/requirements.txt" "$peers/node/package.json" "$peers/node/package-lock.json" \
    "$peers/go/go.mod" "$peers/go/go.sum"

rm -rf "$dir"
mkdir -p "$dir/node" "$dir/bin"
PERDURE_ROOT=$root
. "$root/tools/env.sh"
python3 -m venv "$dir/python"
"$dir/python/bin/pip" install --quiet --disable-pip-version-check --no-deps \
    -r "$peers/requirements.txt" >&2
"$dir/python/bin/python" -c 'import temporalio.client'
cp "$peers/node/package.json" "$peers/node/package-lock.json" "$dir/node"
(cd "$dir/node" &&
    npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error >&2)
(cd "$peers/go" && "$GO" build -o "$dir/bin/durabletask-go" github.com/microsoft/durabletask-go)
stamp_end
