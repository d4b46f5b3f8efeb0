"""Suspend, resume, terminate (spec 3.6, 3.7, 6.5, 6.6)."""

import time

import grpc

from lib import actions as act
from lib.client import expect_error
from lib.history import check_legal, events_of, raised_inputs
from lib.proto import (
    COMPLETED, FAILED, PENDING, RUNNING, SUSPENDED, TERMINATED, kinds, pb, sv,
)
from lib.runner import limit
from lib.server import eventually
from lib.states import TERMINAL, make

FOUR = ["orchestratorStarted", "executionStarted", "executionTerminated", "executionCompleted"]


# checklist: 79
# reports: BL-051
def test_suspended_at_once(t):
    id, c, w, i = t.started()
    c.suspend(id)
    assert c.status(id) == "SUSPENDED"
    # The turn in flight finishes, and its new work is handed out.
    w.done(i, *[act.task(n, "a") for n in range(5)], act.timer(9, at=pb.Timestamp(seconds=1)))
    assert c.status(id) == "SUSPENDED"
    tasks = [w.task() for _ in range(5)]
    for a in tasks:
        w.result(a, str(a.task_id))
    for n in range(3):
        c.event(id, "e", str(n))
    w.quiet()
    c.resume(id)
    assert c.status(id) == "RUNNING"
    i = w.turn()
    names = kinds(i.new)
    assert names[:2] == ["orchestratorStarted", "executionSuspended"] and names[-1] == "executionResumed"
    assert names.count("taskCompleted") == 5 and names.count("timerFired") == 1
    assert raised_inputs(i.new) == ["0", "1", "2"]
    w.done(i, act.complete())
    h = check_legal(c.history(id), True)
    assert kinds(h).count("taskScheduled") == 5


# checklist: 80
def test_suspend_before_the_first_turn(t):
    c = t.client()
    id = c.start("o")
    c.suspend(id)
    assert c.status(id) == "SUSPENDED"
    w = t.worker()
    w.quiet()
    c.resume(id)
    assert c.status(id) == "PENDING"
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted", "executionStarted", "executionSuspended",
                            "executionResumed"]
    w.done(i, act.complete())
    c.wait(id)


# checklist: 79, 80
def test_the_turn_in_flight_moves_the_remembered_status(t):
    """Suspended while the first turn is out: after it the remembered status is RUNNING."""
    id, c, w, i = t.started()
    c.suspend(id)
    w.done(i)
    assert c.status(id) == "SUSPENDED"
    c.resume(id)
    assert c.status(id) == "RUNNING"
    w.done(w.turn())
    # One that completes ends it, one that continues as new stays suspended.
    id, _, _, i = t.started(client=c, worker=w)
    c.suspend(id)
    w.done(i, act.complete(result="r"))
    assert c.wait(id).orchestrationStatus == COMPLETED
    id, _, _, i = t.started(client=c, worker=w)
    c.suspend(id)
    w.done(i, act.again())
    w.quiet()
    assert c.status(id) == "SUSPENDED" and c.get(id).executionId.value != i.execution
    c.resume(id)
    assert c.status(id) == "RUNNING"
    i = w.turn(id=id)
    assert kinds(i.new) == ["orchestratorStarted", "executionStarted", "executionSuspended",
                            "executionResumed"]
    w.done(i, act.complete())


def test_suspensions_around_continue_as_new(t):
    """What was not in the turn's batch moves over, in call order; what was, stays behind."""
    id, c, w, i = t.started()
    w.done(i)
    c.suspend(id, "first")
    c.resume(id)
    i = w.turn()
    c.suspend(id, "second")
    c.event(id, "e", "1")
    w.done(i, act.again())
    assert c.status(id) == "SUSPENDED"
    w.quiet()
    c.resume(id)
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted", "executionStarted", "executionSuspended",
                            "eventRaised", "executionResumed"]
    assert i.new[2].executionSuspended.input.value == "second"
    w.done(i, act.complete())
    check_legal(c.history(id), True)


