"""StartInstance and GetInstance (spec 1.4, 3.2, 3.3)."""

import concurrent.futures
import re
import time

from lib import actions as act
from lib.client import error_of, expect_error
from lib.history import EXECUTION_ID, check_legal, events_of
from lib.proto import (
    CANCELED, COMPLETED, FAILED, PENDING, RUNNING, STATUS_NAMES, SUSPENDED, TERMINATED, kinds,
    nanos, pb, secs, sv, ts,
)
from lib.runner import limit
from lib.states import ALL, LIVE, TERMINAL, make


# checklist: 10
# reports: BL-077
def test_ids_given_and_minted(t):
    c = t.client()
    a, b = c.start("o"), c.start("o")
    assert EXECUTION_ID.match(a) and EXECUTION_ID.match(b) and a != b
    assert c.start("o", "mine") == "mine"
    assert c.get("mine").instanceId == "mine"


# checklist: 11
# reports: BL-072, BL-073
def test_bad_names_and_ids(t):
    c, w = t.pair()
    expect_error(lambda: c.start(""), "INVALID_ARGUMENT", "name must not be empty")
    expect_error(lambda: c.start("o", "x" * 101), "INVALID_ARGUMENT",
                 "Instance id length 101 exceeds the maximum length of 100")
    expect_error(lambda: c.start("o", "@e@" + "k" * 135), "INVALID_ARGUMENT", contains="length")
    for bad in ("@x", "@counter@k", "a\nb", "a\0b", "\x1f", "a\x7f"):
        assert c.error("StartInstance", c.create("o", bad))[0] == "INVALID_ARGUMENT", repr(bad)
        assert c.get("a") is None
    # Characters count, not bytes.
    for good in ("x" * 100, "\u00e9" * 100, "\U0001f600" * 100):
        assert c.start("o", good) == good
        assert c.get(good).instanceId == good
    expect_error(lambda: c.start("o", "\U0001f600" * 101), "INVALID_ARGUMENT", contains="101")
    for _ in range(3):
        w.turn()
    w.quiet()


# reports: BL-072, BL-073, BL-074
def test_ids_of_any_form_work_everywhere(t):
    c, w = t.pair()
    for id in ("a/b\\c#d?e%f", "%00%2f", " lead and trail ", "emoji \U0001f468\u200d\U0001f469",
               "\u202ertl\u202c", "x", "'quote\"", "a;b", "--", "..", "\u0080\u009f", "null", "A", "a"):
        assert c.start("o", id, input=id) == id
        i = w.turn(id=id)
        w.done(i)
        c.event(id, "e", "v")
        i = w.turn(id=id)
        c.suspend(id)
        c.resume(id)
        w.done(i, act.complete(result=id))
        assert c.wait(id).output.value == id
        assert check_legal(c.history(id), True)
        assert c.purge(id).deletedInstanceCount == 1
        assert c.get(id) is None


def test_lookups_of_long_and_empty_ids(t):
    c = t.client()
    for method, request in (
        ("GetInstance", pb.GetInstanceRequest), ("WaitForInstanceStart", pb.GetInstanceRequest),
        ("WaitForInstanceCompletion", pb.GetInstanceRequest),
        ("TerminateInstance", pb.TerminateRequest), ("SuspendInstance", pb.SuspendRequest),
        ("ResumeInstance", pb.ResumeRequest),
        ("RaiseEvent", lambda **k: pb.RaiseEventRequest(name="e", **k)),
        ("PurgeInstances", pb.PurgeInstancesRequest),
    ):
        expect_error(lambda: c.call(method, request(instanceId="")), "INVALID_ARGUMENT",
                     "instanceId must not be empty")
        code, text = c.error(method, request(instanceId="x" * 1025))
        assert code == "INVALID_ARGUMENT" and "1025" in text, (method, code, text)
        code, text = c.error(method, request(instanceId="a\nb"))
        assert code == "INVALID_ARGUMENT", (method, code, text)
    long = "x" * 1024
    assert c.get(long) is None
    code, text = error_of(lambda: c.history(""))
    assert (code, text) == ("INVALID_ARGUMENT", "instanceId must not be empty")
    c.terminate(long)  # unknown: OK, nothing
    expect_error(lambda: c.suspend(long), "NOT_FOUND", "Orchestration instance '%s' not found" % long)
    expect_error(lambda: c.resume("gone"), "NOT_FOUND", "Orchestration instance 'gone' not found")
    expect_error(lambda: c.event("gone"), "NOT_FOUND", "Orchestration instance 'gone' not found")
    expect_error(lambda: c.history("gone"), "NOT_FOUND", "Orchestration instance 'gone' not found")
    expect_error(lambda: c.call("PurgeInstances"), "INVALID_ARGUMENT")


