"""Activities (spec 6.1)."""

import time

from lib import actions as act
from lib.client import expect_error
from lib.history import check_legal, events_of
from lib.proto import COMPLETED, FAILED, kinds, pb, sv
from lib.runner import limit
from lib.worker import GO, JAVA


# checklist: 53
def test_what_the_worker_gets(t):
    id, c, w, i = t.started()
    trace = pb.TraceContext(traceParent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                            traceState=sv("s=1"))
    w.done(i, act.task(7, "Do It", "in", version="2.0", tags={"k": "v", "": "e"}, trace=trace))
    a = w.task()
    r = a.req
    assert r.name == "Do It" and r.version.value == "2.0" and r.input.value == "in"
    assert r.taskId == 7 and dict(r.tags) == {"k": "v", "": "e"} and r.parentTraceContext == trace
    assert r.orchestrationInstance.instanceId == id
    assert r.orchestrationInstance.executionId.value == i.execution
    e = events_of(c.history(id), "taskScheduled")[0]
    assert e.name == "Do It" and e.version.value == "2.0" and e.input.value == "in"
    assert dict(e.tags) == {"k": "v", "": "e"} and e.parentTraceContext == trace
    w.result(a)
    # Absent stays absent, empty stays empty.
    i = w.turn()
    w.done(i, act.task(8, "a"), act.task(9, "a", "", version=""))
    first, second = sorted((w.task(), w.task()), key=lambda x: x.task_id)
    assert not first.req.HasField("input") and not first.req.HasField("version")
    assert not first.req.HasField("parentTraceContext") and len(first.req.tags) == 0
    assert second.req.HasField("input") and second.req.HasField("version")


# checklist: 54, 55
def test_results_and_failures(t):
    id, c, w, i = t.started()
    n = 0

    def once(check, **kw):
        nonlocal i, n
        n += 1
        w.done(i, act.task(n, "a"))
        w.result(w.task(), **kw)
        i = w.turn()
        check(i.new[1])

    def completed(value):
        def check(e):
            assert e.taskCompleted.taskScheduledId == n
            assert e.taskCompleted.HasField("result") == (value is not None)
            assert e.taskCompleted.result.value == (value or "")
        return check

    def failed(details):
        def check(e):
            assert e.taskFailed.taskScheduledId == n and e.taskFailed.failureDetails == details
        return check

    once(completed("r"), result="r")
    once(completed(""), result="")
    once(completed(None))
    once(failed(pb.TaskFailureDetails()), failure=pb.TaskFailureDetails())
    empty = act.failure("T", "")
    once(failed(empty), failure=empty, result="ignored")
    whole = act.failure("T", "m", "s", act.failure("I", "im", fatal=True), True, {"a": [1, None]})
    once(failed(whole), failure=whole)
    w.done(i, act.complete())
    check_legal(c.history(id), True)


# checklist: 56
# reports: BL-012, BL-027, BL-018
def test_duplicates(t):
    id, c, w, i = t.started()
    w.done(i, act.task(1, "a"))
    a = w.task()
    w.result(a, "first")
    w.result(a, "second")
    w.result(a, failure=act.failure())
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted", "taskCompleted"]
    assert events_of(i.new, "taskCompleted")[0].result.value == "first"
    w.result(a, "third")
    w.done(i, act.task(2, "b"))
    w.quiet("turn")
    # Two tokens of one scheduling: the first answer counts, whoever gives it.
    b = w.task()
    w.close()
    w2 = t.worker()
    b2 = w2.task()
    assert b2.token != b.token and b2.task_id == 2
    w3 = t.worker(act=1, orch=1)
    w3.result(b, "of the first token")
    w2.result(b2, "of the second")
    got = None
    for x in (w2, w3):
        try:
            got = x, x.turn(timeout=3)
            break
        except AssertionError:
            continue
    x, i = got
    assert events_of(i.new, "taskCompleted")[0].result.value == "of the first token"
    x.done(i, act.again())
    # And once more after it continued as new.
    x.result(b2, "late")
    x.result(a, "late")
    w2.none(0.2, "task")
    for y in (w2, w3):
        try:
            i = y.turn(timeout=2)
            break
        except AssertionError:
            continue
    assert kinds(i.events) == ["orchestratorStarted", "executionStarted"]
    y.done(i, act.complete())
    check_legal(c.history(id), True)