# checklist: 81
def test_no_ops_and_unknown(t):
    c, w = t.pair()
    for status in TERMINAL:
        id = "x%d" % status
        make(c, w, id, status)
        before = c.get(id), c.history(id)
        c.suspend(id, "r")
        c.resume(id, "r")
        assert (c.get(id), c.history(id)) == before
    make(c, w, "run", RUNNING)
    c.resume("run", "r")
    w.quiet()
    assert c.status("run") == "RUNNING"
    c.suspend("run", "1")
    c.suspend("run", "2")
    c.resume("run", "3")
    c.resume("run", "4")
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted", "executionSuspended", "executionResumed"]
    assert i.new[1].executionSuspended.input.value == "1"
    assert i.new[2].executionResumed.input.value == "3"
    w.done(i, act.complete())
    for call in (c.suspend, c.resume):
        expect_error(lambda: call("nobody"), "NOT_FOUND", "Orchestration instance 'nobody' not found")
        expect_error(lambda: call(""), "INVALID_ARGUMENT", "instanceId must not be empty")


# checklist: 153
def test_reasons(t):
    c = t.client()
    id = c.start("o")
    reasons = [None, "", "a reason \u00e9"]
    for r in reasons:
        c.suspend(id, r)
        c.resume(id, r)
    w = t.worker()
    i = w.turn()
    for e, r in zip(events_of(i.new, "executionSuspended"), reasons):
        assert e.HasField("input") == (r is not None) and e.input.value == (r or "")
    for e, r in zip(events_of(i.new, "executionResumed"), reasons):
        assert e.HasField("input") == (r is not None) and e.input.value == (r or "")
    assert kinds(i.new)[2:] == ["executionSuspended", "executionResumed"] * 3
    w.done(i, act.complete())
    h = c.history(id)
    assert [e.HasField("input") for e in events_of(h, "executionSuspended")] == [False, True, True]
    assert [e.HasField("input") for e in events_of(h, "executionResumed")] == [False, True, True]


# checklist: 82
def test_terminate_a_suspended_one(t):
    id, c, w, i = t.started()
    w.done(i)
    c.event(id, "e", "1")
    i = w.turn()
    c.suspend(id)
    w.done(i)
    c.event(id, "e", "2")
    c.terminate(id, "the output")
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted", "executionTerminated"]
    assert i.new[1].executionTerminated.input.value == "the output"
    w.done(i, act.terminated(result="the output"))
    s = c.wait(id)
    assert s.orchestrationStatus == TERMINATED and s.output.value == "the output"
    h = check_legal(c.history(id), True)
    assert raised_inputs(h) == ["1"], "the rest goes undelivered"
    w.quiet()


# checklist: 83
# reports: BL-053, BL-175
def test_terminate_the_never_run(t):
    c = t.client()
    ids = [c.start("NoSuchOrchestration", input="i") for _ in range(50)]
    c.suspend(ids[3])
    c.event(ids[4], "e")
    for n, id in enumerate(ids):
        c.terminate(id, None if n == 0 else "out%d" % n)
        s = c.get(id)
        assert s.orchestrationStatus == TERMINATED, s
        assert s.HasField("output") == (n != 0) and (n == 0 or s.output.value == "out%d" % n)
        assert s.HasField("completedTimestamp")
    h = c.history(ids[1])
    assert kinds(h) == FOUR
    assert h[2].executionTerminated.input.value == "out1"
    assert h[3].executionCompleted.orchestrationStatus == TERMINATED
    check_legal(h, True)
    w = t.worker()
    w.quiet()
    assert c.purge(ids[0]).deletedInstanceCount == 1


# checklist: 84
# reports: BL-175
def test_terminate_without_a_worker(t):
    t.shared(terminate__grace="3s")
    c, w = t.pair()
    id = c.start("o")
    i = w.turn()
    w.done(i, act.task(1, "a"))
    w.close()
    c.terminate(id, "forced")
    time.sleep(0.3)
    assert c.status(id) == "RUNNING"
    s = c.wait(id, 15)
    assert s.orchestrationStatus == TERMINATED
    h = check_legal(c.history(id), True)
    assert kinds(h)[-2:] == ["executionTerminated", "executionCompleted"]
    assert h[-2].executionTerminated.input.value == "forced"
    # A stuck worker: its token dies with the grace.
    w = t.worker()
    id = c.start("o")
    i = w.turn()
    w.done(i)
    c.event(id)
    i = w.turn()
    c.terminate(id, "forced")
    assert c.wait(id, 15).orchestrationStatus == TERMINATED
    before = c.get(id)
    w.done(i, act.complete(result="too late"))
    assert c.get(id) == before
    # One whose terminating turn is out counts too.
    id = c.start("o")
    w.done(w.turn())
    c.terminate(id, "x")
    i = w.turn(id=id)
    assert c.wait(id, 15).orchestrationStatus == TERMINATED
    w.done(i, act.terminated())