# checklist: 12
def test_pending_until_the_first_turn_commits(t):
    id, c, w, i = t.started()
    assert c.status(id) == "PENDING"
    time.sleep(0.3)
    assert c.status(id) == "PENDING"
    w.done(i)
    assert c.status(id) == "RUNNING"


# checklist: 14
# reports: BL-046
def test_scheduled_start(t):
    c, w = t.pair()
    at = ts(time.time() + 3)
    id = c.start("o", at=at)
    state = c.get(id)
    assert state.orchestrationStatus == PENDING and nanos(state.scheduledStartTimestamp) == nanos(at)
    w.none(1.0)
    assert c.status(id) == "PENDING"
    i = w.turn()
    assert time.time() >= secs(at) and nanos(i.new[0].timestamp) >= nanos(at)
    assert nanos(i.started.scheduledStartTimestamp) == nanos(at)
    w.done(i, act.complete())
    assert nanos(c.get(id).scheduledStartTimestamp) == nanos(at)
    # Not set, the past, and epoch 0 (JS): at once, and not shown.
    for when in (None, ts(0), ts(time.time() - 100), ts(1)):
        id = c.start("o", at=when)
        i = w.turn(id=id)
        assert not c.get(id).HasField("scheduledStartTimestamp"), when
        assert not i.started.HasField("scheduledStartTimestamp")
        assert secs(i.new[0].timestamp) > time.time() - 60
        w.done(i, act.complete())


# reports: BL-046, BL-053
def test_scheduled_instances_can_be_ended(t):
    c, w = t.pair()
    id = c.start("o", at=time.time() + 3600)
    c.event(id, "early", "1")
    c.terminate(id, "no")
    state = c.wait(id, 5)
    assert state.orchestrationStatus == TERMINATED and state.output.value == "no"
    w.quiet()
    assert c.purge(id).deletedInstanceCount == 1


def test_bad_times(t):
    c = t.client()
    for bad in (pb.Timestamp(seconds=-62135596801), pb.Timestamp(seconds=253402300800),
                pb.Timestamp(seconds=5, nanos=-1), pb.Timestamp(seconds=5, nanos=1000000000),
                pb.Timestamp(seconds=1 << 62), pb.Timestamp(seconds=-(1 << 62))):
        code, text = c.error("StartInstance", c.create("o", "t", at=bad))
        assert code == "INVALID_ARGUMENT", (bad, code, text)
    assert c.get("t") is None
    far = pb.Timestamp(seconds=253402300799, nanos=999999999)
    c.start("o", "far", at=far)
    assert c.status("far") == "PENDING"
    assert c.get("far").scheduledStartTimestamp.seconds == 253402300799


# checklist: 15
# reports: BL-069
def test_no_policy(t):
    c, w = t.pair()
    for status in LIVE:
        id = "x%d" % status
        before = make(c, w, id, status)
        expect_error(lambda: c.start("p", id), "ALREADY_EXISTS",
                     "Orchestration instance '%s' already exists" % id)
        assert c.get(id) == before
    for status in TERMINAL:
        id = "x%d" % status
        before = make(c, w, id, status)
        c.start("p", id, input="second")
        state = c.get(id)
        assert state.orchestrationStatus == PENDING and state.name == "p", state
        assert state.executionId != before.executionId and not state.HasField("output")
        assert not state.HasField("completedTimestamp") and not state.HasField("failureDetails")
        assert nanos(state.createdTimestamp) >= nanos(before.completedTimestamp)
        i = w.turn(id=id)
        assert i.past == [] and i.started.input.value == "second"
        w.done(i, act.complete(result="again"))
        assert c.wait(id).output.value == "again"


