"""Activities: what arrives, what comes back, how often, and after which losses."""

import threading
from datetime import timedelta

import pytest
from conftest import eventually, of_kind, pb
from durabletask import task


def square(ctx, x):
    return x * x


def chain(ctx, x):
    for _ in range(5):
        x = yield ctx.call_activity(square, input=x)
    return x


def fan(ctx, n):
    got = yield task.when_all([ctx.call_activity(square, input=i) for i in range(n)])
    return sum(got)


def test_chain(hub):
    """Five activities, one after the other."""
    assert hub.run(chain, square, input=2).get_output() == 2 ** 32


@pytest.mark.parametrize("n", [97, 98, 99, 100, 101, 999, 1000])
def test_fan_out(hub, n):
    """reports: BL-179, BL-096"""
    ran = []

    def mark(ctx, i):
        ran.append(i)
        return i * i

    def wide(ctx, n):
        got = yield task.when_all([ctx.call_activity(mark, input=i) for i in range(n)])
        return sum(got)

    state = hub.run(wide, mark, input=n, timeout=60)
    assert state.get_output() == sum(i * i for i in range(n))
    assert sorted(ran) == list(range(n))
    events = hub.history(state.instance_id)
    assert len(of_kind(events, "TaskScheduled")) == n
    assert len(of_kind(events, "TaskCompleted")) == n
    # Fan-in does not take a turn an activity (BL-113 is the large form of this).
    assert len(of_kind(events, "OrchestratorStarted")) <= n + 1


def test_fan_out_3000(hub):
    """reports: BL-113, BL-090"""
    state = hub.run(fan, square, input=3000, timeout=120)
    assert state.get_output() == sum(i * i for i in range(3000))


def test_large_turn(hub):
    """reports: BL-090"""
    def length(ctx, text):
        return len(text)

    def big(ctx, n):
        got = yield task.when_all([ctx.call_activity(length, input="x" * 10_000) for _ in range(n)])
        return sum(got)

    def small_answer(ctx, x):
        return (yield ctx.call_sub_orchestrator(big, input=300))

    assert hub.run(small_answer, length, orchestrators=[big], timeout=60).get_output() == 3_000_000


def test_everything_arrives(hub):
    """checklist: 53"""
    def call(ctx, x):
        return (yield ctx.call_activity(square, input=3, tags={"k": "v", "ünï": "çødé"}))

    worker = hub.new_worker([call], [square])
    original = worker._execute_orchestrator

    def execute(req, stub, token):
        class Stub:
            def CompleteOrchestratorTask(self, res):
                for a in res.actions:
                    if a.HasField("scheduleTask"):
                        a.scheduleTask.version.value = "7.1"
                        a.scheduleTask.parentTraceContext.traceParent = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
                        a.scheduleTask.parentTraceContext.spanID = "b" * 16
                return stub.CompleteOrchestratorTask(res)
        return original(req, Stub(), token)

    worker._execute_orchestrator = execute
    id = hub.start(call)
    assert hub.finish(id).get_output() == 9
    got = worker.tasks[0]
    assert got.name == "square" and got.input.value == "3" and got.taskId == 1
    assert got.version.value == "7.1"
    assert dict(got.tags) == {"k": "v", "ünï": "çødé"}
    assert got.parentTraceContext.spanID == "b" * 16
    assert got.orchestrationInstance.instanceId == id
    assert got.orchestrationInstance.executionId.value == hub.raw_state(id).executionId.value
    scheduled = of_kind(hub.history(id), "TaskScheduled")[0]
    assert (scheduled.version, scheduled.tags) == ("7.1", {"k": "v", "ünï": "çødé"})


def test_results_kept_exactly(hub):
    """checklist: 55"""
    answers = {"none": None, "empty": "", "zero": 0, "false": False, "list": [], "object": {},
               "text": "ü😀\u2028 \\ \" \n", "number": 1e308, "nested": {"a": [1, {"b": None}]}}

    def give(ctx, key):
        return answers[key]

    def takes(ctx, x):
        got = {}
        for key in answers:
            got[key] = yield ctx.call_activity(give, input=key)
        return got

    assert hub.run(takes, give).get_output() == answers