# checklist: 85
# reports: BL-054
def test_answers_to_a_termination(t):
    c, w = t.pair()
    for what, answer, status, output in (
        ("continue as new", [act.again()], TERMINATED, "why"),
        ("nothing", [], TERMINATED, "why"),
        ("other actions only", [act.send(1, "x", "e")], TERMINATED, "why"),
        ("completed", [act.complete(result="mine")], COMPLETED, "mine"),
        ("failed", [act.fail()], FAILED, None),
        ("terminated", [act.terminated(result="said")], TERMINATED, "said"),
        ("terminated without result", [act.terminated()], TERMINATED, None),
    ):
        id = c.start("o")
        w.done(w.turn(id=id))
        c.terminate(id, "why")
        i = w.turn(id=id)
        assert kinds(i.new) == ["orchestratorStarted", "executionTerminated"], what
        w.done(i, *answer)
        s = c.wait(id)
        assert s.orchestrationStatus == status, what
        assert (s.output.value if s.HasField("output") else None) == output, (what, s)
        check_legal(c.history(id), True)
    w.quiet()


def test_what_still_happens_in_a_terminating_turn(t):
    c, w = t.pair()
    other = c.start("other")
    w.done(w.turn())
    id = c.start("o")
    w.done(w.turn(id=id))
    c.terminate(id, "why")
    w.done(w.turn(id=id), act.task(1, "no"), act.timer(2, at=pb.Timestamp(seconds=1)), act.child(3, "no", "no-kid"),
           act.send(4, other, "yes"), act.terminated(5))
    assert c.wait(id).orchestrationStatus == TERMINATED
    i = w.turn(id=other)
    assert raised_inputs(i.new) == [""]
    w.quiet()
    assert c.get("no-kid") is None


# reports: BL-176
def test_queued_activities_of_a_terminated_one(t):
    """Those in no worker's hands are cancelled; those that run are not given out again."""
    c = t.client()
    w = t.worker(act=2)
    id = c.start("o")
    w.done(w.turn(), *[act.task(n, "a") for n in range(50)])
    held = [w.task(), w.task()]
    c.terminate(id)
    w.done(w.turn(), act.terminated())
    c.wait(id)
    for a in held:
        w.result(a, "late")
    w.quiet()
    # After COMPLETED what was scheduled still runs.
    id = c.start("o")
    w.done(w.turn(), *[act.task(n, "a") for n in range(5)], act.complete())
    for _ in range(5):
        w.result(w.task())
    # A lost worker's running ones do not come back either.
    w.close()
    id = c.start("o")
    w = t.worker(act=1)
    w.done(w.turn(), act.task(1, "a"), act.task(2, "a"))
    w.task()
    c.terminate(id)
    w.done(w.turn(), act.terminated())
    w.close()
    t.worker().none(0.6)


