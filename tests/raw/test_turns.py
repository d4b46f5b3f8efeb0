"""The turn: what a worker gets, and what its answer does (spec 4 and 5)."""

import time

from lib import actions as act
from lib.client import error_of, expect_error
from lib.history import check_legal, events_of, raised_inputs
from lib.proto import (
    CANCELED, COMPLETED, FAILED, METHODS, PENDING, RUNNING, SUSPENDED, TERMINATED, kind, kinds,
    nanos, pb, secs, sv, ts,
)
from lib.runner import NIGHTLY, limit, serial
from lib.server import eventually
from lib.worker import Worker

TWELVE = [
    "orchestratorStarted", "executionStarted", "taskScheduled", "orchestratorStarted",
    "taskCompleted", "timerCreated", "orchestratorStarted", "timerFired",
    "subOrchestrationInstanceCreated", "orchestratorStarted",
    "subOrchestrationInstanceCompleted", "executionCompleted",
]


# checklist: 31, 33, 34, 35, 36, 146
# checklist-partial: 32
# reports: BL-105
def test_the_twelve_events(t):
    id, c, w, i = t.started(input="in")
    assert i.past == [] and kinds(i.new) == ["orchestratorStarted", "executionStarted"]
    assert i.started.orchestrationInstance.executionId.value == i.execution == c.get(id).executionId.value
    seen = list(i.new)
    w.done(i, act.task(1, "a", "x"))
    w.result(w.task(), "y")
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted", "taskCompleted"]
    assert i.past[:2] == seen, "the first dispatch, to the nanosecond"
    seen = i.past + i.new
    w.done(i, act.timer(2, after=0.2))
    i = w.turn()
    assert i.past[: len(seen)] == seen
    assert kinds(i.new) == ["orchestratorStarted", "timerFired"]
    assert nanos(i.new[0].timestamp) > nanos(i.new[1].timerFired.fireAt)
    w.done(i, act.child(3, "kid", "kid-of-" + id))
    k = w.turn(id="kid-of-" + id)
    w.done(k, act.complete(result="kr"))
    i = w.turn(id=id)
    w.done(i, act.complete(result="r"))
    c.wait(id)
    h = check_legal(c.history(id), True)
    assert kinds(h) == TWELVE
    assert [e.eventId for e in h] == [-1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, -1]
    assert h[: len(i.events)] == i.events
    assert h[2].taskScheduled.name == "a" and h[2].taskScheduled.input.value == "x"
    assert h[4].taskCompleted.taskScheduledId == 1 and h[4].taskCompleted.result.value == "y"
    assert h[7].timerFired.timerId == 2 and h[7].timerFired.fireAt == h[5].timerCreated.fireAt
    assert h[8].subOrchestrationInstanceCreated.instanceId == "kid-of-" + id
    assert h[10].subOrchestrationInstanceCompleted.taskScheduledId == 3
    assert h[11].executionCompleted.orchestrationStatus == COMPLETED
    assert h[11].executionCompleted.result.value == "r"


# checklist: 33
def test_time_goes_forward_through_a_long_run(t):
    id, c, w, i = t.started()
    last = 0
    for n in range(60):
        now = nanos(i.new[0].timestamp)
        assert now >= last
        assert abs(now / 1e9 - time.time()) < 30
        last = now
        w.done(i, act.task(n, "a"))
        w.result(w.task())
        i = w.turn()
    w.done(i, act.complete())
    check_legal(c.history(id), True)


# checklist: 37, 38
# reports: BL-037
def test_events_during_a_turn(t):
    id, c, w, i = t.started()
    for n in range(5):
        c.event(id, "e", str(n))
    w.quiet()
    w.done(i)
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted"] + ["eventRaised"] * 5
    assert raised_inputs(i.new) == list("01234")
    # Abandoned: again, once each and in order, with what came meanwhile at the end.
    c.event(id, "e", "5")
    before = c.history(id)
    w.abandon(i)
    i2 = w.turn(timeout=10)
    assert i2.token != i.token
    assert raised_inputs(i2.new) == list("012345")
    assert c.history(id) == before, "nothing enters history but by a committed turn"
    w.done(i2, act.complete())
    h = check_legal(c.history(id), True)
    assert raised_inputs(h) == list("012345")
    assert kinds(h).count("orchestratorStarted") == 2


# checklist: 39
def test_custom_status(t):
    id, c, w, i = t.started()

    def turn(status, *actions):
        nonlocal i
        w.done(i, *actions, status=status)
        got = c.get(id, False)
        if not actions:
            c.event(id)
            i = w.turn()
        return got.customStatus.value if got.HasField("customStatus") else None

    assert turn("one") == "one"
    assert turn("two") == "two"
    assert turn(None) is None
    assert turn("three") == "three"
    assert turn("") is None
    assert turn("last", act.complete()) == "last"
    assert c.get(id).customStatus.value == "last"