def test_large_payload(hub):
    """reports: BL-092, BL-087, BL-088"""
    text = "0123456789abcdef" * (3 << 16)  # 3 MiB, under the 4 MiB a Python client takes

    def same(ctx, x):
        return x

    def through(ctx, x):
        ctx.set_custom_status("big")
        return (yield ctx.call_activity(same, input=len(x)))

    assert hub.run(through, same, input=text).get_output() == len(text)


def test_larger_than_4_mib_with_raised_limits(hub):
    """reports: BL-092"""
    from conftest import channel_options
    options = channel_options(max_receive_message_length=64 << 20, max_send_message_length=64 << 20)
    text = "x" * (8 << 20)

    def same(ctx, x):
        return x

    def through(ctx, x):
        return (yield ctx.call_activity(same, input=x))

    hub.new_worker([through], [same], channel_options=options)
    client = hub.new_client(channel_options=options)
    id = client.schedule_new_orchestration(through, input=text)
    assert client.wait_for_orchestration_completion(id, timeout=60).get_output() == text
    state = client.get_orchestration_state(id, fetch_payloads=False)
    assert state.serialized_output is None


def test_failure(hub):
    """checklist: 54"""
    def silent(ctx, x):
        raise ValueError()

    def catches(ctx, x):
        try:
            yield ctx.call_activity(silent)
        except task.TaskFailedError as e:
            return [e.details.error_type, e.details.message]
        return "no failure"

    state = hub.run(catches, silent)
    assert state.get_output() == ["builtins.ValueError", ""]
    assert len(of_kind(hub.history(state.instance_id), "TaskFailed")) == 1


def test_duplicate_completion(hub):
    """checklist: 56; reports: BL-027"""
    worker = hub.new_worker([chain], [square])
    original = worker._execute_activity

    def execute(req, stub, token):
        class Stub:
            def CompleteActivityTask(self, res):
                answer = stub.CompleteActivityTask(res)
                stub.CompleteActivityTask(res)
                res.result.value = "666"
                stub.CompleteActivityTask(res)
                return answer
        return original(req, Stub(), token)

    worker._execute_activity = execute
    state = hub.finish(hub.start(chain, input=2))
    assert state.get_output() == 2 ** 32
    assert len(of_kind(hub.history(state.instance_id), "TaskCompleted")) == 5


def test_abandoned_comes_again(hub):
    """checklist: 59"""
    worker = hub.new_worker([chain], [square])
    original, given_back = worker._execute_activity, []

    def execute(req, stub, token):
        if req.taskId == 2 and len(given_back) < 2:
            given_back.append(token)
            return stub.AbandonTaskActivityWorkItem(pb.AbandonActivityTaskRequest(completionToken=token))
        return original(req, stub, token)

    worker._execute_activity = execute
    assert hub.finish(hub.start(chain, input=2)).get_output() == 2 ** 32
    assert len(set(given_back)) == 2


def test_late_result(hub):
    """checklist: 60"""
    release, entered, answered = threading.Event(), threading.Event(), threading.Event()

    def slow(ctx, x):
        entered.set()
        release.wait(30)
        return 1

    def call(ctx, x):
        yield ctx.call_activity(slow)

    worker = hub.new_worker([call], [slow])
    original = worker._execute_activity

    def execute(req, stub, token):
        class Stub:
            def CompleteActivityTask(self, res):
                answer = stub.CompleteActivityTask(res)  # raises unless OK
                answered.set()
                return answer
        return original(req, Stub(), token)

    worker._execute_activity = execute
    id = hub.start(call)
    assert entered.wait(10)
    hub.client.terminate_orchestration(id, output="over")
    hub.finish(id)
    before = len(hub.history(id))
    hub.client.purge_orchestration(id)
    release.set()
    assert answered.wait(10)
    assert hub.client.get_orchestration_state(id) is None
    assert before > 0