# checklist: 86
# reports: BL-055
@limit(90)
def test_recursive(t):
    c, w = t.pair()

    def tree(root):
        """root -> a (failed, with a running child x), b -> g; b's last turn makes a new one."""
        c.start("o", root)
        w.done(w.turn(id=root), act.child(1, "k", root + "-a"), act.child(2, "k", root + "-b"))
        w.done(w.turn(id=root + "-a"), act.child(1, "k", root + "-x"), act.fail(2))
        w.done(w.turn(id=root + "-b"), act.child(1, "k", root + "-g"))
        w.done(w.turn(id=root + "-x"))
        w.done(w.turn(id=root + "-g"))
        w.done(w.turn(id=root))  # hears of a's failure

    tree("r")
    c.event("r-b")
    late = w.turn(id="r-b")
    c.terminate("r", "all", recursive=True)
    w.done(late, act.child(2, "k", "r-late"))
    new = w.turn(id="r-late")
    done = 0
    w.done(w.turn(id="r"), act.terminated(result="all"))
    deadline = time.time() + 20
    while time.time() < deadline and not all(
            c.status(x) == "TERMINATED" for x in ("r", "r-b", "r-g", "r-late")):
        try:
            i = w.turn(timeout=0.2)
        except AssertionError:
            continue
        assert kinds(i.new) == ["orchestratorStarted", "executionTerminated"], i
        assert i.new[1].executionTerminated.recurse
        assert i.new[1].executionTerminated.input.value == "all"
        w.done(i, act.terminated(result="all"))
        done += 1
        if new is not None:
            w.done(new)
            new = None
    assert {x: c.status(x) for x in ("r", "r-b", "r-g", "r-late", "r-a")} == {
        "r": "TERMINATED", "r-b": "TERMINATED", "r-g": "TERMINATED", "r-late": "TERMINATED",
        "r-a": "FAILED"}
    assert c.get("r-g").output.value == "all"
    # r-a had ended, but r-x below it is a child that nobody ended: the cascade goes by executions
    # that end now, so it is left alone or ended; never half of it.
    assert c.status("r-x") in ("RUNNING", "TERMINATED")
    # Not recursive: children go on.
    tree("q")
    c.terminate("q", "only me")
    w.done(w.turn(id="q"), act.terminated(result="only me"))
    c.wait("q")
    w.quiet()
    assert [c.status("q" + x) for x in ("-a", "-b", "-g", "-x")] == [
        "FAILED", "RUNNING", "RUNNING", "RUNNING"]


# checklist: 86
# reports: BL-055
def test_recursive_through_a_failed_node(t):
    """BL-055: a node that failed with a running child below does not stop the cascade."""
    t.shared(terminate__grace="1s")
    c, w = t.pair()
    c.start("o", "root")
    w.done(w.turn(), act.child(1, "k", "mid"))
    w.done(w.turn(id="mid"), act.child(1, "k", "low"), act.fail(2))
    w.done(w.turn(id="low"))
    w.done(w.turn(id="root"))
    c.terminate("root", "all", recursive=True)
    w.done(w.turn(id="root"), act.terminated(result="all"))
    w.close()
    eventually(lambda: c.status("low") == "TERMINATED", 10, "the cascade reaches below a failed node")


# checklist: 86, 152
def test_recursive_without_workers(t):
    """Through any depth, over a restart, by the server alone after the grace time."""
    s = t.own_server({"terminate.grace": "1s"})
    c, w = t.pair()
    c.start("o", "n0")
    for n in range(4):
        w.done(w.turn(id="n%d" % n), act.child(1, "k", "n%d" % (n + 1)))
    w.done(w.turn(id="n4"))
    w.close()
    c.terminate("n0", "all", recursive=True)
    time.sleep(1.2)
    s.restart()
    c = t.client()
    for n in range(5):
        st = c.wait("n%d" % n, 20)
        assert st.orchestrationStatus == TERMINATED, n
    check_legal(c.history("n2"), True)


# checklist: 87
def test_terminate_the_unknown_and_the_ended(t):
    c, w = t.pair()
    c.terminate("nobody", "x", recursive=True)
    assert c.get("nobody") is None
    for status in TERMINAL:
        id = "x%d" % status
        make(c, w, id, status)
        before = c.get(id), c.history(id)
        c.terminate(id, "again")
        assert (c.get(id), c.history(id)) == before
    expect_error(lambda: c.terminate(""), "INVALID_ARGUMENT", "instanceId must not be empty")
    # A second one while one is pending: nothing.
    id = c.start("o")
    i = w.turn()
    w.done(i)
    c.event(id)
    i = w.turn()
    c.terminate(id, "first")
    c.terminate(id, "second")
    w.done(i)
    i = w.turn()
    assert i.new[1].executionTerminated.input.value == "first"
    w.done(i, act.terminated(result="first"))
    w.quiet()
    assert kinds(c.history(id)).count("executionTerminated") == 1


# checklist: 151
def test_a_termination_comes_alone(t):
    c, w = t.pair()
    for n in range(30):
        id = c.start("o")
        w.done(w.turn(id=id), act.timer(1, at=pb.Timestamp(seconds=1)))
        for k in range(3):
            c.event(id, "e", str(k))
        c.terminate(id, "t")
        c.event(id, "e", "after")
        while True:
            i = w.turn(id=id)
            if "executionTerminated" in kinds(i.new):
                assert kinds(i.new) == ["orchestratorStarted", "executionTerminated"]
                w.done(i, act.terminated(result="t"))
                break
            w.done(i)
        assert c.wait(id).orchestrationStatus == TERMINATED
        assert "after" not in raised_inputs(check_legal(c.history(id), True))


