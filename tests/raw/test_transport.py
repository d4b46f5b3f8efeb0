"""HTTP/2, gRPC, hubs, deadlines, limits: what any call meets first (spec 2)."""

import gzip
import os
import socket
import struct
import subprocess
import time
import zlib

from hyperframe import frame as hf

from lib import actions as act
from lib.client import Client, error_of, expect_error
from lib.h2 import H2, PREFACE, Stream, grpc_frame
from lib.history import events_of
from lib.proto import METHODS, pb, sv, ts
from lib.runner import NIGHTLY, Skip, limit, nightly, serial
from lib.server import Server, binary, eventually
from lib.worker import Worker

LATER = [
    "RewindInstance", "CreateTaskHub", "DeleteTaskHub", "SignalEntity", "GetEntity", "QueryEntities",
    "CleanEntityStorage", "CompleteEntityTask", "AbandonTaskEntityWorkItem",
]
BUILT = [m for m in METHODS if m not in LATER]
UNARY = [m for m in BUILT if not METHODS[m].streams]


# checklist: 1
def test_paths_have_no_package(t):
    h = t.h2()
    assert h.call("/TaskHubSidecarService/Hello", b"").status == ("OK", "")
    for path in ("/TaskHubSidecarService/Nope", "/microsoft.TaskHubSidecarService/Hello",
                 "/TaskHubSidecarService/hello", "/Nope/Hello", "/TaskHubSidecarService", "/"):
        s = h.call(path, b"")
        assert s.status and s.status[0] == "UNIMPLEMENTED", (path, s.status, s.headers)
    assert h.call("Hello", b"").status[0] == "OK"


# checklist: 2
def test_hello_without_a_hub(t):
    c = t.client()
    c.call("Hello", metadata=[])
    c.call("Hello")
    h = t.h2()
    s = h.call("Hello", b"")
    assert s.status[0] == "OK" and s.messages == [b""]


# checklist-partial: 4
# reports: BL-104
def test_hubs_are_apart(t):
    s = t.own_server()
    a, b, none = (t.client(hub=h) for h in ("a-1", "B_2", None))
    none.metadata = []
    default = t.client(hub="default")
    a.start("o", "x", input="of a")
    assert b.get("x") is None and none.get("x") is None
    expect_error(lambda: b.event("x"), "NOT_FOUND", "Orchestration instance 'x' not found")
    expect_error(lambda: b.history("x"), "NOT_FOUND")
    b.start("o", "x", input="of b")
    assert a.get("x").input.value == "of a" and b.get("x").input.value == "of b"
    none.start("o", "y")
    assert default.get("y") is not None
    assert t.client(hub="DEFAULT").get("y") is not None
    assert t.client(hub="b_2").get("x").input.value == "of b"
    wa, wb = t.worker(hub="A-1"), t.worker(hub="b_2")
    ia, ib = wa.turn(), wb.turn()
    assert ia.started.input.value == "of a" and ib.started.input.value == "of b"
    wa.done(ia, act.complete(result="a"))
    assert b.status("x") == "PENDING"
    # A completion whose token names another hub is one with an unknown token.
    wa.call("CompleteOrchestratorTask", wa.response(ib, [act.complete(result="wrong")]))
    assert b.status("x") == "PENDING"
    wb.done(ib, act.complete(result="b"))
    assert a.wait("x").output.value == "a" and b.wait("x").output.value == "b"
    assert b.purge("x").deletedInstanceCount == 1
    assert a.get("x") is not None
    wa.none(0.3)


# checklist: 5
def test_hub_names(t):
    c, h = t.client(), t.h2()
    get = pb.GetInstanceRequest(instanceId="x")
    for hub in ("a" * 64, "A-z_09"):
        c.call("GetInstance", get, metadata=[("taskhub", hub)])
    for hub in ("a" * 65, "a.b", "a b", "a/b", "a:b", "h\u00e4".encode().hex() + "$", "@x", ""):
        for method in ("GetInstance", "StartInstance", "RaiseEvent"):
            code, text = c.error(method, metadata=[("taskhub", hub)])
            assert code == "INVALID_ARGUMENT", (hub, method, code, text)
        s = h.call("GetWorkItems", pb.GetWorkItemsRequest(), headers=[("taskhub", hub)])
        assert s.status[0] == "INVALID_ARGUMENT", (hub, s.status)


def test_hub_auto_create_off(t):
    t.own_server({"hub.auto_create": "false"})
    c = t.client(hub="nobody")
    text = expect_error(lambda: c.get("x"), "NOT_FOUND", "Task hub 'nobody' not found")
    expect_error(lambda: c.start("o"), "NOT_FOUND", text)
    assert t.worker(hub="nobody").wait_end() == ("NOT_FOUND", text)
    c.call("Hello")


