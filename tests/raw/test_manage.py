"""Many instances: restart, purge in all modes, queries, lists of ids, ending without the workers (spec 3.8-3.11, 3.17)."""

import threading
import time

from lib import actions as act
from lib.client import expect_error
from lib.history import check_legal
from lib.proto import COMPLETED, FAILED, PENDING, RUNNING, TERMINATED, kinds, pb, sv
from lib.server import eventually

FOUR = ["orchestratorStarted", "executionStarted", "executionTerminated", "executionCompleted"]
SEEN = 10_000  # rows that a page may look at


def ender(item):
    return [act.complete(result='"done"')]


def family(item):
    """`depth` levels of two children each, which end before their parent."""
    depth = int(item.started.input.value)
    done = [e for e in item.events if e.HasField("subOrchestrationInstanceCompleted")]
    if depth == 0 or len(done) == 2:
        return [act.complete()]
    if any(e.HasField("subOrchestrationInstanceCreated") for e in item.events):
        return []
    return [act.child(n, "family", "%s.%d" % (item.id, n), input=str(depth - 1)) for n in (1, 2)]


def batch(ids):
    return pb.InstanceBatch(instanceIds=ids)


def query(c, **kw):
    return c.call("QueryInstances", pb.QueryInstancesRequest(query=pb.InstanceQuery(**kw)))


def walk(c, **kw):
    """All pages; the ids, and how many pages there were."""
    ids, pages, token = [], 0, None
    while True:
        r = query(c, **kw, **({"continuationToken": sv(token)} if token else {}))
        ids += [s.instanceId for s in r.orchestrationState]
        pages += 1
        if not r.HasField("continuationToken"):
            return ids, pages
        token = r.continuationToken.value
        assert token not in ("", "0")
        assert pages < 10_000


