"""External events and sendEvent (spec 3.5, 5.1, 6.3)."""

import threading
import time

from lib import actions as act
from lib.client import expect_error
from lib.history import check_legal, events_of, raised_inputs, raised_names
from lib.proto import COMPLETED, kinds, pb, sv
from lib.runner import NIGHTLY, limit
from lib.states import TERMINAL, make
from lib.worker import JAVA


# checklist: 75
# reports: BL-032
def test_order_before_start_running_and_suspended(t):
    c = t.client()
    id = c.start("o")
    for n in range(10):
        c.event(id, "x", str(n))
    w = t.worker()
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted", "executionStarted"] + ["eventRaised"] * 10
    assert raised_inputs(i.new) == [str(n) for n in range(10)]
    w.done(i)
    for n in range(10, 15):
        c.event(id, "x", str(n))
    seen = []
    while len(seen) < 5:
        i = w.turn()
        seen += raised_inputs(i.new)
        w.done(i)
    assert seen == [str(n) for n in range(10, 15)]
    c.suspend(id)
    for n in range(15, 20):
        c.event(id, "x", str(n))
    w.quiet()
    c.resume(id)
    i = w.turn()
    assert raised_inputs(i.new) == [str(n) for n in range(15, 20)]
    w.done(i, act.complete())
    h = check_legal(c.history(id), True)
    assert raised_inputs(h) == [str(n) for n in range(20)]


# checklist: 75
def test_events_to_the_ended_and_the_unknown(t):
    c, w = t.pair()
    for status in TERMINAL:
        id = "x%d" % status
        make(c, w, id, status)
        before = c.history(id), c.get(id)
        c.event(id, "e", "v")
        assert (c.history(id), c.get(id)) == before
    w.quiet()
    expect_error(lambda: c.event("nobody"), "NOT_FOUND", "Orchestration instance 'nobody' not found")
    expect_error(lambda: c.event("x1", ""), "INVALID_ARGUMENT")
    expect_error(lambda: c.event("", "e"), "INVALID_ARGUMENT", "instanceId must not be empty")


def test_names_and_inputs_travel_unchanged(t):
    c = t.client()
    id = c.start("o")
    sent = [("Approval", "1"), ("approval", ""), ("  x ", None), ("\u00c9v\u00e9nement \U0001f600", "\u2028"),
            ("a\nb", '{"k": [1, 2]}'), ("x" * 5000, "y" * 100_000)]
    for name, value in sent:
        c.event(id, name, value)
    w = t.worker()
    i = w.turn()
    got = [(e.name, e.input.value if e.HasField("input") else None)
           for e in events_of(i.new, "eventRaised")]
    assert got == sent
    w.done(i, act.complete())


# checklist: 76
def test_send_event(t):
    id, c, w, i = t.started()
    other = c.start("other", "Other-\u00e9")
    o = w.turn(id=other)
    w.done(o)
    make(c, w, "ended", COMPLETED)
    w.done(i, act.send(1, "missing", " Name ", "d"), act.send(2, other, "Hi", "data"),
           act.send(3, other, "none"), act.send(4, "ended", "e", "x"), act.send(5, "@counter@k", "op", "x"))
    o = w.turn(id=other)
    got = [(e.name, e.input.value if e.HasField("input") else None)
           for e in events_of(o.new, "eventRaised")]
    assert got == [("Hi", "data"), ("none", None)]
    assert all(e.eventId == -1 for e in o.new)
    w.quiet()
    h = c.history(id)
    sent = [(e.eventId, e.eventSent.instanceId, e.eventSent.name, e.eventSent.input.value)
            for e in h if e.HasField("eventSent")]
    assert sent == [(1, "missing", " Name ", "d"), (2, other, "Hi", "data"), (3, other, "none", ""),
                    (4, "ended", "e", "x"), (5, "@counter@k", "op", "x")]
    assert not [e for e in h if e.HasField("eventSent") and e.eventId == 3][0].eventSent.HasField("input")
    assert c.get("missing") is None
    # The missing one, created later, has heard nothing.
    c.start("o", "missing")
    m = w.turn(id="missing")
    assert kinds(m.new) == ["orchestratorStarted", "executionStarted"]
    check_legal(h)


# checklist: 77
def test_send_to_self(t):
    id, c, w, i = t.started()
    w.done(i, act.send(1, id, "self", "1"))
    i = w.turn()
    assert raised_inputs(i.new) == ["1"]
    w.done(i, act.send(2, id, "self", "2"), act.complete(result="r"))
    assert c.wait(id).output.value == "r"
    w.quiet()
    assert kinds(c.history(id))[-2:] == ["eventSent", "executionCompleted"]
    # Across continue-as-new it is carried.
    id = c.start("o")
    w.done(w.turn(), act.send(1, id, "self", "to the next"), act.again())
    i = w.turn()
    assert kinds(i.new)[:2] == ["orchestratorStarted", "executionStarted"]
    if len(i.new) == 2:
        w.done(i)
        i = w.turn()
    assert raised_inputs(i.new) == ["to the next"]
    w.done(i, act.complete())


