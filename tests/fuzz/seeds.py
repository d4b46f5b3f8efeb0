#!/usr/bin/env python3
"""Writes the first inputs of the fuzzers: what a reader of their formats would try by hand.

    tests/fuzz/seeds.py FOLDER      writes FOLDER/fuzz_*/seed-*

The kept corpora (tests/fuzz/corpus) began with these. Run it again after a format has changed, then let
the fuzzers merge them (docs/testing.md says how).
"""

import struct
import sys
from pathlib import Path

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else "seeds")


def save(target, name, data):
    folder = OUT / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"seed-{name}").write_bytes(data)


# ---- protobuf by hand ----------------------------------------------------------------------------


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def num(field, n):
    return varint(field << 3) + varint(n)


def msg(field, body):
    body = body.encode() if isinstance(body, str) else body
    return varint(field << 3 | 2) + varint(len(body)) + body


def box(field, text):
    return msg(field, msg(1, text))


def stamp(field, seconds):
    return msg(field, num(1, seconds))


# ---- the service's messages ----------------------------------------------------------------------

METHODS = [
    "Hello", "StartInstance", "GetInstance", "WaitForInstanceStart", "WaitForInstanceCompletion", "RaiseEvent",
    "TerminateInstance", "SuspendInstance", "ResumeInstance", "PurgeInstances", "GetWorkItems",
    "CompleteActivityTask", "CompleteOrchestratorTask", "StreamInstanceHistory", "AbandonTaskActivityWorkItem",
    "AbandonTaskOrchestratorWorkItem", "RewindInstance", "RestartInstance", "QueryInstances", "ListInstanceIds",
    "CompleteEntityTask", "CreateTaskHub", "DeleteTaskHub", "SignalEntity", "GetEntity", "QueryEntities",
    "CleanEntityStorage", "AbandonTaskEntityWorkItem", "SkipGracefulOrchestrationTerminations",
]
ADVANCE, CANCEL, RECONNECT, HUB, ANSWER_TURN, ANSWER_TASK, GIVE_BACK, TIMED_WAIT = range(29, 37)
NOW = 1_800_000_000  # the world's clock at first


def op(which, body=b""):
    number = METHODS.index(which) if isinstance(which, str) else which
    return struct.pack("<BH", number, len(body)) + body


def start(i="a", name="O", more=b""):
    return op("StartInstance", msg(1, i) + msg(2, name) + box(4, '"in"') + more)


def get(i="a"):
    return op("GetInstance", msg(1, i) + num(2, 1))


def history(i="a"):
    return op("StreamInstanceHistory", msg(1, i))


def action(i, field, body):
    return msg(2, num(1, i) + msg(field, body))


def task(i, name="T", more=b""):
    return action(i, 2, msg(1, name) + box(3, "1") + more)


def child(i, name="O", instance=""):
    return action(i, 3, (msg(1, instance) if instance else b"") + msg(2, name))


def timer(i, seconds):
    return action(i, 4, stamp(1, NOW + seconds))


def send(i, target, event):
    return action(i, 5, msg(1, msg(1, target)) + msg(2, event) + box(3, "9"))


def done(i, status=1, more=b""):
    return action(i, 6, num(1, status) + box(2, '"out"') + more)


def turn(*actions, more=b""):
    return op(ANSWER_TURN, b"".join(actions) + more)


def result(more=None):
    return op(ANSWER_TASK, more if more is not None else box(3, '"r"'))


FAILURE = msg(1, "E") + msg(2, "bad") + box(3, "trace") + num(5, 1)
WORK = op("GetWorkItems")
BOUND = op("GetWorkItems", num(1, 1) + num(2, 1))

