"""Who gets what, limits, filters, losing and giving back (spec 8.1 to 8.5)."""

import time

import grpc

from lib import actions as act
from lib.client import error_of, expect_error
from lib.h2 import H2
from lib.history import check_legal, events_of, raised_inputs
from lib.proto import COMPLETED, METHODS, PENDING, kinds, message_class, methods_of, pb, sv, ts
from lib.runner import NIGHTLY, Skip, limit, serial
from lib.server import eventually
from lib.worker import JAVA, GO, Item, Worker, filters


# checklist: 125
def test_limits_per_kind(t):
    c = t.client()
    w = t.worker(orch=1, act=2)
    ids = [c.start("o") for _ in range(4)]
    first = w.turn()
    w.none(0.4)
    w.done(first, *[act.task(n, "a") for n in range(5)])
    second = w.turn()
    a, b = w.task(), w.task()
    w.none(0.4)
    w.result(a)
    x = w.task()
    w.abandon(b)  # given back: room again, for the next or for the same
    y = w.task()
    w.none(0.3, "task")
    for z in (x, y):
        w.result(z)
    assert second.id == ids[1], "oldest first"
    w.done(second, act.complete())
    assert w.turn().id in ids
    # Per stream: another stream of the same connection has its own.
    w2 = t.worker(orch=1, act=0)
    assert w2.turn().id in ids
    w2.none(0.3, "turn")


# checklist: 125
def test_no_limit(t):
    c = t.client()
    w = t.worker(orch=0, act=0)
    ids = [c.start("o") for _ in range(60)]
    got = [w.turn() for _ in range(60)]
    assert [g.id for g in got] == ids
    w.done(got[0], *[act.task(n, "a") for n in range(300)])
    tasks = [w.task() for _ in range(300)]
    assert [a.task_id for a in tasks] == list(range(300))


def test_negative_limits(t):
    for bad in ({"orch": -1}, {"act": -1}, {"ent": -1}, {"orch": -2147483648}):
        w = t.worker(**bad)
        assert w.wait_end()[0] == "INVALID_ARGUMENT", (bad, w.status)


# checklist: 126
# reports: BL-010
def test_two_workers(t):
    c = t.client()
    w1, w2 = t.worker(orch=5), t.worker(orch=5)
    w1.ready(), w2.ready()
    ids = [c.start("o") for _ in range(30)]
    one = [w1.turn() for _ in range(5)]
    two = [w2.turn() for _ in range(5)]
    assert len({i.id for i in one + two}) == 10, "work spreads, nothing twice"
    w1.close()
    done = set()
    for i in two:
        w2.done(i, act.complete())
        done.add(i.id)
    while len(done) < 30:
        i = w2.turn()
        assert i.id not in done
        w2.done(i, act.complete())
        done.add(i.id)
    for id in ids:
        assert c.wait(id, 5).orchestrationStatus == COMPLETED


# checklist-partial: 127
# reports: BL-028, BL-109
def test_filters(t):
    """A table of filters and items: who may get what."""
    cases = {
        # filters                                     (name, version) it may run
        (("A", ()),): {("A", None), ("A", ""), ("A", "1"), ("A", "2")},
        (("A", ("2",)),): {("A", "2")},
        (("A", ("",)),): {("A", None), ("A", "")},
        (("A", ("1", "")),): {("A", None), ("A", ""), ("A", "1")},
        (("A", ()), ("A", ("2",))): {("A", "2")},  # joined: a listed version restricts
        (("A", ("1",)), ("A", ("2",))): {("A", "1"), ("A", "2")},
        (("a", ()),): set(),
        (("A", ("1.0",)),): set(),
        (("B", ()), ("A", ("1",))): {("A", "1"), ("B", None)},
        (): set(),
    }
    items = [("A", None), ("A", ""), ("A", "1"), ("A", "2"), ("B", None)]
    for n, (given, allowed) in enumerate(cases.items()):
        for kind in ("orchestrations", "activities"):
            hub = "%s-%d%s" % (t.hub, n, kind[0])
            c = t.client(hub=hub)
            entries = [(name, list(v)) for name, v in given]
            if kind == "orchestrations":
                for name, version in items:
                    c.start(name, "%s/%s" % (name, version), version=version)
                w = t.worker(hub=hub, filters=filters(orchestrations=entries))
                want = {"%s/%s" % x for x in allowed}
                got = {w.turn().id for _ in want}
            else:
                c.start("starter", "x")
                s = t.worker(hub=hub, filters=filters(orchestrations=["starter"]))
                s.done(s.turn(), *[act.task(k, name, version=version)
                                   for k, (name, version) in enumerate(items)])
                s.close()
                w = t.worker(hub=hub, filters=filters(activities=entries))
                want = {items.index(x) for x in allowed}
                got = {w.task().task_id for _ in want}
            assert got == want, (given, kind, got, want)
            w.none(0.1)


