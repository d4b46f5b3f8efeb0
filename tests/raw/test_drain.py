"""SIGTERM: drain, then exit (spec 8.7)."""

import socket
import threading
import time

from lib import actions as act
from lib.client import Client, error_of, expect_error
from lib.h2 import H2
from lib.history import check_legal
from lib.proto import COMPLETED, METHODS, kinds, pb
from lib.runner import limit
from lib.server import eventually
from lib.worker import JAVA, Worker


# checklist: 137, 161
# reports: BL-001
def test_what_a_raw_worker_sees(t):
    """GOAWAY(NO_ERROR) and trailers with status 0; no RST_STREAM CANCEL; then nobody listens."""
    s = t.own_server()
    c = t.client()
    h = t.h2()
    streams = [h.start("GetWorkItems", pb.GetWorkItemsRequest(), hub=t.hub) for _ in range(3)]
    h.pump(lambda: all(x.headers for x in streams), 10)
    c.start("o", "x")
    h.pump(lambda: any(x.messages for x in streams), 10)
    item = pb.WorkItem.FromString(next(x for x in streams if x.messages).messages[0])
    s.term()
    eventually(lambda: error_of_stream(t, s) == "UNAVAILABLE", 10)
    assert not any(x.over for x in streams), "streams stay while something is in flight"
    r = pb.OrchestratorResponse(instanceId="x", completionToken=item.completionToken,
                                actions=[act.complete(result="during the drain")])
    assert h.call("CompleteOrchestratorTask", r, hub=t.hub).status == ("OK", "")
    h.pump(lambda: all(x.over for x in streams), 20)
    refused(s)  # already closed by now: JAVA reconnects in a tight loop
    for x in streams:
        assert x.status == ("OK", ""), (x.status, x.reset)
        assert x.reset in (None, 0), x.reset
    h.pump(lambda: h.goaways, 10)
    assert all(g[0] == 0 for g in h.goaways), h.goaways
    assert ("RstStream", streams[0].id, 8) not in h.frames
    assert s.wait_exit(20) == 0
    s.start()
    assert t.client().get("x").output.value == "during the drain"


def error_of_stream(t, s):
    w = Worker(s, t.hub)
    try:
        return w.wait_end(5)[0]
    except AssertionError:
        return None
    finally:
        w.close()


def refused(s):
    try:
        socket.create_connection((s.host, s.port), 2).close()
    except ConnectionRefusedError:
        return
    raise AssertionError("still listening after the streams have ended")


# checklist: 137
def test_calls_during_the_drain(t):
    s = t.own_server({"drain.time": "20s"})
    c, w = t.pair()
    id = c.start("o", "x")
    w.done(w.turn(), act.task(1, "a"), act.task(2, "b"))
    a, b = w.task(), w.task()
    blocked = c.future("WaitForInstanceCompletion", pb.GetInstanceRequest(instanceId=id), 30)
    s.term()
    eventually(lambda: error_of_stream(t, s) == "UNAVAILABLE", 10)
    # New waits and streams: UNAVAILABLE; client calls and completions go on.
    code, _ = c.error("WaitForInstanceCompletion", pb.GetInstanceRequest(instanceId=id))
    assert code == "UNAVAILABLE", code
    assert c.status(id) == "RUNNING"
    c.start("o", "y")
    c.event(id, "e", "v")
    w.result(a, "1")
    w.none(0.5)  # no dispatch any more
    w.result(b, "2")
    assert w.wait_end(20)[0] == "OK", w.status
    assert blocked.exception(10).code().name == "UNAVAILABLE"
    assert s.wait_exit(20) == 0
    s.start()
    c, w = t.client(), t.worker()
    got = []
    while got.count("taskCompleted") < 2 or "eventRaised" not in got or "y" not in got:
        i = w.turn()
        got += kinds(i.new) if i.id == "x" else ["y"]
        w.done(i)
    assert got.count("taskCompleted") == 2 and got.count("eventRaised") == got.count("y") == 1
    w.quiet()  # nothing runs twice