MESSAGES = {
    "hello": op("Hello") + op("Hello", b"\x0a\x00"),
    "chain": WORK + start() + turn(task(0)) + result() + turn(task(1)) + result() + turn(done(2)) + get() + history(),
    "fails": WORK + start() + turn(task(0)) + result(msg(4, FAILURE)) + turn(done(1, 3, msg(6, msg(1, "E") + msg(2, "x")))) + get(),
    "fan": WORK + start() + turn(*(task(i) for i in range(12))) + result() * 12 + turn() + turn() + turn(done(12)) + get(),
    "timer": WORK + start() + turn(timer(0, 5)) + op(ADVANCE, b"\x09") + turn(done(1)) + get() + history(),
    "child": WORK + start() + turn(child(0, "C", "kid")) + turn(done(0)) + turn(done(1)) + get("kid") + get(),
    "event": WORK + start() + turn() + op("RaiseEvent", msg(1, "a") + msg(2, "e") + box(3, "5")) + turn(done(0)) + get(),
    "send": WORK + start() + start("b") + turn(send(0, "b", "e")) + turn(done(0)) + turn(done(1)) + history("b"),
    "again": WORK + start() + turn(done(0, 2, msg(5, num(1, -1) + msg(17, msg(1, "e"))))) + turn(done(0)) + get(),
    "suspend": WORK + start() + op("SuspendInstance", msg(1, "a") + box(2, "why")) + op("ResumeInstance", msg(1, "a")) + turn(done(0)) + get(),
    "terminate": WORK + start() + turn(child(0, "C", "kid")) + op("TerminateInstance", msg(1, "a") + box(2, "end") + num(3, 1)) + turn() + turn() + get() + get("kid"),
    "purge": WORK + start() + turn(done(0)) + op("PurgeInstances", msg(1, "a")) + get(),
    "reuse": WORK + start() + start() + turn(done(0)) + start("a", "O", msg(6, num(1, 1))) + turn(done(0)) + get(),
    "later": start("a", "O", stamp(5, NOW + 60)) + WORK + op(ADVANCE, b"\x05") + turn(done(0)) + get(),
    "lost": BOUND + start() + start("b") + turn(task(0)) + op(RECONNECT, b"\x00") + BOUND + turn(done(1)) + result(),
    "go": op(RECONNECT, b"\x01") + WORK + start() + op("CompleteOrchestratorTask", msg(1, "a") + task(0)) + op("CompleteActivityTask", msg(1, "a") + num(2, 0) + box(3, "r")) + op("CompleteOrchestratorTask", msg(1, "a") + done(1)) + get(),
    "java": op(RECONNECT, b"\x02") + WORK + start() + op("CompleteOrchestratorTask", msg(1, "a") + timer(0, 1)) + op(ADVANCE, b"\x08") + op("CompleteOrchestratorTask", msg(1, "a") + done(1)) + get(),
    "abandon": BOUND + start() + op(GIVE_BACK) + op(ADVANCE, b"\x05") + turn(done(0)) + get(),
    "waits": start() + op("WaitForInstanceStart", msg(1, "a")) + op("WaitForInstanceCompletion", msg(1, "a") + num(2, 1)) + op(TIMED_WAIT, msg(1, "b")) + op(CANCEL, b"\x01") + op(ADVANCE, b"\x0a") + WORK + turn(done(0)),
    "filters": op("GetWorkItems", num(1, 5) + num(2, 5) + msg(11, msg(1, msg(1, "O") + msg(2, "1")) + msg(2, msg(1, "T")))) + start("a", "O", box(3, "1")) + turn(task(0)) + result() + turn(done(1)),
    "hubs": op(HUB, b"\x02") + start() + op(HUB, b"\x00") + get() + op(HUB, b"\x03") + get() + op(HUB, b"\x01") + get(),
    "invalid": WORK + start() + turn(task(0), task(0)) + turn(action(3, 8, b"")) + get() + start("b") + turn(done(0), done(0)) + get("b"),
    "custom": WORK + start("a", "O", msg(8, msg(1, "k") + msg(2, "v"))) + turn(task(0), more=box(3, '"status"')) + get(),
    "undecodable": WORK + start() + op("CompleteOrchestratorTask", msg(4, "x") + b"\xff") + turn(more=msg(2, b"\x0a\xff")) + get(),
    "long": WORK + start() + b"".join(turn(task(i)) + result(box(3, "x" * 60)) for i in range(12)) + turn(done(20)) + history() + get(),
    "chunks": WORK + start() + turn(task(0), more=num(8, 1) + msg(9, num(1, 0))) + turn(task(1), more=msg(9, num(1, 1))) + result() * 2 + get(),
    "partial": WORK + start() + op("CompleteOrchestratorTask", msg(1, "a") + num(8, 1)) + op(GIVE_BACK) + op(ADVANCE, b"\x05") + turn(done(0)),
    "childfails": WORK + start() + turn(child(0, "C", "kid")) + turn(done(0, 3, msg(6, FAILURE))) + turn(done(1)) + history(),
    "childthere": WORK + start("kid") + start() + turn(task(0)) + turn(child(0, "C", "kid")) + turn(done(1)) + result() + get(),
    "replaced": WORK + start() + turn(child(0, "C", "kid")) + start("kid", "O", msg(6, num(1, 0) + num(1, 5) + num(1, 6))) + turn(done(0)) * 3 + get(),
    "late": start() + op(TIMED_WAIT, msg(1, "a")) + op(ADVANCE, b"\x0a") + op(TIMED_WAIT, msg(1, "a") + num(2, 1)) + op(ADVANCE, b"\x05"),
    "oversize": WORK + start() + turn(task(0), more=box(3, "x" * 2500)) + op("CompleteActivityTask", msg(1, "a") + box(3, "y" * 2500)) + get(),
    "unread": WORK + b"".join(start(c, "O", box(3, "v")) for c in "abcdefgh") + turn(done(0, 2, msg(4, msg(1, "2")))) * 9,
    "javaerror": op(RECONNECT, b"\x02") + WORK + start() + op("CompleteOrchestratorTask", msg(1, "a") + b"\xff") + WORK + start("b") + op("CompleteOrchestratorTask", msg(1, "b") + done(0)),
    "tags": WORK + start("a", "O", msg(8, msg(1, "k") + msg(2, "v"))) + turn(task(0, "T", msg(4, msg(1, "k") + msg(2, "w")))) + result() + turn(done(1, 2, msg(7, msg(1, "z") + msg(2, "y")))) + get(),
    "many": WORK + b"".join(start(f"i{n}") for n in range(9)) + turn(task(0)) * 9 + result() * 9 + turn(done(1)) * 9 + op("TerminateInstance", msg(1, "i3")),
    "every": b"".join(op(m, msg(1, "a")) for m in METHODS),
}
for name, data in MESSAGES.items():
    save("fuzz_messages", name, data)

