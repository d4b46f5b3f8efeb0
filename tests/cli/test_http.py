"""The HTTP pages, their metrics, and gRPC health."""

import http.client
import os
import re
import signal
import socket
import time

import grpc
from command import Cli
from lib import actions as act
from lib.client import channel
from lib.proto import ROOT
from lib.server import eventually


def ask(s, method, path, headers=None, body=None):
    """(status, headers, body)"""
    host, port = s.http[0].rsplit(":", 1)
    c = http.client.HTTPConnection(host, int(port), timeout=10)
    try:
        c.request(method, path, body=body, headers=headers or {})
        r = c.getresponse()
        return r.status, dict(r.getheaders()), r.read()
    finally:
        c.close()


def test_pages(t):
    s = t.server
    for path in ("/healthz", "/readyz", "/metrics"):
        status, headers, body = ask(s, "GET", path)
        assert status == 200 and headers["Content-Type"].startswith("text/plain") and body, path
        status, headers, empty = ask(s, "HEAD", path)
        assert status == 200 and empty == b"", path
        for method in ("POST", "PUT", "DELETE"):
            status, headers, _ = ask(s, method, path, body=b"x")
            assert status == 405 and headers["Allow"] == "GET, HEAD", (method, path, status)
        assert ask(s, "GET", path + "?x=1")[0] == 200
    assert ask(s, "GET", "/healthz")[2] == b"ok\n"
    assert ask(s, "GET", "/readyz")[2] == b"ready\n"
    for path in ("/", "/nothing", "/healthz/", "/metrics2", "/../healthz"):
        assert ask(s, "GET", path)[0] == 404, path


