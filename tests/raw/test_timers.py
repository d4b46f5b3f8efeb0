"""Timers (spec 6.2)."""

import time

from lib import actions as act
from lib.history import check_legal, events_of
from lib.proto import RUNNING, TERMINATED, kinds, nanos, pb, secs, ts
from lib.runner import NIGHTLY, limit, serial
from lib.server import eventually

DAY = 86400


# checklist: 63, 64
# reports: BL-042
def test_past_and_far_timers(t):
    id, c, w, i = t.started()
    now = time.time()
    fires = [ts(now), ts(0), pb.Timestamp(seconds=-5), pb.Timestamp(seconds=-62135596800), ts(now - 1e6),
             pb.Timestamp(seconds=int(now) - 1, nanos=123456789)]
    far = [ts(now + 3600)] + [ts(now + d * DAY) for d in (8, 24.9, 44, 49.8, 60, 3650, 60 * 365)] + [
        pb.Timestamp(seconds=253402300799, nanos=999999999)]
    w.done(i, *[act.timer(n, at=f) for n, f in enumerate(fires)],
           *[act.timer(100 + n, at=f) for n, f in enumerate(far)])
    fired = {}
    while len(fired) < len(fires):
        i = w.turn()
        for e in events_of(i.new, "timerFired"):
            assert e.timerId not in fired
            fired[e.timerId] = e.fireAt
        w.done(i)
    assert fired == dict(enumerate(fires)), fired
    w.none(1.0)
    h = check_legal(c.history(id))
    created = {e.eventId: e.timerCreated.fireAt for e in h if e.HasField("timerCreated")}
    assert created == {**dict(enumerate(fires)), **{100 + n: f for n, f in enumerate(far)}}
    c.terminate(id)
    w.done(w.turn(), act.terminated())


# checklist: 64
# reports: BL-040, BL-043
def test_many_timers_in_one_turn(t):
    id, c, w, i = t.started()
    base = time.time()
    want = {n: ts(base + 0.1 + n * 0.05) for n in range(50)}
    w.done(i, *[act.timer(n, at=f) for n, f in want.items()])
    fired, order = {}, []
    while len(fired) < 50:
        i = w.turn()
        arrived = time.time()
        for e in events_of(i.new, "timerFired"):
            assert e.timerId not in fired
            fired[e.timerId] = e.fireAt
            order.append(e.timerId)
            assert arrived >= secs(e.fireAt), "early"
            assert secs(i.new[0].timestamp) >= secs(e.fireAt)
        w.done(i)
    assert fired == want and order == sorted(order)
    assert time.time() - base < 30
    check_legal(c.history(id))


# checklist: 63
# reports: BL-044
def test_never_early(t):
    c, w = t.pair()
    for n in range(15):
        id = c.start("o")
        i = w.turn(id=id)
        at = ts(time.time() + 0.05 + n / 100)
        w.done(i, act.timer(1, at=at))
        i = w.turn(id=id)
        assert time.time() >= secs(at)
        assert nanos(i.new[1].timestamp) >= nanos(at) // 1000 * 1000
        w.done(i, act.complete())


# checklist: 65
# reports: BL-047
def test_server_down_over_fire_at(t):
    s = t.own_server()
    id, c, w, i = t.started()
    at = ts(time.time() + 3.0)
    w.done(i, act.timer(1, at=at), act.timer(2, after=3600))
    later = c.start("o", at=time.time() + 3.0)
    s.kill()
    time.sleep(3.3)
    s.start()
    w = t.worker()
    got = {x.id: x for x in (w.turn(), w.turn())}
    assert events_of(got[id].new, "timerFired")[0].fireAt == at
    assert kinds(got[later].new) == ["orchestratorStarted", "executionStarted"]
    w.done(got[id], act.complete())
    w.done(got[later], act.complete())
    check_legal(t.client().history(id), True)


