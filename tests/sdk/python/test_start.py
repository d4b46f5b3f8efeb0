"""Starting instances, looking at them, and the rules of reuse of an id."""

import threading
from datetime import datetime, timedelta, timezone

import pytest
from conftest import YARDSTICK, eventually, pb, rpc_error

DONE = [
    pb.ORCHESTRATION_STATUS_COMPLETED, pb.ORCHESTRATION_STATUS_FAILED,
    pb.ORCHESTRATION_STATUS_TERMINATED,
]


def echo(ctx, x):
    return x


def waits(ctx, x):
    got = yield ctx.wait_for_external_event("go")
    return [x, got]


def fails(ctx, x):
    raise ValueError("no luck with %s" % x)


def policy(*statuses):
    return pb.OrchestrationIdReusePolicy(replaceableStatus=statuses)


def test_hello_orchestration(hub):
    """checklist: 2"""
    state = hub.run(echo, input="hello")
    assert state.runtime_status.name == "COMPLETED"
    assert state.get_output() == "hello"
    assert state.get_input() == "hello"
    assert state.name == "echo"


def test_minted_id(hub):
    """checklist: 10; reports: BL-077"""
    minted = hub.client._stub.StartInstance(pb.CreateInstanceRequest(name="echo")).instanceId
    assert len(minted) == 32 and set(minted) <= set("0123456789abcdef")
    mine = hub.id()
    assert hub.start(echo, instance_id=mine) == mine


@pytest.mark.parametrize("name,id,text", [
    ("", "fine", "name must not be empty"),
    ("echo", "x" * 101, "length 101 exceeds the maximum length of 100"),
    ("echo", "@entity@key", "@"),
    ("echo", "tab\there", None),
    ("echo", "del\x7f", None),
], ids=["no-name", "long", "entity", "tab", "del"])
def test_bad_start(hub, name, id, text):
    """checklist: 11; reports: BL-072, BL-073, BL-074, BL-084"""
    request = pb.CreateInstanceRequest(name=name, instanceId=id)
    code, message = rpc_error(lambda: hub.client._stub.StartInstance(request))
    assert code == "INVALID_ARGUMENT"
    assert message and (text is None or text in message)


@pytest.mark.parametrize("id", [
    "a", "with/slash", "q?x=1&y=2#f", "100%", "back\\slash", "Größe", "鍵", "\u202eright", "emoji😀",
    " spaces around ", "x" * 100, "é" * 100,
], ids=["short", "slash", "query", "percent", "backslash", "umlaut", "cjk", "rtl", "emoji", "spaces",
        "long", "long-utf8"])
def test_any_printable_id(hub, id):
    """reports: BL-072, BL-074"""
    hub.new_worker([waits])
    assert hub.start(waits, input=1, instance_id=id) == id
    hub.client.raise_orchestration_event(id, "go", data=2)
    assert hub.finish(id).get_output() == [1, 2]
    assert len(hub.history(id)) > 3
    assert hub.client.purge_orchestration(id).deleted_instance_count == 1
    assert hub.client.get_orchestration_state(id) is None


def test_ids_are_case_sensitive(hub):
    """reports: BL-076"""
    hub.new_worker([echo])
    for id in ("abc", "ABC"):
        hub.start(echo, input=id, instance_id=id)
        hub.finish(id)
    hub.client.purge_orchestration("ABC", recursive=False)
    assert hub.client.get_orchestration_state("ABC") is None
    assert hub.client.get_orchestration_state("abc").get_output() == "abc"


def test_pending_until_first_turn(hub):
    """checklist: 12; reports: BL-007"""
    id = hub.start(waits, input=1)
    assert hub.status(id) == "PENDING"
    hub.new_worker([waits])
    assert hub.client.wait_for_orchestration_start(id).runtime_status.name == "RUNNING"
    assert hub.status(id) == "RUNNING"
    hub.client.raise_orchestration_event(id, "go")
    hub.finish(id)


def test_scheduled_start(hub):
    """checklist: 14; reports: BL-046"""
    worker = hub.new_worker([echo])
    at = datetime.now(timezone.utc) + timedelta(seconds=2)
    id = hub.start(echo, input=7, start_at=at)
    state = hub.raw_state(id)
    assert state.orchestrationStatus == pb.ORCHESTRATION_STATUS_PENDING
    shown = state.scheduledStartTimestamp.ToDatetime(timezone.utc)
    assert abs(shown - at) < timedelta(milliseconds=1)
    with pytest.raises(TimeoutError):
        hub.client.wait_for_orchestration_start(id, timeout=1)
    assert not worker.turns
    hub.finish(id)
    assert datetime.now(timezone.utc) >= at
    started = worker.turns[0].newEvents[0].timestamp.ToDatetime(timezone.utc)
    assert started >= at
    # One that is in the past or 0 is none.
    for seconds in (0, 1000):
        request = pb.CreateInstanceRequest(name="echo")
        request.scheduledStartTimestamp.seconds = seconds
        id = hub.client._stub.StartInstance(request).instanceId
        hub.finish(id)
        assert not hub.raw_state(id).HasField("scheduledStartTimestamp")