def test_result_while_suspended(hub):
    """checklist: 61; reports: BL-051"""
    release = threading.Event()
    started = []

    def slow(ctx, x):
        started.append(x)
        release.wait(30)
        return x

    def calls(ctx, x):
        got = yield task.when_all([ctx.call_activity(slow, input=i) for i in range(5)])
        more = []
        for n in range(3):
            more.append((yield ctx.wait_for_external_event("e")))
        return [got, more]

    hub.new_worker([calls], [slow])
    id = hub.start(calls)
    eventually(lambda: len(started) == 5)
    hub.client.suspend_orchestration(id)
    release.set()
    for n in range(3):
        hub.client.raise_orchestration_event(id, "e", data=n)
    with pytest.raises(TimeoutError):
        hub.client.wait_for_orchestration_completion(id, timeout=1)
    assert hub.status(id) == "SUSPENDED"
    assert len(started) == 5
    hub.client.resume_orchestration(id)
    assert hub.finish(id).get_output() == [list(range(5)), [0, 1, 2]]
    assert len(started) == 5


def test_two_workers_share(hub):
    """checklist: 126"""
    ran = {0: 0, 1: 0}

    def worker(n):
        def slow(ctx, x):
            ran[n] += 1
            threading.Event().wait(0.02)  # the work itself
            return x
        slow.__name__ = "slow"
        return hub.new_worker([wide], [slow])

    def wide(ctx, n):
        return sum((yield task.when_all([ctx.call_activity("slow", input=1) for _ in range(n)])))

    from durabletask.worker import ConcurrencyOptions  # noqa: F401  (the default is 100 a CPU)
    worker(0), worker(1)
    assert hub.finish(hub.start(wide, input=400)).get_output() == 400
    assert ran[0] + ran[1] == 400
    assert min(ran.values()) > 40, ran


def test_worker_gone_its_work_goes_to_another(hub):
    """checklist: 58, 126; reports: BL-010"""
    blocked, entered, never = threading.Event(), threading.Event(), threading.Event()

    def first(ctx, x):
        entered.set()
        never.wait(60)
        return "first"

    def second(ctx, x):
        return "second"

    def call(ctx, x):
        return (yield ctx.call_activity("work"))

    one = hub.new_worker([call], {"work": first})
    id = hub.start(call)
    assert entered.wait(10)
    blocked.set()
    one._response_stream.cancel()  # as when its process dies
    one._shutdown.set()
    hub.new_worker([call], {"work": second})
    assert hub.finish(id, 10).get_output() == "second"
    never.set()
    assert len(of_kind(hub.history(id), "TaskCompleted")) == 1


def test_activity_timeout(own_server, new_hub):
    """checklist: 149; reports: BL-021"""
    hub = new_hub(own_server({"activity.timeout": "1s"}))
    runs, never = [], threading.Event()

    def hangs(ctx, x):
        runs.append(1)
        if len(runs) == 1:
            never.wait(60)
        return len(runs)

    def call(ctx, x):
        return (yield ctx.call_activity(hangs))

    hub.new_worker([call], [hangs])
    state = hub.finish(hub.start(call), 20)
    assert state.get_output() == 2
    never.set()


def test_reused_id_after_retry(hub):
    """checklist: 43; reports: BL-030"""
    tries = []

    def flaky(ctx, x):
        tries.append(x)
        if len(tries) == 1:
            raise ValueError("once")
        return "ok"

    def script(ctx, x):
        policy = task.RetryPolicy(first_retry_interval=timedelta(milliseconds=10), max_number_of_attempts=3)
        first = yield ctx.call_activity(flaky, retry_policy=policy)
        rest = yield task.when_all([ctx.call_activity(square, input=i) for i in range(8)])
        return [first, rest]

    state = hub.run(script, flaky, square)
    assert state.get_output() == ["ok", [i * i for i in range(8)]]
    scheduled = [e.event_id for e in of_kind(hub.history(state.instance_id), "TaskScheduled") if e.name == "flaky"]
    assert len(scheduled) == 2 and len(set(scheduled)) == 1  # PY repeats the action's id