# ---- connections ---------------------------------------------------------------------------------


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def field(name, value):
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def grpc(body, compressed=0):
    return struct.pack(">BI", compressed, len(body)) + body


def request(stream, method, body, extra=()):
    block = b"".join(field(*f) for f in [(":method", "POST"), (":scheme", "http"), (":path", f"/TaskHubSidecarService/{method}"),
                                         (":authority", "a"), ("te", "trailers"), ("content-type", "application/grpc"), *extra])
    return frame(1, 4, stream, block) + frame(0, 1, stream, grpc(body))


def answer(stream, body):
    head = field(":status", "200") + field("content-type", "application/grpc")
    return frame(1, 4, stream, head) + frame(0, 0, stream, grpc(body)) + frame(1, 5, stream, field("grpc-status", "0"))


START = msg(1, "a") + msg(2, "O")
RAW = {
    "start": request(1, "StartInstance", START) + request(3, "GetInstance", msg(1, "a")),
    "work": request(1, "GetWorkItems", b"") + request(3, "StartInstance", START) + frame(8, 0, 1, b"\0\0\1\0") + frame(3, 0, 1, b"\0\0\0\x08"),
    "wait": request(1, "WaitForInstanceCompletion", msg(1, "a"), [("grpc-timeout", "1S")]) + frame(6, 0, 0, b"12345678"),
    "large": request(1, "CompleteOrchestratorTask", msg(4, "t") + msg(2, b"x" * 5000)),
    "unknown": request(1, "Nothing", b"") + frame(7, 0, 0, b"\0\0\0\0\0\0\0\0"),
    "settings": frame(4, 0, 0, struct.pack(">HIHI", 3, 1, 4, 0)) + request(1, "Hello", b"") + frame(4, 1, 0),
    "split": frame(1, 0, 1, field(":method", "POST") + field(":scheme", "http")) + frame(9, 4, 1, field(":path", "/TaskHubSidecarService/Hello") + field(":authority", "a") + field("te", "trailers") + field("content-type", "application/grpc")) + frame(0, 1, 1, grpc(b"")),
    "http1": b"GET / HTTP/1.1\r\n\r\n",
}
for name, data in RAW.items():
    save("fuzz_conn", f"raw-{name}", b"\x02" + data)
    save("fuzz_conn", f"raw-{name}-7", bytes([2 | 7 << 2]) + data)
save("fuzz_conn", "client-raw", b"\x03" + frame(4, 0, 0) + answer(1, msg(1, msg(1, "a"))) + answer(3, b"") + answer(5, b""))


def put(kind, *parts):
    return bytes([kind]) + b"".join(p if isinstance(p, bytes) else bytes([p]) for p in parts)


