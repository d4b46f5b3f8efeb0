"""Suspend, resume, terminate."""

import threading
import time
from datetime import timedelta

import pytest
from conftest import eventually, kinds, of_kind, pb, rpc_error
from durabletask import task


def ms(n):
    return timedelta(milliseconds=n)


def waits(ctx, x):
    return (yield ctx.wait_for_external_event("go"))


def echo(ctx, x):
    return x


def suspended_events(hub, id):
    return [(type(e).__name__, e.input) for e in hub.history(id)
            if type(e).__name__ in ("ExecutionSuspendedEvent", "ExecutionResumedEvent")]


# ---- suspend and resume ----

def test_at_once_without_a_worker(hub):
    """checklist: 79, 80"""
    id = hub.start(echo, input="ran")
    hub.client.suspend_orchestration(id)
    assert hub.status(id) == "SUSPENDED"
    worker = hub.new_worker([echo])
    with pytest.raises(TimeoutError):
        hub.client.wait_for_orchestration_start(id, timeout=0.7)
    assert not worker.turns
    hub.client.resume_orchestration(id)
    assert hub.finish(id).get_output() == "ran"


def test_resume_before_the_first_turn(hub):
    """checklist: 80"""
    id = hub.start(echo, input="ran")
    hub.client.suspend_orchestration(id)
    hub.client.resume_orchestration(id)
    assert hub.status(id) == "PENDING"
    hub.new_worker([echo])
    assert hub.finish(id).get_output() == "ran"


def test_no_turn_while_suspended(hub):
    """checklist: 79; reports: BL-051"""
    def five(ctx, x):
        got = []
        for n in range(5):
            yield ctx.create_timer(ms(50))
            got.append((yield ctx.wait_for_external_event("e")))
        return got

    worker = hub.new_worker([five])
    id = hub.start(five)
    hub.until(id, "RUNNING")
    hub.client.suspend_orchestration(id)
    assert hub.status(id) == "SUSPENDED"
    turns = len(worker.turns_of(id))
    for n in range(5):
        hub.client.raise_orchestration_event(id, "e", data=n)
    with pytest.raises(TimeoutError):
        hub.client.wait_for_orchestration_completion(id, timeout=0.7)
    assert len(worker.turns_of(id)) <= turns + 1  # one was in flight
    hub.client.resume_orchestration(id)
    assert hub.finish(id).get_output() == list(range(5))


def test_no_effect(hub):
    """checklist: 81"""
    hub.new_worker([echo, waits])
    done = hub.start(echo)
    hub.finish(done)
    hub.client.suspend_orchestration(done)
    hub.client.resume_orchestration(done)
    assert hub.status(done) == "COMPLETED"
    id = hub.start(waits)
    hub.until(id, "RUNNING")
    hub.client.resume_orchestration(id)
    hub.client.suspend_orchestration(id)
    hub.client.suspend_orchestration(id)
    hub.client.resume_orchestration(id)
    hub.client.resume_orchestration(id)
    hub.client.raise_orchestration_event(id, "go")
    hub.finish(id)
    assert [n for n, _ in suspended_events(hub, id)] == ["ExecutionSuspendedEvent", "ExecutionResumedEvent"]
    for call in (hub.client.suspend_orchestration, hub.client.resume_orchestration):
        code, message = rpc_error(lambda: call("nobody"))
        assert (code, message) == ("NOT_FOUND", "Orchestration instance 'nobody' not found")


@pytest.mark.parametrize("reason", [None, "", "a reason"], ids=["absent", "empty", "text"])
def test_reasons(hub, reason):
    """checklist: 153"""
    hub.new_worker([waits])
    id = hub.start(waits)
    hub.until(id, "RUNNING")
    stub = hub.client._stub
    suspend, resume = pb.SuspendRequest(instanceId=id), pb.ResumeRequest(instanceId=id)
    if reason is not None:
        suspend.reason.value = reason
        resume.reason.value = reason
    stub.SuspendInstance(suspend)
    stub.ResumeInstance(resume)
    hub.client.raise_orchestration_event(id, "go")
    hub.finish(id)
    assert suspended_events(hub, id) == [
        ("ExecutionSuspendedEvent", reason), ("ExecutionResumedEvent", reason)]


