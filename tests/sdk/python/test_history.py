"""StreamInstanceHistory and purging by id."""

import pytest
from conftest import kinds, pb, rpc_error


def square(ctx, x):
    return x * x


def steps(ctx, n):
    for i in range(n):
        yield ctx.call_activity(square, input=i)
    return n


def test_in_order_with_times_and_payloads(hub):
    """checklist: 107; reports: BL-105"""
    state = hub.run(steps, square, input=5)
    events = hub.history(state.instance_id)
    assert kinds(events) == (["OrchestratorStarted", "ExecutionStarted"]
                             + ["TaskScheduled", "OrchestratorStarted", "TaskCompleted"] * 5
                             + ["ExecutionCompleted"])
    assert all(e.timestamp.year > 2020 for e in events)
    assert [e.timestamp for e in events if type(e).__name__ == "OrchestratorStartedEvent"] == sorted(
        e.timestamp for e in events if type(e).__name__ == "OrchestratorStartedEvent")
    assert [e.result for e in events if type(e).__name__ == "TaskCompletedEvent"] == [
        str(i * i) for i in range(5)]


def test_unknown_and_other_execution(hub):
    """checklist: 107"""
    code, message = rpc_error(lambda: hub.history("nobody"))
    assert (code, message) == ("NOT_FOUND", "Orchestration instance 'nobody' not found")
    state = hub.run(steps, square, input=1)
    id = state.instance_id
    right = hub.raw_state(id).executionId.value
    assert len(hub.history(id, execution_id=right)) == 6
    assert rpc_error(lambda: hub.history(id, execution_id="0" * 32))[0] == "NOT_FOUND"


def test_of_one_that_never_ran(hub):
    """checklist: 107"""
    id = hub.start(steps, input=1)
    assert hub.history(id) == []


def test_in_bounded_chunks(hub):
    """checklist: 107"""
    def big(ctx, n):
        for i in range(n):
            yield ctx.call_activity(pad, input="x" * 20_000)
        return n

    def pad(ctx, x):
        return x

    state = hub.run(big, pad, input=60, timeout=60)
    sizes, counts = [], []
    for chunk in hub.client._stub.StreamInstanceHistory(
            pb.StreamInstanceHistoryRequest(instanceId=state.instance_id)):
        sizes.append(chunk.ByteSize())
        counts.append(len(chunk.events))
    assert sum(counts) == 2 + 3 * 60 + 1
    assert max(sizes) <= 300_000 and len(sizes) > 5


def test_purge(hub):
    """checklist: 22; reports: BL-053"""
    def waits(ctx, x):
        return (yield ctx.wait_for_external_event("go"))

    hub.new_worker([waits])
    id = hub.start(waits)
    hub.until(id, "RUNNING")
    for unknown in (id, "nobody"):
        result = hub.client.purge_orchestration(unknown, recursive=False)
        assert (result.deleted_instance_count, result.is_complete) == (0, True)
    hub.client.raise_orchestration_event(id, "go")
    hub.finish(id)
    result = hub.client.purge_orchestration(id)
    assert (result.deleted_instance_count, result.is_complete) == (1, True)
    assert hub.client.purge_orchestration(id).deleted_instance_count == 0
    assert hub.client.get_orchestration_state(id) is None
    assert rpc_error(lambda: hub.history(id))[0] == "NOT_FOUND"
    # The id is as free as a new one.
    hub.start(waits, instance_id=id)
    hub.client.raise_orchestration_event(id, "go", data=2)
    assert hub.finish(id).get_output() == 2


@pytest.mark.parametrize("call", [
    lambda c: c.get_all_orchestration_states(),
    lambda c: c.list_instance_ids(),
    lambda c: c.rewind_orchestration("x"),
    lambda c: c.restart_orchestration("x"),
], ids=["query", "list", "rewind", "restart"])
def test_later_ones_say_so(hub, call):
    """RPCs of later issues answer UNIMPLEMENTED, with a text."""
    code, message = rpc_error(lambda: call(hub.client))
    assert code == "UNIMPLEMENTED" and message