# checklist: 152
def test_first_turn_lost_then_terminate(t):
    id, c, w, i = t.started()
    w.close()
    eventually(lambda: not workers_hold(t, c, id), 10)
    c.terminate(id, "gone")
    s = c.wait(id, 5)
    assert s.orchestrationStatus == TERMINATED and s.output.value == "gone"
    assert kinds(c.history(id)) == FOUR
    # With the first turn still out it is the worker's to answer.
    id, c, w, i = t.started()
    c.terminate(id, "wait")
    time.sleep(0.3)
    assert c.status(id) == "PENDING"
    w.done(i)
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted", "executionTerminated"]
    w.done(i, act.terminated(result="wait"))
    assert c.wait(id).output.value == "wait"


# checklist: 152
def test_first_turn_lost_after_the_terminate(t):
    """Terminated while the first turn is out, which then comes back: no worker is asked any more."""
    from lib.worker import GO
    s = t.own_server()
    for how in ("abandon", "cancel", "close", "token-less", "kill"):
        c = t.client()
        w = t.worker(agent=GO if how == "token-less" else None)
        id = c.start("o", how)
        i = w.turn(id=id)
        c.terminate(id, "end")
        time.sleep(0.2)
        assert c.status(id) == "PENDING", how
        if how == "abandon":
            w.abandon(i)
        elif how == "kill":
            s.restart()
            c = t.client()
        elif how == "cancel":
            w.cancel()
        else:
            w.close()
        st = c.wait(id, 15)
        assert st.orchestrationStatus == TERMINATED and st.output.value == "end", how
        assert kinds(check_legal(c.history(id), True)) == FOUR, how
        w.close()
        other = t.worker()
        other.none(0.4)
        other.close()


# checklist: 152
def test_first_turn_lost_after_the_terminate_of_any_execution(t):
    """By a client or another's action; of a new, a continued, a replaced execution; with events."""
    c = t.client()
    w = t.worker()
    second = None
    ways = ["abandon", "cancel", "requires history", "nothing processed", "bad count", "another worker"]
    for how in ways:
        if how == "another worker":  # which is offered at once what this one gives back
            second = t.worker(orch=1)
            second.ready()
            w.cancel()
            w.request.maxConcurrentOrchestrationWorkItems = 1000
            w.open()
        for by in ("client", "action"):
            for life in ("new", "continued", "replaced"):
                what = "%s-%s-%s" % (by, life, how)
                workers = [x for x in (w, second) if x]
                killer, id = c.start("o", "killer-" + what), what
                at, k = whoever(workers, killer)
                c.start("o", id)
                x, i = whoever(workers, id)
                if life == "continued":
                    x.done(i, act.again())
                    x, i = whoever(workers, id)
                elif life == "replaced":
                    c.start("o", id, replaceable=[PENDING, TERMINATED])
                    x, i = whoever(workers, id)
                c.event(id, "e")
                if by == "client":
                    c.terminate(id, "end")
                at.done(k, *([act.terminate(1, id, "end")] if by == "action" else []), act.complete())
                c.wait(killer)
                c.event(id, "e")
                if how in ("abandon", "another worker"):
                    x.abandon(i)
                elif how == "cancel":
                    x.cancel()
                    x.open()
                elif how == "requires history":
                    x.done(i, requires_history=True)
                elif how == "nothing processed":
                    x.done(i, processed=0)
                else:
                    expect_error(lambda: x.done(i, processed=77), "INVALID_ARGUMENT")
                deadline = time.monotonic() + 15
                while c.status(id) != "TERMINATED":
                    assert time.monotonic() < deadline, what
                    for x in workers:
                        try:
                            j = x.turn(timeout=0.2, id=id)
                        except AssertionError as e:
                            assert str(e).startswith("no "), (what, e, getattr(e, "item", None))
                            continue
                        end = "executionTerminated" in kinds(j.new)
                        x.done(j, *([act.terminated(result="end")] if end else []))
                assert c.get(id).output.value == "end", what
                assert kinds(check_legal(c.history(id), True))[:2] == ["orchestratorStarted", "executionStarted"]