# checklist: 40, 42, 145
def test_completion_anywhere_in_the_list(t):
    c, w = t.pair()
    for place in range(4):
        id = c.start("o")
        other = c.start("other")
        for o in (w.turn(id=other),):
            w.done(o)
        i = w.turn(id=id)
        actions = [act.task(1, "fire-and-forget", id), act.send(2, other, "hello", id),
                   act.child(3, "kid", "kid-" + id)]
        actions.insert(place, act.complete(4, result="r"))
        w.done(i, *actions)
        assert c.wait(id).output.value == "r"
        a = w.task()
        assert a.name == "fire-and-forget" and a.input == id
        w.result(a, "late")
        assert events_of(w.turn(id=other).new, "eventRaised")[0].input.value == id
        w.done(w.turn(id="kid-" + id), act.complete())
        assert c.wait("kid-" + id).orchestrationStatus == COMPLETED
        h = check_legal(c.history(id), True)
        assert kinds(h)[2:] == ["taskScheduled", "eventSent", "subOrchestrationInstanceCreated",
                                "executionCompleted"]
        w.quiet(id=id)


# checklist: 41, 145
def test_two_completions(t):
    c, w = t.pair()
    first = act.complete(3, COMPLETED, "low")
    second = act.complete(7, FAILED, "high", failure=act.failure())
    for actions in ([first, second], [second, first], [act.task(9, "a"), second, first]):
        id = c.start("o")
        w.done(w.turn(id=id), *actions)
        s = c.wait(id)
        assert s.orchestrationStatus == COMPLETED and s.output.value == "low"
        assert kinds(c.history(id)).count("executionCompleted") == 1


# checklist: 43
# reports: BL-030
def test_the_same_id_twice(t):
    id, c, w, i = t.started()
    same = act.task(1, "a", "x")
    w.done(i, same, same, act.timer(2, after=3600), act.child(3, "kid", "kid"))
    a = w.task()
    k = w.turn(id="kid")
    w.quiet("task")
    c.event(id)
    i = w.turn(id=id)
    w.done(i, same, act.timer(2, after=3600), act.child(3, "kid", "kid"))  # not confirmed: sent again
    w.quiet()
    assert kinds(c.history(id)).count("taskScheduled") == 1
    assert kinds(c.history(id)).count("timerCreated") == 1
    assert kinds(c.history(id)).count("subOrchestrationInstanceCreated") == 1
    w.result(a, failure=act.failure())
    i = w.turn(id=id)
    w.done(i, same)  # resolved: a new attempt
    a2 = w.task()
    assert a2.task_id == 1 and a2.token != a.token
    w.result(a, "of the first")  # stale: the first scheduling is resolved
    w.result(a2, "of the second")
    i = w.turn(id=id)
    assert events_of(i.new, "taskCompleted")[0].result.value == "of the second"
    # One id for different kinds: the worker's business.
    w.done(i, act.timer(1, after=0.01))
    i = w.turn(id=id)
    assert events_of(i.new, "timerFired")[0].timerId == 1
    w.done(k, act.complete())
    i2 = None
    w.done(i)
    i2 = w.turn(id=id)
    w.done(i2, act.complete())
    check_legal(c.history(id), True)


def invalid_actions():
    A = pb.OrchestratorAction
    bad_time = pb.Timestamp(seconds=253402300800)
    yield "empty oneof", A(id=2)
    yield "task without name", act.task(2, "")
    yield "child without name", act.child(2, "")
    yield "event without name", act.send(2, "x", "")
    yield "event without target", act.send(2, "", "e")
    yield "event without instance", A(id=2, sendEvent=pb.SendEventAction(name="e"))
    yield "event to a bad id", act.send(2, "a\nb", "e")
    yield "event to a long id", act.send(2, "x" * 1025, "e")
    yield "timer without fireAt", A(id=2, createTimer=pb.CreateTimerAction())
    yield "timer past year 9999", act.timer(2, at=bad_time)
    yield "timer with bad nanos", act.timer(2, at=pb.Timestamp(seconds=1, nanos=-5))
    yield "timer before year 1", act.timer(2, at=pb.Timestamp(seconds=-62135596801))
    yield "child with a bad id", act.child(2, "k", "a\x7fb")
    yield "child with a long id", act.child(2, "k", "x" * 1025)
    yield "terminate nobody", act.terminate(2, "")
    for status in (RUNNING, PENDING, SUSPENDED, 77):
        yield "completion with %d" % status, act.complete(2, status)
    yield "entity signal", A(id=2, sendEntityMessage=pb.SendEntityMessageAction(
        entityOperationSignaled=pb.EntityOperationSignaledEvent(
            requestId="r", operation="op", targetInstanceId=sv("@e@k"))))
    yield "entity lock", A(id=2, sendEntityMessage=pb.SendEntityMessageAction(
        entityLockRequested=pb.EntityLockRequestedEvent(criticalSectionId="c", lockSet=["@e@k"])))
    yield "entity message of no kind", A(id=2, sendEntityMessage=pb.SendEntityMessageAction())
    yield "rewind", A(id=-1, rewindOrchestration=pb.RewindOrchestrationAction())