# checklist-partial: 127
def test_absent_and_empty_filters(t):
    c = t.client()
    c.start("o", "x")
    empty = t.worker(filters=pb.WorkItemFilters())
    only_acts = t.worker(filters=filters(activities=["a"]))
    empty.none(0.3)
    only_acts.none(0.1)
    all_ = t.worker()
    i = all_.turn()
    all_.done(i, act.task(1, "a"), act.task(2, "b"))
    got = {}
    deadline = time.time() + 10
    while len(got) < 2 and time.time() < deadline:
        for w in (all_, only_acts):
            try:
                a = w.task(timeout=0.2)
                got[a.name] = w
            except AssertionError:
                pass
    assert got["b"] is all_
    empty.none(0.2)


# checklist-partial: 127
def test_activities_inherit_the_version_for_matching(t):
    c = t.client()
    o = t.worker(filters=filters(orchestrations=["o"]))
    v2 = t.worker(filters=filters(activities=[("a", ["2"])]))
    c.start("o", "x", version="2")
    o.done(o.turn(), act.task(1, "a"), act.task(2, "a", version="3"), act.task(3, "a", version=""))
    a = v2.task()
    assert a.task_id == 1 and not a.req.HasField("version"), "for matching only"
    v2.none(0.4)
    v3 = t.worker(filters=filters(activities=[("a", ["3"]), ("a", [""])]))
    assert {v3.task().task_id, v3.task().task_id} == {2, 3}


# checklist: 128
# reports: BL-028
def test_unmatched_work_waits_and_blocks_nobody(t):
    c = t.client()
    w = t.worker(filters=filters(orchestrations=["yes", "probe"], activities=["X"]))
    stuck = [c.start("no") for _ in range(30)]
    for n in range(5):
        id = c.start("yes")
        w.done(w.turn(id=id), act.task(1, "Z"), act.task(2, "X"))
        w.result(w.task(), "r")
        i = w.turn(id=id)
        w.done(i, act.complete())
        assert c.wait(id).orchestrationStatus == COMPLETED
    w.quiet()
    assert all(c.status(id) == "PENDING" for id in stuck)
    z = t.worker(filters=filters(activities=["Z"]))
    for _ in range(5):
        z.result(z.task())
    late = t.worker(filters=filters(orchestrations=["no"]))
    assert [late.turn().id for _ in range(30)] == stuck, "order kept"


# checklist: 129
# reports: BL-126, BL-003
@limit(120)
def test_health_pings(t):
    """After ping.interval without an item; nightly with the real 30 s for ten minutes."""
    if NIGHTLY:
        w = t.worker()
        end = time.monotonic() + 600
        while time.monotonic() < end:
            w.ping(40)
        assert not w.ended.is_set()
        return
    t.shared(ping__interval="700ms")
    c, w = t.pair()
    for _ in range(4):
        w.ping(10)
    # On a stream that is full too, and only after an idle time.
    w2 = t.worker(orch=1)
    c.start("o", "x")
    c.start("o", "y")
    eventually(lambda: w.held or w2.held or not w.items.empty() or not w2.items.empty(), 5)
    w2.ping(10)
    assert not w2.ended.is_set()


if NIGHTLY:
    test_health_pings.limit = 700