# checklist: 6
def test_deadlines_end_at_the_server(t):
    t.own_server(store="memory")  # no disk that others keep busy
    c = t.client()
    id = c.start("o")
    h = t.h2()
    wait = pb.GetInstanceRequest(instanceId=id)
    s = h.call("WaitForInstanceCompletion", wait, timeout="2S", hub=t.hub)
    assert s.status == ("DEADLINE_EXCEEDED", "Timed out waiting for instance '%s' to complete" % id)
    # A request that never ends: the deadline counts from the headers on.
    s = h.open(METHODS["StartInstance"].path, [("taskhub", t.hub)], timeout="2S")
    h.pump(lambda: s.over, 15)
    assert s.status[0] == "DEADLINE_EXCEEDED", (s.status, s.reset)
    # One that comes too late may or may not be committed; it is answered, and is whole or absent.
    for i in range(20):
        one = "late-%d" % i
        s = h.call("StartInstance", c.create("o", one), timeout="1n", hub=t.hub)
        assert s.status[0] in ("DEADLINE_EXCEEDED", "OK"), s.status
        state = c.get(one)
        assert s.status[0] != "OK" or state is not None
        if state is not None:
            assert state.name == "o"
    # All units of grpc-timeout are understood; a bad one is refused or ignored, never a hang.
    for unit in ("1H", "1M", "5S", "5000m", "5000000u", "99999999n"):
        s = h.call("Hello", b"", timeout=unit)
        assert s.status[0] in ("OK", "DEADLINE_EXCEEDED"), (unit, s.status)
    for bad in ("x", "5", "S", "-1S", "123456789S"):
        s = h.call("Hello", b"", timeout=bad)
        assert s.status is not None, bad
    assert h.alive()


# checklist: 6
def test_a_deadline_never_undoes_a_commit(t):
    c, w = t.pair()
    ids = ["d%d" % i for i in range(50)]
    done = []
    for id in ids:
        try:
            c.start("o", id, timeout=0.003)
            done.append(id)
        except Exception as e:
            assert e.code().name == "DEADLINE_EXCEEDED", e
    for id in done:
        assert c.get(id) is not None
    there = [i for i in ids if c.get(i) is not None]
    for _ in there:
        i = w.turn()
        w.done(i, act.complete(result=i.id))
    for id in there:
        assert c.wait(id).output.value == id


# checklist: 7
# reports: BL-125
@limit(120)
def test_pings_every_ten_seconds(t):
    """Whole under PERDURE_NIGHTLY: 30 minutes of them."""
    idle, working = t.h2(), t.h2()
    s = working.start("GetWorkItems", pb.GetWorkItemsRequest(), hub=t.hub)
    working.pump(lambda: s.headers, 10)
    rounds = 180 if NIGHTLY else 3
    for i in range(rounds):
        for h in (idle, working):
            assert h.alive(), "no answer to a ping: %s" % h.frames[-5:]
            assert not h.goaways, h.goaways
        end = time.monotonic() + 10
        for h in (idle, working):
            h.pump(None, max(0.0, end - time.monotonic()) if h is working else 0.01)
    for h in (idle, working):
        assert h.call("Hello", b"").status[0] == "OK" and not h.goaways and not h.closed
    assert not s.over


if NIGHTLY:
    test_pings_every_ten_seconds.limit = 2400


# checklist: 8
# reports: BL-088
def test_request_over_the_limit(t):
    t.shared(request__bytes="1MiB")
    h = t.h2()
    under = pb.CreateInstanceRequest(instanceId="u", name="o", input=sv("x" * (1 << 20)))
    under.input.value = "x" * ((1 << 20) - 64)
    assert h.call("StartInstance", under, hub=t.hub).status == ("OK", "")
    over = pb.CreateInstanceRequest(instanceId="v", name="o", input=sv("x" * (1 << 20)))
    s = h.start("StartInstance", over, hub=t.hub)
    h.pump(lambda: s.over, 15)
    assert s.status and s.status[0] == "RESOURCE_EXHAUSTED", (s.status, s.reset)
    assert "1048576" in s.status[1] and str(over.ByteSize()) in s.status[1], s.status
    # An absurd length prefix is refused without waiting for the bytes.
    for size in ((1 << 32) - 1, 1 << 31, (1 << 20) + 1):
        s = h.open(METHODS["StartInstance"].path, [("taskhub", t.hub)])
        h.data(s, b"\0" + struct.pack(">I", size) + b"x" * 100, end=False)
        h.pump(lambda: s.over, 15)
        assert s.status and s.status[0] == "RESOURCE_EXHAUSTED", (size, s.status, s.reset)
    assert h.call("Hello", b"").status[0] == "OK"
    c = t.client()
    assert c.get("v") is None and c.get("u") is not None
    # What only names something, and what stays in memory as long as its stream, has a limit of its own.
    code, text = c.error("GetInstance", pb.GetInstanceRequest(instanceId="x" * 70_000))
    assert code == "RESOURCE_EXHAUSTED" and "65536" in text, (code, text)


# reports: BL-088, BL-092
def test_large_starts(t):
    c, w = t.pair()
    for size in (5 << 20, 16 << 20):
        text = "x%d-" % size + "y" * size
        id = c.start("o", input=text)
        i = w.turn(timeout=30, id=id)
        assert i.started.input.value == text
        w.done(i, act.complete(result="ok"))
        assert c.get(id).input.value == text
    code, text = c.error("StartInstance", c.create("o", input="z" * (65 << 20)))
    assert code == "RESOURCE_EXHAUSTED" and str(64 << 20) in text, (code, text)
    c.call("Hello")