# checklist: 16, 17, 19
# checklist-partial: 18
# reports: BL-070
@limit(120)
def test_reuse_policy_table(t):
    """Every existing status, against absent, empty, each single status, and all."""
    c, w = t.pair()
    everything = [RUNNING, COMPLETED, FAILED, CANCELED, TERMINATED, PENDING, SUSPENDED]
    policies = [None, [], everything] + [[s] for s in everything] + [[s, TERMINATED] for s in LIVE]
    n = 0
    for policy in policies:
        for status in [None] + ALL:
            n += 1
            id = "i%d" % n
            before = make(c, w, id, status) if status is not None else None
            what = "policy %s, existing %s" % (policy, status and STATUS_NAMES[status])
            bad = policy and set(policy) & set(LIVE) and TERMINATED not in policy
            call = lambda: c.start("new", id, replaceable=policy)
            if bad:
                code, text = error_of(call)
                assert code == "INVALID_ARGUMENT" and text == (
                    "Invalid reusable statuses: cannot exclude 'Terminated' while also allowing "
                    "reuse of running instances"), (what, code, text)
                replaced = False
            elif status is None or (policy is None and status in TERMINAL) or (
                    policy and status in policy):
                call()
                replaced = True
            else:
                code, text = error_of(call)
                wanted = "Orchestration instance '%s' already exists" % id + (
                    "" if policy is None else " with non-replaceable status")
                assert (code, text) == ("ALREADY_EXISTS", wanted), (what, code, text)
                replaced = False
            after = c.get(id)
            if replaced:
                assert after.orchestrationStatus == PENDING and after.name == "new", what
                assert before is None or after.executionId != before.executionId, what
            else:
                assert (after == before) if before is not None else after is None, what


# checklist-partial: 18
# reports: BL-070, BL-027
def test_replacing_a_running_instance(t):
    """Its turn, activities, timers, events go; nothing of it reaches the new execution."""
    id, c, w, i = t.started(id="x")
    w.done(i, act.task(1, "a"), act.task(2, "queued"), act.timer(3, after=4))
    a = w.task(id=id)
    c.event(id, "old", "o")
    stale = w.turn(id=id)
    c.event(id, "old2", "o")
    policy = [RUNNING, TERMINATED]
    c.start("o", id, replaceable=policy, input="new")
    new = w.turn(id=id)
    assert new.past == [] and kinds(new.new) == ["orchestratorStarted", "executionStarted"]
    # The old turn and the old activity answer late.
    w.done(stale, act.complete(result="of the old one"))
    w.result(a, "late")
    assert c.status(id) == "PENDING"
    w.done(new)
    assert c.status(id) == "RUNNING"
    w.none(5, "turn")  # the old timer is due by now
    c.event(id, "fresh")
    i = w.turn(id=id)
    assert kinds(i.new) == ["orchestratorStarted", "eventRaised"]
    w.done(i, act.complete(result="new"))
    assert c.wait(id).output.value == "new"
    assert kinds(c.history(id)) == ["orchestratorStarted", "executionStarted",
                                    "orchestratorStarted", "eventRaised", "executionCompleted"]


# checklist-partial: 18
def test_replacing_a_child_tells_its_parent(t):
    id, c, w, i = t.started(id="parent")
    w.done(i, act.child(1, "c", "kid"))
    w.done(w.turn(id="kid"))
    c.start("o", "kid", replaceable=[RUNNING, TERMINATED])
    i = w.turn(id="parent")
    f = events_of(i.new, "subOrchestrationInstanceFailed")[0]
    assert f.taskScheduledId == 1
    assert f.failureDetails.errorType == "SubOrchestrationReplaced" and f.failureDetails.isNonRetriable
    k = w.turn(id="kid")
    assert not k.started.HasField("parentInstance")
    w.done(k, act.complete())
    w.done(i, act.complete())
    w.quiet()


# checklist: 20
def test_the_older_policy_message(t):
    """Field 2 as it once was: 0 ERROR, 1 IGNORE, 2 TERMINATE."""
    c, w = t.pair()

    def with_action(id, statuses, action):
        r = c.create("new", id, replaceable=statuses)
        r.orchestrationIdReusePolicy.MergeFromString(bytes([0x10, action]))
        return r

    before = make(c, w, "run", RUNNING)
    r = c.call("StartInstance", with_action("run", [RUNNING, COMPLETED, PENDING], 1))
    assert r.instanceId == "run" and c.get("run") == before
    expect_error(lambda: c.call("StartInstance", with_action("run", [COMPLETED], 1)),
                 "ALREADY_EXISTS")
    assert c.get("run") == before
    c.call("StartInstance", with_action("run", [RUNNING, COMPLETED, PENDING], 2))
    after = c.get("run")
    assert after.executionId != before.executionId and after.name == "new"
    done = make(c, w, "done", COMPLETED)
    c.call("StartInstance", with_action("done", [COMPLETED], 1))
    assert c.get("done") == done
    expect_error(lambda: c.call("StartInstance", with_action("done", [FAILED], 2)), "ALREADY_EXISTS")
    c.call("StartInstance", with_action("done", [COMPLETED], 2))
    assert c.status("done") == "PENDING"
    # Where nothing exists both create.
    c.call("StartInstance", with_action("n1", [RUNNING], 1))
    c.call("StartInstance", with_action("n2", [RUNNING], 2))
    assert c.status("n1") == c.status("n2") == "PENDING"