# checklist: 130
# reports: BL-018, BL-026
def test_stale_completion(t):
    id, c, w, i = t.started()
    w2 = t.worker()
    w2.ready()
    w.cancel()
    j = w2.turn()
    assert j.id == id and j.token != i.token
    w.done(i, act.complete(result="stale"))
    assert c.status(id) == "PENDING"
    w2.none(0.3)
    w2.done(j, act.complete(result="current"))
    s = c.wait(id)
    assert s.output.value == "current"
    w.done(i, act.complete(result="stale again"))
    w2.done(j, act.complete(result="repeated"))
    assert c.get(id) == s


# checklist: 131
def test_completion_after_disconnect(t):
    id, c, w, i = t.started()
    w.done(i, act.task(1, "a"))
    a = w.task()
    w.close()
    time.sleep(0.3)
    silent = t.worker(open=False)
    silent.result(a, "r")
    w = t.worker()
    i = w.turn()
    w.close()
    time.sleep(0.3)
    silent.done(i, act.complete(result="from elsewhere"))
    assert c.wait(id, 5).output.value == "from elsewhere"
    t.worker().none(0.3)


# checklist: 132
# reports: BL-110
@limit(90)
def test_abandon_backs_off(t):
    """1 s, then doubling; abandon.backoff_max caps it."""
    t.shared(abandon__backoff_max="2s")
    c = t.client()
    w = t.worker()
    id = c.start("o")
    times = []
    for _ in range(4):
        i = w.turn(timeout=15)
        times.append(time.monotonic())
        w.abandon(i)
    i = w.turn(timeout=15)
    times.append(time.monotonic())
    gaps = [b - a for a, b in zip(times, times[1:])]
    assert gaps[0] >= 0.8 and gaps[1] >= 1.7 and gaps[2] >= 1.7 and gaps[3] >= 1.7, gaps
    # The old token has no effect any more.
    w.abandon(i)
    j = w.turn(timeout=15)
    w.abandon(i)
    w.done(i, act.complete(result="no"))
    w.done(j, act.complete(result="yes"))
    assert c.wait(id).output.value == "yes"
    # Activities alike.
    id = c.start("o")
    w.done(w.turn(), act.task(1, "a"))
    a = w.task()
    begin = time.monotonic()
    w.abandon(a)
    w.result(w.task(timeout=15), "r")
    assert time.monotonic() - begin >= 0.8
    w.done(w.turn(), act.complete())


# checklist: 132
@limit(90)
def test_another_worker_gets_it_without_delay(t):
    c = t.client()
    w = t.worker()
    id = c.start("o")
    for _ in range(4):  # the next delay for this worker is 16 s
        i = w.turn(timeout=20)
        w.abandon(i)
    i = w.turn(timeout=20)
    w2 = t.worker()
    w2.ready()
    begin = time.monotonic()
    w.abandon(i)
    j = w2.turn(timeout=10)
    assert time.monotonic() - begin < 10 and j.id == id
    w2.done(j, act.complete(result="by the other"))
    assert c.wait(id).output.value == "by the other"


# reports: BL-110
@limit(60)
def test_reject_does_not_spin(t):
    c, w = t.pair()
    id = c.start("o", version="2")
    begin = time.monotonic()
    n = 0
    while time.monotonic() - begin < 5:
        try:
            w.abandon(w.turn(timeout=0.5))
            n += 1
        except AssertionError:
            continue
    assert 2 <= n <= 5, n
    w2 = t.worker()
    w2.done(w2.turn(timeout=5), act.complete(result="taken"))
    assert c.wait(id).output.value == "taken"


# checklist: 133
def test_a_stuck_turn_is_given_to_another(t):
    t.shared(turn__timeout="1500ms")
    id, c, w, i = t.started()
    w2 = t.worker()
    j = w2.turn(timeout=15)
    assert j.id == id and j.token != i.token and j.past == i.past
    w.done(i, act.complete(result="stuck"))
    assert c.status(id) == "PENDING"
    w2.done(j, act.complete(result="fine"))
    assert c.wait(id).output.value == "fine"
    # Each partial chunk extends the time.
    id = c.start("o")
    for x in (w, w2):
        try:
            i = x.turn(timeout=1)
            break
        except AssertionError:
            continue
    for n in range(4):
        x.done(i, act.task(n, "a"), partial=True, chunk=n)
        time.sleep(0.9)
    x.done(i, act.complete(9, result="slow but there"), chunk=4)
    assert c.wait(id).output.value == "slow but there"