# checklist: 141
def test_nesting(t):
    h = t.h2()
    begin, end = b"\x9b\x06", b"\x9c\x06"  # a group of the unknown field 99
    for method in UNARY:
        if method.startswith("Complete") or method == "Hello":
            continue
        s = h.call(method, begin * 150 + end * 150, hub=t.hub)
        assert s.status and s.status[0] == "INVALID_ARGUMENT", (method, s.status, s.reset)
    s = h.call("StartInstance", begin * 2_000_000 + end * 2_000_000, hub=t.hub)
    assert s.status[0] == "INVALID_ARGUMENT", s.status
    s = h.call("CompleteOrchestratorTask", begin * 400 + end * 400, hub=t.hub)
    assert s.status[0] == "INVALID_ARGUMENT", s.status
    assert h.call("Hello", b"").status[0] == "OK"


def chain(levels):
    """A TaskFailureDetails of so many levels, as bytes: deeper than Python's parser goes."""
    body = b"\x0a\x01T\x12\x01m"
    for _ in range(levels - 1):
        n, size = len(body), b""
        while True:
            size += bytes([n & 127 | (128 if n > 127 else 0)])
            n >>= 7
            if not n:
                break
        body = b"\x0a\x01T\x12\x01m" + b"\x22" + size + body
    return body


def field(number, data):
    n, size = len(data), b""
    while True:
        size += bytes([n & 127 | (128 if n > 127 else 0)])
        n >>= 7
        if not n:
            break
    return bytes([number << 3 | 2]) + size + data


# checklist: 141
def test_nesting_of_completions(t):
    """Over 300 deep: refused, and the item settled as failed (5.3)."""
    h = t.h2()
    id, c, w, i = t.started()
    w.done(i, act.task(1, "a"))
    a = w.task()
    body = w.activity_response(a).SerializeToString() + field(4, chain(400))
    s = h.call("CompleteActivityTask", body, hub=t.hub)
    assert s.status[0] == "INVALID_ARGUMENT", s.status
    i = w.turn()
    f = events_of(i.new, "taskFailed")
    assert f and f[0].failureDetails.errorType == "InvalidCompletion", i.new
    action = field(6, b"\x08\x03" + field(6, chain(400)))
    body = w.response(i).SerializeToString() + field(2, b"\x08\x05" + action)
    s = h.call("CompleteOrchestratorTask", body, hub=t.hub)
    assert s.status[0] == "INVALID_ARGUMENT", s.status
    state = c.wait(id)
    assert state.failureDetails.errorType == "InvalidCompletion", state
    # Far deeper than any stack: still only a status.
    s = h.call("CompleteActivityTask", field(4, chain(60_000)), hub=t.hub)
    assert s.status[0] == "INVALID_ARGUMENT", s.status
    # 250 levels are no reason to refuse; what is stored is cut (148).
    id, _, _, i = t.started(client=c, worker=w)
    action = field(6, b"\x08\x03" + field(6, chain(250)))
    s = h.call("CompleteOrchestratorTask",
               w.response(i).SerializeToString() + field(2, b"\x08\x05" + action), hub=t.hub)
    assert s.status == ("OK", ""), s.status
    assert h.alive()


# checklist: 142
def test_stream_with_a_deadline(t):
    c = t.client()
    id = c.start("o")
    w = t.worker(deadline=1.5)
    i = w.turn()
    assert w.wait_end()[0] == "DEADLINE_EXCEEDED"
    w2 = t.worker()
    j = w2.turn()
    assert j.id == id and j.token != i.token
    # The server itself ends it, with a status in the trailers.
    h = t.h2()
    s = h.start("GetWorkItems", pb.GetWorkItemsRequest(), timeout="2S", hub=t.hub)
    h.pump(lambda: s.over, 10)
    assert s.status and s.status[0] == "DEADLINE_EXCEEDED", (s.status, s.reset)


def test_response_headers_at_once(t):
    h = t.h2()
    s = h.start("GetWorkItems", pb.GetWorkItemsRequest(), hub=t.hub)
    h.pump(lambda: s.headers, 10)
    d = dict(s.headers)
    assert d[":status"] == "200" and d["content-type"].startswith("application/grpc"), d


def test_rpcs_that_come_later(t):
    c = t.client()
    c.start("o", "x")
    for method in LATER:
        code, text = c.error(method, METHODS[method].request())
        assert code == "UNIMPLEMENTED" and "later" in text.lower(), (method, code, text)
    assert c.get("x") is not None


def test_accepted_and_ignored_fields(t):
    c = t.client()
    w = t.worker(caps=[1, 2, 3, 0, 77], ent=5, name="me", filters=None)
    id = c.start("o")
    w.done(w.turn(), act.complete())
    for flags in ({"recursive": True}, {"isOrchestration": True}):
        c.wait(id)
        r = c.purge(id, **flags)
        assert r.deletedInstanceCount == 1 and r.isComplete.value is True, r
        c.start("o", id)
        w.done(w.turn(), act.complete())


