"""Sub-orchestrations: the link to the parent, and what each end of a child means to it."""

from datetime import timedelta

import pytest
from conftest import eventually, of_kind, pb
from durabletask import task


def ms(n):
    return timedelta(milliseconds=n)


def child(ctx, x):
    return [x, ctx.instance_id, ctx.parent_instance_id]


def failing_child(ctx, x):
    raise KeyError("no %s" % x)


def waiting_child(ctx, x):
    got = yield ctx.wait_for_external_event("go")
    return [x, got]


def calls(ctx, x):
    return (yield ctx.call_sub_orchestrator(child, input=x, instance_id=x, version="3"))


def test_link(hub):
    """checklist: 67; reports: BL-104"""
    worker = hub.new_worker([calls, child])
    child_id = hub.id("child")
    id = hub.start(calls, input=child_id, tags={"not": "inherited"}, version="1")
    assert hub.finish(id).get_output() == [child_id, child_id, id]
    state = hub.raw_state(child_id)
    assert state.parentInstanceId.value == id
    assert state.version.value == "3" and not state.tags
    started = worker.turns_of(child_id)[0].newEvents[1].executionStarted
    parent = started.parentInstance
    assert parent.taskScheduledId == 1
    assert parent.name.value == "calls" and parent.version.value == "1"
    assert parent.orchestrationInstance.instanceId == id
    assert parent.orchestrationInstance.executionId.value == hub.raw_state(id).executionId.value
    assert not started.tags
    completed, = of_kind(hub.history(id), "SubOrchestrationInstanceCompleted")
    assert completed.task_scheduled_id == 1


def test_output_and_failure(hub):
    """checklist: 68"""
    def both(ctx, x):
        good = yield ctx.call_sub_orchestrator(child, input=5)
        try:
            yield ctx.call_sub_orchestrator(failing_child, input="luck")
        except task.TaskFailedError as e:
            return [good[0], e.details.message, e.details.error_type]

    state = hub.run(both, orchestrators=[child, failing_child])
    out = state.get_output()
    assert out[0] == 5 and "no luck" in out[1] and "KeyError" in out[2] + out[1]
    failed, = of_kind(hub.history(state.instance_id), "SubOrchestrationInstanceFailed")
    assert failed.failure_details.error_type.endswith("KeyError")


def test_terminated_child(hub):
    """checklist: 69"""
    def parent(ctx, x):
        try:
            yield ctx.call_sub_orchestrator(waiting_child, instance_id=x)
        except task.TaskFailedError as e:
            return [e.details.error_type, e.details.message]

    hub.new_worker([parent, waiting_child])
    child_id = hub.id("child")
    id = hub.start(parent, input=child_id)
    hub.until(child_id, "RUNNING")
    hub.client.terminate_orchestration(child_id, output="why")
    kind, message = hub.finish(id).get_output()
    assert "Sub-orchestration instance '%s' was terminated." % child_id in message
    failed, = of_kind(hub.history(id), "SubOrchestrationInstanceFailed")
    assert failed.failure_details.error_type == "SubOrchestrationTerminated"
    assert "why" in failed.failure_details.message
    raw = [e.subOrchestrationInstanceFailed.failureDetails
           for chunk in hub.client._stub.StreamInstanceHistory(
               pb.StreamInstanceHistoryRequest(instanceId=id))
           for e in chunk.events if e.HasField("subOrchestrationInstanceFailed")]
    assert raw[0].isNonRetriable


def test_retry_under_the_same_id(hub):
    """checklist: 70; reports: BL-071"""
    tries = []

    def flaky(ctx, x):
        if not ctx.is_replaying:
            tries.append(1)
        if len(tries) < 3:
            raise ValueError("try %d" % len(tries))
        return len(tries)

    def parent(ctx, x):
        policy = task.RetryPolicy(first_retry_interval=ms(10), max_number_of_attempts=5)
        return (yield ctx.call_sub_orchestrator(flaky, instance_id=x, retry_policy=policy))

    hub.new_worker([parent, flaky])
    child_id = hub.id("child")
    id = hub.start(parent, input=child_id)
    assert hub.finish(id).get_output() == 3
    created = of_kind(hub.history(id), "SubOrchestrationInstanceCreated")
    assert [e.instance_id for e in created] == [child_id] * 3
    assert hub.client.purge_orchestration(id, recursive=False).deleted_instance_count == 1