def test_suspend_and_resume_many_times(hub):
    """reports: BL-112"""
    def steps(ctx, n):
        total = 0
        for i in range(n):
            total += yield ctx.call_activity(echo, input=i)
        return total

    hub.new_worker([steps], [echo])
    id = hub.start(steps, input=150)
    hub.until(id, "RUNNING")
    while hub.status(id) not in ("COMPLETED", "FAILED"):
        hub.client.suspend_orchestration(id)
        hub.client.resume_orchestration(id)
    assert hub.finish(id, 60).get_output() == sum(range(150))


def test_suspension_goes_with_continue_as_new(hub):
    """checklist: 89"""
    entered, release = threading.Event(), threading.Event()

    def once(ctx, again):
        if again:
            entered.set()
            release.wait(20)
            ctx.continue_as_new(False)
            return
        return (yield ctx.wait_for_external_event("go"))

    hub.new_worker([once])
    id = hub.start(once, input=True)
    assert entered.wait(10)
    hub.client.suspend_orchestration(id)
    first = hub.raw_state(id).executionId.value
    release.set()
    eventually(lambda: hub.raw_state(id).executionId.value != first)
    assert hub.status(id) == "SUSPENDED"
    hub.client.raise_orchestration_event(id, "go", data=1)
    with pytest.raises(TimeoutError):
        hub.client.wait_for_orchestration_completion(id, timeout=0.5)
    hub.client.resume_orchestration(id)
    assert hub.finish(id).get_output() == 1


# ---- terminate ----

def test_terminate_suspended(hub):
    """checklist: 82"""
    hub.new_worker([waits])
    id = hub.start(waits)
    hub.until(id, "RUNNING")
    hub.client.suspend_orchestration(id)
    hub.client.terminate_orchestration(id, output={"why": "enough"})
    state = hub.finish(id)
    assert (state.runtime_status.name, state.get_output()) == ("TERMINATED", {"why": "enough"})
    assert state.failure_details is None


@pytest.mark.parametrize("suspended", [False, True])
def test_terminate_without_a_worker(hub, suspended):
    """checklist: 83; reports: BL-053, BL-175"""
    ids = [hub.start("NoSuchOrchestration") for _ in range(100)]
    if suspended:
        for id in ids:
            hub.client.suspend_orchestration(id)
    begin = time.monotonic()
    for id in ids:
        hub.client.terminate_orchestration(id, output="out")
    for id in ids:
        assert hub.status(id) == "TERMINATED"
    assert time.monotonic() - begin < 5
    assert hub.finish(ids[0]).get_output() == "out"
    events = hub.history(ids[0])
    assert kinds(events) == ["OrchestratorStarted", "ExecutionStarted", "ExecutionTerminated", "ExecutionCompleted"]
    assert events[-1].orchestration_status == pb.ORCHESTRATION_STATUS_TERMINATED
    assert hub.client.purge_orchestration(ids[0]).deleted_instance_count == 1
    assert hub.client.get_orchestration_state(ids[0]) is None


def test_terminate_started_one_without_a_worker(own_server, new_hub):
    """checklist: 84; reports: BL-175"""
    hub = new_hub(own_server({"terminate.grace": "1s"}))
    worker = hub.new_worker([waits])
    id = hub.start(waits)
    hub.until(id, "RUNNING")
    worker.stop()
    begin = time.monotonic()
    hub.client.terminate_orchestration(id, output="forced")
    state = hub.finish(id, 10)
    assert (state.runtime_status.name, state.get_output()) == ("TERMINATED", "forced")
    assert time.monotonic() - begin > 0.9