def test_scheduled_one_is_terminated_before_its_time(hub):
    """reports: BL-046"""
    worker = hub.new_worker([echo])
    id = hub.start(echo, start_at=datetime.now(timezone.utc) + timedelta(hours=1))
    hub.client.terminate_orchestration(id, output="early")
    assert hub.finish(id, 5).runtime_status.name == "TERMINATED"
    assert not worker.turns


def test_no_policy(hub):
    """checklist: 15; reports: BL-069"""
    hub.new_worker([echo, waits])
    id = hub.start(echo, input=1, instance_id=hub.id())
    hub.finish(id)
    assert hub.start(waits, input=2, instance_id=id) == id
    hub.until(id, "RUNNING")
    before = hub.raw_state(id).executionId.value
    code, message = rpc_error(lambda: hub.start(echo, instance_id=id))
    assert (code, message) == ("ALREADY_EXISTS", "Orchestration instance '%s' already exists" % id)
    assert hub.raw_state(id).executionId.value == before
    hub.client.raise_orchestration_event(id, "go", data=3)
    assert hub.finish(id).get_output() == [2, 3]


def test_policy_with_empty_list(hub):
    """checklist: 16"""
    hub.new_worker([echo])
    id = hub.start(echo, instance_id=hub.id())
    hub.finish(id)
    code, message = rpc_error(lambda: hub.start(echo, instance_id=id, reuse_id_policy=policy()))
    assert code == "ALREADY_EXISTS"
    assert message == "Orchestration instance '%s' already exists with non-replaceable status" % id


def test_policy_with_completed(hub):
    """checklist: 17; reports: BL-070"""
    hub.new_worker([echo, fails])
    good, bad = hub.start(echo, instance_id=hub.id()), hub.start(fails, instance_id=hub.id())
    hub.finish(good), hub.finish(bad)
    only = policy(pb.ORCHESTRATION_STATUS_COMPLETED)
    hub.start(echo, input="again", instance_id=good, reuse_id_policy=only)
    assert hub.finish(good).get_output() == "again"
    assert rpc_error(lambda: hub.start(echo, instance_id=bad, reuse_id_policy=only))[0] == "ALREADY_EXISTS"
    assert hub.status(bad) == "FAILED"


def test_policy_replaces_running(hub):
    """checklist-partial: 18; reports: BL-070"""
    release, entered = threading.Event(), threading.Event()

    def slow(ctx, x):
        entered.set()
        release.wait(30)
        return "late"

    def old(ctx, x):
        task = ctx.call_activity(slow)
        ctx.create_timer(timedelta(seconds=1))
        return (yield task)

    def new(ctx, x):
        yield ctx.create_timer(timedelta(seconds=2))
        got = yield ctx.wait_for_external_event("go")
        return [x, got]

    hub.new_worker([old, new], [slow])
    id = hub.start(old, instance_id=hub.id())
    assert entered.wait(10)
    first = hub.raw_state(id).executionId.value
    hub.start(new, input="new", instance_id=id, reuse_id_policy=policy(
        *DONE, pb.ORCHESTRATION_STATUS_RUNNING, pb.ORCHESTRATION_STATUS_PENDING))
    assert hub.raw_state(id).executionId.value != first
    release.set()
    hub.client.raise_orchestration_event(id, "go", data="g")
    assert hub.finish(id).get_output() == ["new", "g"]
    # Neither the activity of the old execution nor its timer shows in the new one.
    events = [type(e).__name__ for e in hub.history(id)]
    assert "TaskCompletedEvent" not in events
    assert events.count("TimerFiredEvent") == 1


@pytest.mark.parametrize("exists", [False, True])
def test_policy_without_terminated(hub, exists):
    """checklist: 19; reports: BL-070"""
    id = hub.id()
    if exists:
        hub.start(waits, instance_id=id)
    for status in (pb.ORCHESTRATION_STATUS_RUNNING, pb.ORCHESTRATION_STATUS_PENDING,
                   pb.ORCHESTRATION_STATUS_SUSPENDED):
        code, message = rpc_error(lambda: hub.start(
            waits, instance_id=id, reuse_id_policy=policy(status, pb.ORCHESTRATION_STATUS_COMPLETED)))
        assert code == "INVALID_ARGUMENT"
        assert message == ("Invalid reusable statuses: cannot exclude 'Terminated' while also "
                           "allowing reuse of running instances")
    assert hub.status(id) == ("PENDING" if exists else None)