def stamp_after(ts, by):
    """by: microseconds."""
    us = ts.seconds * 1_000_000 + ts.nanos // 1000 + by
    return pb.Timestamp(seconds=us // 1_000_000, nanos=us % 1_000_000 * 1000)


# ---- RestartInstance ----


# checklist: 92
def test_restart(t):
    c, w = t.client(), t.worker()
    restart = lambda id, new=False: c.call(  # noqa: E731
        "RestartInstance", pb.RestartInstanceRequest(instanceId=id, restartWithNewInstanceId=new)).instanceId
    c.start("o", "r", input='"in"', version="1.5", tags={"a": "b"}, trace=pb.TraceContext(traceParent="00-11111111111111111111111111111111-2222222222222222-01"))
    expect_error(lambda: restart("r"), "FAILED_PRECONDITION", "Orchestration instance 'r' is not in a terminal state")
    expect_error(lambda: restart("none"), "NOT_FOUND", "Orchestration instance 'none' not found")
    expect_error(lambda: restart(""), "INVALID_ARGUMENT", contains="must not be empty")
    running = restart("r", new=True)  # any status
    assert len(running) == 32 and c.status(running) == "PENDING"
    first = w.turn(id="r")
    w.done(first, act.complete(result="1"))
    assert w.turn(id=running).started.input.value == '"in"'
    before = c.get("r")
    waiting = t.client().future("WaitForInstanceStart", pb.GetInstanceRequest(instanceId="r"), 20)
    assert waiting.result().orchestrationState.orchestrationStatus == COMPLETED
    assert restart("r") == "r"
    state = c.get("r")
    assert state.orchestrationStatus == PENDING and state.executionId.value != before.executionId.value
    assert (state.name, state.version.value, state.input.value, dict(state.tags)) == ("o", "1.5", '"in"', {"a": "b"})
    assert not state.HasField("completedTimestamp") and not state.HasField("output")
    again = w.turn(id="r")
    assert kinds(again.new) == ["orchestratorStarted", "executionStarted"] and not again.past
    started = again.started
    assert dict(started.tags) == {"a": "b"} and started.version.value == "1.5"
    assert not started.HasField("parentTraceContext") and not started.HasField("parentInstance")
    w.done(again, act.complete())
    assert c.status("r") == "COMPLETED"


def test_restart_of_a_child_and_of_a_scheduled_start(t):
    """No parent, and no scheduled time."""
    c, w = t.client(), t.worker()
    c.start("p", "p")
    w.done(w.turn(id="p"), act.child(1, "kid", "kid", input="7"))
    w.done(w.turn(id="kid"), act.fail())
    w.done(w.turn(id="p"), act.complete())
    c.call("RestartInstance", pb.RestartInstanceRequest(instanceId="kid"))
    state = c.get("kid")
    assert not state.HasField("parentInstanceId") and state.input.value == "7"
    w.done(w.turn(id="kid"), act.complete())
    c.start("o", "late", at=time.time() + 3600)
    new = c.call("RestartInstance", pb.RestartInstanceRequest(instanceId="late", restartWithNewInstanceId=True)).instanceId
    assert not c.get(new).HasField("scheduledStartTimestamp")
    w.done(w.turn(id=new), act.complete())


def test_restart_survives(t):
    s = t.own_server()
    c, w = t.client(server=s), t.worker(server=s)
    c.start("o", "r", input="1")
    w.done(w.turn(id="r"), act.complete())
    c.call("RestartInstance", pb.RestartInstanceRequest(instanceId="r"))
    s.restart()
    state = t.client(server=s).get("r")
    assert state.orchestrationStatus == PENDING and state.input.value == "1"


# ---- SkipGracefulOrchestrationTerminations ----


def skip(c, ids, reason=None):
    return list(c.call("SkipGracefulOrchestrationTerminations", pb.SkipGracefulOrchestrationTerminationsRequest(
        instanceBatch=batch(ids), reason=sv(reason))).unterminatedInstanceIds)


def test_skip_graceful(t):
    c, w = t.client(), t.worker()
    c.start("o", "over")
    w.done(w.turn(id="over"), act.complete())
    c.start("o", "new")
    w.turn(id="new")  # out with a worker, which will answer in vain
    c.start("o", "runs")
    runs = w.turn(id="runs")
    w.done(runs, act.timer(1, after=3600))
    c.suspend("runs")
    c.event("runs", "e", "1")
    assert sorted(skip(c, ["new", "runs", "over", "none", "@e@k"], "enough")) == ["@e@k", "none", "over"]
    for id in ("new", "runs"):
        state = c.get(id)
        assert state.orchestrationStatus == TERMINATED and not state.HasField("output"), state
        h = c.history(id)
        check_legal(h)
        end = [e.executionTerminated for e in h if e.HasField("executionTerminated")]
        assert len(end) == 1 and end[0].input.value == "enough" and not end[0].recurse
        assert h[-1].executionCompleted.orchestrationStatus == TERMINATED
    assert kinds(c.history("new")) == FOUR
    w.done(runs, act.complete())  # too late, and nothing
    assert c.status("runs") == "TERMINATED"
    assert skip(c, ["new"]) == ["new"]


def test_skip_graceful_tells_the_parent(t):
    c, w = t.client(), t.worker()
    c.start("p", "p")
    w.done(w.turn(id="p"), act.child(1, "kid", "kid"))
    w.turn(id="kid")
    assert skip(c, ["kid"]) == []
    told = w.turn(id="p")
    failed = [e.subOrchestrationInstanceFailed for e in told.new if e.HasField("subOrchestrationInstanceFailed")]
    assert failed[0].failureDetails.errorType == "SubOrchestrationTerminated"
    w.done(told, act.complete())


def test_skip_graceful_refuses(t):
    c = t.client()
    expect_error(lambda: skip(c, []), "INVALID_ARGUMENT", contains="1 to 500")
    expect_error(lambda: skip(c, ["i%d" % i for i in range(501)]), "INVALID_ARGUMENT", "A batch must not have more than 500 instance ids")


# ---- PurgeInstances ----


def purge(c, **kw):
    r = c.call("PurgeInstances", pb.PurgeInstancesRequest(**kw))
    assert r.HasField("isComplete"), "isComplete is in every answer"
    return r.deletedInstanceCount, r.isComplete.value


def ended(t, c, ids):
    t.auto({"ends": ender, "fails": lambda item: [act.fail()]})
    for id in ids:
        c.start("ends", id)
    for id in ids:
        c.wait(id)


# checklist: 93
def test_purge_by_id_and_batch(t):
    c = t.client()
    ended(t, c, ["a", "b", "c"])
    c.start("o", "runs")
    assert purge(c, instanceId="runs") == (0, True)
    assert purge(c, instanceId="a") == (1, True)
    assert c.get("a") is None
    assert purge(c, instanceId="a") == (0, True)
    assert purge(c, instanceBatch=batch(["a", "b", "runs", "none", "c", "c"])) == (2, True)
    assert purge(c, instanceBatch=batch([])) == (0, True)
    expect_error(lambda: purge(c, instanceBatch=batch(["x"] * 501)), "INVALID_ARGUMENT", "A batch must not have more than 500 instance ids")
    expect_error(lambda: purge(c), "INVALID_ARGUMENT", contains="instanceId, purgeInstanceFilter and instanceBatch")
    expect_error(lambda: purge(c, instanceId=""), "INVALID_ARGUMENT", contains="must not be empty")
    assert c.status("runs") == "PENDING"


# checklist: 93
def test_purge_by_filter(t):
    c = t.client()
    ended(t, c, ["e%d" % i for i in range(6)])
    c.start("fails", "f")
    c.wait("f")
    c.start("o", "runs")
    made = [c.get("e%d" % i).createdTimestamp for i in range(6)]
    F = pb.PurgeInstanceFilter
    assert purge(c, purgeInstanceFilter=F(runtimeStatus=[RUNNING, PENDING])) == (0, True), "only ended ones"
    assert purge(c, purgeInstanceFilter=F(createdTimeFrom=made[1], createdTimeTo=made[2])) == (1, True)
    assert c.get("e1") is None and c.get("e2") is not None
    assert purge(c, purgeInstanceFilter=F(createdTimeTo=made[0])) == (0, True), "to is exclusive"
    assert purge(c, purgeInstanceFilter=F(runtimeStatus=[FAILED])) == (1, True)
    assert c.get("f") is None
    for bad in (pb.Duration(), pb.Duration(seconds=-1)):
        expect_error(lambda: purge(c, purgeInstanceFilter=F(timeout=bad)), "INVALID_ARGUMENT", contains="timeout")
    assert purge(c, purgeInstanceFilter=F(timeout=pb.Duration(seconds=60))) == (5, True)
    assert c.status("runs") == "PENDING"
    assert purge(c, purgeInstanceFilter=F()) == (0, True)


# checklist: 93
def test_purge_by_filter_in_parts(t):
    """More than purge.per_call, or a time-out: the caller repeats until it is complete."""
    s = t.own_server(settings={"purge.per_call": "150"})
    c = t.client(server=s)
    t.auto({"ends": ender}, server=s)
    for i in range(320):
        c.start("ends", "e%03d" % i)
    for i in range(320):
        c.wait("e%03d" % i)
    F = pb.PurgeInstanceFilter
    count, complete = purge(c, purgeInstanceFilter=F(timeout=pb.Duration(nanos=1000)))
    assert 1 <= count < 320 and not complete, (count, complete)
    total, calls = count, 1
    while not complete:
        count, complete = purge(c, purgeInstanceFilter=F())
        assert count > 0 or complete
        total, calls = total + count, calls + 1
    assert total == 320 and 2 <= calls <= 5, (total, calls)
    assert query(c).orchestrationState == []


# checklist: 94
def test_purge_recursive(t):
    c = t.client()
    t.auto({"family": family})
    c.start("family", "top", input="3")
    c.wait("top")
    assert len(walk(c)[0]) == 15
    assert purge(c, instanceId="top") == (1, True), "not recursive: the children stay"
    assert len(walk(c)[0]) == 14
    assert purge(c, instanceId="top.1", recursive=True) == (7, True)
    assert purge(c, instanceId="top.2.1", recursive=True) == (3, True)
    assert sorted(walk(c)[0]) == ["top.2", "top.2.2", "top.2.2.1", "top.2.2.2"]
    assert purge(c, purgeInstanceFilter=pb.PurgeInstanceFilter(), recursive=True) == (4, True)


# checklist: 94
def test_purge_recursive_leaves_what_runs(t):
    c, w = t.client(), t.worker()
    c.start("p", "p")
    w.done(w.turn(id="p"), act.child(1, "kid", "over"), act.child(2, "kid", "runs"), act.child(3, "kid", "again"))
    turns = {i.id: i for i in (w.turn() for _ in range(3))}
    w.done(turns["over"], act.complete())
    w.done(turns["runs"], act.child(1, "kid", "grandchild"))
    w.done(turns["again"], act.complete())
    p = w.turn(id="p")
    while sum(e.HasField("subOrchestrationInstanceCompleted") for e in p.events) < 2:
        w.done(p)
        p = w.turn(id="p")
    w.done(p, act.complete())
    g = w.turn(id="grandchild")
    w.done(g, act.complete())
    c.start("o", "again", replaceable=[COMPLETED])  # no child any more
    w.done(w.turn(id="again"), act.complete())
    assert purge(c, instanceId="p", recursive=True) == (2, True)
    assert c.get("p") is None and c.get("over") is None
    assert c.status("runs") == "RUNNING" and c.status("grandchild") == "COMPLETED" and c.status("again") == "COMPLETED"


def wide(item):
    """Three children each, two levels down."""
    depth = int(item.started.input.value)
    done = [e for e in item.events if e.HasField("subOrchestrationInstanceCompleted")]
    if depth == 0 or len(done) == 3:
        return [act.complete()]
    if any(e.HasField("subOrchestrationInstanceCreated") for e in item.events):
        return []
    return [act.child(n, "wide", input=str(depth - 1)) for n in (1, 2, 3)]


# reports: BL-056
def test_purge_takes_the_whole_tree(t):
    c = t.client()
    t.auto({"wide": wide})
    c.start("wide", "root", input="2")
    c.wait("root")
    ids, _ = walk(c)
    assert len(ids) == 13
    assert purge(c, instanceId="root", recursive=True) == (13, True)
    assert all(c.get(id) is None for id in ids)


# reports: BL-057
def test_purge_of_a_child_that_was_retried(t):
    """The history names it three times."""
    c, w = t.client(), t.worker()
    c.start("p", "p")
    for attempt in range(3):
        w.done(w.turn(id="p"), act.child(attempt + 1, "kid", "kid"))
        w.done(w.turn(id="kid"), act.complete() if attempt == 2 else act.fail())
    w.done(w.turn(id="p"), act.complete())
    assert purge(c, instanceId="p", recursive=True) == (2, True)


# reports: BL-062
def test_purges_side_by_side(t):
    """Five clients with one filter: the counts add up."""
    c = t.client()
    ended(t, c, ["e%03d" % i for i in range(400)])
    counts = []

    def one():
        mine, complete = t.client(), False
        while not complete:
            count, complete = purge(mine, purgeInstanceFilter=pb.PurgeInstanceFilter())
            counts.append(count)

    threads = [threading.Thread(target=one) for _ in range(5)]
    for x in threads:
        x.start()
    for x in threads:
        x.join()
    assert sum(counts) == 400, counts
    assert walk(c) == ([], 1)


def test_purge_of_a_large_family(t):
    """More than one step removes."""
    c = t.client()
    t.auto({"family": family})
    c.start("family", "top", input="9")
    c.wait("top", timeout=120)
    assert purge(c, instanceId="top", recursive=True) == (1023, True)
    assert walk(c) == ([], 1)


# ---- QueryInstances ----


# checklist: 102
def test_query_filters(t):
    c = t.client()
    ended(t, c, ["a1", "a2", "b1"])
    c.start("o", "a3", input='"in"')
    every = query(c, fetchInputsAndOutputs=True).orchestrationState
    assert [s.instanceId for s in every] == ["a1", "a2", "b1", "a3"], "in order of creation"
    assert every[3].input.value == '"in"' and every[0].output.value == '"done"'
    assert not query(c).orchestrationState[0].HasField("output")
    ids = lambda **kw: [s.instanceId for s in query(c, **kw).orchestrationState]  # noqa: E731
    assert ids(runtimeStatus=[PENDING]) == ["a3"]
    assert ids(runtimeStatus=[COMPLETED, PENDING]) == ["a1", "a2", "b1", "a3"]
    assert ids(runtimeStatus=[77]) == []
    assert ids(instanceIdPrefix=sv("a")) == ["a1", "a2", "a3"]
    assert ids(instanceIdPrefix=sv("A")) == [] and len(ids(instanceIdPrefix=sv(""))) == 4
    at = [s.createdTimestamp for s in every]
    assert ids(createdTimeFrom=at[1]) == ["a2", "b1", "a3"], "from is inclusive"
    assert ids(createdTimeTo=at[1]) == ["a1"], "to is exclusive"
    assert ids(createdTimeFrom=stamp_after(at[0], 1), createdTimeTo=stamp_after(at[2], 1), instanceIdPrefix=sv("a"),
               runtimeStatus=[COMPLETED]) == ["a2"]
    assert ids(taskHubNames=[sv("another")]) == [] and len(ids(taskHubNames=[sv("another"), sv(t.hub.upper())])) == 4
    assert query(t.client(hub="never-used")).orchestrationState == []
    got, one = query(c).orchestrationState[1], c.get("a2", False)
    assert got == one, "as GetInstance shows it"


# reports: BL-100
def test_a_prefix_is_taken_literally(t):
    c = t.client()
    for id in ("cust-42/a", "cust-42/b", "cust-4_/a", "cust-4%", "cust-43/a", "\u00e4-1", "\u00e4-2"):
        c.start("o", id)
    ids = lambda prefix: [s.instanceId for s in query(c, instanceIdPrefix=sv(prefix)).orchestrationState]  # noqa: E731
    assert ids("cust-42/") == ["cust-42/a", "cust-42/b"]
    assert ids("cust-4_") == ["cust-4_/a"] and ids("cust-4%") == ["cust-4%"]
    assert ids("\u00e4") == ["\u00e4-1", "\u00e4-2"]


# reports: BL-099
def test_few_that_match_behind_many_that_do_not(t):
    c = t.client()
    for i in range(300):
        c.start("o", "many%d" % i)
    ended(t, c, ["few%d" % i for i in range(10)])
    r = query(c, runtimeStatus=[COMPLETED], maxInstanceCount=10)
    assert len(r.orchestrationState) == 10 and not r.HasField("continuationToken")


# checklist: 104, 105
# reports: BL-098
def test_query_pages(t):
    c = t.client()
    names = ["i%d" % n for n in range(10)]
    for id in names:
        c.start("o", id)
    assert walk(c, maxInstanceCount=3) == (names, 4)
    assert walk(c, maxInstanceCount=5) == (names, 2), "an exactly full last page has no token"
    assert walk(c, maxInstanceCount=10) == (names, 1)
    assert walk(c, maxInstanceCount=2**31 - 1) == (names, 1)
    assert walk(c, maxInstanceCount=1) == (names, 10)
    r = query(c, maxInstanceCount=4)
    assert [s.instanceId for s in query(c, maxInstanceCount=2, continuationToken=r.continuationToken).orchestrationState] == names[4:6]
    assert len(query(c, continuationToken=sv("")).orchestrationState) == 10
    for bad in ("0", "x", "|", "2026-12-01T00:00:00Z|", "+1h|x", "yesterday|x"):
        expect_error(lambda: query(c, continuationToken=sv(bad)), "INVALID_ARGUMENT", contains="continuationToken")
    for i in range(10, 235):
        c.start("o", "i%d" % i)
    ids, pages = walk(c)
    assert (len(ids), len(set(ids)), pages) == (235, 235, 3), "all of them, not the first hundred"
    expect_error(lambda: query(c, maxInstanceCount=-1), "INVALID_ARGUMENT", contains="maxInstanceCount")
    expect_error(lambda: query(c, createdTimeFrom=pb.Timestamp(nanos=-1)), "INVALID_ARGUMENT", contains="createdTimeFrom")


def test_query_page_limits(t):
    s = t.own_server(settings={"page.default": "2", "page.max": "4"})
    c = t.client(server=s)
    for n in range(9):
        c.start("o", "i%d" % n, input='"%s"' % ("x" * 1_000_000))
    assert len(query(c).orchestrationState) == 2
    assert len(query(c, maxInstanceCount=100).orchestrationState) == 4
    ids, pages = walk(c, maxInstanceCount=100, fetchInputsAndOutputs=True)
    assert len(ids) == 9 and len(set(ids)) == 9 and pages == 3


# checklist: 103
def test_query_while_others_come_and_go(t):
    """Each instance that is there throughout comes exactly once."""
    c = t.client()
    ended(t, c, ["gone%d" % n for n in range(60)])
    stay = ["stay%03d" % n for n in range(150)]
    for n, id in enumerate(stay):
        c.start("o", id)
    stop = threading.Event()

    def churn():
        mine, n = t.client(), 0
        while not stop.is_set():
            mine.start("o", "new%d" % n)
            mine.purge("gone%d" % (n % 60))
            mine.event(stay[n % 150])
            n += 1

    x = threading.Thread(target=churn)
    x.start()
    try:
        for size in (1, 7, 40):
            ids, _ = walk(c, maxInstanceCount=size, runtimeStatus=[PENDING])
            assert len(ids) == len(set(ids))
            assert [i for i in ids if i.startswith("stay")] == stay
    finally:
        stop.set()
        x.join()


def test_queries_in_memory(t):
    """A store without connections for readers answers them too."""
    s = t.own_server(store="memory")
    c = t.client(server=s)
    for n in range(5):
        c.start("o", "i%d" % n, input=str(n))
    assert walk(c, maxInstanceCount=2)[0] == ["i%d" % n for n in range(5)]
    assert [s.input.value for s in query(c, fetchInputsAndOutputs=True).orchestrationState] == list("01234")


def test_query_of_an_unknown_hub(t):
    s = t.own_server(settings={"hub.auto_create": "false"})
    c = t.client(hub="none", server=s)
    expect_error(lambda: query(c), "NOT_FOUND", contains="none")
    expect_error(lambda: c.call("ListInstanceIds"), "NOT_FOUND", contains="none")
    expect_error(lambda: purge(c, purgeInstanceFilter=pb.PurgeInstanceFilter()), "NOT_FOUND", contains="none")


# ---- ListInstanceIds ----


# checklist: 106
def test_list_instance_ids(t):
    c, w = t.client(), t.worker()
    for id in ("a", "b", "c", "d"):
        c.start("o", id)
    turns = {i.id: i for i in (w.turn() for _ in range(4))}
    for id in ("c", "a", "b"):  # in another order than they began
        w.done(turns[id], act.fail() if id == "b" else act.complete())
    R = pb.ListInstanceIdsRequest
    listed = lambda **kw: c.call("ListInstanceIds", R(**kw))  # noqa: E731
    assert list(listed().instanceIds) == ["c", "a", "b"] and not listed().HasField("lastInstanceKey")
    assert list(listed(runtimeStatus=[FAILED]).instanceIds) == ["b"]
    assert list(listed(runtimeStatus=[RUNNING]).instanceIds) == []
    first = listed(pageSize=2)
    assert list(first.instanceIds) == ["c", "a"]
    when, _, id = first.lastInstanceKey.value.partition("|")
    assert id == "a" and when, first.lastInstanceKey
    second = listed(pageSize=2, lastInstanceKey=first.lastInstanceKey)
    assert list(second.instanceIds) == ["b"] and not second.HasField("lastInstanceKey")
    assert list(listed(lastInstanceKey=sv("")).instanceIds) == ["c", "a", "b"]
    at = {id: c.get(id).completedTimestamp for id in "abc"}
    assert list(listed(completedTimeFrom=at["a"]).instanceIds) == ["a", "b"]
    assert list(listed(completedTimeTo=at["a"]).instanceIds) == ["c"]
    expect_error(lambda: listed(pageSize=-1), "INVALID_ARGUMENT", contains="pageSize")
    expect_error(lambda: listed(lastInstanceKey=sv("nonsense")), "INVALID_ARGUMENT", contains="lastInstanceKey")