def test_gzip_requests(t):
    h = t.h2()
    c = t.client()
    body = c.create("o", "zipped", input="a" * 100_000).SerializeToString()
    s = h.open(METHODS["StartInstance"].path, [("taskhub", t.hub), ("grpc-encoding", "gzip")])
    h.data(s, grpc_frame(gzip.compress(body), True))
    h.pump(lambda: s.over)
    assert s.status == ("OK", ""), s.status
    assert c.get("zipped").input.value == "a" * 100_000
    # identity by name; the flag off under gzip; bad data; an unknown encoding; a bomb.
    s = h.call("Hello", b"", headers=[("grpc-encoding", "identity")])
    assert s.status[0] == "OK"
    s = h.call("Hello", b"", headers=[("grpc-encoding", "gzip")])
    assert s.status[0] == "OK"
    for encoding, data in (("gzip", b"no gzip at all"), ("gzip", gzip.compress(body)[:-9]),
                           ("zap", b"x"), (None, b"x"), ("deflate", zlib.compress(body)[:5])):
        extra = [("taskhub", t.hub)] + ([("grpc-encoding", encoding)] if encoding else [])
        s = h.open(METHODS["StartInstance"].path, extra)
        h.data(s, grpc_frame(data, True))
        h.pump(lambda: s.over)
        assert s.status and s.status[0] not in ("OK",), (encoding, s.status)
    bomb = gzip.compress(b"\x22" + b"\xff" * 3 + b"\x7f" + b"\0" * (200 << 20))
    before = t.server.rss()
    s = h.open(METHODS["StartInstance"].path, [("taskhub", t.hub), ("grpc-encoding", "gzip")])
    h.data(s, grpc_frame(bomb, True))
    h.pump(lambda: s.over)
    assert s.status and s.status[0] in ("RESOURCE_EXHAUSTED", "INVALID_ARGUMENT"), s.status
    assert t.server.rss() - before < 150 << 20
    assert h.alive()


JUNK = [
    b"\xff", b"\x0a", b"\x0a\x05ab", b"\x0a\xff\xff\xff\xff\x0f", b"\x08",
    b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x0f", b"\x0e\x00", b"\x00\x00",
    b"\x0a\x02\xc3\x28", b"\x0c", b"\x0b", b"\x80" * 12, b"\x0d\x01", b"\x09\x01",
    b"\x22\x04\x0a\x02\xff\xfe", bytes(range(256)),
]


def test_malformed_messages_on_every_method(t):
    """A status each time, and everybody else goes on."""
    h = t.h2()
    bad_names = 0
    for method in METHODS:
        for junk in JUNK:
            s = h.start(method, junk, hub=t.hub, timeout="3S")
            h.pump(lambda: s.over, 15)
            assert s.status is not None, (method, junk, s.reset)
            code = s.status[0]
            if method in LATER:
                assert code in ("UNIMPLEMENTED", "INVALID_ARGUMENT"), (method, junk, s.status)
            elif method != "Hello" and junk in (b"\xff", b"\x0a", b"\x0a\x05ab", b"\x08", b"\x80" * 12):
                assert code == "INVALID_ARGUMENT", (method, junk, s.status)
            bad_names += code == "INVALID_ARGUMENT"
    assert bad_names > 100
    assert h.alive()
    c, w = t.pair()
    id = c.start("o")
    w.done(w.turn(id=id), act.complete())
    c.wait(id)


def test_bad_utf8_is_refused(t):
    h = t.h2()
    for bad in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"ab\xe2\x82"):
        for body in (field(1, b"i") + field(2, bad), field(2, b"n") + field(4, field(1, bad)),
                     field(1, bad) + field(2, b"n")):
            s = h.call("StartInstance", body, hub=t.hub)
            assert s.status[0] == "INVALID_ARGUMENT", (bad, s.status)
    assert t.client().get("i") is None


def test_bad_grpc_framing(t):
    h = t.h2()
    path = METHODS["GetInstance"].path
    body = pb.GetInstanceRequest(instanceId="x").SerializeToString()
    cases = {
        "nothing": b"",
        "half a prefix": b"\0\0\0",
        "cut short": b"\0\0\0\0\x64" + body,
        "two messages": grpc_frame(body) * 2,
        "bytes after it": grpc_frame(body) + b"\0",
        "a strange flag": b"\x07" + grpc_frame(body)[1:],
    }
    for name, data in cases.items():
        s = h.open(path, [("taskhub", t.hub)])
        h.data(s, data)
        h.pump(lambda: s.over, 15)
        assert s.reset is not None or (s.status and s.status[0] != "OK"), (name, s.status)
        assert s.reset in (None, 0, 1, 2, 7), (name, s.reset)
    for method in METHODS:
        s = h.open(METHODS[method].path, [("taskhub", t.hub)], end=True)
        h.pump(lambda: s.over, 15)
        assert s.reset is not None or (s.status and s.status[0] != "OK"), (method, s.status)
    assert h.alive() and h.call("Hello", b"").status[0] == "OK"


def test_not_grpc_at_all(t):
    h = t.h2()
    for raw in (
        [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "x")],
        [(":method", "POST"), (":scheme", "http"), (":path", METHODS["Hello"].path),
         (":authority", "x"), ("content-type", "text/plain")],
        [(":method", "POST"), (":scheme", "http"), (":path", METHODS["Hello"].path),
         (":authority", "x")],
        [(":method", "PUT"), (":scheme", "http"), (":path", METHODS["Hello"].path),
         (":authority", "x"), ("content-type", "application/grpc"), ("te", "trailers")],
    ):
        s = h.open("/", raw_headers=raw, end=True)
        h.pump(lambda: s.over, 15)
        assert s.reset is not None or s.headers, raw
    assert h.alive()
    # HTTP/1.1 and noise on the gRPC port end that connection and nothing else.
    for noise in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0" * 100, os.urandom(5000), PREFACE[:10]):
        with socket.create_connection((t.server.host, t.server.port), 5) as s:
            s.sendall(noise)
            s.shutdown(socket.SHUT_WR)
            s.settimeout(15)
            try:
                while s.recv(4096):
                    pass
            except ConnectionResetError:
                pass
    assert h.call("Hello", b"").status[0] == "OK"


