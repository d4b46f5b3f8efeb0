#!/bin/sh
# gRPC's official interop cases, both ways: Go's client against our server end, our client end against
# Go's server. One line a case.
# timeout: 1200
set -u

tools/go-env.sh || exit 1
. tools/env.sh
built=${BUILD_DIR:-build}/tests/interop
work=$(mktemp -d) || exit 1
pids=
trap 'for p in $pids; do kill "$p" 2>/dev/null; done; rm -rf "$work"' EXIT
failed=0

cases="empty_unary large_unary client_streaming server_streaming ping_pong empty_stream
timeout_on_sleeping_server cancel_after_begin cancel_after_first_response status_code_and_message
special_status_message custom_metadata unimplemented_method unimplemented_service"

if ! (cd tests/interop/go &&
    "$GO" build -o "$work/client" google.golang.org/grpc/interop/client &&
    "$GO" build -o "$work/server" google.golang.org/grpc/interop/server) >"$work/log" 2>&1; then
    tail -n 5 "$work/log"
    echo "FAIL interop.go_programs"
    exit 1
fi

# wait_for FILE PATTERN: until the line is there, at most 10 s.
wait_for() {
    for _ in $(seq 100); do
        grep -q "$2" "$1" && return 0
        sleep 0.1
    done
    return 1
}

report() { # report STATUS NAME
    if [ "$1" -eq 0 ]; then
        echo "PASS $2"
    else
        tail -n 8 "$work/log"
        echo "FAIL $2"
        failed=1
    fi
}

# Our server end.
"$built/interop_server" localhost:0 >"$work/ours.out" 2>"$work/ours.err" &
ours=$!
pids="$pids $ours"
wait_for "$work/ours.out" '^ready ' || { cat "$work/ours.err"; echo "FAIL interop.server_start"; exit 1; }
address=$(sed -n 's/^ready //p' "$work/ours.out")
for case in $cases; do
    timeout 20 "$work/client" -server_host localhost -server_port "${address##*:}" -test_case "$case" \
        >"$work/log" 2>&1
    report $? "interop.server.$case"
done
timeout 20 "$built/interop_client" "$address" compressed_unary >"$work/log" 2>&1
report $? interop.server.compressed_unary

# SIGTERM: no connection is left, so it ends by itself at once.
kill -TERM "$ours"
wait "$ours"
report $? interop.server.ends

# Our client end. The port is a free one that the kernel just gave to somebody else.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$work/server" -port "$port" >"$work/go.out" 2>&1 &
pids="$pids $!"
for _ in $(seq 100); do
    timeout 5 "$built/interop_client" "localhost:$port" empty_unary >/dev/null 2>&1 && break
    sleep 0.1
done
for case in $cases; do
    timeout 20 "$built/interop_client" "localhost:$port" "$case" >"$work/log" 2>&1
    report $? "interop.client.$case"
done
exit "$failed"