# checklist: 44
def test_invalid_actions(t):
    c, w = t.pair()
    parent = c.start("parent")
    w.done(w.turn(), act.child(1, "o", "child-of-it"))
    w.done(w.turn(id="child-of-it"), act.task(1, "no"), act.complete(2, RUNNING))
    i = w.turn(id=parent)
    f = events_of(i.new, "subOrchestrationInstanceFailed")[0].failureDetails
    assert f.errorType == "InvalidOrchestratorAction" and f.isNonRetriable
    w.done(i, act.complete())
    for what, bad in invalid_actions():
        for actions in ([act.task(1, "no"), bad], [bad, act.task(3, "no"), act.complete(9, result="no")]):
            id = c.start("o")
            w.done(w.turn(id=id), *actions, status="cs")
            s = c.wait(id, 10)
            assert s.orchestrationStatus == FAILED, what
            d = s.failureDetails
            assert d.errorType == "InvalidOrchestratorAction" and d.isNonRetriable, (what, d)
            assert len(d.errorMessage) > 10, (what, d)
            assert not s.HasField("output"), what
            h = check_legal(c.history(id), True)
            assert kinds(h) == ["orchestratorStarted", "executionStarted", "executionCompleted"], what
            assert h[-1].executionCompleted.failureDetails == d
    w.quiet()


# checklist: 45
# reports: BL-106
def test_requires_history(t):
    id, c, w, i = t.started()
    w.done(i, act.task(1, "a"))
    w.result(w.task(), "r")
    i = w.turn()
    before = c.history(id)
    w.done(i, act.complete(result="not this"), requires_history=True)
    j = w.turn(timeout=5)
    assert j.token != i.token and c.history(id) == before
    assert j.past == i.past and j.new[1:] == i.new[1:]
    w.done(i, act.complete(result="stale"))
    assert c.status(id) == "RUNNING"
    w.done(j, act.complete(result="r"))
    assert c.wait(id).output.value == "r"


# checklist: 46
# reports: BL-090
def test_partial_chunks(t):
    id, c, w, i = t.started()
    w.done(i, act.task(1, "a", "1"), partial=True, chunk=0, status="s0")
    assert c.status(id) == "PENDING"
    w.done(i, act.task(2, "a", "2"), partial=True, chunk=1, processed=0)
    w.done(i, act.task(2, "a", "twice"), partial=True, chunk=1, processed=0)  # stored: ignored
    w.done(i, act.task(3, "a", "3"), partial=True, chunk=2, processed=0)
    w.quiet()
    w.done(i, act.task(4, "a", "4"), chunk=3, processed=0, status="final")
    got = [w.task() for _ in range(4)]
    assert [(a.task_id, a.input) for a in got] == [(n, str(n)) for n in (1, 2, 3, 4)]
    assert c.get(id).customStatus.value == "final"
    h = c.history(id)
    assert kinds(h) == ["orchestratorStarted", "executionStarted"] + ["taskScheduled"] * 4
    for a in got:
        w.result(a)
    i = w.turn()
    while True:
        # Index 0 starts anew.
        w.done(i, act.task(10, "dropped"), partial=True, chunk=0)
        w.done(i, act.task(11, "kept"), partial=True, chunk=0)
        w.done(i, act.complete(result="r"), chunk=1, processed=0)
        break
    eventually(lambda: c.status(id) in ("COMPLETED", "RUNNING"))
    assert "kept" in [e.name for e in events_of(c.history(id), "taskScheduled")]
    assert "dropped" not in [e.name for e in events_of(c.history(id), "taskScheduled")]


# checklist: 46
def test_chunks_with_a_gap(t):
    id, c, w, i = t.started()
    w.done(i, act.task(1, "a"), partial=True, chunk=0)
    expect_error(lambda: w.done(i, act.task(2, "a"), partial=True, chunk=2), "INVALID_ARGUMENT")
    assert c.status(id) == "PENDING"
    # Its item is treated as abandoned: it comes again, without any of the chunks.
    j = w.turn(timeout=10)
    assert j.token != i.token
    w.done(j, act.complete(result="r"))
    assert c.wait(id).output.value == "r"
    assert kinds(c.history(id)) == ["orchestratorStarted", "executionStarted", "executionCompleted"]


