"""StreamInstanceHistory and purging by id."""

from datetime import timedelta, timezone

import pytest
from conftest import kinds, pb, rpc_error
from durabletask import client


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


def ends(ctx, x):
    return x


def test_queries(hub):
    """All of them, by status and prefix, and the ids of those that have ended. checklist: 102, 105, 106"""
    def waits(ctx, x):
        return (yield ctx.wait_for_external_event("go"))

    hub.new_worker([ends, waits])
    names = ["q%03d" % i for i in range(230)]
    for name in names:
        hub.start(ends, input=name, instance_id=name)
    for name in names:
        hub.finish(name)
    hub.start(waits, instance_id="waiting")
    hub.until("waiting", "RUNNING")
    every = hub.client.get_all_orchestration_states()
    assert [s.instance_id for s in every] == names + ["waiting"], "more than a page"
    query = client.OrchestrationQuery(
        runtime_status=[client.OrchestrationStatus.COMPLETED], instance_id_prefix="q00", fetch_inputs_and_outputs=True)
    some = hub.client.get_all_orchestration_states(query)
    assert [s.get_output() for s in some] == names[:10]
    first = hub.client.list_instance_ids(page_size=100)
    assert len(first.items) == 100 and first.continuation_token
    rest = hub.client.list_instance_ids(page_size=200, continuation_token=first.continuation_token)
    assert sorted(first.items + rest.items) == names and not rest.continuation_token


def test_purge_by_filter(hub):
    """checklist: 93"""
    hub.new_worker([ends])
    for i in range(5):
        hub.start(ends, instance_id="p%d" % i)
        hub.finish("p%d" % i)
    made = hub.client.get_orchestration_state("p3").created_at
    result = hub.client.purge_orchestrations_by(created_time_to=made.replace(tzinfo=timezone.utc))
    assert (result.deleted_instance_count, result.is_complete) == (3, True)
    result = hub.client.purge_orchestrations_by(
        runtime_status=[client.OrchestrationStatus.COMPLETED], timeout=timedelta(seconds=30))
    assert (result.deleted_instance_count, result.is_complete) == (2, True)


def test_restart(hub):
    """checklist: 92"""
    hub.new_worker([ends])
    id = hub.start(ends, input=7)
    hub.finish(id)
    assert hub.client.restart_orchestration(id) == id
    assert hub.finish(id).get_output() == 7
    new = hub.client.restart_orchestration(id, restart_with_new_instance_id=True)
    assert new != id and hub.finish(new).get_output() == 7
    with pytest.raises(Exception, match="nobody"):
        hub.client.restart_orchestration("nobody")


def test_rewind_comes_later(hub):
    """It answers UNIMPLEMENTED, with a text."""
    code, message = rpc_error(lambda: hub.client.rewind_orchestration("x"))
    assert code == "UNIMPLEMENTED" and message