def test_concurrent_starts(hub):
    """checklist: 21; reports: BL-069"""
    id = hub.id()
    calls = [
        hub.future("StartInstance", pb.CreateInstanceRequest(name="waits", instanceId=id))
        for _ in range(100)
    ]
    codes = [c.code().name for c in calls]
    assert sorted(set(codes)) == ["ALREADY_EXISTS", "OK"]
    assert codes.count("OK") == 1


def test_unknown_and_purged(hub):
    """checklist: 22"""
    assert hub.client.get_orchestration_state("never-was") is None
    state = hub.run(echo)
    assert hub.client.purge_orchestration(state.instance_id).deleted_instance_count == 1
    assert hub.client.get_orchestration_state(state.instance_id) is None
    assert hub.client.purge_orchestration(state.instance_id).deleted_instance_count == 0


def test_payloads_only_when_asked(hub):
    """checklist: 23"""
    def tells(ctx, x):
        ctx.set_custom_status("status")
        raise ValueError("details")

    state = hub.run(tells, input="secret")
    id = state.instance_id
    assert state.failure_details.message == "details"
    full, bare = hub.raw_state(id), hub.raw_state(id, payloads=False)
    assert full.input.value == '"secret"' and full.HasField("failureDetails")
    assert not bare.HasField("input") and not bare.HasField("output")
    assert not bare.HasField("failureDetails")
    assert bare.customStatus.value == full.customStatus.value == '"status"'


def test_success_has_no_failure(hub):
    """checklist: 24"""
    state = hub.run(echo, input=1)
    raw = hub.raw_state(state.instance_id)
    assert not raw.HasField("failureDetails")
    assert state.failure_details is None


def test_state_is_whole(hub):
    """checklist: 25; reports: BL-104"""
    tags = {"tag%d" % n: "value %d" % n for n in range(20)}
    hub.new_worker([waits])
    id = hub.start(waits, input=1, version="1.2.3", tags=tags)
    hub.until(id, "RUNNING")
    state = hub.raw_state(id)
    assert state.version.value == "1.2.3"
    assert dict(state.tags) == tags
    assert len(state.executionId.value) == 32
    assert not state.HasField("parentInstanceId")
    assert not state.HasField("completedTimestamp")
    hub.client.raise_orchestration_event(id, "go")
    hub.finish(id)
    done = hub.raw_state(id)
    assert done.completedTimestamp.ToDatetime() >= done.createdTimestamp.ToDatetime()
    assert done.lastUpdatedTimestamp.ToDatetime() >= done.createdTimestamp.ToDatetime()
    started = [e for e in hub.history(id) if type(e).__name__ == "ExecutionStartedEvent"][0]
    assert started.tags == tags and started.version == "1.2.3"


def test_just_started_is_seen_on_another_connection(hub):
    """reports: BL-103"""
    other = hub.new_client()
    for n in range(200):
        id = hub.start(echo, instance_id="seen-%d" % n)
        assert other.get_orchestration_state(id) is not None


def test_start_at_wins_over_worker(hub):
    """An instance scheduled for later does not hold up one that is due. checklist: 14"""
    hub.new_worker([echo])
    late = hub.start(echo, start_at=datetime.now(timezone.utc) + timedelta(hours=1))
    soon = hub.start(echo, input=1)
    assert hub.finish(soon, 10).get_output() == 1
    assert hub.status(late) == "PENDING"


@pytest.mark.skipif(bool(YARDSTICK), reason="needs hubs")
def test_start_terminate_raise_before_a_worker(hub):
    """reports: BL-174"""
    worker = hub.new_worker([echo])
    id = hub.start(echo, instance_id=hub.id())
    hub.finish(id)
    worker.stop()
    hub.start(waits, instance_id=id)
    hub.client.terminate_orchestration(id, output="t")
    hub.client.raise_orchestration_event(id, "go")
    hub.new_worker([waits])
    assert hub.finish(id, 5).runtime_status.name == "TERMINATED"
    hub.start(waits, input=5, instance_id=id)
    hub.client.raise_orchestration_event(id, "go", data=6)
    assert hub.finish(id, 10).get_output() == [5, 6]
    eventually(lambda: hub.raw_state(id).HasField("completedTimestamp"))
