"""Sub-orchestrations (spec 6.4)."""

import time

from lib import actions as act
from lib.client import expect_error
from lib.history import check_legal, events_of
from lib.proto import CANCELED, COMPLETED, FAILED, PENDING, RUNNING, TERMINATED, kinds, pb, sv, ts
from lib.runner import NIGHTLY, limit, serial
from lib.server import eventually
from lib.states import make


# checklist: 67
def test_parent_link(t):
    c, w = t.pair()
    trace = pb.TraceContext(traceParent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    id = c.start("Parent", "p", version="7", tags={"of": "parent"})
    i = w.turn()
    w.done(i, act.child(5, "Kid", "k", "in", version="9", tags={"of": "kid"}, trace=trace),
           act.child(6, "Bare", "b"))
    k, b = w.turn(id="k"), w.turn(id="b")
    e = k.started
    p = e.parentInstance
    assert p.taskScheduledId == 5 and p.name.value == "Parent" and p.version.value == "7"
    assert p.orchestrationInstance.instanceId == "p"
    assert p.orchestrationInstance.executionId.value == i.execution
    assert e.name == "Kid" and e.version.value == "9" and e.input.value == "in"
    assert dict(e.tags) == {"of": "kid"} and e.parentTraceContext == trace
    assert not b.started.HasField("version") and len(b.started.tags) == 0, "nothing is inherited"
    assert not b.started.HasField("input") and b.started.parentInstance.taskScheduledId == 6
    for kid in ("k", "b"):
        s = c.get(kid)
        assert s.parentInstanceId.value == "p" and s.orchestrationStatus == PENDING
    created = events_of(c.history("p"), "subOrchestrationInstanceCreated")[0]
    assert created.instanceId == "k" and created.name == "Kid" and created.version.value == "9"
    assert created.input.value == "in" and dict(created.tags) == {"of": "kid"}
    assert created.parentTraceContext == trace
    w.done(k, act.complete(result="kr"))
    w.done(b, act.complete())
    got = []
    while len(got) < 2:
        i = w.turn(id="p")
        got += events_of(i.new, "subOrchestrationInstanceCompleted")
        w.done(i, *([act.complete()] if len(got) == 2 else []))
    assert got[0].taskScheduledId == 5 and got[0].result.value == "kr"
    assert got[1].taskScheduledId == 6 and not got[1].HasField("result")
    check_legal(c.history("p"), True)
    # Without a version the parent's link has none; a parent without tags gives none.
    id = c.start("P2")
    w.done(w.turn(), act.child(1, "k", "k2"))
    k = w.turn(id="k2")
    assert not k.started.parentInstance.HasField("version")
    w.done(k, act.complete())


# checklist: 68, 69
def test_how_a_child_ends(t):
    c, w = t.pair()
    id = c.start("parent")
    i = w.turn()
    n = 0

    def child_ends(name, how):
        nonlocal i, n
        n += 1
        kid = "kid-%d-%s" % (n, id)
        w.done(i, act.child(n, "k", kid))
        k = w.turn(id=kid)
        how(kid, k)
        i = w.turn(id=id)
        e = i.new[1]
        body = getattr(e, name)
        assert body.taskScheduledId == n, i
        return kid, body

    _, e = child_ends("subOrchestrationInstanceCompleted", lambda kid, k: w.done(k, act.complete(result="")))
    assert e.HasField("result") and e.result.value == ""
    f = act.failure("T", "m", "s", act.failure("I", "inner", fatal=True), False, {"p": [1, None, {"a": 0.1}]})
    _, e = child_ends("subOrchestrationInstanceFailed",
                      lambda kid, k: w.done(k, act.complete(status=FAILED, failure=f)))
    assert e.failureDetails == f

    def by_client(kid, k):
        c.terminate(kid, "the reason")
        w.done(k)
        w.done(w.turn(id=kid), act.terminated(result="the reason"))

    for how in (by_client, lambda kid, k: w.done(k, act.terminated(result="the reason"))):
        kid, e = child_ends("subOrchestrationInstanceFailed", how)
        d = e.failureDetails
        assert d.errorType == "SubOrchestrationTerminated" and d.isNonRetriable
        assert d.errorMessage.startswith("Sub-orchestration instance '%s' was terminated." % kid), d
        assert "the reason" in d.errorMessage
    kid, e = child_ends("subOrchestrationInstanceFailed",
                        lambda kid, k: w.done(k, act.complete(status=CANCELED)))
    assert e.failureDetails.errorType == "SubOrchestrationTerminated" and e.failureDetails.isNonRetriable
    assert e.failureDetails.errorMessage == "Sub-orchestration instance '%s' was terminated." % kid
    w.done(i, act.complete())
    check_legal(c.history(id), True)


# checklist: 70
# reports: BL-071
def test_ids_in_use(t):
    c, w = t.pair()
    # A failed child is started again under its id, also under the same action id.
    id = c.start("parent")
    i = w.turn()
    for attempt in range(3):
        w.done(i, act.child(1, "k", "again"))
        k = w.turn(id="again")
        assert k.past == []
        if attempt < 2:
            w.done(k, act.fail())
        else:
            w.done(k, act.complete(result="third"))
        i = w.turn(id=id)
    assert events_of(i.new, "subOrchestrationInstanceCompleted")[0].result.value == "third"
    # In use by another instance, live: a failed event. The other one is unharmed.
    make(c, w, "other", RUNNING)
    before = c.get("other")
    w.done(i, act.child(2, "k", "other"), act.child(3, "k", "@counter@x"))
    got = {}
    while len(got) < 2:
        i = w.turn(id=id)
        for e in events_of(i.new, "subOrchestrationInstanceFailed"):
            got[e.taskScheduledId] = e.failureDetails
        if len(got) < 2:
            w.done(i)
    assert got[2].errorType == "OrchestrationAlreadyExists" and not got[2].isNonRetriable
    assert got[2].errorMessage == "Orchestration instance 'other' already exists"
    assert got[3].errorType == "OrchestrationAlreadyExists"
    assert c.get("other") == before
    # A finished stranger is replaced.
    make(c, w, "finished", COMPLETED)
    w.done(i, act.child(4, "k", "finished"))
    k = w.turn(id="finished")
    assert k.started.parentInstance.taskScheduledId == 4 and k.past == []
    w.done(k, act.complete(result="new"))
    i = w.turn(id=id)
    assert events_of(i.new, "subOrchestrationInstanceCompleted")[0].result.value == "new"
    # Its own id.
    w.done(i, act.child(5, "k", id))
    i = w.turn(id=id)
    assert events_of(i.new, "subOrchestrationInstanceFailed")[0].taskScheduledId == 5
    w.done(i, act.complete())
    check_legal(c.history(id), True)


# checklist: 71
# reports: BL-074
def test_empty_ids(t):
    id, c, w, i = t.started(id="p" * 100)
    w.done(i, act.child(1, "k"), act.child(300, "k"))
    want = [i.execution + ":0001", i.execution + ":012c"]
    assert [e.instanceId for e in events_of(c.history(id), "subOrchestrationInstanceCreated")] == want
    k1, k2 = w.turn(id=want[0]), w.turn(id=want[1])
    w.done(k1, act.child(2, "k"))
    deep = w.turn(id=k1.execution + ":0002")
    w.done(deep, act.complete())
    w.done(k2, act.complete())
    # Ids as PY makes them, five levels deep below a long parent.
    top, name = id, id
    i = None
    for level in range(6):
        name = "%s:%04x" % (name, level)
        if level == 0:
            c.start("o", "top")
            w.done(w.turn(id="top"), act.child(1, "k", name))
        k = w.turn(id=name)
        if level < 5:
            w.done(k, act.child(1, "k", "%s:%04x" % (name, level + 1)))
        else:
            w.done(k, act.complete(result="deep"))
    assert len(name) == 130 and c.get(name).output.value == "deep"
    assert top


# checklist: 72
# reports: BL-048
@limit(120)
def test_a_child_that_takes_long(t):
    """Longer than any 30 s default in PERDURE_NIGHTLY (ten minutes); as a worker on hold otherwise."""
    id, c, w, i = t.started()
    w.done(i, act.child(1, "k", "kid-" + id))
    k = w.turn(id="kid-" + id)
    w.done(k, act.timer(1, after=600 if NIGHTLY else 32))
    k = w.turn(id=k.id, timeout=700 if NIGHTLY else 45)
    w.done(k, act.again())
    for n in range(3):
        k = w.turn(id=k.id)
        assert k.started.parentInstance.orchestrationInstance.instanceId == id
        w.done(k, act.again())
    k = w.turn(id=k.id)
    w.quiet(id=id)
    w.done(k, act.complete(result="once"))
    i = w.turn(id=id)
    assert [e.result.value for e in events_of(i.new, "subOrchestrationInstanceCompleted")] == ["once"]
    w.done(i, act.complete())
    check_legal(c.history(id), True)


if NIGHTLY:
    test_a_child_that_takes_long.limit = 900


# checklist: 73
def test_parent_done_first(t):
    c, w = t.pair()
    for ending in (act.complete(), act.fail(), act.terminated()):
        id = c.start("parent")
        w.done(w.turn(), act.child(1, "k", "kid-" + id))
        k = w.turn(id="kid-" + id)
        c.event(id)
        w.done(w.turn(id=id), ending)
        c.wait(id)
        h = c.history(id)
        w.done(k)
        assert c.status(k.id) == "RUNNING"
        c.event(k.id)
        w.done(w.turn(id=k.id), act.complete(result="nobody listens"))
        assert c.wait(k.id).output.value == "nobody listens"
        w.quiet()
        assert c.history(id) == h
    # Purging the parent does not touch a running child.
    id = c.start("parent")
    w.done(w.turn(), act.child(1, "k", "kid-" + id), act.complete())
    k = w.turn()
    assert c.purge(id, recursive=True).deletedInstanceCount == 1
    w.done(k, act.complete(result="r"))
    assert c.wait(k.id).output.value == "r" and c.get(id) is None
    # A new execution of the parent does not hear the child of the old one.
    id = c.start("parent", "same")
    w.done(w.turn(), act.child(1, "k", "kid-of-same"), act.complete())
    k = w.turn()
    c.start("parent", "same")
    i = w.turn(id="same")
    w.done(i, act.task(1, "a"))
    w.task()
    w.done(k, act.complete())
    w.quiet()


# checklist: 73
# reports: BL-173
def test_killed_in_the_middle(t):
    s = t.own_server()
    c, w = t.pair()
    id = c.start("parent")
    w.done(w.turn(), *[act.child(n, "k", "kid%d" % n) for n in range(10)])
    kids = [w.turn() for _ in range(10)]
    for k in kids[:4]:
        w.done(k, act.complete(result=k.id))
    s.restart()
    c, w = t.client(), t.worker()
    got, done = {}, 4
    while len(got) < 10:
        i = w.turn()
        if i.id == id:
            for e in events_of(i.new, "subOrchestrationInstanceCompleted"):
                assert e.taskScheduledId not in got
                got[e.taskScheduledId] = e.result.value
            w.done(i, *([act.complete()] if len(got) == 10 else []))
        else:
            done += 1
            w.done(i, act.complete(result=i.id))
    assert got == {n: "kid%d" % n for n in range(10)} and done == 10
    check_legal(c.history(id), True)


# checklist: 74
@limit(120)
def test_a_thousand_children(t):
    c = t.client()
    seen = {}

    def parent(i):
        if not i.past:
            return [act.child(n, "kid", input=str(n)) for n in range(1000)]
        for e in events_of(i.new, "subOrchestrationInstanceCompleted"):
            assert e.taskScheduledId not in seen
            seen[e.taskScheduledId] = e.result.value
        return [act.complete(result=str(len(seen)))] if len(seen) == 1000 else []

    a = t.auto({"parent": parent, "kid": lambda i: [act.complete(result=i.started.input.value)]})
    id = c.start("parent")
    assert c.wait(id, 90).output.value == "1000"
    a.check()
    assert seen == {n: str(n) for n in range(1000)}
    check_legal(c.history(id), True)
    # Now and then several results in one turn.
    assert kinds(c.history(id)).count("orchestratorStarted") <= 1001


def test_a_suspended_parent_buffers(t):
    id, c, w, i = t.started()
    w.done(i, act.child(1, "k", "kid-" + id))
    k = w.turn(id="kid-" + id)
    c.suspend(id)
    assert c.status(k.id) == "PENDING", "children are not suspended"
    w.done(k, act.complete(result="r"))
    w.quiet()
    c.resume(id)
    i = w.turn(id=id)
    assert kinds(i.new) == ["orchestratorStarted", "executionSuspended",
                            "subOrchestrationInstanceCompleted", "executionResumed"]
    w.done(i, act.complete())


def test_repeats_of_a_running_child(t):
    """The same child asked for again by a later turn that did not see it confirmed is a repeat."""
    id, c, w, i = t.started()
    w.done(i, act.child(1, "k", "kid-" + id))
    k = w.turn(id="kid-" + id)
    c.event(id)
    w.done(w.turn(id=id), act.child(1, "k", "kid-" + id))
    w.quiet()
    w.done(k, act.complete())
    i = w.turn(id=id)
    assert kinds(i.new) == ["orchestratorStarted", "subOrchestrationInstanceCompleted"]
    w.done(i, act.complete())


# reports: BL-097
@limit(120)
def test_children_with_large_outputs(t):
    """Twelve in a row with 2 MB each: each arrives, and the parent ends."""
    c = t.client()
    w = t.worker(check=False)
    id = c.start("parent")
    i = w.turn(id=id)
    for n in range(12):
        w.done(i, act.child(n, "k", "k%d-%s" % (n, id)))
        w.done(w.turn(timeout=30, id="k%d-%s" % (n, id)), act.complete(result=str(n) + "z" * (2 << 20)))
        i = w.turn(timeout=30, id=id)
        got = events_of(i.new, "subOrchestrationInstanceCompleted")[0].result.value
        assert len(got) == len(str(n)) + (2 << 20) and got.startswith(str(n))
    w.done(i, act.complete(result="r"))
    assert c.wait(id).output.value == "r"
    check_legal(c.history(id), True)