def test_frames_byte_by_byte(t):
    c = t.client()
    h = H2(t.server.host, t.server.port, connect=False)
    t.later(h)
    real = h.sock.sendall

    def dribble(data):
        for i in range(0, len(data), 1):
            real(data[i : i + 1])

    h.send = dribble
    h.handshake()
    s = h.call("StartInstance", c.create("o", "slow", input="in"), hub=t.hub)
    assert s.status == ("OK", ""), s.status
    assert c.get("slow").input.value == "in"


def test_truncated_frames(t):
    """Connections that end in the middle of anything leave nothing behind."""
    c = t.client()
    full = H2(t.server.host, t.server.port, connect=False)
    sent = []
    full.send = sent.append
    s = hf.SettingsFrame(0)
    full.peer = {4: 65535}
    st = full.open(METHODS["StartInstance"].path, [("taskhub", t.hub)])
    full.data(st, grpc_frame(c.create("o", "never").SerializeToString()))
    full.close()
    data = PREFACE + s.serialize() + b"".join(sent)
    for n in range(1, len(data) - 1, 7):
        with socket.create_connection((t.server.host, t.server.port), 5) as k:
            k.sendall(data[:n])
    assert c.get("never") is None
    with socket.create_connection((t.server.host, t.server.port), 5) as k:
        k.sendall(data)
        eventually(lambda: c.get("never"), 10)


def test_bad_http2_frames(t):
    """Protocol errors end their connection with GOAWAY; the server and its other clients go on."""
    good = t.h2()

    def raw(kind, flags, stream, body):
        return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body

    for bad in (
        raw(0, 0, 0, b"x"), raw(1, 4, 0, b""), raw(1, 4, 2, b"\x82"), raw(6, 0, 0, b"short"),
        raw(4, 0, 0, b"12345"), raw(8, 0, 0, b"\0\0\0\0"), raw(3, 0, 0, b"\0\0\0\0"),
        raw(1, 4, 1, b"\xff\xff\xff\xff\xff"), raw(9, 4, 1, b""), raw(0, 0, 1, b"x" * 20000),
        raw(7, 0, 0, b""), raw(5, 4, 1, b"\0\0\0\2"), raw(1, 0, 1, b"\x82") + raw(0, 0, 1, b"x"),
        struct.pack(">I", 0xFFFFFF)[1:] + b"\0\0" + struct.pack(">I", 1) + b"x" * 100,
    ):
        h = H2(t.server.host, t.server.port)
        try:
            h.send(bad)
            h.ping()
            h.pump(lambda: h.closed or h.goaways or h.pongs, 10)
        finally:
            h.close()
    for kind in range(10, 30):  # unknown kinds are ignored
        good.send(raw(kind, 0xFF, 0, b"whatever"))
    assert good.call("Hello", b"").status[0] == "OK"