# checklist: 134
# reports: BL-124
@limit(120)
def test_a_slow_reader(t):
    """A stream that is not read holds little of the server's memory, and its items are not lost."""
    s = t.own_server()
    c = t.client()
    text = "x" * 50_000
    ids = [c.start("o", input=text) for _ in range(1500)]
    before = s.rss()
    slow = t.h2(window=65535, grant=False, rcvbuf=4096)
    stream = slow.start("GetWorkItems", pb.GetWorkItemsRequest(maxConcurrentOrchestrationWorkItems=10_000),
                        hub=t.hub)
    slow.pump(lambda: len(stream.data) > 60_000, 10)
    time.sleep(2)
    assert s.rss() - before < 16 << 20, s.rss() - before
    c.call("Hello")
    w = t.worker()
    got = set()
    # What was not sent to the slow one goes to the one that reads.
    for _ in range(1000):
        i = w.turn(timeout=15)
        w.done(i, act.complete())
        got.add(i.id)
    slow.close()
    while len(got) < 1500:
        i = w.turn(timeout=15)
        w.done(i, act.complete())
        got.add(i.id)
    assert got == set(ids)


def test_fairness_between_kinds_and_hubs(t):
    """Orchestrations do not starve activities, and a loop does not starve others."""
    c = t.client()
    w = t.worker(orch=1, act=1)
    for n in range(20):
        c.start("o")
    w.done(w.turn(), *[act.task(n, "a") for n in range(20)])
    order = []
    for _ in range(20):
        i = w.next()
        order.append(i.kind)
        if i.kind == "turn":
            w.done(i, act.complete())
        else:
            w.result(i)
    assert order.count("task") >= 5 and order.count("turn") >= 5, order
    # Continue-as-new goes to the back of the queue.
    hub = t.hub + "x"
    c = t.client(hub=hub)
    w = t.worker(hub=hub, orch=1)
    loop = c.start("loop")
    i = w.turn()
    others = [c.start("o") for _ in range(5)]
    seen = []
    w.done(i, act.again())
    for _ in range(6):
        i = w.turn()
        seen.append(i.id)
        w.done(i, *([act.again()] if i.id == loop else [act.complete()]))
    assert set(seen) == {loop, *others}, seen


def test_stickiness(t):
    """The next turn goes where the last one ran, when both have room."""
    c = t.client()
    w1, w2 = t.worker(orch=10), t.worker(orch=10)
    w1.ready(), w2.ready()
    same = 0
    for n in range(10):
        id = c.start("o")
        at = None
        for turn in range(3):
            for x in (w1, w2) if at is not w2 else (w2, w1):
                try:
                    i = x.turn(timeout=0.5, id=id)
                    break
                except AssertionError:
                    continue
            if at is x:
                same += 1
            at = x
            x.done(i, *([act.complete()] if turn == 2 else []))
            if turn < 2:
                c.event(id)
    assert same >= 15, same


# checklist: 158, 157
def test_java_after_an_error_answer(t):
    """JAVA leaves its stream unread after an error and opens another: the old one's items come there."""
    t.shared(request__bytes="1MiB")
    c = t.client()
    w = t.worker(agent=JAVA)
    ids = [c.start("o") for _ in range(5)]
    for _ in range(5):
        i = w.turn()
    code, _ = error_of(lambda: w.done(i, act.task(1, "a", "x" * (2 << 20))))
    assert code == "RESOURCE_EXHAUSTED", code
    old = w.stream
    w.open()  # on the same connection, the old stream still open and unread
    got = {}
    while len(got) < 5:
        i = w.turn(timeout=20)
        got[i.id] = i
        w.done(i, act.complete(result="r"))
    for id in ids:
        assert c.wait(id, 10).output.value == "r", id
    old.cancel()