# checklist: 57
# reports: BL-004, BL-012
def test_old_token_after_a_restart(t):
    s = t.own_server()
    id, c, w, i = t.started()
    w.done(i, act.task(1, "a"), act.task(2, "b"))
    a, b = w.task(), w.task()
    s.restart()
    w2 = t.worker(act=1)
    again = w2.task()  # given out again already
    w2.result(a, "done before the restart")
    w2.result(b, "this too")
    w2.result(again, "and again")
    got = []
    while len(got) < 2:
        i = w2.turn()
        got += events_of(i.new, "taskCompleted")
        w2.done(i, *([act.complete(result="r")] if len(got) == 2 else []))
    assert {g.result.value for g in got} == {"done before the restart", "this too"}
    h = check_legal(t.client().history(id), True)
    assert kinds(h).count("taskCompleted") == 2


# checklist: 58
# reports: BL-010
def test_worker_lost_with_an_activity(t):
    id, c, w, i = t.started()
    w.done(i, *[act.task(n, "a", str(n)) for n in range(5)])
    lost = [w.task() for _ in range(5)]
    w2 = t.worker()
    w2.none(0.3)
    w.close()
    got = [w2.task(timeout=5) for _ in range(5)]
    assert [g.input for g in got] == [l.input for l in lost], "the original order"
    assert not {g.token for g in got} & {l.token for l in lost}
    for g in got:
        w2.result(g, g.input)
    n = 0
    while n < 5:
        i = w2.turn()
        n += kinds(i.new).count("taskCompleted")
        w2.done(i, *([act.complete()] if n == 5 else []))
    check_legal(c.history(id), True)


# checklist: 59
def test_abandoned_activity(t):
    id, c, w, i = t.started()
    w.done(i, act.task(1, "a"))
    a = w.task()
    w.abandon(a)
    b = w.task(timeout=10)
    assert b.token != a.token and b.task_id == 1
    w.abandon(a)  # stale: OK, and no effect on the newer dispatch
    w.none(1.5, "task")
    w.result(b, "r")
    w.done(w.turn(), act.complete())
    h = check_legal(c.history(id), True)
    assert kinds(h).count("taskScheduled") == kinds(h).count("taskCompleted") == 1


# checklist: 60
def test_late_results(t):
    id, c, w, i = t.started()
    w.done(i, act.task(1, "a"), act.task(2, "b"), act.complete(result="done"))
    a, b = w.task(), w.task()
    w.result(a, "late")
    assert c.wait(id).output.value == "done"
    h = c.history(id)
    c.purge(id)
    w.result(b, "later")
    assert c.get(id) is None and kinds(h)[-1] == "executionCompleted"
    c.start("o", id)
    w.result(b, "latest")
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted", "executionStarted"]
    w.done(i, act.complete())
    w.quiet()


def test_strange_tokens(t):
    t.shared(abandon__backoff_max="1ms")
    id, c, w, i = t.started()
    w.done(i, act.task(1, "a"))
    a = w.task()
    for token in ("x", "0", a.token + "x", a.token[:-1], a.token[::-1], "\u00e9" * 100, "y" * 100_000,
                  "../../etc/passwd", "'; drop table", a.token.swapcase() + "="):
        w.call("CompleteActivityTask", w.activity_response(a, "no", token=token))
        w.call("CompleteOrchestratorTask", w.response(i, [act.complete(result="no")], token=token))
        abandon = pb.AbandonActivityTaskRequest(completionToken=token)
        if len(token) < 65536:
            w.abandon(token=token)
            w.call("AbandonTaskActivityWorkItem", abandon)
        else:  # more than an abandon may hold
            expect_error(lambda: w.call("AbandonTaskActivityWorkItem", abandon), "RESOURCE_EXHAUSTED",
                         "request 100004 bytes > limit 65536")
    # Empty: of an abandon nothing; of a worker that has tokens, nothing either or its own task.
    w.call("AbandonTaskActivityWorkItem", pb.AbandonActivityTaskRequest())
    w.call("AbandonTaskOrchestratorWorkItem", pb.AbandonOrchestrationTaskRequest())
    # A token of the other kind.
    w.call("CompleteOrchestratorTask", w.response(i, [act.complete(result="no")], token=a.token))
    assert c.status(id) == "RUNNING"
    w.quiet()
    w.result(a, "yes")
    w.done(w.turn(), act.complete(result="r"))
    assert c.wait(id).output.value == "r"