# checklist: 46
# reports: BL-090
def test_chunks_and_a_lost_worker(t):
    id, c, w, i = t.started()
    w.done(i, act.task(1, "a"), partial=True, chunk=0)
    w.done(i, act.task(2, "a"), partial=True, chunk=1)
    w.close()
    w2 = t.worker()
    j = w2.turn()
    assert c.status(id) == "PENDING" and w2.held == []
    for n in range(3):
        w2.done(j, act.task(n + 1, "b"), partial=True, chunk=n)
    w2.done(j, act.task(4, "b"), chunk=3)
    assert [w2.task().name for _ in range(4)] == ["b"] * 4
    w2.none(0.2)
    assert kinds(c.history(id)).count("taskScheduled") == 4


# checklist: 47
# reports: BL-106
def test_num_events_processed(t):
    id, c, w, i = t.started()
    w.done(i)
    blocked = None
    c.event(id, "e", "0")
    i = w.turn()
    for n in range(1, 10):
        c.event(id, "e", str(n))
    w.done(i)
    i = w.turn()
    assert raised_inputs(i.new) == [str(n) for n in range(1, 10)]
    w.done(i, act.task(1, "a"), processed=3)  # orchestratorStarted and two events
    i = w.turn(id=id)
    assert raised_inputs(i.past) == ["0", "1", "2"]
    assert raised_inputs(i.new) == [str(n) for n in range(3, 10)]
    assert kinds(i.past)[-1] == "taskScheduled"
    for bad in (-1, len(i.new) + 1):
        expect_error(lambda: w.done(i, processed=bad), "INVALID_ARGUMENT")
        i = w.turn(timeout=10, id=id)
        assert raised_inputs(i.new) == [str(n) for n in range(3, 10)]
    # 0 without actions gives it back.
    before = c.history(id)
    w.done(i, processed=0)
    j = w.turn(timeout=10, id=id)
    assert j.token != i.token and c.history(id) == before
    w.done(j, act.complete(), processed=len(j.new))
    check_legal(c.history(id), True)
    assert blocked is None


# checklist: 48
# reports: BL-094
def test_history_limit(t):
    t.shared(history__max_events="40")
    c, w = t.pair()
    parent = c.start("parent")
    w.done(w.turn(), act.child(1, "o", "kid-" + t.hub))
    i = w.turn(id="kid-" + t.hub)
    w.done(i, *[act.task(n, "a") for n in range(1, 31)])
    for _ in range(30):
        w.task()
    c.event(i.id)
    i = w.turn(id=i.id)
    text = expect_error(
        lambda: w.done(i, *[act.task(n, "b") for n in range(31, 60)]), "RESOURCE_EXHAUSTED",
        "Orchestration '%s' would exceed maximum history size" % i.id)
    s = c.wait(i.id, 10)
    assert s.orchestrationStatus == FAILED
    assert s.failureDetails.errorType == "HistoryLimitExceeded" and s.failureDetails.isNonRetriable
    p = w.turn(id=parent)
    f = events_of(p.new, "subOrchestrationInstanceFailed")[0].failureDetails
    assert f.errorType == "HistoryLimitExceeded"
    w.quiet("task")
    assert "b" not in [e.name for e in events_of(c.history(i.id), "taskScheduled")]
    assert text


# checklist: 49
def test_trace_context_of_the_orchestration(t):
    id, c, w, i = t.started()
    assert not i.req.HasField("orchestrationTraceContext")
    span = pb.OrchestrationTraceContext(spanID=sv("0123456789abcdef"), spanStartTime=ts(1234567890.25))
    w.done(i, trace=span)
    c.event(id)
    i = w.turn()
    assert i.req.orchestrationTraceContext == span
    w.done(i, trace=pb.OrchestrationTraceContext())  # empty: as if unset
    c.event(id)
    i = w.turn()
    assert i.req.orchestrationTraceContext == span
    w.done(i)
    c.event(id)
    i = w.turn()
    assert i.req.orchestrationTraceContext == span
    w.done(i, act.again(), trace=span)
    i = w.turn()
    assert not i.req.HasField("orchestrationTraceContext")
    w.done(i, act.complete())


# checklist: 50
# reports: BL-173
def test_kill_between_commit_and_answer(t):
    """The answer is lost, the server dies, the worker sends the completion again."""
    s = t.own_server()
    c = t.client()
    p = t.proxy()
    w = t.worker(server=p.target)
    id = c.start("o")
    i = w.turn()
    p.freeze(to_server=True, to_client=False)
    f = w.stub("CompleteOrchestratorTask").future(
        w.response(i, [act.task(1, "a"), act.send(2, id, "self")]), metadata=w.metadata, timeout=60)
    eventually(lambda: c.status(id) == "RUNNING", 10)
    s.restart()
    p.cut()
    p.thaw()
    assert f.exception(30) is not None
    c = t.client()
    w = t.worker()
    w.call("CompleteOrchestratorTask", w.response(i, [act.task(1, "a"), act.send(2, id, "self")]))
    w.call("CompleteOrchestratorTask", w.response(i, [act.complete(result="no")]))
    a, j = w.task(), w.turn()
    w.result(a, "r")
    assert raised_inputs(j.new) == [""]
    w.done(j)
    j = w.turn()
    assert kinds(j.new) == ["orchestratorStarted", "taskCompleted"]
    w.done(j, act.complete(result="end"))
    h = check_legal(c.history(id), True)
    assert kinds(h).count("taskScheduled") == kinds(h).count("eventSent") == 1
    assert c.wait(id).output.value == "end"


