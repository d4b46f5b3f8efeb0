"""Continue-as-new (spec 6.7)."""

import time

from lib import actions as act
from lib.history import EXECUTION_ID, check_legal, events_of, raised_inputs
from lib.proto import COMPLETED, PENDING, RUNNING, kinds, nanos, pb, secs, sv, ts
from lib.runner import NIGHTLY, limit, serial
from lib.worker import filters


# checklist: 89
# checklist-partial: 32
def test_what_the_new_execution_has(t):
    c, w = t.pair()
    trace = pb.TraceContext(traceParent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    id = c.start("o", version="1", input="first", tags={"a": "1", "b": "1"}, trace=trace)
    i = w.turn()
    before = c.get(id)
    w.done(i, act.task(1, "a"), act.again(input="second", tags={"b": "2", "c": "3"}), status="st")
    after = c.get(id)
    assert after.orchestrationStatus == RUNNING and after.input.value == "second"
    assert after.version.value == "1" and dict(after.tags) == {"a": "1", "b": "2", "c": "3"}
    assert after.createdTimestamp == before.createdTimestamp and not after.HasField("completedTimestamp")
    assert not after.HasField("output") and after.customStatus.value == "st"
    j = w.turn()
    assert j.past == [] and kinds(j.new) == ["orchestratorStarted", "executionStarted"]
    assert EXECUTION_ID.match(j.execution) and j.execution != i.execution
    assert j.execution == after.executionId.value
    e = j.started
    assert e.input.value == "second" and e.version.value == "1" and e.parentTraceContext == trace
    assert dict(e.tags) == {"a": "1", "b": "2", "c": "3"}
    assert e.orchestrationInstance.executionId.value == j.execution
    a = w.task()
    assert a.execution == i.execution, "what was scheduled in the last turn runs on"
    assert c.history(id) == []
    w.done(j, act.again())
    k = w.turn()
    assert not k.started.HasField("input") and not c.get(id).HasField("input")
    assert c.status(id) == "RUNNING"
    w.done(k, act.complete(result="r"))
    assert kinds(c.history(id)) == ["orchestratorStarted", "executionStarted", "executionCompleted"]


# checklist: 154
def test_new_version(t):
    c = t.client()
    w1 = t.worker(filters=filters([("o", ["1"])]))
    w2 = t.worker(filters=filters([("o", ["2"])]))
    id = c.start("o", version="1")
    i = w1.turn()
    w1.done(i, act.again(version="2"))
    i = w2.turn()
    w1.none(0.2)
    assert i.started.version.value == "2" and c.get(id).version.value == "2"
    w2.done(i, act.again())
    i = w2.turn()
    assert i.started.version.value == "2"
    w2.done(i, act.complete())


# checklist-partial: 90
# reports: BL-027
def test_nothing_old_reaches_the_new(t):
    id, c, w, i = t.started()
    w.done(i, act.task(1, "a"), act.timer(2, after=4), act.child(3, "k", "kid"))
    a, k = w.task(), w.turn(id="kid")
    c.event(id, "consumed")
    i = w.turn(id=id)
    c.event(id, "kept", "1")
    c.suspend(id)
    c.resume(id)
    w.result(a, "old")
    w.done(i, act.again())
    i = w.turn(id=id)
    assert kinds(i.new) == ["orchestratorStarted", "executionStarted", "eventRaised",
                            "executionSuspended", "executionResumed"]
    w.done(i)
    w.done(k, act.complete(result="old"))
    w.none(5)
    c.event(id)
    w.done(w.turn(id=id), act.complete())
    check_legal(c.history(id), True)


def test_a_pending_termination_ends_the_new_execution(t):
    id, c, w, i = t.started()
    c.terminate(id, "t")
    w.done(i, act.again())
    # It was accepted before the commit: the next execution never runs.
    s = c.wait(id, 10)
    assert s.output.value == "t"
    w.quiet()


# checklist: 91
# reports: BL-054, BL-120
@serial
@limit(150)
def test_many_generations(t):
    """10,000 in PERDURE_NIGHTLY. The store is bounded, others are not starved."""
    import os
    total = 10_000 if NIGHTLY else 2_000
    s = t.own_server()
    c = t.client()

    def loop(i):
        n = int(i.started.input.value)
        return [act.complete(result=str(n))] if n >= total else [
            act.timer(1, after=3600), act.task(2, "a"), act.again(input=str(n + 1))]

    a = t.auto({"loop": loop, "other": lambda i: [act.complete(result="o")]}, {"a": lambda i: None})
    id = c.start("loop", input="0")
    sizes = []
    n = 0
    while c.status(id) in ("RUNNING", "PENDING"):
        other = c.start("other")
        assert c.wait(other, 20).output.value == "o", "starved"
        c.purge(other)
        n += 1
        if n % 10 == 0:
            sizes.append(sum(os.path.getsize(os.path.join(s.dir, f)) for f in os.listdir(s.dir)
                             if f.startswith("perdure.db") and not f.endswith("-wal")))
        time.sleep(0.02)
    assert c.get(id).output.value == str(total)
    a.check()
    assert len(c.history(id)) <= 6
    assert sizes[-1] < 20 << 20, sizes
    c.event(id)


# reports: BL-178
@limit(90)
def test_eternal_loops_over_kills(t):
    """Wait for an event or a timer, continue as new: none of them dies."""
    s = t.own_server()
    c = t.client()
    n = 50

    def loop(i):
        if "executionTerminated" in kinds(i.new):
            return [act.terminated()]
        if "timerFired" in kinds(i.new):
            return [act.again(input=str(int(i.started.input.value) + 1))]
        return [act.timer(1, after=0.2)]

    a = t.auto({"o": loop})
    ids = [c.start("o", input="0") for _ in range(n)]
    last = {id: 0 for id in ids}
    for round in range(3):
        time.sleep(1.0)
        a.stopped = True
        s.restart()
        a.close()
        c = t.client()
        a = t.auto({"o": loop})
        end = time.monotonic() + 15
        todo = set(ids)
        while todo and time.monotonic() < end:
            for id in list(todo):
                now = int(c.get(id).input.value)
                if now > last[id]:
                    last[id] = now
                    todo.discard(id)
            time.sleep(0.05)
        assert not todo, "%d of %d stand still" % (len(todo), n)
