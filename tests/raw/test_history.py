"""StreamInstanceHistory (spec 3.14)."""

import time

from lib import actions as act
from lib.client import error_of, expect_error
from lib.history import check_legal, raised_inputs
from lib.proto import COMPLETED, kinds, pb, sv
from lib.runner import NIGHTLY, limit, serial
from lib.server import eventually


# checklist: 107
# reports: BL-105
def test_history_of_executions(t):
    id, c, w, i = t.started()
    assert c.history(id) == [], "nothing is committed yet: OK, no chunk"
    assert c.chunks(id) == []
    w.done(i, act.task(1, "a"))
    old = i.execution
    assert kinds(c.history(id)) == ["orchestratorStarted", "executionStarted", "taskScheduled"]
    assert c.history(id, execution=old) == c.history(id)
    for other in ("0" * 32, "x"):
        got = error_of(lambda: c.history(id, execution=other))
        assert got == ("NOT_FOUND", "Orchestration instance '%s' not found" % id), (other, got)
    w.result(w.task())
    w.done(w.turn(), act.again())
    expect_error(lambda: c.history(id, execution=old), "NOT_FOUND",
                 "Orchestration instance '%s' not found" % id)
    i = w.turn()
    w.done(i, act.complete())
    h = c.history(id, execution=i.execution)
    assert kinds(h) == ["orchestratorStarted", "executionStarted", "executionCompleted"]
    expect_error(lambda: c.history("nobody"), "NOT_FOUND", "Orchestration instance 'nobody' not found")
    expect_error(lambda: c.history("@e@k"), "NOT_FOUND")


# checklist: 107
def test_for_work_item_processing(t):
    """Exactly the pastEvents of the turn in flight."""
    id, c, w, i = t.started()
    w.done(i, act.task(1, "a"), act.timer(2, after=0.05))
    w.result(w.task(), "r")
    n = 0
    while n < 2:
        i = w.turn()
        assert c.history(id, for_work=True) == i.past
        n += len(i.new) - 1
        c.event(id)
        w.done(i)
    w.done(w.turn(), act.complete())


# checklist: 107
def test_inbox_events_are_not_history(t):
    id, c, w, i = t.started()
    w.done(i)
    c.suspend(id)
    for n in range(5):
        c.event(id, "e", str(n))
    assert kinds(c.history(id)) == ["orchestratorStarted", "executionStarted"]


# checklist: 107
# reports: BL-114
@serial
@limit(180)
def test_a_long_history(t):
    """100,000 events (nightly; 8,000 otherwise): bounded chunks, bounded memory, a slow reader too."""
    turns, each = (100, 1000) if NIGHTLY else (8, 1000)
    s = t.own_server({"history.max_events": "250000"})
    c = t.client()
    w = t.worker(check=False)
    id = c.start("o")
    ids = iter(range(10_000_000))
    w.done(w.turn(), *[act.timer(next(ids), after=36000) for _ in range(each)], timeout=60)
    for _ in range(turns - 1):
        c.event(id, "e", "x" * 100)
        w.done(w.turn(timeout=60), *[act.timer(next(ids), after=36000) for _ in range(each)], timeout=60)
    before = s.rss()
    chunks = c.chunks(id)
    assert all(1 <= len(x.events) <= 1000 and x.ByteSize() <= 256 << 10 for x in chunks)
    h = [e for x in chunks for e in x.events]
    assert len(h) == turns * each + turns * 2
    check_legal(h)
    h2 = t.h2(window=65535, grant=False, rcvbuf=4096)
    st = h2.start("StreamInstanceHistory", pb.StreamInstanceHistoryRequest(instanceId=id), hub=t.hub)
    h2.pump(lambda: len(st.data) > 60_000, 20)
    time.sleep(1)
    assert s.rss() - before < 40 << 20, s.rss() - before
    # A consistent snapshot, whatever is committed meanwhile.
    c.terminate(id)
    w.done(w.turn(timeout=60), act.terminated())
    h2.grant = True
    h2.window_update(0, 1 << 30)
    h2.window_update(st.id, 1 << 30)
    h2.pump(lambda: st.over, 60)
    assert st.status == ("OK", ""), st.status
    got = [e for m in st.messages for e in pb.HistoryChunk.FromString(m).events]
    assert got == h or (len(got) >= len(h) and got[: len(h)] == h)
    assert got == h, "a snapshot"


# checklist: 107
def test_chunks_of_large_events(t):
    id, c, w, i = t.started()
    w.done(i)
    c.suspend(id)
    sizes = [300_000, 10, 10, 200_000, 100_000, 700_000, 5]
    for n, size in enumerate(sizes):
        c.event(id, "e", str(n) + "y" * size)
    c.resume(id)
    got = 0
    while got < len(sizes):
        i = w.turn()
        got += len(raised_inputs(i.new))
        w.done(i)
    chunks = c.chunks(id)
    for x in chunks:
        assert x.ByteSize() <= 256 << 10 or len(x.events) == 1, (len(x.events), x.ByteSize())
    assert [len(v) for v in raised_inputs([e for x in chunks for e in x.events])] == [
        len(str(n)) + s for n, s in enumerate(sizes)]
