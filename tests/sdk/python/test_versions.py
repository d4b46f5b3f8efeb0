"""Which worker gets what: versions, filters, work that is given back; and retries."""

import threading
from datetime import timedelta

import pytest
from conftest import eventually, of_kind
from durabletask import task
from durabletask.worker import (
    ActivityWorkItemFilter, ConcurrencyOptions, OrchestrationWorkItemFilter, VersionFailureStrategy,
    VersioningOptions, VersionMatchStrategy, WorkItemFilters,
)


def ms(n):
    return timedelta(milliseconds=n)


def echo(ctx, x):
    return x


def tells(name):
    """An orchestrator that says which worker ran it."""
    def orchestrator(ctx, x):
        return [name, ctx.version]
    return {"o": orchestrator}


def filtered(hub, orchestrators, activities, filters):
    w = hub.new_worker(orchestrators, activities, start=False)
    w.use_work_item_filters(filters)
    w.start()
    return w


def test_filters_by_version(hub):
    """checklist-partial: 127; reports: BL-109"""
    any_version = filtered(hub, tells("any"), {}, WorkItemFilters(
        orchestrations=[OrchestrationWorkItemFilter("o")]))
    two = filtered(hub, tells("two"), {}, WorkItemFilters(
        orchestrations=[OrchestrationWorkItemFilter("o", ["2"])]))
    got = {v: {hub.finish(hub.start("o", version=v)).get_output()[0] for _ in range(20)}
           for v in (None, "1", "2")}
    assert got[None] == got["1"] == {"any"}
    assert got["2"] <= {"any", "two"}
    any_version.stop()
    assert hub.finish(hub.start("o", version="2")).get_output() == ["two", "2"]
    id = hub.start("o", version="1")
    hub.finish(hub.start("o", version="2"))
    assert hub.status(id) == "PENDING"
    assert two.turns


def test_unversioned_only(hub):
    """checklist-partial: 127"""
    filtered(hub, tells("none"), {}, WorkItemFilters(orchestrations=[OrchestrationWorkItemFilter("o", [""])]))
    assert hub.finish(hub.start("o")).get_output()[0] == "none"
    id = hub.start("o", version="1")
    hub.finish(hub.start("o"))
    assert hub.status(id) == "PENDING"


def test_unmatched_waits_without_blocking(hub):
    """checklist: 128; reports: BL-028"""
    ids = [hub.start("nobody") for _ in range(100)]
    filtered(hub, tells("a"), {}, WorkItemFilters(orchestrations=[OrchestrationWorkItemFilter("o")]))
    for _ in range(20):
        assert hub.finish(hub.start("o"), 5).runtime_status.name == "COMPLETED"
    assert {hub.status(id) for id in ids} == {"PENDING"}
    hub.new_worker({"nobody": echo})
    for id in ids:
        assert hub.finish(id).runtime_status.name == "COMPLETED"


def test_empty_list_gets_nothing(hub):
    """checklist-partial: 127"""
    empty = filtered(hub, [call_echo], [echo], WorkItemFilters(
        orchestrations=[OrchestrationWorkItemFilter("call_echo")]))
    id = hub.start(call_echo, input=1)
    hub.until(id, "RUNNING")
    assert not empty.tasks
    other = filtered(hub, [], [echo], WorkItemFilters(activities=[ActivityWorkItemFilter("echo")]))
    assert hub.finish(id).get_output() == 1
    assert len(other.tasks) == 1 and not other.turns and not empty.tasks


def call_echo(ctx, x):
    return (yield ctx.call_activity(echo, input=x))


def test_registrations_of_three_workers(hub):
    """checklist-partial: 127; reports: BL-028"""
    def both(ctx, x):
        a = yield ctx.call_activity("X", input=x)
        b = yield ctx.call_activity("Y", input=x)
        return [a, b]

    def auto(orchestrators, activities):
        w = hub.new_worker(orchestrators, activities, start=False)
        w.use_work_item_filters()
        w.start()
        return w

    a = auto([both], {})
    b = auto({}, {"X": lambda ctx, x: "x%d" % x})
    c = auto({}, {"Y": lambda ctx, x: "y%d" % x})
    ids = [hub.start(both, input=n) for n in range(100)]
    assert [hub.finish(id, 60).get_output() for id in ids] == [["x%d" % n, "y%d" % n] for n in range(100)]
    assert not a.tasks and not b.turns and not c.turns
    assert {t.name for t in b.tasks} == {"X"} and {t.name for t in c.tasks} == {"Y"}


def test_activity_takes_the_version_of_its_orchestration(hub):
    """checklist-partial: 127"""
    filtered(hub, [call_echo], {}, WorkItemFilters(orchestrations=[OrchestrationWorkItemFilter("call_echo")]))
    one = filtered(hub, {}, [echo], WorkItemFilters(activities=[ActivityWorkItemFilter("echo", ["1"])]))
    two = filtered(hub, {}, [echo], WorkItemFilters(activities=[ActivityWorkItemFilter("echo", ["2"])]))
    for n in range(10):
        hub.finish(hub.start(call_echo, input=n, version="1"))
        hub.finish(hub.start(call_echo, input=n, version="2"))
    assert (len(one.tasks), len(two.tasks)) == (10, 10)
    assert not one.tasks[0].HasField("version")