# checklist: 21
# reports: BL-069
def test_concurrent_starts_of_one_id(t):
    clients = [t.client() for _ in range(4)]
    for round in range(5):
        id = "one-%d" % round

        def go(n):
            try:
                clients[n % 4].start("o", id, input=str(n))
                return n
            except Exception as e:
                assert e.code().name == "ALREADY_EXISTS", e
                return None

        with concurrent.futures.ThreadPoolExecutor(25) as ex:
            won = [n for n in ex.map(go, range(25)) if n is not None]
        assert len(won) == 1, won
        assert clients[0].get(id).input.value == str(won[0])


# checklist: 22
def test_unknown_and_purged(t):
    c, w = t.pair()
    assert c.get("nobody") is None
    assert c.get("@counter@k") is None
    make(c, w, "x", COMPLETED)
    assert c.purge("x").deletedInstanceCount == 1
    assert c.get("x") is None
    r = c.purge("x")
    assert r.deletedInstanceCount == 0 and r.isComplete.value is True


def test_purge_by_id(t):
    c, w = t.pair()
    for status in LIVE:
        id = "l%d" % status
        make(c, w, id, status)
        r = c.purge(id, recursive=True)
        assert r.deletedInstanceCount == 0 and r.isComplete.value is True
        assert c.get(id) is not None
    for status in TERMINAL:
        id = "t%d" % status
        make(c, w, id, status)
        r = c.purge(id)
        assert r.deletedInstanceCount == 1 and r.isComplete.value is True, r
        assert c.get(id) is None
        expect_error(lambda: c.history(id), "NOT_FOUND")
        expect_error(lambda: c.event(id), "NOT_FOUND")
    # An @ id: a count of 0 whatever isOrchestration says.
    for flag in (True, False):
        assert c.purge("@e@k", isOrchestration=flag).deletedInstanceCount == 0


# checklist: 23
def test_payloads_only_when_asked(t):
    id, c, w, i = t.started(input="in")
    w.done(i, act.complete(status=FAILED, result="out", failure=act.failure()), status="custom")
    for get in (c.get, lambda id, p: c.wait(id, payloads=p), lambda id, p: c.wait_start(id, payloads=p)):
        with_, without = get(id, True), get(id, False)
        assert with_.input.value == "in" and with_.output.value == "out"
        assert with_.failureDetails.errorType == "Boom" and with_.customStatus.value == "custom"
        assert not without.HasField("input") and not without.HasField("output")
        assert not without.HasField("failureDetails") and without.customStatus.value == "custom"
        assert without.orchestrationStatus == FAILED and without.name == "o"


# checklist: 24
def test_success_has_no_failure_details(t):
    c, w = t.pair()
    for result in ("r", "", None):
        id = c.start("o")
        w.done(w.turn(id=id), act.complete(result=result, failure=act.failure()))
        s = c.wait(id)
        assert s.orchestrationStatus == COMPLETED and not s.HasField("failureDetails")
        assert s.HasField("output") == (result is not None) and s.output.value == (result or "")
        done = events_of(c.history(id), "executionCompleted")[0]
        assert not done.HasField("failureDetails")
        assert done.HasField("result") == (result is not None)
    for input in ("i", "", None):
        id = c.start("o", input=input)
        i = w.turn(id=id)
        assert i.started.HasField("input") == (input is not None), input
        s = c.get(id)
        assert s.HasField("input") == (input is not None) and s.input.value == (input or "")
        w.done(i, act.complete())
    # TERMINATED and CANCELED carry none either.
    for status in (TERMINATED, CANCELED):
        id = c.start("o")
        w.done(w.turn(id=id), act.complete(status=status, result="x", failure=act.failure()))
        s = c.wait(id)
        assert s.orchestrationStatus == status and not s.HasField("failureDetails")
        assert s.output.value == "x"