# checklist: 51
def test_results_for_an_older_execution(t):
    id, c, w, i = t.started()
    w.done(i, act.task(1, "a"), act.child(2, "kid", "kid"), act.timer(3, after=4))
    a, k = w.task(), w.turn(id="kid")
    c.event(id)
    w.done(w.turn(id=id), act.again(), act.task(4, "b"))
    b = w.task()
    i = w.turn(id=id)
    w.done(i, act.task(1, "c"))
    cc = w.task()
    w.result(a, "old a")
    w.result(b, "old b")
    w.done(k, act.complete(result="old kid"))
    w.none(5)
    w.result(cc, "new c")
    i = w.turn(id=id)
    assert kinds(i.events) == ["orchestratorStarted", "executionStarted", "taskScheduled",
                               "orchestratorStarted", "taskCompleted"]
    assert events_of(i.new, "taskCompleted")[0].result.value == "new c"
    w.done(i, act.complete())
    check_legal(c.history(id), True)


def raise_many(t, id, count, start=0):
    """count events by pipelined raw calls: fast, and in order."""
    h = t.h2()
    pending = []
    for n in range(start, start + count):
        pending.append(h.start("RaiseEvent", pb.RaiseEventRequest(
            instanceId=id, name="e", input=sv(str(n))), hub=t.hub))
        if len(pending) == 50:
            h.pump(lambda: all(s.over for s in pending), 60)
            assert all(s.status == ("OK", "") for s in pending)
            pending = []
    h.pump(lambda: all(s.over for s in pending), 60)
    assert all(s.status == ("OK", "") for s in pending)
    h.close()


# checklist: 52
# reports: BL-120
@serial
@limit(120)
def test_many_buffered_events(t):
    """100,000 of them in PERDURE_NIGHTLY: bounded batches, once each, in order."""
    count = 100_000 if NIGHTLY else 6_000
    t.own_server()
    c = t.client()
    id = c.start("o")
    raise_many(t, id, count)
    w = t.worker()
    seen = []
    while len(seen) < count:
        i = w.turn(timeout=30)
        assert len(i.past) <= 2 and len(i.new) <= 1002, (len(i.past), len(i.new))
        seen += raised_inputs(i.new)
        w.done(i, act.again() if len(seen) < count else act.complete(result=str(len(seen))))
    assert seen == [str(n) for n in range(count)]
    assert c.wait(id).output.value == str(count)
    assert len(c.history(id)) < 1010


if NIGHTLY:
    test_many_buffered_events.limit = 3600


# checklist: 52
@serial
@limit(120)
def test_many_events_in_one_history(t):
    count = 100_000 if NIGHTLY else 4_000
    t.own_server({"history.max_events": "250000"})
    c = t.client()
    id = c.start("o")
    raise_many(t, id, count)
    w = t.worker(check=False)
    got = 0
    while got < count:
        i = w.turn(timeout=60)
        assert len(i.new) <= 1002
        got += len(raised_inputs(i.new))
        w.done(i, *([act.complete(result="done")] if got >= count else []), timeout=60)
    h = c.history(id)
    assert raised_inputs(h) == [str(n) for n in range(count)]
    assert all(len(x.events) <= 1000 and x.ByteSize() <= 300_000 for x in c.chunks(id))


if NIGHTLY:
    test_many_events_in_one_history.limit = 3600


def test_a_batch_is_bounded_in_bytes(t):
    c = t.client()
    id = c.start("o")
    for n in range(12):
        c.event(id, "e", str(n) + "x" * 300_000)
    w = t.worker()
    seen, batches = [], 0
    while len(seen) < 12:
        i = w.turn()
        assert sum(e.ByteSize() for e in i.new) <= (1 << 20) + 310_000
        seen += [x.split("x")[0] for x in raised_inputs(i.new)]
        batches += 1
        w.done(i, *([act.complete()] if len(seen) == 12 else []))
    assert seen == [str(n) for n in range(12)] and batches >= 4
    # One event larger than a batch goes alone.
    id = c.start("o")
    w.done(w.turn())
    for n in range(2):
        c.event(id, "e", str(n) + "y" * 2_000_000)
    seen = 0
    while seen < 2:
        i = w.turn()
        assert len(i.new) == 2
        seen += 1
        w.done(i, *([act.complete()] if seen == 2 else []))