def carry(back, bits, body):
    return put(1, back, bits, len(body), body)


LISTS = {
    "start": put(0, 0, 0) + carry(0, 1, START) + put(0, 1, 0) + carry(0, 1, msg(1, "a")),
    "work": put(0, 2, 0) + carry(0, 1, b"") + put(0, 0, 0) + carry(0, 1, START) + put(3, 1, 8) + put(5, 10),
    "java": put(0, 2, 64) + carry(0, 1, b"") + put(0, 0, 0) + carry(0, 1, START) + put(0, 9, 64) + carry(0, 1, msg(1, "a") + num(99, 1)),
    "waits": put(0, 3, 8) + carry(0, 1, msg(1, "a")) + put(0, 12, 0) + carry(0, 1, msg(1, "a")) + put(5, 8) + put(3, 0, 8),
    "wrong": put(0, 0, 2) + carry(0, 1, START) + put(0, 0, 4) + carry(0, 0x11, START) + put(0, 0, 16) + carry(0, 3, START),
    "health": put(0, 128, 0) + carry(0, 1, b"") + put(0, 129, 0) + carry(0, 1, msg(1, "x")) + put(6),
    "large": put(0, 9, 0) + b"".join(put(2, 0, 0, 0, 250, b"\0\0\0\x20\0" + b"\x22\x01t" + b"x" * 242) for _ in range(5)),
    "history": put(0, 0, 0) + carry(0, 1, START) + put(0, 8, 0) + carry(0, 1, msg(1, "a")) + put(2, 8, 0, 255, 4, b"\0\1\0\0"),
}
for name, data in LISTS.items():
    save("fuzz_conn", f"list-{name}", b"\0" + data)
save("fuzz_conn", "client-list", b"\x01" + put(0, 2, 0) + carry(2, 0, msg(2, b"")) + put(0, 2, 0x23) + put(0, 1, 4) + put(7, 1) + put(5, 3))

# ---- HTTP/1.1 ------------------------------------------------------------------------------------