# checklist: 25
# reports: BL-104
def test_state_is_complete(t):
    c, w = t.pair()
    tags = {"k%02d" % n: "v%d" % n for n in range(20)}
    trace = pb.TraceContext(traceParent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                            traceState=sv("a=b"))
    before = time.time()
    id = c.start("Name", version="1.2", tags=tags, input="in", trace=trace,
                 execution="0123456789abcdef0123456789abcdef")
    s = c.get(id)
    assert s.name == "Name" and s.version.value == "1.2" and dict(s.tags) == tags
    assert s.executionId.value == "0123456789abcdef0123456789abcdef"
    assert not s.HasField("completedTimestamp") and not s.HasField("parentInstanceId")
    assert not s.HasField("customStatus") and not s.HasField("output")
    assert before - 1 < secs(s.createdTimestamp) < time.time() + 1
    assert nanos(s.lastUpdatedTimestamp) >= nanos(s.createdTimestamp)
    i = w.turn()
    e = i.started
    assert e.name == "Name" and e.version.value == "1.2" and dict(e.tags) == tags
    assert e.parentTraceContext == trace and i.execution == s.executionId.value
    assert not e.HasField("parentInstance")
    assert not i.req.HasField("orchestrationTraceContext")
    w.done(i, act.child(1, "kid", "the-kid"))
    k = w.turn(id="the-kid")
    w.done(k, act.complete())
    kid = c.wait("the-kid")
    assert kid.parentInstanceId.value == id and not kid.HasField("version")
    assert len(kid.tags) == 0
    w.done(w.turn(id=id), act.complete())
    end = c.wait(id)
    assert nanos(end.completedTimestamp) >= nanos(s.createdTimestamp)
    assert nanos(end.lastUpdatedTimestamp) >= nanos(end.completedTimestamp)
    assert nanos(end.createdTimestamp) == nanos(s.createdTimestamp) and dict(end.tags) == tags
    # Absent and empty versions: apart in history; both matched as no version.
    for version in ("", None):
        id = c.start("o", version=version)
        i = w.turn(id=id)
        assert i.started.HasField("version") == (version is not None)
        w.done(i, act.complete())


def test_execution_ids_of_clients(t):
    c = t.client()
    for bad in ("", "x", "0123456789ABCDEF0123456789ABCDEF", "0" * 31, "0" * 33,
                "01234567-89ab-cdef-0123-456789abcdef"):
        id = c.start("o", execution=bad)
        got = c.get(id).executionId.value
        assert EXECUTION_ID.match(got) and got != bad, (bad, got)


def test_tags_have_limits(t):
    c = t.client()
    c.start("o", "most", tags={"k%d" % n: "v" for n in range(64)})
    for tags in ({"k%d" % n: "v" for n in range(65)}, {"k": "v" * 9000}):
        code, text = c.error("StartInstance", c.create("o", "more", tags=tags))
        assert code == "INVALID_ARGUMENT", (code, text)
    # What the store could not give back is not taken; it is fine in a value.
    expect_error(lambda: c.start("o", "more", tags={"a": "b", "k\0y": "v"}), "INVALID_ARGUMENT",
                 "the key of a tag has a NUL character; leave it out")
    assert c.get("more") is None
    c.start("o", "value", tags={"k": "v\0w", "": "empty"})
    assert dict(c.get("value").tags) == {"k": "v\0w", "": "empty"}


# reports: BL-007
def test_commands_without_any_worker(t):
    c = t.client()
    id = c.start("o", input="in")
    c.event(id, "SIGNAL", "1")
    c.suspend(id, "s")
    c.resume(id, "r")
    c.event(id, "SIGNAL", "2")
    w = t.worker()
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted", "executionStarted", "eventRaised",
                            "executionSuspended", "executionResumed", "eventRaised"]
    w.done(i, act.complete(result=events_of(i.new, "eventRaised")[1].input.value))
    assert c.wait(id).output.value == "2"


# reports: BL-174
def test_start_terminate_raise_in_a_row(t):
    c, w = t.pair()
    for with_end in (True, False):
        id = "x%d" % with_end
        make(c, w, id, COMPLETED)
        w.cancel()
        c.start("o", id)
        if with_end:
            c.terminate(id, "t")
            c.event(id, "e", "v")
            w.open()
            assert c.wait(id, 5).orchestrationStatus == TERMINATED
            w.quiet()
        else:
            c.event(id, "e", "v")
            w.open()
            i = w.turn()
            assert kinds(i.new) == ["orchestratorStarted", "executionStarted", "eventRaised"]
            w.done(i, act.complete())
            c.wait(id)


# reports: BL-069, BL-177
@limit(120)
def test_a_singleton_started_again_and_again(t):
    c = t.client()
    t.auto({"o": lambda i: [act.complete(result=i.started.input.value)]})
    for n in range(200):
        c.start("o", "single", input=str(n))
        assert c.wait("single", 10).output.value == str(n)