# checklist: 159
def test_worker_instance_id(t):
    for good in ("", "w", "x" * 128, "\u00e9" * 64, "host-1/abc"):
        w = t.worker(name=good).ready()
        w.close()
    for bad in ("x" * 129, "\u00e9" * 65, "a\nb", "a\0", "\x7f"):
        w = t.worker(name=bad)
        assert w.wait_end()[0] == "INVALID_ARGUMENT", (bad, w.status)
    c = t.client()
    a, b = t.worker(name="same", orch=1), t.worker(name="same", orch=1)
    a.ready(), b.ready()
    ids = {c.start("o"), c.start("o")}
    deadline = time.time() + 10
    got = {}
    while len(got) < 2 and time.time() < deadline:
        for w in (a, b):
            try:
                i = w.turn(timeout=0.2)
                got[i.id] = w
            except AssertionError:
                pass
    assert set(got) == ids


# checklist: 159
def test_workers_are_listed(t):
    try:
        admin = methods_of("perdure.v1.Admin")
    except KeyError:
        raise Skip("no admin service in proto/")
    method = next((m for n, m in admin.items() if "Worker" in n), None)
    if method is None:
        raise Skip("no list of workers in the admin service")
    w = t.worker(name="the-named-one")
    w2 = t.worker(headers=[("workerid", "host:77:uuid-of-it")])
    w.ready(), w2.ready()
    c = t.client()
    stub = c.channel.unary_unary(method.path, request_serializer=lambda m: m.SerializeToString(),
                                 response_deserializer=method.response.FromString)
    text = str(stub(method.request(), metadata=c.metadata, timeout=10))
    assert "the-named-one" in text, text
    assert "host:77:uuid-of-it" in text, text


# checklist-partial: 160
def test_java_holds_sixteen(t):
    c = t.client()
    j = t.worker(agent=JAVA)
    j.ready()
    for _ in range(30):
        c.start("o")
    got = [j.turn() for _ in range(16)]
    j.none(0.5)
    j.done(got[0], act.complete())
    j.turn()
    j.none(0.3)
    # tokenless.unsettled sets it, and a limit that the stream names counts too.
    t.shared(tokenless__unsettled="3")
    c = t.client()
    j = t.worker(agent=JAVA)
    for _ in range(8):
        c.start("o")
    for _ in range(3):
        j.turn()
    j.none(0.4)


# reports: BL-005
def test_the_same_worker_comes_back(t):
    id, c, w, i = t.started()
    w.close()
    w = t.worker(name="me")
    j = w.turn(timeout=5)
    w.close()
    w = t.worker(name="me")
    k = w.turn(timeout=5)
    assert k.id == id and len({i.token, j.token, k.token}) == 3
    w.done(k, act.complete())


# reports: BL-005
def test_a_second_stream_while_the_old_one_lingers(t):
    """A worker that came back over a new connection is served at once."""
    p = t.proxy()
    c = t.client()
    w = t.worker(server=p.target, name="me", orch=1)
    c.start("o", "x")
    w.turn()
    p.freeze()
    w2 = t.worker(name="me", orch=1)
    c.start("o", "y")
    i = w2.turn(timeout=5)
    assert i.id == "y"
    w2.done(i, act.complete())


# reports: BL-003, BL-025
@limit(120)
def test_a_frozen_worker_loses_its_work(t):
    """No FIN, no answer to pings: its items go to another within the keepalive time."""
    if NIGHTLY:
        s, bound = t.server, 60
    else:
        s, bound = t.shared(keepalive__idle="1s", keepalive__timeout="1s"), 15
    p = t.proxy()
    c = t.client()
    w = t.worker(server=p.target)
    id = c.start("o")
    w.done(w.turn(), act.task(1, "a"), act.task(2, "b"))
    w.task(), w.task()
    c.event(id)
    w.turn()
    p.freeze()
    begin = time.monotonic()
    w2 = t.worker()
    got = {w2.next(timeout=bound + 5).kind for _ in range(3)}
    assert got == {"turn", "task"}
    assert time.monotonic() - begin < bound


