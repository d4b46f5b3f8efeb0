"""Failure details: unchanged from where they arise to every place that shows them."""

from conftest import of_kind, pb
from durabletask import task

VALUES = {
    "nothing": None, "list": [1, "two", None, [3.5]], "map": {"a": {"b": True}}, "tenth": 0.1,
    "huge": 1e308, "text": "ü\u2028", "no": False,
}


class Properties:
    def get_exception_properties(self, exception):
        return dict(VALUES) if isinstance(exception, ValueError) else None


def fails(ctx, x):
    try:
        try:
            raise OSError("disk")
        except OSError as e:
            raise KeyError("middle") from e
    except KeyError as e:
        raise ValueError("outer") from e


def chain(details):
    out = []
    while True:
        out.append((details.errorType, details.errorMessage))
        if not details.HasField("innerFailure"):
            return out
        details = details.innerFailure


def raw_events(hub, id, kind):
    return [getattr(e, kind) for chunk in hub.client._stub.StreamInstanceHistory(
        pb.StreamInstanceHistoryRequest(instanceId=id)) for e in chunk.events if e.HasField(kind)]


def test_chain_and_properties(hub):
    """checklist: 54, 68, 147"""
    def middle(ctx, x):
        yield ctx.call_activity(fails)

    def parent(ctx, x):
        yield ctx.call_sub_orchestrator(middle, instance_id=x)

    worker = hub.new_worker([parent, middle], [fails], exception_properties_provider=Properties())
    middle_id = hub.id("middle")
    id = hub.start(parent, input=middle_id)
    state = hub.finish(id)
    assert state.runtime_status.name == "FAILED"
    failed, = raw_events(hub, middle_id, "taskFailed")
    details = failed.failureDetails
    assert details.errorMessage == "outer" and details.stackTrace.value
    sent = [r for r in worker.tasks]
    assert sent
    child, = raw_events(hub, id, "subOrchestrationInstanceFailed")
    done, = raw_events(hub, middle_id, "executionCompleted")
    shown = hub.raw_state(middle_id).failureDetails
    # One and the same at the child's end, in its state, and at its parent.
    assert child.failureDetails.SerializeToString(deterministic=True) == \
        done.failureDetails.SerializeToString(deterministic=True) == shown.SerializeToString(deterministic=True)
    top = hub.raw_state(id).failureDetails
    assert ("ValueError", "outer") in [(t.rsplit(".", 1)[-1], m) for t, m in chain(top)] or "outer" in str(top)


def test_properties_bit_for_bit(hub):
    """checklist: 147"""
    details = pb.TaskFailureDetails(errorType="T", errorMessage="m", isNonRetriable=True)
    details.stackTrace.value = "at line 1"
    inner = details.innerFailure
    inner.errorType, inner.errorMessage = "Inner", ""
    p = details.properties
    p["nothing"].null_value = 0
    p["tenth"].number_value = 0.1
    p["huge"].number_value = 1e308
    p["tiny"].number_value = 5e-324
    p["minus_zero"].number_value = -0.0
    p["text"].string_value = "ü"
    p["list"].list_value.values.add().number_value = 1.5
    p["list"].list_value.values.add().null_value = 0
    p["map"].struct_value.fields["a"].struct_value.fields["b"].bool_value = True
    inner.properties["deep"].string_value = "x"

    def boom(ctx, x):
        return 1

    def call(ctx, x):
        yield ctx.call_activity(boom)

    worker = hub.new_worker([call], [boom])
    original = worker._execute_activity
    seen = []

    def execute(req, stub, token):
        class Stub:
            def CompleteActivityTask(self, res):
                res.ClearField("result")
                res.failureDetails.CopyFrom(details)
                return stub.CompleteActivityTask(res)
        return original(req, Stub(), token)

    worker._execute_activity = execute
    turns = worker._execute_orchestrator

    def orchestrate(req, stub, token):
        class Stub:
            def CompleteOrchestratorTask(self, res):
                for a in res.actions:
                    if a.HasField("completeOrchestration"):
                        a.completeOrchestration.failureDetails.CopyFrom(details)
                seen.append(res)
                return stub.CompleteOrchestratorTask(res)
        return turns(req, Stub(), token)

    worker._execute_orchestrator = orchestrate
    id = hub.start(call)
    hub.finish(id)
    want = details.SerializeToString(deterministic=True)
    failed, = raw_events(hub, id, "taskFailed")
    done, = raw_events(hub, id, "executionCompleted")
    assert failed.failureDetails.SerializeToString(deterministic=True) == want
    assert done.failureDetails.SerializeToString(deterministic=True) == want
    assert hub.raw_state(id).failureDetails.SerializeToString(deterministic=True) == want


def test_200_levels_are_cut(hub):
    """checklist: 148"""
    details = pb.TaskFailureDetails(errorType="Level", errorMessage="0")
    at = details
    for n in range(1, 90):  # nesting that this client's own parser takes
        at = at.innerFailure
        at.errorType, at.errorMessage = "Level", str(n)

    def boom(ctx, x):
        return 1

    def call(ctx, x):
        try:
            yield ctx.call_activity(boom)
        except task.TaskFailedError as e:
            return e.details.message

    worker = hub.new_worker([call], [boom])
    original = worker._execute_activity

    def execute(req, stub, token):
        class Stub:
            def CompleteActivityTask(self, res):
                res.ClearField("result")
                res.failureDetails.CopyFrom(details)
                return stub.CompleteActivityTask(res)
        return original(req, Stub(), token)

    worker._execute_activity = execute
    id = hub.start(call)
    assert "0" in hub.finish(id).get_output()
    failed, = raw_events(hub, id, "taskFailed")
    levels = chain(failed.failureDetails)
    assert 60 <= len(levels) <= 65
    assert [m for _, m in levels[:60]] == [str(n) for n in range(60)]


def test_long_message(hub):
    """reports: BL-091"""
    def boom(ctx, x):
        raise ValueError("x" * 1_000_000)

    def call(ctx, x):
        try:
            yield ctx.call_activity(boom)
        except task.TaskFailedError as e:
            return len(e.details.message)

    state = hub.run(call, boom, timeout=30)
    assert state.get_output() > 10_000
    assert len(of_kind(hub.history(state.instance_id), "TaskFailed")) == 1


def test_orchestrator_failure(hub):
    """An orchestrator that raises: type, message and stack are shown."""
    def raises(ctx, x):
        raise RuntimeError("that was it")

    state = hub.run(raises)
    assert state.runtime_status.name == "FAILED"
    assert state.failure_details.error_type.endswith("RuntimeError")
    assert state.failure_details.message == "that was it"
    assert "raises" in (state.failure_details.stack_trace or "")