def test_terminate_against_continue_as_new(hub):
    """checklist: 85; reports: BL-054"""
    def eternal(ctx, n):
        ctx.continue_as_new(n + 1)

    worker = hub.new_worker([eternal])
    id = hub.start(eternal, input=0)
    eventually(lambda: len(worker.turns_of(id)) > 50)
    hub.client.terminate_orchestration(id, output="stop")
    state = hub.finish(id, 5)
    assert (state.runtime_status.name, state.get_output()) == ("TERMINATED", "stop")
    turns = len(worker.turns_of(id))
    hub.finish(hub.start("sentinel"))  # a later instance has come and gone
    assert len(worker.turns_of(id)) == turns


def test_recursive(hub):
    """checklist: 86; reports: BL-055"""
    def tree(ctx, depth):
        if depth == 0:
            return (yield ctx.wait_for_external_event("go"))
        yield task.when_all([
            ctx.call_sub_orchestrator(tree, input=depth - 1, instance_id="%s.%d" % (ctx.instance_id, n))
            for n in range(3)])

    hub.new_worker([tree])
    roots = [hub.start(tree, input=2, instance_id=hub.id("tree")) for _ in range(2)]
    for root in roots:
        for a in range(3):
            for b in range(3):
                eventually(lambda: hub.status("%s.%d.%d" % (root, a, b)) == "RUNNING")
    hub.client.terminate_orchestration(roots[0], output="all", recursive=True)
    hub.client.terminate_orchestration(roots[1], output="one", recursive=False)
    for root in roots:
        assert hub.finish(root).runtime_status.name == "TERMINATED"
    for a in range(3):
        child = "%s.%d" % (roots[0], a)
        state = hub.finish(child, 10)
        assert (state.runtime_status.name, state.get_output()) == ("TERMINATED", "all")
        for b in range(3):
            assert hub.finish("%s.%d" % (child, b), 10).runtime_status.name == "TERMINATED"
            assert hub.status("%s.%d.%d" % (roots[1], a, b)) == "RUNNING"


def test_recursive_with_children_of_the_turn_in_flight(hub):
    """checklist: 86"""
    entered, release = threading.Event(), threading.Event()

    def parent(ctx, x):
        ctx.call_sub_orchestrator(waits, instance_id=x + ".early")
        yield ctx.create_timer(ms(1))
        if not ctx.is_replaying:
            entered.set()
            release.wait(20)
        yield ctx.call_sub_orchestrator(waits, instance_id=x + ".late")

    hub.new_worker([parent, waits])
    name = hub.id("p")
    id = hub.start(parent, input=name)
    assert entered.wait(10)
    hub.until(name + ".early", "RUNNING")
    hub.client.terminate_orchestration(id, recursive=True)
    release.set()
    assert hub.finish(id).runtime_status.name == "TERMINATED"
    for child in (".early", ".late"):
        assert hub.finish(name + child, 10).runtime_status.name == "TERMINATED"


def test_failed_child_does_not_stop_the_cascade(hub):
    """reports: BL-055"""
    def leaf(ctx, x):
        return (yield ctx.wait_for_external_event("go"))

    def failing(ctx, x):
        ctx.call_sub_orchestrator(leaf, instance_id=x + ".leaf")
        yield ctx.create_timer(ms(10))
        raise ValueError("this one fails")

    def root(ctx, x):
        try:
            yield ctx.call_sub_orchestrator(failing, input=x, instance_id=x + ".failing")
        except task.TaskFailedError:
            pass
        yield ctx.wait_for_external_event("go")

    hub.new_worker([root, failing, leaf])
    name = hub.id("r")
    id = hub.start(root, input=name)
    hub.until(name + ".failing", "FAILED")
    hub.until(name + ".leaf", "RUNNING")
    hub.client.terminate_orchestration(id, recursive=True)
    hub.finish(id)
    assert hub.status(name + ".failing") == "FAILED"