# reports: BL-003
@limit(120)
def test_a_frozen_worker_that_is_being_sent_items(t):
    """Sending is no sign of life: it loses them all the same."""
    if NIGHTLY:
        s, bound = t.server, 60
    else:
        s, bound = t.shared(keepalive__idle="1s", keepalive__timeout="1s"), 20
    p = t.proxy()
    c = t.client()
    w = t.worker(server=p.target)
    w.ready()
    p.freeze(to_server=False, to_client=True)  # what the server sends is taken, nothing comes back
    ids = set()
    begin = time.monotonic()
    closed = False
    while time.monotonic() - begin < bound and not closed:
        ids.add(c.start("o", input="x" * 20_000))
        time.sleep(0.1)
        closed = p.server_closed(0)
    assert closed, "still connected after %s s" % bound
    w2 = t.worker()
    got = set()
    while len(got) < len(ids):
        i = w2.turn(timeout=15)
        got.add(i.id)
        w2.done(i, act.complete())
    assert got == ids


# reports: BL-003
@limit(60)
def test_a_worker_that_answers_pings_is_kept(t):
    t.shared(keepalive__idle="500ms", keepalive__timeout="500ms", ping__interval="60s")
    h = t.h2()
    s = h.start("GetWorkItems", pb.GetWorkItemsRequest(), hub=t.hub)
    h.pump(lambda: h.pings_seen >= 4, 20)
    assert not s.over and not h.goaways
    # One that does not is closed.
    d = t.h2(ack_pings=False)
    s = d.start("GetWorkItems", pb.GetWorkItemsRequest(), hub=t.hub)
    d.pump(lambda: d.closed, 20)
    assert d.pings_seen >= 1


# reports: BL-113
@limit(120)
@serial
def test_results_are_batched(t):
    """Waiting results come in one turn: a fan-out of 2,000 takes far fewer turns."""
    c = t.client()
    seen = set()

    def o(i):
        if not i.past:
            return [act.task(n, "a") for n in range(2000)]
        seen.update(e.taskScheduledId for e in events_of(i.new, "taskCompleted"))
        return [act.complete(result=str(len(seen)))] if len(seen) == 2000 else []

    a = t.auto({"o": o}, {"a": lambda i: "r"}, check=False)
    id = c.start("o")
    assert c.wait(id, 100).output.value == "2000"
    a.check()
    assert a.turns < 1000, a.turns
    check_legal(c.history(id), True)


# reports: BL-115
@serial
@limit(120)
def test_many_instances_through_one_worker(t):
    c = t.client()
    n = 200

    def o(i):
        done = kinds(i.events).count("taskCompleted")
        if not i.past:
            return [act.task(k, "a", i.started.input.value) for k in range(5)]
        return [act.complete(result="r")] if done == 5 else []

    a = t.auto({"o": o}, {"a": lambda i: i.input}, orch=10, act=10)
    ids = [c.start("o", input="x" * 50_000) for _ in range(n)]
    for id in ids:
        assert c.wait(id, 100).orchestrationStatus == COMPLETED
    a.check()
    assert a.tasks == 5 * n


def test_get_work_items_ends_with_its_client(t):
    """Cancelled, closed, reset: each gives the items back at once, in the original order."""
    for how in ("cancel", "close", "reset"):
        hub = t.hub + how
        c = t.client(hub=hub)
        p = t.proxy()
        w = t.worker(hub=hub, server=p.target)
        ids = [c.start("o") for _ in range(5)]
        first = [w.turn() for _ in range(5)]
        assert [i.id for i in first] == ids
        w2 = t.worker(hub=hub)
        w2.ready()
        w2.none(0.2)
        {"cancel": w.cancel, "close": w.close, "reset": p.cut}[how]()
        again = [w2.turn(timeout=5) for _ in range(5)]
        assert [i.id for i in again] == ids, how
        assert not {i.token for i in again} & {i.token for i in first}