def test_bad_requests(t):
    s = t.own_server()
    host, port = s.http[0].rsplit(":", 1)
    for data in (b"\r\n\r\n", b"GARBAGE\r\n\r\n", b"GET\r\n\r\n", b"GET /healthz HTTP/9.9\r\n\r\n",
                 b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"\0" * 2000,
                 b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
                 b"GET /healthz HTTP/1.1\r\nX: " + b"b" * 100_000 + b"\r\n\r\n",
                 b"POST /healthz HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
                 b"POST /healthz HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                 b"POST /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
        with socket.create_connection((host, int(port)), 10) as c:
            try:
                c.sendall(data)
                c.shutdown(socket.SHUT_WR)
                while c.recv(65536):
                    pass
            except OSError:
                pass
    assert ask(s, "GET", "/healthz")[0] == 200


def test_many_requests_on_one_connection(t):
    host, port = t.server.http[0].rsplit(":", 1)
    c = http.client.HTTPConnection(host, int(port), timeout=10)
    for _ in range(50):
        c.request("GET", "/readyz")
        assert c.getresponse().read() == b"ready\n"
    c.close()


def test_not_ready_while_it_drains(t):
    s = t.own_server({"drain.time": "20s"})
    c, w = t.pair()
    c.start("o", id="x")
    item = w.turn()
    s.term()
    eventually(lambda: ask(s, "GET", "/readyz")[0] == 503, 10)
    status, _, body = ask(s, "GET", "/readyz")
    assert status == 503 and b"draining" in body and body.count(b"\n") == 1, body
    assert ask(s, "HEAD", "/readyz")[0] == 503
    assert ask(s, "GET", "/healthz")[0] == 200
    assert "NOT_SERVING" in eventually(lambda: health(s, ""))
    w.done(item, act.complete())
    assert s.wait_exit() == 0


# ---- metrics ----

SAMPLE = re.compile(r'^(perdure_[a-z_]+)(\{[a-z_]+="[^"]*"(?:,[a-z_]+="[^"]*")*\})? (-?[0-9.e+]+|\+Inf|NaN)$')


def test_metrics_are_well_formed(t):
    s = t.own_server()
    cli = Cli(t)
    cli("start", "o").ok()
    body = eventually(lambda: (b := ask(s, "GET", "/metrics")[2].decode()) and 'perdure_instances{status="PENDING"} 1' in b and b)
    kinds, seen = {}, set()
    for line in body.splitlines():
        m = re.match(r"# TYPE (\S+) (counter|gauge|histogram)$", line)
        if m:
            assert m[1] not in kinds, line
            kinds[m[1]] = m[2]
            continue
        if line.startswith("# HELP "):
            continue
        m = SAMPLE.match(line)
        assert m, line
        base = m[1] if m[1] in kinds else re.sub(r"_(bucket|sum|count)$", "", m[1])
        assert base in kinds, line
        assert line.rsplit(" ", 1)[0] not in seen, line
        seen.add(line.rsplit(" ", 1)[0])
    assert all(kind != "counter" or name.endswith("_total") for name, kind in kinds.items()), kinds
    assert body.endswith("\n")
    with open(os.path.join(ROOT, "docs/operating.md")) as f:
        documented = set(re.findall(r"`(perdure_[a-z_]+)`", f.read()))
    assert kinds.keys() <= documented, "not in docs/operating.md: %s" % (kinds.keys() - documented)
    assert documented <= kinds.keys(), "only in docs/operating.md: %s" % (documented - kinds.keys())


def value(s, name):
    for line in ask(s, "GET", "/metrics")[2].decode().splitlines():
        if line.startswith(name + " "):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError("no " + name)


def test_metrics_count(t):
    s = t.own_server()
    cli, c = Cli(t), t.client()
    started = 'perdure_rpcs_total{method="StartInstance",code="OK"}'
    taken = 'perdure_rpcs_total{method="StartInstance",code="ALREADY_EXISTS"}'
    assert value(s, started) == 0
    cli("start", "o", "--id", "a").ok()
    cli("start", "o", "--id", "a").failed(5)
    assert (value(s, started), value(s, taken)) == (1, 1)
    assert value(s, "perdure_store_flushes_total") >= 1
    assert value(s, "perdure_batch_commands_count") >= 1
    assert value(s, "perdure_store_healthy") == 1 and value(s, "perdure_store_bytes") > 0
    eventually(lambda: value(s, 'perdure_work_ready{kind="orchestration"}') == 1)
    w = t.worker()
    item = w.turn()
    eventually(lambda: value(s, 'perdure_work_in_flight{kind="orchestration"}') == 1)
    assert value(s, "perdure_work_streams") == 1 and value(s, "perdure_connections") == 1
    w.done(item, act.timer(1, after=3600))
    eventually(lambda: value(s, "perdure_timers") == 1)
    waiting = cli.begin("wait", "a", "--timeout", "20s")
    eventually(lambda: value(s, "perdure_waiters") == 1)
    cli("terminate", "a").ok()
    w.done(w.turn(), act.terminated())
    assert waiting.wait(20) == 1
    waiting.communicate()
    eventually(lambda: value(s, 'perdure_instances{status="TERMINATED"}') == 1)
    eventually(lambda: value(s, "perdure_timers") == 0)
    c.close()
    assert value(s, 'perdure_rpcs_total{method="unknown",code="UNIMPLEMENTED"}') == 0
    unknown = channel(s.target)
    try:
        unknown.unary_unary("/No/Such", lambda b: b, lambda b: b)(b"", timeout=10)
    except grpc.RpcError as e:
        assert e.code() == grpc.StatusCode.UNIMPLEMENTED
    unknown.close()
    assert value(s, 'perdure_rpcs_total{method="unknown",code="UNIMPLEMENTED"}') == 1


# ---- grpc.health.v1 ----

NAMES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


def request(service):
    data = service.encode()
    return b"\n" + bytes([len(data)]) + data if data else b""


def status_of(answer):
    return NAMES[answer[1] if answer else 0]


def health(s, service):
    c = channel(s.target)
    try:
        call = c.unary_unary("/grpc.health.v1.Health/Check", request, status_of)
        return call(service, timeout=10)
    except grpc.RpcError as e:
        return e.code().name
    finally:
        c.close()


def test_health(t):
    assert health(t.server, "") == "SERVING"
    assert health(t.server, "TaskHubSidecarService") == "SERVING"
    assert health(t.server, "no.such.Service") == "NOT_FOUND"


def test_health_watch(t):
    s = t.own_server({"drain.time": "20s"})
    c, w = t.pair()
    c.start("o", id="x")
    item = w.turn()
    ch = channel(s.target)
    seen = iter(ch.unary_stream("/grpc.health.v1.Health/Watch", request, status_of)("", timeout=60))
    assert next(seen) == "SERVING"
    s.signal(signal.SIGTERM)
    s.expected_down = True
    assert next(seen) == "NOT_SERVING"
    begun = time.monotonic()
    w.done(item, act.complete())
    assert s.wait_exit() == 0
    assert time.monotonic() - begun < 15
    ch.close()