def whoever(workers, id):
    """The worker that gets the turn of this instance, and the turn."""
    end = time.monotonic() + 20
    while True:
        for w in workers:
            try:
                return w, w.turn(timeout=0.05, id=id)
            except AssertionError as e:
                assert str(e).startswith("no ") and time.monotonic() < end, e


# checklist: 45
def test_requires_history_after_the_terminate(t):
    """The first turn is asked for again: the same events, or nothing more to do; never half of it."""
    id, c, w, i = t.started()
    c.terminate(id, "end")
    w.done(i, requires_history=True)
    deadline = time.monotonic() + 15
    while c.status(id) != "TERMINATED":
        assert time.monotonic() < deadline
        try:
            j = w.turn(timeout=0.3)
        except AssertionError as e:
            assert str(e).startswith("no "), e
            continue
        w.done(j, *([act.terminated(result="end")] if "executionTerminated" in kinds(j.new) else []))
    assert c.get(id).output.value == "end"
    check_legal(c.history(id), True)


def workers_hold(t, c, id):
    """Whether the item is still with the worker that went: another one would get it."""
    probe = t.worker()
    try:
        item = probe.turn(timeout=1)
    except AssertionError:
        return True
    finally:
        probe.close()
    time.sleep(0.3)  # the probe is gone as well
    return item.id != id


def test_terminate_action(t):
    """terminateOrchestration: as the RPC, on another instance or the own one."""
    c, w = t.pair()
    make(c, w, "victim", RUNNING)
    make(c, w, "done", COMPLETED)
    id = c.start("o")
    w.done(w.turn(), act.terminate(1, "victim", "by action"), act.terminate(2, "nobody"),
           act.terminate(3, "done", "x"))
    v = w.turn(id="victim")
    assert v.new[1].executionTerminated.input.value == "by action"
    w.done(v, act.terminated(result="by action"))
    assert c.wait("victim").output.value == "by action"
    assert c.get("done").output.value == "r"
    assert kinds(c.history(id)) == ["orchestratorStarted", "executionStarted"], "no history event"
    c.event(id)
    w.done(w.turn(id=id), act.terminate(4, id, "self"))
    i = w.turn(id=id)
    assert kinds(i.new) == ["orchestratorStarted", "executionTerminated"]
    w.done(i, act.terminated(result="self"))
    assert c.wait(id).output.value == "self"
    # One that never ran: at once.
    w.cancel()
    c.start("never", "v2")
    c.start("o", "killer")
    w2 = t.worker()
    got = {}
    for _ in range(2):
        i = w2.turn()
        got[i.id] = i
    w2.done(got["killer"], act.terminate(1, "v2", "now"), act.complete())
    c.wait("killer")


# reports: BL-052
@limit(90)
def test_terminate_against_a_firing_timer(t):
    c = t.client()

    def loop(i):
        if "executionTerminated" in kinds(i.new):
            return [act.terminated(result=events_of(i.new, "executionTerminated")[0].input.value)]
        if "timerFired" in kinds(i.new):
            return [act.again()]
        return [act.timer(1, after=0.3)]

    a = t.auto({"o": loop})
    ids = [c.start("o") for _ in range(100)]
    time.sleep(0.2)
    for n, id in enumerate(ids):
        c.terminate(id, "t")
        time.sleep(0.002)
    for id in ids:
        try:
            s = c.wait(id, 20)
        except grpc.RpcError:
            raise AssertionError((c.get(id), c.history(id), a.errors[:2]))
        assert s.orchestrationStatus == TERMINATED
    a.check()


# reports: BL-066, BL-175
def test_terminate_with_a_large_history(t):
    c = t.client()
    w = t.worker(check=False)
    id = c.start("o")
    w.done(w.turn())
    for n in range(30):
        c.event(id, "e", "x" * (1 << 20))
        w.done(w.turn(timeout=30))
    w.close()
    before = t.server.rss()
    c.terminate(id, "big")
    assert t.server.rss() - before < 10 << 20
    w = t.worker(check=False)
    i = w.turn(timeout=30)
    assert kinds(i.new) == ["orchestratorStarted", "executionTerminated"]
    w.done(i, act.terminated(result="big"))
    assert c.wait(id).orchestrationStatus == TERMINATED
    assert c.purge(id).deletedInstanceCount == 1