for i, text in enumerate([
    "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", "GET /readyz HTTP/1.0\r\n\r\n", "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "HEAD /metrics HTTP/1.1\r\n\r\n", "POST /healthz HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "GET /nothing?x=%41 HTTP/1.1\r\n\r\n",
    "PUT /readyz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "GET http://a/healthz HTTP/1.1\r\n\r\nGET /readyz HTTP/1.1\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nExpect: 100-continue\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\n\r\n", "GET /%00 HTTP/9.9\r\nA:\r\n b\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]):
    save("fuzz_http", f"{i}", b"\0" + text.encode())
    save("fuzz_http", f"{i}-5", bytes([5 << 1 | 1]) + text.encode())

# ---- what people write ---------------------------------------------------------------------------

for i, (form, text) in enumerate([
    (0, "# a comment\nlisten = 127.0.0.1:4001, [::1]:4001\nstore = sqlite:x.db\nwal.bytes = 64MiB\nhttp = off\n"),
    (0, "log-level=debug\nturn.timeout = 5m\nhub.auto_create = false\ncache.objects = 10\n"),
    (0, "set = a=b\n"), (0, "nothing = 1\n"), (0, "= 1\nlisten = ,\n"),
    (1, "--store\nmemory\n--listen\nunix:/tmp/x\n--http=off\n--insecure\n--log-level\nwarn\n--log-format\njson\n--set\nloop.threads=2"),
    (1, "--listen=0.0.0.0:1\n--listen=[::]:2\n--insecure=plaintext\n--tls-cert\nx"), (1, "--config\nnowhere"),
    (1, "--store\npostgres://u:p@h/d"), (1, "extra"),
    (2, "request.bytes=4MiB\nturn.events=100\nkeepalive.idle=30s\ndrain.time=0\ncache.bytes=1GiB\nabandon.backoff_max=60000ms"),
    (2, "x=1\nrequest.bytes=\nrequest.bytes=-1\nrequest.bytes=99999999999999999999\nhub.auto_create=yes"),
    (3, "start\nO\n--id\na\n--input\n{\"a\":[1,2]}\n--at\n+30s\n--tag\nk=v\n--version\n1"), (3, "start\nO\n--at\n2026-01-02T03:04:05.678+01:00\n--wait\n--timeout\n500ms"),
    (3, "get\na\n--json"), (3, "wait\na\n--start\n--timeout\n1h"), (3, "raise\na\nevent\n-"), (3, "raise\na\nevent\n[1]"), (3, "terminate\na\n--output\n1\n--recursive"),
    (3, "purge\na\n--force"), (3, "history\na"), (3, "workers\n--hub\nh"), (3, "status"), (3, "help\nstart"), (3, "suspend\na\n--reason\nx"), (3, "resume\n--\n-a"),
    (3, "version\n--json"), (3, "bench"), (3, "--version"), (3, "get"),
    (0, "tls-cert = a.pem\ntls-key = a.key\ntls-client-ca = ca.pem\napi-keys = keys\nauth.cert_roles = read,worker\n"),
    (1, "--tls-cert\na\n--tls-key\nb\n--listen\n0.0.0.0:1"), (1, "--tls-client-ca\na\n--api-keys\nk"),
    (2, "auth.cert_roles=read,client,worker,admin"), (2, "auth.cert_roles=boss"),
    (3, "get\nx\n--tls-ca\n/nonexistent\n--tls-cert\na\n--tls-key\nb"), (3, "get\nx\n--api-key\nk"),
    (3, "status\n--api-key\n@/nonexistent"), (3, "key\nlist"), (3, "key\ncreate\n--roles\nx"), (3, "key\nrevoke\nx"),
]):
    save("fuzz_config", f"{i}", bytes([form]) + text.encode())

# ---- the file of API keys, and what is shown as one ------------------------------------------------

SECRET = "0123456789abcdef" * 4
LINE = "010203040506 sha256:" + "00" * 16 + ":" + "11" * 32
for i, tail in enumerate(["read * 2026-01-01T00:00:00Z", "admin,worker a,b-c 2026-01-01T00:00:00Z a name", "boss *", "read"]):
    save("fuzz_keys", f"line-{i}", f"pdk_010203040506_{SECRET}\n# keys\n{LINE} {tail}\n".encode())

# ---- what comes in place of a TLS handshake --------------------------------------------------------

save("fuzz_tls", "h2", b"\xffPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
save("fuzz_tls", "alert", b"\x02\x15\x03\x03\x00\x02\x02\x28")
save("fuzz_tls", "record", b"\x07\x16\x03\x01\x40\x00" + b"\x01\x00\x3f\xfc\x03\x03" + b"\0" * 64)

# ---- completion tokens ---------------------------------------------------------------------------

for method in range(4):
    for turn_bit in (0, 128):
        save("fuzz_token", f"text-{method}-{turn_bit}", bytes([method | turn_bit]) + b"A" * 72)
        save("fuzz_token", f"changed-{method}-{turn_bit}", bytes([method | 1 << 2 | turn_bit, 5, 1, 60, 3]))
        for f in range(8):
            save("fuzz_token", f"signed-{method}-{turn_bit}-{f}", bytes([method | 2 << 2 | turn_bit, f]) + struct.pack("<Q", 1 + f))

# ---- damaged stores ------------------------------------------------------------------------------

for page in range(0, 40):
    save("fuzz_store", f"page-{page}", bytes([1, page, 0, 0, 0, 16]) + b"\xa5" * 16)
    save("fuzz_store", f"bits-{page}", bytes([1, page, 4, 250, 3, 0x80]))
    save("fuzz_store", f"cell-{page}", bytes([1, page, 4, 0, 9, 0x11, page, 4, 250, 0, 1]))
    save("fuzz_store", f"swap-{page}", bytes([1, page, 1, 0, 0, page + 1]))
save("fuzz_store", "end", bytes([1, 20, 3, 0, 0]))
save("fuzz_store", "log", bytes([1, 255]) + struct.pack(">IIIIII", 0x377F0682, 3007000, 4096, 0, 1, 2) + b"\0" * 8)
COLUMNS = [29, 6, 8, 7, 7, 7, 3, 3, 5, 3, 3]
for fits in (0, 2):
    for table, columns in enumerate(COLUMNS):
        for column in range(columns + 1):
            text = bytes([2, 3]) + b"\xffab"
            save("fuzz_store", f"row-{fits}-{table}-{column}", bytes([fits, table, column % 9, column, 0, 6]))
            save("fuzz_store", f"text-{fits}-{table}-{column}", bytes([fits, table, column % 5, column]) + text)
            save("fuzz_store", f"blob-{fits}-{table}-{column}", bytes([fits, table, column % 5, column, 3, 4]) + b"\x1a\x02\x08\xff")
