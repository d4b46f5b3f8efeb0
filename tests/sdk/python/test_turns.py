"""What an orchestrator turn carries, seen by the SDK's own worker, and what a turn leaves behind."""

from datetime import timedelta

from conftest import eventually, kinds, of_kind, pb


def plus_one(ctx, x):
    return x + 1


def hello(ctx, x):
    return "Hello, %s" % x


def child(ctx, x):
    return [x, ctx.instance_id]


def dts_example(ctx, x):
    a = yield ctx.call_activity(hello, input=x)
    yield ctx.create_timer(timedelta(milliseconds=20))
    return (yield ctx.call_sub_orchestrator(child, input=a))


def test_exact_history(hub):
    """checklist: 34, 35"""
    hub.new_worker([dts_example, child], [hello])
    id = hub.start(dts_example, input="you")
    assert hub.finish(id).get_output()[0] == "Hello, you"
    events = hub.history(id)
    assert kinds(events) == [
        "OrchestratorStarted", "ExecutionStarted", "TaskScheduled", "OrchestratorStarted",
        "TaskCompleted", "TimerCreated", "OrchestratorStarted", "TimerFired",
        "SubOrchestrationInstanceCreated", "OrchestratorStarted",
        "SubOrchestrationInstanceCompleted", "ExecutionCompleted",
    ]
    assert [e.event_id for e in events] == [-1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, -1]
    assert events[4].task_scheduled_id == 1
    assert events[7].timer_id == 2
    assert events[7].fire_at == events[5].fire_at
    assert events[10].task_scheduled_id == 3
    assert events[11].result == hub.finish(id).serialized_output


def test_turns_as_the_worker_gets_them(hub):
    """checklist: 31, 33, 36; checklist-partial: 32; checklist: 146"""
    worker = hub.new_worker([dts_example, child], [hello])
    id = hub.start(dts_example, input="you", tags={"a": "b"}, version="1.0")
    hub.finish(id)
    turns = worker.turns_of(id)
    assert len(turns) == 4
    execution = turns[0].executionId.value
    assert len(execution) == 32 and set(execution) <= set("0123456789abcdef")
    assert hub.raw_state(id).executionId.value == execution
    last = 0
    for n, turn in enumerate(turns):
        assert turn.executionId.value == execution
        assert turn.HasField("entityParameters")
        names = [e.WhichOneof("eventType") for e in turn.newEvents]
        assert names[0] == "orchestratorStarted"
        assert names.count("orchestratorStarted") == 1 and len(names) >= 2
        assert (names[1] == "executionStarted") == (n == 0)
        for e in list(turn.pastEvents) + list(turn.newEvents):
            assert e.timestamp.seconds > 1_500_000_000
        now = turn.newEvents[0].timestamp.ToNanoseconds()
        assert now >= last
        last = now
        for e in turn.newEvents:
            if e.HasField("timerFired"):
                assert now > e.timerFired.fireAt.ToNanoseconds()
        # The past is what was committed, byte for byte, of which this turn's past is a longer prefix.
        if n:
            before = [e.SerializeToString() for e in turns[n - 1].pastEvents]
            arrived = [e.SerializeToString() for e in turns[n - 1].newEvents]
            past = [e.SerializeToString() for e in turn.pastEvents]
            assert past[:len(before) + len(arrived)] == before + arrived
    started = turns[0].newEvents[1].executionStarted
    assert started.orchestrationInstance.instanceId == id
    assert started.orchestrationInstance.executionId.value == execution
    assert dict(started.tags) == {"a": "b"} and started.version.value == "1.0"
    assert not started.HasField("parentInstance")


def test_events_during_a_turn_come_in_the_next(hub):
    """checklist: 37; reports: BL-032"""
    def collects(ctx, count):
        got = []
        for n in range(count):
            got.append((yield ctx.wait_for_external_event("x")))
            yield ctx.call_activity(plus_one, input=n)
        return got

    hub.new_worker([collects], [plus_one])
    id = hub.start(collects, input=30)
    for n in range(30):
        hub.client.raise_orchestration_event(id, "x", data=n)
    assert hub.finish(id).get_output() == list(range(30))
    raised = of_kind(hub.history(id), "EventRaised")
    assert [e.input for e in raised] == [str(n) for n in range(30)]


def test_custom_status(hub):
    """checklist: 39"""
    def tells(ctx, x):
        ctx.set_custom_status("one")
        yield ctx.wait_for_external_event("a")
        ctx.set_custom_status({"two": 2})
        yield ctx.wait_for_external_event("b")
        ctx.set_custom_status(None)
        yield ctx.wait_for_external_event("c")
        ctx.set_custom_status("last")
        return x

    hub.new_worker([tells])
    id = hub.start(tells)

    def shows(text):
        eventually(lambda: (hub.client.get_orchestration_state(id).serialized_custom_status or "") == text,
                   what="custom status " + text)

    shows('"one"')
    hub.client.raise_orchestration_event(id, "a")
    shows('{"two": 2}')
    hub.client.raise_orchestration_event(id, "b")
    eventually(lambda: hub.raw_state(id).customStatus.value in ("", "null"))
    hub.client.raise_orchestration_event(id, "c")
    assert hub.finish(id).get_custom_status() == "last"