# checklist: 65
# reports: BL-178
@serial
@limit(180)
def test_a_hundred_thousand_timers(t):
    """In PERDURE_NIGHTLY; 20,000 otherwise. No thread each, little memory, all there after a kill."""
    instances, each = (100, 1000) if NIGHTLY else (20, 1000)
    s = t.own_server()
    c = t.client()
    w = t.worker(check=False)
    at = ts(time.time() + 3600)
    threads = s.threads()
    before = s.rss()
    for _ in range(instances):
        c.start("o")
        i = w.turn(timeout=30)
        w.done(i, *[act.timer(n, at=at) for n in range(each)], timeout=60)
    assert s.threads() <= threads + 1
    assert s.rss() - before < 100 << 20, s.rss() - before
    s.restart()
    w = t.worker(check=False)
    # Near ones go on among them.
    c = t.client()
    id = c.start("o")
    w.done(w.turn(timeout=30), act.timer(1, after=0.2))
    w.done(w.turn(timeout=30, id=id), act.complete())
    assert s.threads() <= threads + 1


# reports: BL-047
def test_server_stopped_over_fire_at(t):
    s = t.own_server()
    id, c, w, i = t.started()
    w.done(i, act.timer(1, after=3.0))
    s.freeze()
    time.sleep(4.5)
    s.thaw()
    i = w.turn(timeout=10)
    assert kinds(i.new)[1] == "timerFired"
    w.done(i, act.complete())


# checklist: 66
def test_not_into_other_executions(t):
    c, w = t.pair()
    now = time.time()
    at = ts(now + 4.0)
    for id in ("again", "replaced", "done", "purged", "ended"):
        c.start("o", id)
        w.done(w.turn(id=id), act.timer(1, at=at))
        c.event(id)
    w.done(w.turn(id="again"), act.again())
    w.done(w.turn(id="again"))
    w.done(w.turn(id="replaced"))
    c.start("o", "replaced", replaceable=[RUNNING, TERMINATED])
    w.done(w.turn(id="replaced"))
    w.done(w.turn(id="done"), act.complete())
    w.done(w.turn(id="purged"), act.complete())
    c.purge("purged")
    c.start("o", "purged")
    w.done(w.turn(id="purged"))
    c.terminate("ended")
    w.done(w.turn(id="ended"))
    w.done(w.turn(id="ended"), act.terminated())
    w.none(max(0.5, now + 4.8 - time.time()))
    for id in ("again", "replaced", "purged"):
        assert kinds(c.history(id)) == ["orchestratorStarted", "executionStarted"], id
    # Timers made in the last turn are never armed.
    id = c.start("o")
    w.done(w.turn(id=id), act.timer(1, after=0.1), act.complete())
    w.none(0.6)


# reports: BL-034, BL-039
def test_event_against_a_timer(t):
    c, w = t.pair()
    id = c.start("o")
    w.done(w.turn(), act.timer(1, after=3600))
    c.event(id, "ok", "v")
    i = w.turn(timeout=5)
    assert kinds(i.new) == ["orchestratorStarted", "eventRaised"]
    w.done(i, act.complete(result="event"))
    assert c.wait(id).output.value == "event"
    # The timer first, the event after it: in this order on every replay.
    id = c.start("o")
    i = w.turn()
    w.done(i, act.timer(1, after=0.3))
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted", "timerFired"]
    c.event(id, "e")
    w.done(i)
    i = w.turn()
    assert kinds(i.events)[-3:] == ["timerFired", "orchestratorStarted", "eventRaised"]
    w.abandon(i)
    j = w.turn(timeout=10)
    assert kinds(j.events) == kinds(i.events) and j.past == i.past
    w.done(j, act.complete())
    check_legal(c.history(id), True)


def test_timers_while_suspended(t):
    id, c, w, i = t.started()
    w.done(i, act.timer(1, after=2.0), act.timer(2, after=2.1))
    c.suspend(id)
    w.none(3)
    c.resume(id)
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted", "executionSuspended", "timerFired", "timerFired",
                            "executionResumed"]
    w.done(i, act.complete())
    check_legal(c.history(id), True)


# checklist: 146
def test_equal_times_are_told_apart(t):
    """orchestratorStarted is later than the fireAt of its batch, even of a timer that is due now."""
    c, w = t.pair()
    for n in range(10):
        id = c.start("o")
        i = w.turn(id=id)
        w.done(i, act.timer(0, at=i.new[0].timestamp))
        i = w.turn(id=id)
        assert nanos(i.new[0].timestamp) > nanos(events_of(i.new, "timerFired")[0].fireAt)
        w.done(i, act.complete())
        assert kinds(c.history(id)).count("timerCreated") == 1