# checklist: 78
# reports: BL-031
def test_carried_events_come_first(t):
    id, c, w, i = t.started()
    carried = [act.raised("c", "c0"), act.raised("c", "c1"), act.raised("c", "c2")]
    c.event(id, "late", "l0")
    c.event(id, "late", "l1")
    w.done(i, act.again(carry=carried))
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted", "executionStarted"] + ["eventRaised"] * 5
    assert raised_inputs(i.new) == ["c0", "c1", "c2", "l0", "l1"]
    assert all(e.eventId == -1 for e in i.new)
    # A kind that is not carried is dropped.
    odd = pb.HistoryEvent(eventId=-1, taskCompleted=pb.TaskCompletedEvent(taskScheduledId=1))
    w.done(i, act.again(carry=[odd, act.raised("k", "kept")]))
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted", "executionStarted", "eventRaised"]
    w.done(i, act.complete())


# checklist: 150
def test_the_same_event_sent_every_turn(t):
    """JAVA does not take eventSent as confirmation."""
    c = t.client()
    w = t.worker(agent=JAVA)
    other = c.start("other")
    w.done(w.turn())
    id = c.start("o")
    again = act.send(1, other, "E", "v")
    w.done(w.turn(), again, act.timer(2, after=0.05))
    o = w.turn(id=other)
    assert raised_inputs(o.new) == ["v"]
    w.done(o)
    i = w.turn(id=id)
    w.done(i, again, act.task(3, "a"))
    a = w.task()
    w.result(a)
    i = w.turn(id=id)
    w.done(i, again, act.complete())
    c.wait(id)
    w.quiet(id=other)
    h = check_legal(c.history(id), True)
    sent = events_of(h, "eventSent")
    assert len(sent) == 1 and sent[0].instanceId == other and sent[0].name == "E"
    # In another execution, or with another id, it is another event.
    assert raised_names(c.history(other)) == ["E"]


# checklist: 37
# reports: BL-031
@limit(180)
def test_no_event_is_lost_in_a_loop(t):
    """Wait, count, continue as new with what was not consumed; raised from many clients at once."""
    total = 3000 if NIGHTLY else 500
    c = t.client()
    got = []

    def orchestrator(i):
        events = events_of(i.events, "eventRaised")
        if not events:
            return []
        got.append(events[0].input.value)
        if len(got) >= total:
            return [act.complete(result=str(len(got)))]
        carry = [act.raised(e.name, e.input.value) for e in events[1:]]
        return [act.again(carry=carry, input=str(len(got)))]

    a = t.auto({"o": orchestrator})
    id = c.start("o")
    clients = [t.client() for _ in range(5)]

    def raise_some(n):
        for k in range(total // 5):
            clients[n].event(id, "E", "%d-%d" % (n, k))

    threads = [threading.Thread(target=raise_some, args=(n,)) for n in range(5)]
    for x in threads:
        x.start()
    for x in threads:
        x.join()
    assert c.wait(id, 800 if NIGHTLY else 120).output.value == str(total)
    a.check()
    assert len(set(got)) == total
    for n in range(5):
        mine = [g for g in got if g.startswith("%d-" % n)]
        assert mine == ["%d-%d" % (n, k) for k in range(total // 5)], "out of order"


if NIGHTLY:
    test_no_event_is_lost_in_a_loop.limit = 900


# reports: BL-006
def test_waiting_over_a_restart(t):
    s = t.own_server()
    id, c, w, i = t.started()
    w.done(i)
    s.restart()
    c = t.client()
    assert c.status(id) == "RUNNING"
    c.event(id, "SIGNAL", "v")
    w = t.worker()
    i = w.turn()
    assert raised_inputs(i.new) == ["v"]
    w.done(i, act.complete(result="v"))
    assert c.wait(id, 5).output.value == "v"
    assert raised_inputs(check_legal(c.history(id), True)) == ["v"]


# reports: BL-037
def test_events_survive_a_kill(t):
    s = t.own_server()
    c = t.client()
    id = c.start("o")
    acknowledged = []
    for round in range(4):
        for n in range(20):
            text = "%d-%d" % (round, n)
            c.event(id, "e", text)
            acknowledged.append(text)
        s.restart()
        c = t.client()
    w = t.worker()
    seen = []
    while len(seen) < len(acknowledged):
        i = w.turn()
        seen += raised_inputs(i.new)
        w.done(i, *([act.complete()] if len(seen) == len(acknowledged) else []))
    assert seen == acknowledged
    assert raised_inputs(check_legal(c.history(id), True)) == acknowledged