def test_ids_that_differ_from_the_token(t):
    id, c, w, i = t.started()
    w.done(i, act.task(1, "a"), act.task(2, "b"))
    a, b = sorted((w.task(), w.task()), key=lambda x: x.task_id)
    expect_error(lambda: w.result(a, "x", task=2), "INVALID_ARGUMENT")
    a = w.task(timeout=10)  # treated as abandoned
    assert a.task_id == 1
    expect_error(lambda: w.result(a, "x", instance="someone-else"), "INVALID_ARGUMENT")
    a = w.task(timeout=15)
    w.result(a, "1")
    w.result(b, "2")
    n = 0
    while n < 2:
        i = w.turn()
        n += kinds(i.new).count("taskCompleted")
        w.done(i, *([act.complete()] if n == 2 else []))


# checklist: 61
# reports: BL-051
def test_result_while_suspended(t):
    id, c, w, i = t.started()
    w.done(i, *[act.task(n, "a") for n in range(5)])
    tasks = [w.task() for _ in range(5)]
    c.suspend(id, "hold")
    for a in tasks:
        w.result(a, str(a.task_id))
    for n in range(3):
        c.event(id, "e", str(n))
    w.none(1.0)
    assert c.status(id) == "SUSPENDED"
    c.resume(id)
    i = w.turn()
    assert kinds(i.new) == (["orchestratorStarted", "executionSuspended"] + ["taskCompleted"] * 5
                            + ["eventRaised"] * 3 + ["executionResumed"])
    assert [e.taskScheduledId for e in events_of(i.new, "taskCompleted")] == [a.task_id for a in tasks]
    w.done(i, act.complete())
    w.quiet()
    check_legal(c.history(id), True)


def test_abandon_from_another_hub(t):
    """A token of another task hub names nothing there: the items stay where they are."""
    id, c, w, i = t.started()
    other = t.worker(hub=t.hub + "-other", open=False)
    other.abandon(i)
    w.none(1.5)
    w.done(i, act.task(1, "a"))
    a = w.task()
    other.abandon(a)
    w.none(1.5)
    w.result(a, "r")
    w.done(w.turn(), act.complete(result="done"))
    assert c.wait(id).output.value == "done"


# checklist: 62, 139
def test_empty_token_is_matched_by_ids(t):
    for agent in (GO, JAVA):
        hub = t.hub + agent[5:7]
        c = t.client(hub=hub)
        w = t.worker(hub=hub, agent=agent)
        id = c.start("o")
        w.done(w.turn(), act.task(1, "a"), act.task(2, "b"))
        a, b = sorted((w.task(), w.task()), key=lambda x: x.task_id)
        # From any connection.
        other = t.worker(hub=hub, agent=agent, open=False)
        other.result(b, "b")
        other.result(b, "again")
        w.result(a, "a")
        got = {}
        while len(got) < 2:
            i = w.turn()
            for e in events_of(i.new, "taskCompleted"):
                assert e.taskScheduledId not in got
                got[e.taskScheduledId] = e.result.value
            w.done(i, *([act.complete(result="r")] if len(got) == 2 else []))
        assert got == {1: "a", 2: "b"}
        assert c.wait(id).output.value == "r"
        # Unknown ones: OK, nothing.
        w.call("CompleteActivityTask", pb.ActivityResponse(instanceId=id, taskId=77))
        w.call("CompleteActivityTask", pb.ActivityResponse(instanceId="nobody", taskId=1))
        check_legal(c.history(id), True)


# checklist: 149
def test_activity_timeout(t):
    t.shared(activity__timeout="1500ms")
    id, c, w, i = t.started()
    w.done(i, act.task(1, "a"))
    a = w.task()
    w2 = t.worker()
    b = w2.task(timeout=15)
    assert b.task_id == 1 and b.token != a.token
    w2.result(b, "r")
    w.result(a, "too late")
    got = None
    for x in (w, w2, w, w2):
        try:
            got = x, x.turn(timeout=3)
            break
        except AssertionError:
            continue
    x, i = got
    assert events_of(i.new, "taskCompleted")[0].result.value == "r"
    x.done(i, act.complete())
    check_legal(c.history(id), True)