def test_names_are_case_sensitive(hub):
    """checklist-partial: 127"""
    filtered(hub, tells("lower"), {}, WorkItemFilters(orchestrations=[OrchestrationWorkItemFilter("o")]))
    id = hub.start("O")
    assert hub.finish(hub.start("o")).get_output()[0] == "lower"
    assert hub.status(id) == "PENDING"


def test_rejected_version_goes_to_another_worker(hub):
    """checklist: 132; reports: BL-110"""
    def strict(version):
        w = hub.new_worker(tells(version), start=False)
        w.use_versioning(VersioningOptions(
            version=version, match_strategy=VersionMatchStrategy.STRICT,
            failure_strategy=VersionFailureStrategy.REJECT))
        w.start()
        return w

    one = strict("1")
    id = hub.start("o", version="2")
    with pytest.raises(TimeoutError):
        hub.client.wait_for_orchestration_start(id, timeout=4)
    assert 1 <= len(one.turns_of(id)) <= 5, "given back without a pause"
    strict("2")
    assert hub.finish(id, 5).get_output() == ["2", "2"]


def test_failing_version(hub):
    """A worker that fails what has another version: the server keeps its answer."""
    w = hub.new_worker(tells("x"), start=False)
    w.use_versioning(VersioningOptions(
        version="1", match_strategy=VersionMatchStrategy.STRICT, failure_strategy=VersionFailureStrategy.FAIL))
    w.start()
    state = hub.finish(hub.start("o", version="2"))
    assert state.runtime_status.name == "FAILED"
    assert "ersion" in state.failure_details.error_type + state.failure_details.message


def test_one_at_a_time(hub):
    """checklist: 125"""
    running, most = [0], [0]
    lock = threading.Lock()

    def work(ctx, x):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        threading.Event().wait(0.01)
        with lock:
            running[0] -= 1
        return x

    def wide(ctx, n):
        return sum((yield task.when_all([ctx.call_activity(work, input=1) for _ in range(n)])))

    hub.new_worker([wide], [work], concurrency_options=ConcurrencyOptions(
        maximum_concurrent_activity_work_items=1, maximum_thread_pool_workers=16))
    assert hub.finish(hub.start(wide, input=50)).get_output() == 50
    assert most[0] == 1


# ---- retries ----

def policy(tries, **kw):
    return task.RetryPolicy(first_retry_interval=ms(20), max_number_of_attempts=tries, **kw)


@pytest.mark.parametrize("good_at", [1, 2, 4, None])
def test_activity_retries(hub, good_at):
    """reports: BL-030"""
    tries = []

    def flaky(ctx, x):
        tries.append(1)
        if good_at is None or len(tries) < good_at:
            raise ValueError("try %d" % len(tries))
        return len(tries)

    def call(ctx, x):
        return (yield ctx.call_activity(flaky, retry_policy=policy(4, backoff_coefficient=2.0)))

    state = hub.run(call, flaky)
    assert len(tries) == (good_at or 4)
    events = hub.history(state.instance_id)
    assert len(of_kind(events, "TaskScheduled")) == len(tries)
    assert len(of_kind(events, "TimerFired")) == len(tries) - 1
    if good_at:
        assert state.get_output() == good_at
    else:
        assert state.runtime_status.name == "FAILED" and "try 4" in state.failure_details.message


def test_retries_in_parallel(hub):
    """Twenty activities that each fail twice, at once. checklist: 43"""
    tries, lock = {}, threading.Lock()

    def flaky(ctx, x):
        with lock:
            tries[x] = tries.get(x, 0) + 1
            n = tries[x]
        if n < 3:
            raise ValueError("again")
        return x

    def wide(ctx, n):
        return (yield task.when_all(
            [ctx.call_activity(flaky, input=i, retry_policy=policy(5)) for i in range(n)]))

    assert hub.run(wide, flaky, input=20).get_output() == list(range(20))
    assert set(tries.values()) == {3}


def test_retry_survives_a_restart(own_server, new_hub):
    """reports: BL-030"""
    server = own_server()
    hub = new_hub(server)
    tries = []

    def flaky(ctx, x):
        tries.append(1)
        if len(tries) < 2:
            raise ValueError("first")
        return "second"

    def call(ctx, x):
        retry = task.RetryPolicy(first_retry_interval=ms(700), max_number_of_attempts=3)
        return (yield ctx.call_activity(flaky, retry_policy=retry))

    hub.new_worker([call], [flaky])
    id = hub.start(call)
    eventually(lambda: of_kind(hub.history(id), "TaskFailed"))
    server.restart()
    assert hub.finish(id, 20).get_output() == "second"