def test_id_in_use(hub):
    """checklist: 70; reports: BL-071"""
    def parent(ctx, x):
        try:
            yield ctx.call_sub_orchestrator(child, instance_id=x)
        except task.TaskFailedError as e:
            return e.details.message

    hub.new_worker([parent, waiting_child, child])
    other = hub.start(waiting_child, input=1, instance_id=hub.id("other"))
    hub.until(other, "RUNNING")
    id = hub.start(parent, input=other)
    assert "Orchestration instance '%s' already exists" % other in hub.finish(id).get_output()
    failed, = of_kind(hub.history(id), "SubOrchestrationInstanceFailed")
    assert failed.failure_details.error_type == "OrchestrationAlreadyExists"
    hub.client.raise_orchestration_event(other, "go", data=2)
    assert hub.finish(other).get_output() == [1, 2]


def test_child_of_an_ended_instance_id(hub):
    """reports: BL-071"""
    def twice(ctx, x):
        first = yield ctx.call_sub_orchestrator(child, input=1, instance_id=x)
        second = yield ctx.call_sub_orchestrator(child, input=2, instance_id=x)
        return [first[0], second[0]]

    assert hub.run(twice, orchestrators=[child], input=hub.id("c1")).get_output() == [1, 2]


def test_minted_child_id(hub):
    """checklist: 71"""
    def parent(ctx, x):
        return (yield ctx.call_sub_orchestrator(child, input=1))

    worker = hub.new_worker([parent, child])
    original = worker._execute_orchestrator

    def execute(req, stub, token):
        class Stub:
            def CompleteOrchestratorTask(self, res):
                for a in res.actions:
                    if a.HasField("createSubOrchestration"):
                        a.createSubOrchestration.instanceId = ""  # as JS and GO do
                return stub.CompleteOrchestratorTask(res)
        return original(req, Stub(), token)

    worker._execute_orchestrator = execute
    id = hub.start(parent)
    expected = hub.raw_state(id).executionId.value + ":0001"
    state = hub.finish(id)
    created, = of_kind(hub.history(id), "SubOrchestrationInstanceCreated")
    assert created.instance_id == expected
    assert hub.client.get_orchestration_state(expected).get_output() == [1, expected, id]
    assert state.get_output()[1] == expected


def test_nested_ids(hub):
    """reports: BL-074"""
    def nest(ctx, depth):
        if depth == 0:
            return ctx.instance_id
        return (yield ctx.call_sub_orchestrator(nest, input=depth - 1))

    hub.new_worker([nest])
    deepest = hub.finish(hub.start(nest, input=5, instance_id="x" * 100)).get_output()
    assert len(deepest) > 100
    assert hub.status(deepest) == "COMPLETED"


def test_child_takes_longer_than_30_seconds(hub):
    """checklist: 72; reports: BL-048"""
    def slow(ctx, x):
        yield ctx.create_timer(timedelta(seconds=32))
        return "slow"

    def parent(ctx, x):
        return (yield ctx.call_sub_orchestrator(slow))

    assert hub.run(parent, orchestrators=[slow], timeout=60).get_output() == "slow"


def test_child_continues_as_new(hub):
    """checklist: 72, 89"""
    def loops(ctx, n):
        yield ctx.create_timer(ms(5))
        if n < 5:
            ctx.continue_as_new(n + 1)
            return
        return [n, ctx.parent_instance_id]

    def parent(ctx, x):
        return (yield ctx.call_sub_orchestrator(loops, input=0, instance_id=x))

    hub.new_worker([parent, loops])
    id = hub.start(parent, input=hub.id("loop"))
    assert hub.finish(id).get_output() == [5, id]
    assert len(of_kind(hub.history(id), "SubOrchestrationInstanceCompleted")) == 1


def test_parent_done_first(hub):
    """checklist: 73"""
    def leaves(ctx, x):
        ctx.call_sub_orchestrator(waiting_child, input=1, instance_id=x)
        return "left"
        yield

    hub.new_worker([leaves, waiting_child])
    child_id = hub.id("child")
    id = hub.start(leaves, input=child_id)
    assert hub.finish(id).get_output() == "left"
    hub.until(child_id, "RUNNING")
    before = len(hub.history(id))
    hub.client.raise_orchestration_event(child_id, "go", data=2)
    assert hub.finish(child_id).get_output() == [1, 2]
    assert len(hub.history(id)) == before
    assert hub.status(id) == "COMPLETED"