# checklist: 144
def test_ids_of_zero(t):
    id, c, w, i = t.started()
    w.done(i, act.task(0, "a"))
    a = w.task()
    assert a.task_id == 0
    w.result(a, "r")
    i = w.turn()
    assert events_of(i.new, "taskCompleted")[0].taskScheduledId == 0
    assert i.past[-1].eventId == 0
    w.done(i, act.timer(0, after=0.05))
    i = w.turn()
    assert events_of(i.new, "timerFired")[0].timerId == 0
    w.done(i, act.child(0, "kid"))
    k = w.turn()
    assert k.id == i.execution + ":0000"
    assert k.started.parentInstance.taskScheduledId == 0 and k.started.HasField("parentInstance")
    w.done(k, act.complete())
    i = w.turn(id=id)
    assert events_of(i.new, "subOrchestrationInstanceCompleted")[0].taskScheduledId == 0
    w.done(i, act.complete(0, result="r"))
    assert c.wait(id).output.value == "r"
    check_legal(c.history(id), True)


def rich_failure():
    inner = act.failure("Inner", "deep", "stack\n in", fatal=True, properties={"z": 1})
    return act.failure(
        "Outer", "top", "stack\n out", inner=inner,
        properties={"n": None, "t": True, "f": 0.1, "big": 1e308, "small": 5e-324, "neg": -0.0,
                    "s": "\u00e9\U0001f600", "l": [1, "a", None, {"x": [2.5]}],
                    "m": {"k": {"kk": [None, False]}}, "e": {}, "el": [], "empty": ""})


# checklist: 147, 68, 54
def test_failure_details_are_whole(t):
    f = rich_failure()
    id, c, w, i = t.started()
    w.done(i, act.child(1, "kid", "kid"))
    k = w.turn(id="kid")
    w.done(k, act.task(1, "a"))
    w.result(w.task(), failure=f)
    k = w.turn(id="kid")
    assert events_of(k.new, "taskFailed")[0].failureDetails == f
    w.done(k, act.complete(status=FAILED, failure=f))
    i = w.turn(id=id)
    assert events_of(i.new, "subOrchestrationInstanceFailed")[0].failureDetails == f
    assert c.get("kid").failureDetails == f
    h = c.history("kid")
    assert events_of(h, "taskFailed")[0].failureDetails == f
    assert events_of(h, "executionCompleted")[0].failureDetails == f
    w.done(i, act.complete(status=FAILED, failure=f))
    assert c.wait(id).failureDetails == f
    import math
    assert math.copysign(1, c.get(id).failureDetails.properties["neg"].number_value) == -1


def levels(f):
    n = 1
    while f.HasField("innerFailure"):
        f = f.innerFailure
        n += 1
    return n


# checklist: 148
def test_long_failure_chains_are_cut(t):
    from test_transport import chain, field
    c, w = t.pair()
    h = t.h2()
    id = c.start("o")
    w.done(w.turn(), act.task(1, "a"))
    a = w.task()
    body = w.activity_response(a).SerializeToString() + field(4, chain(200))
    assert h.call("CompleteActivityTask", body, hub=t.hub).status == ("OK", "")
    i = w.turn()
    assert 60 <= levels(events_of(i.new, "taskFailed")[0].failureDetails) <= 64
    action = field(6, b"\x08\x03" + field(6, chain(200)))
    body = w.response(i).SerializeToString() + field(2, b"\x08\x05" + action)
    assert h.call("CompleteOrchestratorTask", body, hub=t.hub).status == ("OK", "")
    assert 60 <= levels(c.wait(id).failureDetails) <= 64
    assert 60 <= levels(events_of(c.history(id), "executionCompleted")[0].failureDetails) <= 64
    # A short chain stays as it is, to the last level.
    f = act.failure("L0")
    for n in range(1, 50):
        f = act.failure("L%d" % n, inner=f)
    id = c.start("o")
    w.done(w.turn(), act.complete(status=FAILED, failure=f))
    assert c.wait(id).failureDetails == f


def test_failed_without_details(t):
    c, w = t.pair()
    id = c.start("o")
    w.done(w.turn(), act.complete(status=FAILED, details="what went wrong", result="out"))
    s = c.wait(id)
    assert s.orchestrationStatus == FAILED and "what went wrong" in s.failureDetails.errorMessage
    assert s.output.value == "out"
    id = c.start("o")
    w.done(w.turn(), act.complete(status=FAILED))
    assert c.wait(id).failureDetails.errorMessage


def test_turns_may_do_nothing(t):
    id, c, w, i = t.started()
    w.done(i)
    assert kinds(c.history(id)) == ["orchestratorStarted", "executionStarted"]
    w.quiet()
    c.event(id)
    w.done(w.turn())
    assert kinds(c.history(id)) == ["orchestratorStarted", "executionStarted", "orchestratorStarted",
                                    "eventRaised"]


