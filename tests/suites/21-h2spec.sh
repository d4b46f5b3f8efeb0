#!/bin/sh
# h2spec against our server end: every case passes but those that tests/interop/h2spec/misses.txt
# explains, and those must still miss (else the line has to go).
# timeout: 1200
set -u

tools/go-env.sh || exit 1
. tools/env.sh
built=${BUILD_DIR:-build}/tests/interop
work=$(mktemp -d) || exit 1
trap 'kill "$server" 2>/dev/null; rm -rf "$work"' EXIT

if ! (cd tests/interop/h2spec &&
    "$GO" build -o "$work/h2spec" github.com/summerwind/h2spec/cmd/h2spec) >"$work/log" 2>&1; then
    tail -n 5 "$work/log"
    echo "FAIL h2spec.program"
    exit 1
fi
"$built/interop_server" 127.0.0.1:0 >"$work/server.out" 2>"$work/server.err" &
server=$!
for _ in $(seq 100); do
    grep -q '^ready ' "$work/server.out" && break
    sleep 0.1
done
port=$(sed -n 's/^ready .*://p' "$work/server.out")
"$work/h2spec" -h 127.0.0.1 -p "$port" -o 2 -j "$work/report.xml" >"$work/out" 2>&1
python3 tests/interop/h2spec/judge.py "$work/report.xml" tests/interop/h2spec/misses.txt