def test_unknown_or_terminal(hub):
    """checklist: 87"""
    hub.client.terminate_orchestration("nobody")
    hub.new_worker([echo])
    id = hub.start(echo, input=1)
    hub.finish(id)
    hub.client.terminate_orchestration(id, output="late")
    state = hub.finish(id)
    assert (state.runtime_status.name, state.get_output()) == ("COMPLETED", 1)


def test_first_turn_lost_with_its_worker(hub):
    """checklist: 152"""
    entered, never = threading.Event(), threading.Event()

    def stuck(ctx, x):
        entered.set()
        never.wait(60)

    worker = hub.new_worker([stuck])
    id = hub.start(stuck)
    assert entered.wait(10)
    worker._shutdown.set()
    worker._response_stream.cancel()
    eventually(lambda: terminated(hub, id), 5)
    never.set()
    assert kinds(hub.history(id)) == [
        "OrchestratorStarted", "ExecutionStarted", "ExecutionTerminated", "ExecutionCompleted"]


def terminated(hub, id):
    hub.client.terminate_orchestration(id, output="lost")
    return hub.status(id) == "TERMINATED"


def test_terminated_comes_alone(hub):
    """checklist: 151"""
    worker = hub.new_worker([waits])
    for n in range(20):
        id = hub.start(waits)
        hub.until(id, "RUNNING")
        hub.client.suspend_orchestration(id)
        for _ in range(3):
            hub.client.raise_orchestration_event(id, "other")
        hub.client.terminate_orchestration(id, output=n)
        hub.client.raise_orchestration_event(id, "go")
        assert hub.finish(id).get_output() == n
        batches = [[e.WhichOneof("eventType") for e in t.newEvents] for t in worker.turns_of(id)]
        for batch in batches:
            if "executionTerminated" in batch:
                assert batch == ["orchestratorStarted", "executionTerminated"]


def test_queued_activities_are_dropped(hub):
    """reports: BL-176"""
    from durabletask.worker import ConcurrencyOptions
    started, release = [], threading.Event()

    def slow(ctx, x):
        started.append(x)
        release.wait(30)

    def wide(ctx, x):
        yield task.when_all([ctx.call_activity(slow, input=i) for i in range(50)])

    hub.new_worker([wide], [slow], concurrency_options=ConcurrencyOptions(
        maximum_concurrent_activity_work_items=2, maximum_thread_pool_workers=8))
    id = hub.start(wide)
    eventually(lambda: len(started) == 2)
    hub.client.terminate_orchestration(id)
    hub.finish(id)
    release.set()
    hub.finish(hub.start("sentinel"))

    def mark(ctx, x):
        return (yield ctx.call_activity("none"))

    hub.new_worker([mark])
    assert hub.finish(hub.start(mark)).runtime_status.name == "FAILED"  # an activity of another went through
    assert len(started) == 2


def test_terminate_races_with_timers(hub):
    """reports: BL-052"""
    def loop(ctx, n):
        yield ctx.create_timer(ms(200))
        ctx.continue_as_new(n + 1)

    hub.new_worker([loop])
    ids = [hub.start(loop, input=0) for _ in range(100)]
    for id in ids:
        hub.until(id, "RUNNING")
    for id in ids:
        hub.client.terminate_orchestration(id, output="x")
    for id in ids:
        assert hub.finish(id, 10).runtime_status.name == "TERMINATED"


def test_terminated_history(hub):
    """What a worker answers to a termination is what is stored."""
    hub.new_worker([waits])
    id = hub.start(waits)
    hub.until(id, "RUNNING")
    hub.client.terminate_orchestration(id, output="bye")
    hub.finish(id)
    events = hub.history(id)
    ended, = of_kind(events, "ExecutionTerminated")
    assert ended.input == '"bye"'
    assert kinds(events)[-2:] == ["ExecutionTerminated", "ExecutionCompleted"]