# checklist: 137
# reports: BL-128
@limit(90)
def test_drain_with_many_streams(t):
    s = t.own_server({"drain.time": "15s"})
    c = t.client()
    workers = [t.worker(orch=1, act=1) for _ in range(20)]
    for w in workers:
        w.ready()
    c.start("o", "x")
    holder = None
    while holder is None:
        for w in workers:
            try:
                i = w.turn(timeout=0.1)
                holder = w
                break
            except AssertionError:
                continue
    holder.done(i, *[act.task(n, "a", str(n)) for n in range(20)])
    tasks = [(w, w.task()) for w in workers]
    s.term()
    time.sleep(0.3)
    for w, a in tasks:
        w.result(a, a.input)
    begin = time.monotonic()
    assert s.wait_exit(20) == 0
    assert time.monotonic() - begin < 15
    for w in workers:
        assert w.wait_end(10)[0] == "OK"
    s.start()
    w = t.worker()
    n = 0
    while n < 20:
        i = w.turn()
        n += kinds(i.new).count("taskCompleted")
        w.done(i, *([act.complete()] if n == 20 else []))
    w.quiet("task")
    check_legal(t.client().history("x"), True)


# checklist: 137
def test_the_drain_ends(t):
    """Work that nobody finishes is given out again by the next process."""
    s = t.own_server({"drain.time": "1s"})
    c, w = t.pair()
    c.start("o", "x")
    i = w.turn()
    begin = time.monotonic()
    s.term()
    assert s.wait_exit(20) == 0
    assert 0.8 < time.monotonic() - begin < 15
    assert w.wait_end(5)[0] == "OK"
    s.start()
    w = t.worker()
    j = w.turn()
    assert j.id == "x" and j.token != i.token
    w.done(j, act.complete())


def test_nothing_in_flight_exits_at_once(t):
    s = t.own_server()
    w = t.worker()
    w.ready()
    # The headers come before the engine has the stream; a stream it has ends OK.
    eventually(lambda: "\nperdure_work_streams 1\n" in s.get("/metrics")[1], 10)
    begin = time.monotonic()
    s.term()
    assert s.wait_exit(20) == 0
    assert time.monotonic() - begin < 10
    assert w.wait_end(5)[0] == "OK"


def test_a_second_signal(t):
    s = t.own_server({"drain.time": "60s"})
    c, w = t.pair()
    c.start("o", "x")
    w.turn()
    s.term()
    time.sleep(0.5)
    assert s.alive()
    begin = time.monotonic()
    s.term()
    s.wait_exit(20)
    assert time.monotonic() - begin < 10
    s.start()
    w = t.worker()
    w.done(w.turn(), act.complete())
    assert t.client().wait("x").orchestrationStatus == COMPLETED
    # SIGINT drains as well.
    import signal
    s.expected_down = True
    s.signal(signal.SIGINT)
    assert s.wait_exit(20) == 0


# checklist: 161
def test_a_java_worker_is_refused(t):
    """When its stream ends OK it reconnects at once, in a tight loop: by then nobody listens."""
    s = t.own_server()
    h = t.h2(agent=JAVA)
    x = h.start("GetWorkItems", pb.GetWorkItemsRequest(), hub=t.hub)
    t.client().start("o", "x")
    h.pump(lambda: x.messages, 10)  # an item: the stream is known for sure
    h.call("CompleteOrchestratorTask", pb.OrchestratorResponse(instanceId="x", actions=[act.complete()]),
           hub=t.hub)
    s.term()
    h.pump(lambda: x.over, 20)
    refused(s)
    assert x.status == ("OK", ""), (x.status, x.reset, h.frames)
    # A try on the connection itself goes nowhere either.
    try:
        y = h.start("GetWorkItems", pb.GetWorkItemsRequest(), hub=t.hub)
        h.pump(lambda: y.over or h.closed, 10)
        assert h.closed or y.reset is not None or y.status[0] == "UNAVAILABLE"
    except OSError:
        pass
    assert s.wait_exit(20) == 0


def test_readiness_during_the_drain(t):
    s = t.own_server({"drain.time": "20s"})
    c, w = t.pair()
    c.start("o", "x")
    i = w.turn()
    assert s.get("/readyz")[0] == 200
    s.term()
    eventually(lambda: s.get("/readyz")[0] == 503, 10)
    assert s.get("/healthz")[0] == 200
    w.done(i, act.complete())
    assert s.wait_exit(20) == 0