def test_completion_for_another_instance(t):
    id, c, w, i = t.started()
    other = c.start("o")
    o = w.turn(id=other)
    expect_error(lambda: w.done(i, act.complete(), instance=other), "INVALID_ARGUMENT")
    assert c.status(id) == c.status(other) == "PENDING"
    # The item of the token is treated as abandoned; the other one is untouched.
    w.done(o, act.complete())
    assert c.wait(other).orchestrationStatus == COMPLETED
    j = w.turn(timeout=10)
    assert j.id == id
    w.done(j, act.complete())


def test_bad_utf8_in_a_completion(t):
    """Its item is settled as failed (5.3)."""
    from test_transport import field
    id, c, w, i = t.started()
    h = t.h2()
    w.done(i, act.task(1, "a"))
    a = w.task()
    body = w.activity_response(a).SerializeToString() + field(3, field(1, b"\xff\xfe"))
    assert h.call("CompleteActivityTask", body, hub=t.hub).status[0] == "INVALID_ARGUMENT"
    i = w.turn()
    assert events_of(i.new, "taskFailed")[0].failureDetails.errorType == "InvalidCompletion"
    body = w.response(i).SerializeToString() + field(3, field(1, b"\xff\xfe"))
    assert h.call("CompleteOrchestratorTask", body, hub=t.hub).status[0] == "INVALID_ARGUMENT"
    s = c.wait(id)
    assert s.orchestrationStatus == FAILED and s.failureDetails.errorType == "InvalidCompletion"
    check_legal(c.history(id), True)


# reports: BL-086
def test_completions_far_too_large(t):
    """The token is not reached: all that the connection holds comes again, and counts (5.3)."""
    t.shared(request__bytes="64KiB", abandon__backoff_max="1ms")
    id, c, w, i = t.started()
    big = "x" * 400_000
    assert error_of(lambda: w.done(i, status=big))[0] == "RESOURCE_EXHAUSTED"
    w.done(w.turn(timeout=10), act.task(1, "a"), act.task(2, "b"))
    for n in range(5):
        a, _ = w.task(timeout=10), w.task(timeout=10)
        assert error_of(lambda: w.result(a, big))[0] == "RESOURCE_EXHAUSTED"
    failed = {}
    while len(failed) < 2:
        i = w.turn(timeout=10)
        for e in events_of(i.new, "taskFailed"):
            failed[e.taskScheduledId] = e.failureDetails.errorType
        w.done(i, *([act.complete()] if len(failed) == 2 else []))
    assert failed == {1: "WorkItemTooLarge", 2: "WorkItemTooLarge"}, failed
    check_legal(c.history(id), True)


# reports: BL-086
def test_completions_too_large(t):
    """RESOURCE_EXHAUSTED, that dispatch ends; after five the task fails with a clear word."""
    t.shared(request__bytes="1MiB")
    id, c, w, i = t.started()
    w.done(i, act.task(1, "a"))
    dispatches = 0
    big = "x" * (2 << 20)
    for _ in range(10):
        a = w.next(timeout=15)
        if a.kind == "turn":
            break
        dispatches += 1
        code, text = error_of(lambda: w.result(a, big))
        assert code == "RESOURCE_EXHAUSTED", (code, text)
    assert a.kind == "turn" and dispatches <= 5, dispatches
    f = events_of(a.new, "taskFailed")[0].failureDetails
    assert f.errorType == "WorkItemTooLarge" and any(ch.isdigit() for ch in f.errorMessage), f
    w.done(a, act.complete())
    # Once too large, then small: the task goes on.
    id = c.start("o")
    w.done(w.turn(), act.task(1, "a"))
    a = w.task()
    assert error_of(lambda: w.result(a, big))[0] == "RESOURCE_EXHAUSTED"
    b = w.task(timeout=10)
    assert b.token != a.token
    w.result(b, "small")
    w.done(w.turn(id=id), act.complete(result="r"))
    assert c.wait(id).output.value == "r"


# reports: BL-096, BL-179, BL-090
@limit(120)
def test_many_actions_in_one_turn(t):
    sizes = [97, 98, 99, 100, 101, 999, 1000] + ([10_000, 100_000] if NIGHTLY else [3000])
    t.shared(history__max_events="250000")
    c = t.client()
    w = t.worker(check=False)
    for size in sizes:
        id = c.start("o")
        i = w.turn(id=id)
        w.done(i, *[act.task(n, "a", str(n)) for n in range(size)], timeout=60)
        seen, futures = set(), []
        for _ in range(size):
            a = w.task(timeout=30, id=id)
            assert a.input == str(a.task_id) and a.task_id not in seen
            seen.add(a.task_id)
            if size <= 1000:
                futures.append(w.stub("CompleteActivityTask").future(
                    w.activity_response(a, a.input), metadata=w.metadata))
        assert len(seen) == size
        assert kinds(c.history(id)).count("taskScheduled") == size
        if size > 1000:
            c.terminate(id)
            w.done(w.turn(id=id), act.terminated())
            continue
        resolved = 0
        while resolved < size:
            i = w.turn(id=id)
            resolved += kinds(i.new).count("taskCompleted")
            w.done(i, *([act.complete()] if resolved == size else []))
        for f in futures:
            f.result(20)
        check_legal(c.history(id), True)