def test_fire_and_forget(hub):
    """checklist: 42"""
    ran = []

    def note(ctx, x):
        ran.append(x)

    def forgets(ctx, x):
        for n in range(3):
            ctx.call_activity(note, input=n)
        ctx.create_timer(timedelta(hours=1))
        return "gone"

    hub.new_worker([forgets], [note])
    assert hub.finish(hub.start(forgets)).get_output() == "gone"
    eventually(lambda: sorted(ran) == [0, 1, 2])


def test_replay_sees_the_same_time_and_ids(hub):
    """checklist: 146"""
    seen = {}

    def clock(ctx, x):
        seen.setdefault(0, set()).add((ctx.current_utc_datetime, ctx.new_uuid()))
        for n in range(1, 4):
            yield ctx.call_activity(plus_one, input=n)
            seen.setdefault(n, set()).add((ctx.current_utc_datetime, ctx.new_uuid()))
        return "done"

    hub.new_worker([clock], [plus_one])
    hub.finish(hub.start(clock))
    assert [len(seen[n]) for n in range(4)] == [1, 1, 1, 1]
    times = [next(iter(seen[n]))[0] for n in range(4)]
    assert times == sorted(times)


def test_history_limit(own_server, new_hub):
    """checklist: 48"""
    hub = new_hub(own_server({"history.max_events": 200}))

    def long(ctx, x):
        for n in range(100):
            yield ctx.call_activity(plus_one, input=n)

    hub.new_worker([long], [plus_one])
    state = hub.finish(hub.start(long), 60)
    assert state.runtime_status.name == "FAILED"
    assert state.failure_details.error_type == "HistoryLimitExceeded"
    assert len(hub.history(state.instance_id)) <= 202


def test_non_determinism_is_told(hub):
    """reports: BL-112"""
    calls = []

    def changes(ctx, x):
        calls.append(1)
        if len(calls) == 1:
            yield ctx.call_activity(plus_one, input=1)
        else:
            yield ctx.create_timer(timedelta(milliseconds=1))

    hub.new_worker([changes], [plus_one])
    state = hub.finish(hub.start(changes))
    assert state.runtime_status.name == "FAILED"
    assert "NonDeterminism" in state.failure_details.error_type


def test_unregistered_orchestrator(hub):
    """A name the worker does not know is the worker's answer; the server stores it."""
    hub.new_worker([child])
    state = hub.finish(hub.start("nobody"))
    assert state.runtime_status.name == "FAILED"
    assert "NotRegistered" in state.failure_details.error_type


def test_parallel_instances_do_not_mix(hub):
    """Many instances at once, each with its own answers."""
    def three(ctx, x):
        a = yield ctx.call_activity(plus_one, input=x)
        b = yield ctx.call_activity(plus_one, input=a)
        return (yield ctx.call_activity(plus_one, input=b))

    hub.new_worker([three], [plus_one])
    ids = [hub.start(three, input=n * 10) for n in range(200)]
    assert [hub.finish(id, 60).get_output() for id in ids] == [n * 10 + 3 for n in range(200)]


def test_trace_context_returns(hub):
    """checklist: 49"""
    def two(ctx, again):
        yield ctx.call_activity(plus_one, input=1)
        if again:
            ctx.continue_as_new(False)

    worker = hub.new_worker([two], [plus_one])

    answered = []
    original = worker._execute_orchestrator

    def execute(req, stub, token):
        class Stub:
            def CompleteOrchestratorTask(self, res):
                n = len(answered) + 1
                res.orchestrationTraceContext.spanID.value = "%016x" % n
                res.orchestrationTraceContext.spanStartTime.seconds = 1_700_000_000 + n
                answered.append(res)
                return stub.CompleteOrchestratorTask(res)
        return original(req, Stub(), token)

    worker._execute_orchestrator = execute
    id = hub.start(two, input=True)
    hub.finish(id)
    turns = worker.turns_of(id)
    assert len(turns) == 4
    spans = [t.orchestrationTraceContext.spanID.value for t in turns]
    assert spans == ["", "%016x" % 1, "", "%016x" % 3]
    assert not turns[2].HasField("orchestrationTraceContext")
    assert turns[1].orchestrationTraceContext.spanStartTime.seconds == 1_700_000_001


def test_actions_of_one_turn_in_order(hub):
    """checklist: 40; checklist: 145"""
    def plain(ctx, x):
        ctx.call_activity(plus_one, input=1)
        ctx.call_activity(plus_one, input=2)
        return "first"

    worker = hub.new_worker([plain], [plus_one])
    original = worker._execute_orchestrator

    def execute(req, stub, token):
        class Stub:
            def CompleteOrchestratorTask(self, res):
                """The completion first, and a second one with a higher id before it."""
                actions = sorted(res.actions, key=lambda a: not a.HasField("completeOrchestration"))
                second = pb.OrchestratorAction(id=999)
                second.completeOrchestration.orchestrationStatus = pb.ORCHESTRATION_STATUS_FAILED
                second.completeOrchestration.result.value = '"second"'
                del res.actions[:]
                res.actions.extend([second] + list(actions))
                return stub.CompleteOrchestratorTask(res)
        return original(req, Stub(), token)

    worker._execute_orchestrator = execute
    state = hub.finish(hub.start(plain))
    assert (state.runtime_status.name, state.get_output()) == ("COMPLETED", "first")
    assert len(of_kind(hub.history(state.instance_id), "TaskScheduled")) == 2
    eventually(lambda: len(worker.tasks) == 2)
