"""WaitForInstanceStart and WaitForInstanceCompletion (spec 3.4)."""

import time

import grpc

from lib import actions as act
from lib.client import error_of, expect_error
from lib.h2 import H2
from lib.proto import COMPLETED, PENDING, RUNNING, TERMINATED, pb
from lib.runner import NIGHTLY, limit
from lib.server import eventually
from lib.states import make


def waiting(c, id, method="WaitForInstanceCompletion", timeout=None, payloads=True):
    return c.future(method, pb.GetInstanceRequest(instanceId=id, getInputsAndOutputs=payloads), timeout)


def taken(c):
    """What was called before on this connection has been taken in, and answered if there is an answer."""
    for _ in range(3):
        c.status("nobody")


def settle(h, t, id="x"):
    """Everything about the instance that was sent before on this connection has been taken in."""
    s = h.call("GetInstance", pb.GetInstanceRequest(instanceId=id), hub=t.hub)
    assert s.status == ("OK", "")


# checklist: 26
# reports: BL-035
def test_wait_before_creation(t):
    c, w = t.pair()
    end = waiting(c, "soon")
    start = waiting(c, "soon", "WaitForInstanceStart")
    taken(c)
    assert not end.done() and not start.done()
    c.start("o", "soon")
    i = w.turn()
    taken(c)
    assert not start.done(), "PENDING is not started"
    w.done(i)
    assert start.result(10).orchestrationState.orchestrationStatus == RUNNING
    assert not end.done()
    c.event("soon")
    w.done(w.turn(), act.complete(result="r"))
    assert end.result(10).orchestrationState.output.value == "r"


# checklist: 27
# reports: BL-009
@limit(120)
def test_wait_without_a_deadline(t):
    """Longer than the 30 s at which others give up; nightly: 6 minutes."""
    c, w = t.pair()
    id = c.start("o")
    w.done(w.turn())
    f = waiting(c, id)
    h = t.h2()
    s = h.start("WaitForInstanceCompletion", pb.GetInstanceRequest(instanceId=id), hub=t.hub)
    h.pump(None, 360 if NIGHTLY else 32)
    assert not f.done() and not s.over
    c.event(id)
    w.done(w.turn(), act.complete(result="at last"))
    assert f.result(10).orchestrationState.output.value == "at last"
    h.pump(lambda: s.over, 10)
    assert s.status == ("OK", "")


if NIGHTLY:
    test_wait_without_a_deadline.limit = 500


# checklist: 28
def test_wait_past_its_deadline(t):
    t.own_server(store="memory")  # no disk that others keep busy
    c, w = t.pair()
    id = c.start("o")
    get = pb.GetInstanceRequest(instanceId=id)
    none = pb.GetInstanceRequest(instanceId="unknown")
    for method, word in (("WaitForInstanceStart", "start"), ("WaitForInstanceCompletion", "complete")):
        h = t.h2()
        s = h.call(method, get, timeout="2S", hub=t.hub)
        assert s.status == ("DEADLINE_EXCEEDED",
                            "Timed out waiting for instance '%s' to %s" % (id, word)), s.status
        s = h.call(method, none, timeout="2S", hub=t.hub)
        assert s.status == ("OK", ""), s.status
        assert s.messages == [b""], "exists=false"


def test_true_now_answers_now(t):
    c, w = t.pair()
    make(c, w, "run", RUNNING)
    assert c.wait_start("run", 5).orchestrationStatus == RUNNING
    c.suspend("run")
    assert c.wait_start("run", 5) is not None
    make(c, w, "done", COMPLETED)
    assert c.wait("done", 5).output.value == "r"
    assert c.wait_start("done", 5) is not None
    w.cancel()
    c.start("o", "never")
    c.suspend("never")  # suspended before its start: still waits
    f = waiting(c, "never", "WaitForInstanceStart")
    taken(c)
    assert not f.done()
    c.terminate("never")
    assert f.result(10).orchestrationState.orchestrationStatus == TERMINATED


# checklist: 29
# reports: BL-009
@limit(120)
def test_a_thousand_waiters(t):
    s = t.own_server()
    c, w = t.pair()
    id = c.start("o")
    w.done(w.turn())
    conns = [t.h2() for _ in range(5)]
    threads = s.threads()
    wait = pb.GetInstanceRequest(instanceId=id, getInputsAndOutputs=True)
    streams = [(h, h.start("WaitForInstanceCompletion", wait, hub=t.hub)) for h in conns for _ in range(1000)]
    for h in conns:
        settle(h, t, id)
    assert s.threads() <= threads + 1, "a thread for each waiter?"
    before = s.cpu()
    time.sleep(2)
    assert s.cpu() - before < 0.5, "waiting costs CPU"
    c.event(id)
    w.done(w.turn(), act.complete(result="r"))
    for h, x in streams:
        h.pump(lambda: x.over, 20)
        assert x.status == ("OK", "")
        assert pb.GetInstanceResponse.FromString(x.messages[0]).orchestrationState.output.value == "r"