# reports: BL-131
def test_large_metadata(t):
    h = t.h2()
    announced = h.peer.get(hf.SettingsFrame.MAX_HEADER_LIST_SIZE)
    assert announced, "SETTINGS_MAX_HEADER_LIST_SIZE is not announced: %s" % h.peer
    for size in (100, 4 << 10, 8 << 10, announced // 2):
        s = h.call("Hello", b"", headers=[("x-much", "m" * size)])
        assert s.status and s.status[0] == "OK", (size, s.status)
    for size in (announced + 8000, announced * 2 - 8000):
        s = h.start("Hello", b"", headers=[("x-%d" % n, "m" * 4000) for n in range(size // 4000)])
        h.pump(lambda: s.over, 15)
        code = dict(s.headers or ()).get(":status")
        assert (s.status and s.status[0] == "RESOURCE_EXHAUSTED") or code == "431", (
            size, s.status, s.headers, s.reset)
    # Half a megabyte (more than eight CONTINUATION frames) may cost its connection, nothing more.
    g = t.h2()
    try:
        g.start("Hello", b"", headers=[("x-much", "m" * (512 << 10))])
        g.pump(lambda: g.closed or g.goaways or g.streams[1].over, 15)
    except OSError:
        pass
    many = [("x-%d" % i, "v" * 10) for i in range(3000)]
    s = h.start("Hello", b"", headers=many)
    h.pump(lambda: s.over, 15)
    assert s.status or dict(s.headers or ()).get(":status") == "431"
    assert h.call("Hello", b"").status[0] == "OK"


# reports: BL-129
@limit(120)
def test_rapid_reset(t):
    """Resets in a loop cost the connection at most; others are served meanwhile."""
    t.own_server()
    other = t.client()
    other.call("Hello")
    before = t.server.rss()
    for _ in range(3):
        h = H2(t.server.host, t.server.port)
        block = h.encoder.encode(h.headers_for(METHODS["Hello"].path))
        out = b""
        try:
            for i in range(20_000):
                f = hf.HeadersFrame(2 * i + 1)
                f.data = h.encoder.encode(h.headers_for(METHODS["Hello"].path)) if i else block
                f.flags.add("END_HEADERS")
                r = hf.RstStreamFrame(2 * i + 1)
                r.error_code = 8
                out += f.serialize() + r.serialize()
                if len(out) > 30_000:
                    h.send(out)
                    out = b""
                    h.pump(None, 0.001)
                if i % 4000 == 0:
                    other.call("Hello", timeout=5)
        except OSError:
            pass
        h.pump(lambda: h.closed, 2, must=False)
        if h.goaways:
            assert h.goaways[0][0] in (0, 11), h.goaways
        h.close()
        other.call("Hello", timeout=5)
    assert t.server.rss() - before < 64 << 20


# reports: BL-009
def test_honest_resets_are_tolerated(t):
    """3,000 waits given up by the client are no attack."""
    c = t.client()
    id = c.start("o")
    h = t.h2()
    wait = pb.GetInstanceRequest(instanceId=id)
    for _ in range(30):
        streams = [h.start("WaitForInstanceCompletion", wait, hub=t.hub) for _ in range(100)]
        h.call("Hello", b"")
        for s in streams:
            h.rst(s)
        h.call("Hello", b"")
        assert not h.goaways, h.goaways
    assert h.alive() and not h.closed


def test_unknown_headers_are_ignored(t):
    h = t.h2()
    s = h.call("GetInstance", pb.GetInstanceRequest(instanceId="x"), headers=[
        ("authorization", "Bearer nonsense"), ("x-user-agent", "durabletask-python/1.12.0"),
        ("workerid", "host:1:uuid"), ("x-bin", "AAEC"), ("something-bin", "!!not base64!!"),
        ("grpc-accept-encoding", "gzip,br"), ("grpc-previous-rpc-attempts", "3")])
    assert s.status is not None
    s = h.call("GetInstance", pb.GetInstanceRequest(instanceId="x"), headers=[
        ("authorization", "Bearer nonsense"), ("workerid", "host:1:uuid")])
    assert s.status == ("OK", "")


def test_health(t):
    h = t.h2()
    s = h.call("/grpc.health.v1.Health/Check", b"")
    assert s.status[0] == "OK" and s.messages == [b"\x08\x01"], (s.status, s.messages)
    s = h.call("/grpc.health.v1.Health/Check", field(1, b"TaskHubSidecarService"))
    assert s.status[0] == "OK" and s.messages == [b"\x08\x01"], (s.status, s.messages)
    s = h.call("/grpc.health.v1.Health/Check", field(1, b"nobody"))
    assert s.status[0] == "NOT_FOUND", s.status
    s = h.start("/grpc.health.v1.Health/Watch", b"")
    h.pump(lambda: s.messages, 10)
    assert s.messages == [b"\x08\x01"]


def test_http_endpoints(t):
    s = t.server
    assert s.get("/healthz")[0] == 200 and s.get("/readyz")[0] == 200
    code, text = s.get("/metrics")
    assert code == 200 and "# TYPE" in text
    assert s.get("/nope")[0] == 404


# checklist-partial: 3
def test_localhost_on_both_families(t):
    s = t.own_server(listen=["localhost:0", "127.0.0.1:0"], http="localhost:0")
    assert len(s.grpc) == 2, s.grpc
    assert s.grpc[0].startswith("localhost:"), s.grpc
    port = int(s.grpc[0].rsplit(":", 1)[1])
    t.client(server="127.0.0.1:%d" % port).call("Hello")
    t.client(server=s.grpc[1]).call("Hello")
    try:
        socket.create_connection(("::1", port), 2).close()
    except OSError as e:
        probe = socket.socket(socket.AF_INET6)
        try:
            probe.bind(("::1", 0))
        except OSError:
            raise Skip("no IPv6 loopback here")
        raise AssertionError("localhost does not listen on ::1: %s" % e)
    t.client(server="[::1]:%d" % port).call("Hello")


def test_unix_socket(t):
    s = t.own_server(start=False)
    path = os.path.join(s.dir, "socket")
    s.listen = ["unix:" + path, "127.0.0.1:0"]
    s.start()
    assert s.grpc[0] == "unix:" + path
    c = t.client(server="unix:" + path)
    w = t.worker(server="unix:" + path)
    id = c.start("o")
    w.done(w.turn(), act.complete(result="r"))
    assert t.client(server=s.grpc[1]).wait(id).output.value == "r"
    assert os.stat(path).st_mode & 0o777 == 0o660
    s.restart()  # the socket file of a killed server is in nobody's way
    assert t.client(server="unix:" + path).get(id).output.value == "r"


# reports: BL-132
def test_beyond_loopback_needs_a_flag(t):
    s = t.own_server(start=False)
    for addr in ("0.0.0.0:0", "[::]:0"):
        s.listen = [addr]
        r = subprocess.run(s.command(), capture_output=True, text=True, timeout=20, cwd=s.dir)
        assert r.returncode == 2 and "--insecure" in r.stderr and not r.stdout, (addr, r)
    s.listen = ["0.0.0.0:0"]
    s.extra = ["--insecure"]
    s.start()
    assert "insecure" in s.log() or "plaintext" in s.log() or "anonymous" in s.log(), s.log()
    t.client(server="127.0.0.1:%d" % s.port).call("Hello")


# reports: BL-132
def test_default_listens_on_loopback_only(t):
    s = t.own_server()
    with open("/proc/net/tcp") as f:
        rows = [l.split() for l in f.readlines()[1:]]
    ours = [r[1] for r in rows if r[3] == "0A" and int(r[1].split(":")[1], 16) == s.port]
    assert ours == ["0100007F:%04X" % s.port], ours


# reports: BL-002
@limit(120)
def test_hello_from_the_first_moment(t):
    """From process start on each Hello has an answer or UNAVAILABLE in bounded time."""
    s = t.own_server()
    for _ in range(3):
        s.kill()
        import threading
        results, stop = [], threading.Event()

        def ask():
            while not stop.is_set():
                c = Client(s.target, None)
                begin = time.monotonic()
                try:
                    c.stub("Hello")(pb.Empty(), timeout=5)
                    results.append(("OK", time.monotonic() - begin))
                except Exception as e:
                    results.append((e.code().name, time.monotonic() - begin))
                c.close()
                stop.wait(0.05)

        threads = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
        for x in threads:
            x.start()
        s.start()
        eventually(lambda: any(r[0] == "OK" for r in results), 20)
        stop.set()
        for x in threads:
            x.join()
        assert {r[0] for r in results} <= {"OK", "UNAVAILABLE"}, results


# reports: BL-127
def test_large_messages_through_small_windows(t):
    """Messages far over the windows, cut to the peer's frame size, both ways."""
    c = t.client()
    h = t.h2(window=20_000, frame_size=16384)
    text = "0123456789" * 31416
    s = h.call("StartInstance", c.create("o", "big", input=text), hub=t.hub, wait=30)
    assert s.status == ("OK", "")
    s = h.call("GetInstance", pb.GetInstanceRequest(instanceId="big", getInputsAndOutputs=True),
               hub=t.hub, wait=30)
    assert pb.GetInstanceResponse.FromString(s.messages[0]).orchestrationState.input.value == text
    assert all(f[2] <= 16384 for f in h.frames if f[0] == "Data")


# reports: BL-003
@limit(120)
def test_many_workers_at_once(t):
    s = t.server
    c = t.client()
    conns = []
    for _ in range(300):
        h = H2(s.host, s.port, connect=False)
        t.later(h)
        conns.append(h)
    for h in conns:
        h.handshake()
        h.stream = h.start("GetWorkItems", pb.GetWorkItemsRequest(
            maxConcurrentOrchestrationWorkItems=1), hub=t.hub)
    for h in conns:
        h.pump(lambda: h.stream.headers, 20)
    ids = [c.start("o") for _ in range(30)]
    got = 0
    end = time.monotonic() + 20
    while got < 30 and time.monotonic() < end:
        got = 0
        for h in conns:
            h.pump(None, 0.001)
            got += len(h.stream.messages)
    assert got == 30, got


def valid_messages(t, c, w):
    """One rich message for each method that takes one."""
    id = c.start("o")
    i = w.turn(id=id)
    details = act.failure("T", "m", "s", act.failure("I", "i"), True, {"p": [1, None, {"a": "b"}]})
    response = w.response(i, [
        act.task(1, "a", "in", "v", {"k": "v"}, pb.TraceContext(traceParent="00-1-2-03")),
        act.timer(2, after=1000), act.child(3, "k", "", "in"), act.send(4, "x", "e", "d"),
        act.terminate(5, "x", "r", True), act.complete(6, 3, "r", details, "d"),
        act.again(7, "in", "v", [act.raised("e", "v")], {"t": "u"}),
    ], status="cs", processed=2, trace=pb.OrchestrationTraceContext(spanID=sv("s"), spanStartTime=ts(5)))
    start = c.create("o", "fuzzed", input="in", version="v", at=time.time() + 5, replaceable=[1, 3],
                     execution="0" * 32, tags={"a": "b"}, trace=pb.TraceContext(traceParent="t"))
    return {
        "StartInstance": start,
        "GetInstance": pb.GetInstanceRequest(instanceId=id, getInputsAndOutputs=True),
        "RaiseEvent": pb.RaiseEventRequest(instanceId=id, name="e", input=sv("v")),
        "SuspendInstance": pb.SuspendRequest(instanceId=id, reason=sv("r")),
        "ResumeInstance": pb.ResumeRequest(instanceId=id, reason=sv("r")),
        "TerminateInstance": pb.TerminateRequest(instanceId="x", output=sv("r"), recursive=True),
        "PurgeInstances": pb.PurgeInstancesRequest(instanceId=id, recursive=True),
        "CompleteOrchestratorTask": response,
        "CompleteActivityTask": pb.ActivityResponse(
            instanceId=id, taskId=1, result=sv("r"), failureDetails=details, completionToken=i.token),
        "AbandonTaskOrchestratorWorkItem": pb.AbandonOrchestrationTaskRequest(completionToken="t" * 40),
        "AbandonTaskActivityWorkItem": pb.AbandonActivityTaskRequest(completionToken="t" * 40),
        "StreamInstanceHistory": pb.StreamInstanceHistoryRequest(instanceId=id, executionId=sv("0" * 32)),
    }


@limit(120)
def test_mutated_messages(t):
    """Bytes changed, cut, doubled at random (one seed): a status each time, and nobody is harmed."""
    import random
    seed = int.from_bytes(os.urandom(4), "big") if NIGHTLY else 7
    print("# mutated_messages seed %d" % seed, flush=True)
    rng = random.Random(seed)
    t.own_server()
    c, w = t.pair(check=False)
    h = t.h2()
    for round in range(200 if NIGHTLY else 6):
        for method, message in valid_messages(t, c, w).items():
            data = message.SerializeToString()
            batch = []
            for _ in range(25):
                b = bytearray(data)
                for _ in range(rng.randrange(1, 5)):
                    at = rng.randrange(len(b)) if b else 0
                    what = rng.randrange(5)
                    if what == 0 and b:
                        b[at] ^= 1 << rng.randrange(8)
                    elif what == 1 and b:
                        b[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
                    elif what == 2:
                        del b[at : at + rng.randrange(1, 9)]
                    elif what == 3:
                        b[at:at] = b[max(0, at - rng.randrange(1, 30)) : at]
                    else:
                        b[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 6)))
                batch.append((bytes(b), h.start(method, bytes(b), hub=t.hub, timeout="20S")))
            h.pump(lambda: all(s.over for _, s in batch), 30)
            for b, s in batch:
                assert s.status is not None, (method, b, s.reset)
                assert s.status[0] not in ("UNKNOWN", "INTERNAL", "DEADLINE_EXCEEDED"), (method, b, s.status)
    assert h.alive()
    id = c.start("o", "after-all-this")
    w.cancel()
    w.open()
    w.done(w.turn(id=id, timeout=30), act.complete(result="r"))
    assert c.wait(id).output.value == "r"


def test_requests_in_memory_are_bounded(t):
    """Room is reserved by the length prefix; what does not fit gets no window until there is some."""
    s = t.own_server({"request.bytes": "2MiB", "request.buffered_bytes": "4MiB"})
    c = t.client()
    size = (2 << 20) - 100
    body = c.create("o", "held", input="x" * size).SerializeToString()
    held = []
    for n in range(2):
        h = t.h2()
        st = h.open(METHODS["StartInstance"].path, [("taskhub", t.hub)])
        h.data(st, grpc_frame(body)[:100_000], end=False)
        h.call("Hello", b"")
        held.append((h, st))
    third = t.h2()
    body3 = grpc_frame(c.create("o", "third", input="y" * size).SerializeToString())
    st3 = third.open(METHODS["StartInstance"].path, [("taskhub", t.hub)])
    # As far as the window goes: less than the whole.
    sent = 0
    while sent < len(body3):
        room = min(third.send_window, third.stream_windows[st3.id], 16384, len(body3) - sent)
        if room <= 0:
            if not third.pump(lambda: min(third.send_window, third.stream_windows[st3.id]) > 0, 1.5, must=False):
                break
            continue
        third.data(st3, body3[sent : sent + room], end=False)
        sent += room
    assert sent < len(body3), "everything was taken"
    # Small ones are served meanwhile.
    c.start("o", "small")
    assert not st3.over
    held[0][0].close()
    third.data(st3, body3[sent:], end=True)
    third.pump(lambda: st3.over, 20)
    assert st3.status == ("OK", ""), st3.status
    assert c.get("third") is not None and c.get("held") is None
    assert s.alive()


@nightly
@limit(120)
def test_a_stalled_request_is_reset(t):
    h = t.h2()
    s = h.open(METHODS["StartInstance"].path, [("taskhub", t.hub)])
    h.data(s, b"\0\0\1\0\0abc", end=False)
    h.pump(lambda: s.over, 60)
    assert h.call("Hello", b"").status[0] == "OK"


def test_abuse_limits(t):
    s = t.own_server({"connections.max": "6", "streams.connection": "10"})
    hs = [t.h2() for _ in range(5)]
    assert hs[0].peer.get(hf.SettingsFrame.MAX_CONCURRENT_STREAMS) == 10, hs[0].peer
    extra = 0
    for _ in range(4):
        k = socket.create_connection((s.host, s.port), 5)
        k.settimeout(5)
        try:
            k.sendall(PREFACE + hf.SettingsFrame(0).serialize())
            if not k.recv(100):
                extra += 1
        except ConnectionError:
            extra += 1
        hs.append(k)
    assert extra >= 2, extra
    assert hs[0].call("Hello", b"").status[0] == "OK"
    # More streams than announced: refused, the others go on.
    streams = []
    for _ in range(12):
        streams.append(hs[1].start("WaitForInstanceCompletion", pb.GetInstanceRequest(instanceId="x")))
    hs[1].pump(lambda: sum(x.over for x in streams) >= 2 or hs[1].goaways, 10)
    assert sum(x.over for x in streams[:10]) == 0 or hs[1].goaways


def test_id_settings(t):
    t.own_server({"id.client_chars": "10"})
    c = t.client()
    c.start("o", "x" * 10)
    expect_error(lambda: c.start("o", "x" * 11), "INVALID_ARGUMENT",
                 "Instance id length 11 exceeds the maximum length of 10")
