"""Durable timers: when they fire, into what, and over restarts."""

import threading
import time
from datetime import datetime, timedelta, timezone

import pytest
from conftest import eventually, of_kind
from durabletask import task


def ms(n):
    return timedelta(milliseconds=n)


@pytest.mark.parametrize("delay", [ms(0), ms(-5000), timedelta(days=-36500)], ids=["zero", "negative", "past"])
def test_due_at_once(hub, delay):
    """checklist: 63"""
    def sleeps(ctx, x):
        yield ctx.create_timer(ctx.current_utc_datetime + delay)
        return "awake"

    state = hub.run(sleeps, timeout=10)
    assert state.get_output() == "awake"
    events = hub.history(state.instance_id)
    fired, = of_kind(events, "TimerFired")
    created, = of_kind(events, "TimerCreated")
    assert fired.timer_id == created.event_id and fired.fire_at == created.fire_at


def test_never_early(hub):
    """checklist: 64; reports: BL-043"""
    seen = []

    def sleeps(ctx, delay):
        at = ctx.current_utc_datetime + ms(delay)
        yield ctx.create_timer(at)
        if not ctx.is_replaying:
            seen.append((at, datetime.now(timezone.utc)))
        assert ctx.current_utc_datetime > at.replace(tzinfo=ctx.current_utc_datetime.tzinfo)
        return 1

    hub.new_worker([sleeps])
    ids = [hub.start(sleeps, input=d) for d in range(50, 1000, 10)]
    for id in ids:
        assert hub.finish(id).runtime_status.name == "COMPLETED"
        events = hub.history(id)
        fired, = of_kind(events, "TimerFired")
        created, = of_kind(events, "TimerCreated")
        assert (fired.timer_id, fired.fire_at) == (created.event_id, created.fire_at)
        assert fired.timestamp >= fired.fire_at
    late = sorted((now - at.replace(tzinfo=timezone.utc)).total_seconds() for at, now in seen)
    assert late[0] >= 0, "a timer fired early"
    assert late[len(late) // 2] < 0.5


def test_far_away(hub):
    """checklist: 63; reports: BL-042"""
    def far(ctx, x):
        hours = ctx.create_timer(timedelta(hours=1))
        years = ctx.create_timer(timedelta(days=365 * 60))
        week = ctx.create_timer(timedelta(days=8))
        event = ctx.wait_for_external_event("go")
        done = yield task.when_any([hours, years, week, event])
        return done is event

    hub.new_worker([far], maximum_timer_interval=None)
    id = hub.start(far)
    hub.until(id, "RUNNING")
    created = of_kind(hub.history(id), "TimerCreated")
    assert len(created) == 3
    assert max(e.fire_at for e in created).year - datetime.now().year >= 59
    with pytest.raises(TimeoutError):
        hub.client.wait_for_orchestration_completion(id, timeout=0.5)
    hub.client.raise_orchestration_event(id, "go")
    assert hub.finish(id).get_output() is True
    assert not of_kind(hub.history(id), "TimerFired")


def test_many_in_one_turn(hub):
    """reports: BL-040"""
    def many(ctx, x):
        yield task.when_all([ctx.create_timer(ms(20 * n)) for n in range(1, 51)])
        return "all"

    state = hub.run(many, timeout=20)
    assert state.get_output() == "all"
    fired = of_kind(hub.history(state.instance_id), "TimerFired")
    assert sorted(e.timer_id for e in fired) == list(range(1, 51))


def test_event_beats_timer(hub):
    """reports: BL-034"""
    def race(ctx, x):
        event = ctx.wait_for_external_event("ok")
        timer = ctx.create_timer(timedelta(hours=1))
        winner = yield task.when_any([timer, event])
        return winner is event and event.get_result()

    hub.new_worker([race])
    id = hub.start(race)
    hub.until(id, "RUNNING")
    begin = time.monotonic()
    hub.client.raise_orchestration_event(id, "ok", data="here")
    assert hub.finish(id).get_output() == "here"
    assert time.monotonic() - begin < 2


def test_event_after_the_timeout(hub):
    """reports: BL-039"""
    def race(ctx, x):
        event = ctx.wait_for_external_event("e")
        timer = ctx.create_timer(ms(300))
        winner = yield task.when_any([event, timer])
        outcome = "timed out" if winner is timer else "event"
        yield ctx.wait_for_external_event("finish")
        return outcome

    hub.new_worker([race])
    id = hub.start(race)
    eventually(lambda: of_kind(hub.history(id), "TimerFired"))
    hub.client.raise_orchestration_event(id, "e")
    hub.client.raise_orchestration_event(id, "finish")
    assert hub.finish(id).get_output() == "timed out"
    names = [type(e).__name__ for e in hub.history(id)]
    assert names.index("TimerFiredEvent") < names.index("EventRaisedEvent")


def test_not_into_another_execution(hub):
    """checklist: 66; checklist-partial: 90"""
    def loop(ctx, n):
        ctx.create_timer(ms(150))
        yield ctx.create_timer(ms(30))
        if n < 5:
            ctx.continue_as_new(n + 1)
            return
        yield ctx.create_timer(ms(400))
        return n

    state = hub.run(loop, input=0, timeout=20)
    assert state.get_output() == 5
    events = hub.history(state.instance_id)
    created = {e.event_id for e in of_kind(events, "TimerCreated")}
    fired = [e.timer_id for e in of_kind(events, "TimerFired")]
    assert sorted(fired) == sorted(created) == [1, 2, 3]


def test_not_into_a_completed_one(hub):
    """checklist: 66"""
    def leaves(ctx, x):
        ctx.create_timer(ms(200))
        return "gone"
        yield

    worker = hub.new_worker([leaves])
    id = hub.start(leaves)
    hub.finish(id)
    before = hub.history(id)

    def other(ctx, x):
        yield ctx.create_timer(ms(400))

    worker._registry.add_named_orchestrator("other", other)
    hub.finish(hub.start("other"))
    assert [e.event_id for e in hub.history(id)] == [e.event_id for e in before]
    assert len(worker.turns_of(id)) == 1


def test_server_down_over_the_time(own_server, new_hub):
    """checklist: 65; reports: BL-006"""
    server = own_server()
    hub = new_hub(server)

    def sleeps(ctx, x):
        yield ctx.create_timer(ms(x))
        return "awake"

    hub.new_worker([sleeps])
    ids = [hub.start(sleeps, input=d) for d in (400, 700, 1000)]
    for id in ids:
        hub.until(id, "RUNNING")
    due = max(of_kind(hub.history(id), "TimerCreated")[0].fire_at for id in ids)
    server.kill()
    eventually(lambda: datetime.now(timezone.utc) > due, 5)
    server.start()
    for id in ids:
        assert hub.finish(id, 15).get_output() == "awake"
        assert len(of_kind(hub.history(id), "TimerFired")) == 1


def test_many_timers_need_no_threads(own_server, new_hub):
    """checklist: 65"""
    server = own_server()
    hub = new_hub(server)

    def many(ctx, n):
        for _ in range(n):
            ctx.create_timer(timedelta(hours=1))
        yield ctx.wait_for_external_event("go")
        return n

    hub.new_worker([many])
    threads = server.threads()
    ids = [hub.start(many, input=1000) for _ in range(20)]
    for id in ids:
        hub.until(id, "RUNNING", 60)
    assert server.threads() <= threads + 2
    for id in ids:
        hub.client.raise_orchestration_event(id, "go")
    for id in ids:
        assert hub.finish(id, 60).get_output() == 1000


def test_sleeping_server(own_server, new_hub):
    """reports: BL-047"""
    import signal
    server = own_server()
    hub = new_hub(server)

    def sleeps(ctx, x):
        yield ctx.create_timer(ms(500))
        return "awake"

    hub.new_worker([sleeps])
    id = hub.start(sleeps)
    hub.until(id, "RUNNING")
    server.signal(signal.SIGSTOP)
    threading.Event().wait(1.5)  # what is tested: time passes while the process stands still
    server.signal(signal.SIGCONT)
    begin = time.monotonic()
    assert hub.finish(id, 10).get_output() == "awake"
    assert time.monotonic() - begin < 3