# checklist: 30
def test_waiters_belong_to_the_id(t):
    """They survive continue-as-new, replacement and purge."""
    c, w = t.pair()
    id = c.start("o", "x")
    f = waiting(c, id)
    i = w.turn()
    w.done(i, act.again(input="2"))
    i = w.turn()
    assert not f.done()
    w.done(i)
    c.start("o", id, replaceable=[RUNNING, TERMINATED])
    i = w.turn()
    taken(c)
    assert not f.done(), "replacement is no end"
    w.done(i, act.complete(result="third"))
    assert f.result(10).orchestrationState.output.value == "third"
    # Purged while waited for: it is unknown now, and waited for again.
    c.purge(id)
    f = waiting(c, id)
    taken(c)
    c.start("o", id)
    w.done(w.turn(), act.complete(result="fourth"))
    assert f.result(10).orchestrationState.output.value == "fourth"


def test_waits_on_start_survive_replacement(t):
    c = t.client()
    id = c.start("o", "x")
    f = waiting(c, id, "WaitForInstanceStart")
    taken(c)
    c.start("o", id, replaceable=[PENDING, TERMINATED])
    taken(c)
    assert not f.done()
    w = t.worker()
    w.done(w.turn())
    assert f.result(10).exists


# checklist: 143
@limit(180)
def test_waits_that_clients_give_up(t):
    """JS's timer drops its promise and leaves the call open: 10,000 of them go with their connection."""
    s = t.own_server()
    c = t.client()
    id = c.start("o")
    h = t.h2()
    settle(h, t, id)
    before = s.rss()
    wait = pb.GetInstanceRequest(instanceId=id)
    n = 10_000
    for i in range(n):
        h.start("WaitForInstanceCompletion", wait, hub=t.hub)
        if i % 1000 == 999:
            settle(h, t, id)
    assert not h.goaways
    cost = (s.rss() - before) / n
    assert cost < 20_000, "%d bytes a waiter" % cost
    threads = s.threads()
    h.close()
    eventually(lambda: metric(s, "waiter") == 0, 20, "no waiters left")
    assert s.threads() <= threads
    c.call("Hello")


def metric(server, part):
    """Sum of the gauges whose name has this part."""
    total, found = 0.0, False
    for line in server.get("/metrics")[1].splitlines():
        if line.startswith("#") or not line:
            continue
        name = line.split("{")[0].split(" ")[0]
        if part in name and not name.endswith(("_bucket", "_sum", "_count", "_total")):
            total += float(line.rsplit(" ", 1)[1])
            found = True
    assert found, "no gauge named like %r" % part
    return total


def test_waiter_limits(t):
    t.own_server({"waiters.hub": "60", "waiters.connection": "40"})
    c = t.client()
    id = c.start("o")
    wait = pb.GetInstanceRequest(instanceId=id)
    a, b = t.h2(), t.h2()
    first = [a.start("WaitForInstanceCompletion", wait, hub=t.hub) for _ in range(40)]
    settle(a, t, id)
    s = a.call("WaitForInstanceCompletion", wait, hub=t.hub)
    assert s.status[0] == "RESOURCE_EXHAUSTED", s.status
    second = [b.start("WaitForInstanceStart", wait, hub=t.hub) for _ in range(20)]
    settle(b, t, id)
    s = b.call("WaitForInstanceStart", wait, hub=t.hub)
    assert s.status[0] == "RESOURCE_EXHAUSTED", s.status
    # Another hub has its own count; a wait that is given up makes room.
    x = b.start("WaitForInstanceStart", wait, hub="another")
    settle(b, t, id)
    assert not x.over
    b.rst(second[0])
    settle(b, t, id)
    y = b.start("WaitForInstanceCompletion", wait, hub=t.hub)
    settle(b, t, id)
    assert not y.over, y.status
    c.terminate(id)
    for h, streams in ((a, first), (b, second[1:] + [y])):
        for x in streams:
            h.pump(lambda: x.over, 10)
            assert x.status == ("OK", "")


# checklist: 27
def test_absurdly_long_deadlines(t):
    """The longest grpc-timeout there is: a wait like any other, no overflow."""
    c, w = t.pair()
    id = c.start("o")
    h = t.h2()
    get = pb.GetInstanceRequest(instanceId=id)
    streams = [h.start("WaitForInstanceCompletion", get, timeout=x, hub=t.hub)
               for x in ("99999999H", "99999999M", "99999999S", "9000000H")]
    settle(h, t, id)
    h.pump(None, 0.5)
    assert not any(s.over for s in streams)
    w.done(w.turn(), act.complete(result="r"))
    h.pump(lambda: all(s.over for s in streams), 10)
    assert all(s.status == ("OK", "") for s in streams)