if NIGHTLY:
    test_many_actions_in_one_turn.limit = 1800


# reports: BL-092, BL-091
def test_large_payloads_everywhere(t):
    size = 8 << 20
    texts = {k: k + "z" * size for k in ("in", "result", "event", "status", "output", "failure")}
    c = t.client()
    w = t.worker(check=False)
    id = c.start("o", input=texts["in"])
    i = w.turn(timeout=30)
    assert i.started.input.value == texts["in"]
    w.done(i, act.task(1, "a"), status=texts["status"])
    assert c.get(id).customStatus.value == texts["status"]
    w.result(w.task(), texts["result"])
    i = w.turn(timeout=30)
    assert events_of(i.new, "taskCompleted")[0].result.value == texts["result"]
    w.done(i, act.task(2, "a"))
    c.event(id, "e", texts["event"])
    i = w.turn(timeout=30)
    assert events_of(i.new, "eventRaised")[0].input.value == texts["event"]
    w.done(i)
    w.result(w.task(), failure=act.failure("T", texts["failure"], texts["failure"]))
    i = w.turn(timeout=30)
    f = events_of(i.new, "taskFailed")[0].failureDetails
    assert f.errorMessage == texts["failure"] and f.stackTrace.value == texts["failure"]
    w.done(i, act.complete(result=texts["output"]))
    assert c.wait(id).output.value == texts["output"]
    assert c.get(id, False).ByteSize() < size + 10_000  # the custom status is always shown
    # Pages of the history: one larger event alone in its chunk.
    chunks = c.chunks(id)
    assert all(len(x.events) == 1 for x in chunks if x.ByteSize() > 1 << 20)
    assert sum(len(x.events) for x in chunks) == len(c.history(id))


def test_chunks_have_a_limit(t):
    """Together over turn.chunk_bytes: an error, and the instance is not stuck."""
    t.shared(turn__chunk_bytes="256KiB")
    id, c, w, i = t.started()
    w.done(i, act.task(0, "a", "x" * 100_000), partial=True, chunk=0)
    w.done(i, act.task(1, "a", "x" * 100_000), partial=True, chunk=1)
    code, text = error_of(lambda: w.done(i, act.task(2, "a", "x" * 100_000), partial=True, chunk=2))
    assert code in ("RESOURCE_EXHAUSTED", "INVALID_ARGUMENT") and text, (code, text)

    def settled():
        if c.status(id) == "FAILED":
            return True
        try:
            w.done(w.turn(timeout=1), act.complete(result="again"))
        except AssertionError:
            return False
        return c.status(id) == "COMPLETED"

    eventually(settled, 20)
    assert "taskScheduled" not in kinds(check_legal(c.history(id), True))


def test_times_of_a_state_never_go_back(t):
    id, c, w, i = t.started()
    last = 0

    def later():
        nonlocal last
        s = c.get(id)
        now = nanos(s.lastUpdatedTimestamp)
        assert now >= last and now >= nanos(s.createdTimestamp)
        moved = now > last
        last = now
        return moved

    later()
    w.done(i, status="1")
    assert later()
    for call in (lambda: c.event(id, "e"), lambda: c.suspend(id), lambda: c.resume(id),
                 lambda: c.terminate(id, "t")):
        call()
        assert later(), "each accepted message counts"
    while True:
        i = w.turn()
        if "executionTerminated" in kinds(i.new):
            break
        w.done(i)
    w.done(i, act.terminated())
    assert later()
    c.event(id, "e")
    assert not later()


# checklist: 48
# reports: BL-094
def test_history_limit_in_bytes(t):
    t.shared(history__max_bytes="1MiB")
    id, c, w, i = t.started()
    w.done(i)
    for n in range(2):
        c.event(id, "e", "x" * 400_000)
        w.done(w.turn())
    c.event(id, "e", "x" * 400_000)
    i = w.turn()
    expect_error(lambda: w.done(i, act.task(1, "no")), "RESOURCE_EXHAUSTED",
                 "Orchestration '%s' would exceed maximum history size" % id)
    s = c.wait(id, 10)
    assert s.orchestrationStatus == FAILED and s.failureDetails.errorType == "HistoryLimitExceeded"
    w.quiet()
    # Terminate and purge do not depend on it.
    assert c.purge(id).deletedInstanceCount == 1