def at_once(t, server, *calls):
    """The calls reach the server while it is stopped, so that one batch takes them, in this order."""
    import threading
    server.freeze()
    results = []
    threads = []
    for call in calls:
        def run(call=call):
            try:
                results.append((call, call()))
            except grpc.RpcError as e:
                results.append((call, e))
        x = threading.Thread(target=run, daemon=True)
        x.start()
        threads.append(x)
        time.sleep(0.15)
    server.thaw()
    for x in threads:
        x.join(20)
    errors = [r for _, r in results if isinstance(r, grpc.RpcError)]
    return errors


# checklist: 85
# reports: BL-052, BL-174
@limit(90)
def test_control_calls_in_the_batch_of_a_turn(t):
    """A completion and what a client says right behind it, in one commit."""
    s = t.own_server()
    c, w = t.pair()
    call = lambda method, request: (lambda: w.call(method, request))
    for what, answer in (("again", act.again()), ("nothing", None), ("timer", act.timer(9, after=3600))):
        for back in (False, True):
            id = c.start("o")
            i = w.turn(id=id)
            if not back:
                w.done(i)
                c.event(id)
                i = w.turn(id=id)
            actions = [] if answer is None else [answer]
            errors = at_once(
                t, s,
                call("CompleteOrchestratorTask", w.response(i, actions)),
                call("TerminateInstance", pb.TerminateRequest(instanceId=id, output=sv("out"))))
            assert not errors, errors
            deadline = time.monotonic() + 20
            while c.status(id) != "TERMINATED":
                assert time.monotonic() < deadline, (what, back, c.get(id), c.history(id))
                try:
                    i = w.turn(timeout=0.3, id=id)
                except AssertionError as e:
                    assert str(e).startswith("no "), (what, back, e)
                    continue
                w.done(i, *([act.terminated(result="out")] if "executionTerminated" in kinds(i.new) else []))
            assert c.get(id).output.value == "out"
            check_legal(c.history(id), True)
    # Suspend and resume behind a continue-as-new; a start behind an end; events behind both. Without a
    # stream nothing is handed out between two of them, whatever batches they come in.
    id = c.start("o")
    i = w.turn(id=id)
    w.cancel()
    errors = at_once(
        t, s, call("CompleteOrchestratorTask", w.response(i, [act.again()])),
        call("SuspendInstance", pb.SuspendRequest(instanceId=id)),
        call("RaiseEvent", pb.RaiseEventRequest(instanceId=id, name="e", input=sv("1"))))
    assert not errors, errors
    assert c.status(id) == "SUSPENDED"
    w.open()
    w.quiet(id=id)
    c.resume(id)
    i = w.turn(id=id)
    assert kinds(i.new) == ["orchestratorStarted", "executionStarted", "executionSuspended", "eventRaised",
                            "executionResumed"]
    w.cancel()
    errors = at_once(
        t, s, call("CompleteOrchestratorTask", w.response(i, [act.complete(result="r")])),
        call("StartInstance", c.create("o", id, input="second")),
        call("RaiseEvent", pb.RaiseEventRequest(instanceId=id, name="e", input=sv("2"))))
    assert not errors, errors
    w.open()
    i = w.turn(id=id)
    assert i.past == [] and i.started.input.value == "second"
    assert raised_inputs(i.new) == ["2"]
    w.cancel()
    errors = at_once(
        t, s, call("StartInstance", c.create("o", "all")),
        call("RaiseEvent", pb.RaiseEventRequest(instanceId="all", name="e")),
        call("TerminateInstance", pb.TerminateRequest(instanceId="all", output=sv("x"))),
        call("PurgeInstances", pb.PurgeInstancesRequest(instanceId="all")),
        call("StartInstance", c.create("o", "all", input="new")))
    assert not errors, errors
    w.open()
    i2 = w.turn(id="all")
    assert i2.started.input.value == "new" and kinds(i2.new) == ["orchestratorStarted", "executionStarted"]
    w.done(i2, act.complete())