def test_1000_children(hub):
    """checklist: 74"""
    ran = []

    def one(ctx, i):
        if not ctx.is_replaying:
            ran.append(i)
        return i

    def wide(ctx, n):
        got = yield task.when_all([ctx.call_sub_orchestrator(one, input=i) for i in range(n)])
        return sum(got)

    state = hub.run(wide, orchestrators=[one], input=1000, timeout=120)
    assert state.get_output() == sum(range(1000))
    assert sorted(ran) == list(range(1000))
    completed = of_kind(hub.history(state.instance_id), "SubOrchestrationInstanceCompleted")
    assert len({e.task_scheduled_id for e in completed}) == len(completed) == 1000


def test_big_outputs(hub):
    """reports: BL-097"""
    def big(ctx, n):
        return "x" * 100_000

    def sequence(ctx, n):
        total = 0
        for i in range(n):
            total += len((yield ctx.call_sub_orchestrator(big, input=i)))
        return total

    assert hub.run(sequence, orchestrators=[big], input=20, timeout=60).get_output() == 2_000_000


def test_suspended_parent_keeps_the_result(hub):
    """A child ends while its parent is suspended. checklist: 79"""
    def parent(ctx, x):
        return (yield ctx.call_sub_orchestrator(waiting_child, input=1, instance_id=x))

    hub.new_worker([parent, waiting_child])
    child_id = hub.id("child")
    id = hub.start(parent, input=child_id)
    hub.until(child_id, "RUNNING")
    hub.client.suspend_orchestration(id)
    hub.client.raise_orchestration_event(child_id, "go", data=2)
    hub.finish(child_id)
    assert hub.status(id) == "SUSPENDED"
    hub.client.resume_orchestration(id)
    assert hub.finish(id).get_output() == [1, 2]


def test_replaced_child(hub):
    """A client starts the child's id anew: its parent is told."""
    def parent(ctx, x):
        try:
            yield ctx.call_sub_orchestrator(waiting_child, input=1, instance_id=x)
        except task.TaskFailedError as e:
            return e.details.message

    hub.new_worker([parent, waiting_child])
    child_id = hub.id("child")
    id = hub.start(parent, input=child_id)
    hub.until(child_id, "RUNNING")
    hub.start(waiting_child, input="new", instance_id=child_id, reuse_id_policy=pb.OrchestrationIdReusePolicy(
        replaceableStatus=[pb.ORCHESTRATION_STATUS_RUNNING, pb.ORCHESTRATION_STATUS_TERMINATED]))
    hub.finish(id)
    failed, = of_kind(hub.history(id), "SubOrchestrationInstanceFailed")
    assert failed.failure_details.error_type == "SubOrchestrationReplaced"
    hub.client.raise_orchestration_event(child_id, "go", data="g")
    assert hub.finish(child_id).get_output() == ["new", "g"]
    assert not hub.raw_state(child_id).HasField("parentInstanceId")


def test_server_killed_mid_way(own_server, new_hub):
    """checklist: 73"""
    server = own_server()
    hub = new_hub(server)

    def parent(ctx, n):
        got = yield task.when_all(
            [ctx.call_sub_orchestrator(waiting_child, input=i, instance_id="kid-%d" % i) for i in range(n)])
        return [g[0] for g in got]

    hub.new_worker([parent, waiting_child])
    id = hub.start(parent, input=10)
    for i in range(10):
        hub.until("kid-%d" % i, "RUNNING")
    for i in range(5):
        hub.client.raise_orchestration_event("kid-%d" % i, "go")
    server.restart()
    for i in range(5, 10):
        eventually(lambda: try_raise(hub, "kid-%d" % i))
    assert hub.finish(id, 30).get_output() == list(range(10))


def try_raise(hub, id):
    import grpc
    try:
        hub.client.raise_orchestration_event(id, "go")
    except grpc.RpcError as e:
        assert e.code() == grpc.StatusCode.UNAVAILABLE, e
        return False
    return True


@pytest.mark.parametrize("where", ["child", "parent"])
def test_terminate_does_not_cross_by_itself(hub, where):
    """checklist: 86"""
    def parent(ctx, x):
        try:
            return (yield ctx.call_sub_orchestrator(waiting_child, input=1, instance_id=x))
        except task.TaskFailedError:
            return "told"

    hub.new_worker([parent, waiting_child])
    child_id = hub.id("child")
    id = hub.start(parent, input=child_id)
    hub.until(child_id, "RUNNING")
    hub.client.terminate_orchestration(child_id if where == "child" else id, recursive=False)
    if where == "child":
        assert hub.finish(id).get_output() == "told"
    else:
        assert hub.finish(id).runtime_status.name == "TERMINATED"
        assert hub.status(child_id) == "RUNNING"
        hub.client.raise_orchestration_event(child_id, "go")
        assert hub.finish(child_id).runtime_status.name == "COMPLETED"