# checklist: 56, 152
# reports: BL-018, BL-037, BL-173
@limit(90)
def test_more_calls_in_one_batch(t):
    s = t.own_server()
    c, w = t.pair()
    call = lambda method, request: (lambda: w.call(method, request))
    # A first turn given back, and a terminate behind it: nobody is asked.
    id = c.start("o")
    i = w.turn(id=id)
    w.cancel()
    errors = at_once(
        t, s, call("AbandonTaskOrchestratorWorkItem", pb.AbandonOrchestrationTaskRequest(completionToken=i.token)),
        call("TerminateInstance", pb.TerminateRequest(instanceId=id, output=sv("x"))))
    assert not errors and c.wait(id, 5).orchestrationStatus == TERMINATED
    assert kinds(c.history(id)) == FOUR
    w.open()
    # A replacement, and the old turn's answer behind it, and before it.
    for first in ("answer", "start"):
        id = c.start("o")
        i = w.turn(id=id)
        calls = [call("CompleteOrchestratorTask", w.response(i, [act.task(1, "old"), act.timer(2, after=0.1)])),
                 call("StartInstance", c.create("o", id, input="new", replaceable=[RUNNING, PENDING, TERMINATED]))]
        errors = at_once(t, s, *(calls if first == "answer" else calls[::-1]))
        assert not errors, errors
        i = w.turn(id=id)
        assert i.past == [] and i.started.input.value == "new", first
        w.done(i)
        w.none(0.4, "turn")
        if first == "answer" and w.held:  # two batches: it was handed out in between
            assert w.held[0].name == "old"
            w.result(w.held.pop(0), "nobody listens")
        w.none(0.4)
        assert kinds(c.history(id)) == ["orchestratorStarted", "executionStarted"], first
    # The same answer twice, and two answers of one activity.
    id = c.start("o")
    i = w.turn(id=id)
    done = call("CompleteOrchestratorTask", w.response(i, [act.task(1, "a"), act.task(2, "a")]))
    errors = at_once(t, s, done, done)
    assert not errors
    a, b = w.task(id=id), w.task(id=id)
    w.quiet()
    errors = at_once(
        t, s, call("CompleteActivityTask", w.activity_response(a, "1")),
        call("CompleteActivityTask", w.activity_response(a, "2")),
        call("CompleteActivityTask", w.activity_response(b, "3")),
        call("RaiseEvent", pb.RaiseEventRequest(instanceId=id, name="e", input=sv("4"))))
    assert not errors
    arrived = []
    while len(arrived) < 3:
        i = w.turn(id=id)
        arrived += kinds(i.new)[1:]
        w.done(i)
    assert arrived == ["taskCompleted", "taskCompleted", "eventRaised"]
    h = check_legal(c.history(id))
    assert [e.result.value for e in events_of(h, "taskCompleted")] == (
        ["1", "3"] if a.task_id == 1 else ["1", "3"])
    # Suspend, the turn's end, resume: the remembered status moves on.
    id = c.start("o")
    i = w.turn(id=id)
    errors = at_once(
        t, s, call("SuspendInstance", pb.SuspendRequest(instanceId=id)),
        call("CompleteOrchestratorTask", w.response(i)),
        call("ResumeInstance", pb.ResumeRequest(instanceId=id)))
    assert not errors and c.status(id) == "RUNNING"
    i = w.turn(id=id)
    assert kinds(i.new) == ["orchestratorStarted", "executionSuspended", "executionResumed"]
    w.done(i)
    # A child ends while its parent is ended; both in one commit.
    id = c.start("o")
    w.done(w.turn(id=id), act.child(1, "k", "kid-" + id))
    k = w.turn(id="kid-" + id)
    errors = at_once(
        t, s, call("CompleteOrchestratorTask", w.response(k, [act.complete(result="r")])),
        call("TerminateInstance", pb.TerminateRequest(instanceId=id, output=sv("x"), recursive=True)))
    assert not errors
    i = w.turn(id=id)
    while "executionTerminated" not in kinds(i.new):
        w.done(i)
        i = w.turn(id=id)
    w.done(i, act.terminated(result="x"))
    assert c.wait(id).orchestrationStatus == TERMINATED
    assert c.get(k.id).orchestrationStatus == COMPLETED
    check_legal(c.history(id), True)
    w.quiet()
