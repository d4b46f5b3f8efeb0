"""Kill -9 and start again: nothing acknowledged is lost (spec 1.1, 8.8)."""

import gzip
import os
import random
import sqlite3
import subprocess
import threading
import time

import grpc

from lib import actions as act
from lib.client import Client
from lib.history import check_legal, events_of, raised_inputs
from lib.proto import COMPLETED, FAILED, PENDING, RUNNING, STATUS_NAMES, TERMINATED, kinds, pb
from lib.runner import NIGHTLY, limit, serial
from lib.server import Server, binary, eventually
from lib.worker import GO, JAVA, Auto, Worker, filters


# checklist: 13
# reports: BL-065
def test_a_start_survives(t):
    s = t.own_server()
    c = t.client()
    ids = []
    for round in range(3):
        for n in range(10):
            ids.append(c.start("o", input="%d-%d" % (round, n), tags={"r": str(round)}))
        s.restart()
        c = t.client()
        for id in ids:
            assert c.get(id) is not None
    w = t.worker()
    for _ in ids:
        i = w.turn()
        w.done(i, act.complete(result=i.started.input.value))
    for id in ids:
        state = c.wait(id)
        assert state.output.value == state.input.value


def test_everything_else_survives(t):
    """Each acknowledged call, killed right after its OK."""
    s = t.own_server()
    c, w = t.pair()
    id = c.start("o", "x")

    def restart():
        nonlocal c, w
        w.close()
        s.restart()
        c, w = t.client(), t.worker()

    i = w.turn()
    w.done(i, act.task(1, "a"), act.timer(2, after=3600), status="custom")
    restart()
    state = c.get("x")
    assert state.orchestrationStatus == RUNNING and state.customStatus.value == "custom"
    assert state.executionId.value == i.execution
    assert kinds(c.history("x")) == ["orchestratorStarted", "executionStarted", "taskScheduled", "timerCreated"]
    a = w.task()
    w.result(a, "r")
    restart()
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted", "taskCompleted"]
    w.quiet("task")
    w.done(i)
    c.event("x", "e", "v")
    restart()
    i = w.turn()
    assert raised_inputs(i.new) == ["v"]
    w.done(i)
    c.suspend("x", "s")
    restart()
    assert c.status("x") == "SUSPENDED"
    c.resume("x", "r")
    restart()
    assert c.status("x") == "RUNNING"
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted", "executionSuspended", "executionResumed"]
    w.done(i, act.child(3, "k", "kid"))
    restart()
    k = w.turn(id="kid")
    w.done(k, act.complete(result="kr"))
    restart()
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted", "subOrchestrationInstanceCompleted"]
    w.done(i)
    c.terminate("x", "end")
    restart()
    i = w.turn()
    assert kinds(i.new) == ["orchestratorStarted", "executionTerminated"]
    w.done(i, act.terminated(result="end"))
    restart()
    assert c.get("x").orchestrationStatus == TERMINATED and c.get("x").output.value == "end"
    check_legal(c.history("x"), True)
    assert c.purge("x").deletedInstanceCount == 1
    restart()
    assert c.get("x") is None
    w.quiet()


# reports: BL-004
def test_killed_during_an_activity(t):
    s = t.own_server()
    id, c, w, i = t.started()
    w.done(i, act.task(1, "a"))
    w.task()
    s.kill()
    w.wait_end(20)
    time.sleep(0.3)
    s.start()
    w.open()  # the same worker, the same channel
    a = w.task(timeout=10)
    w.result(a, "r")
    w.done(w.turn(), act.complete(result="r"))
    c = t.client()
    h = check_legal(c.history(id), True)
    assert kinds(h).count("taskCompleted") == 1 and c.get(id).output.value == "r"


# reports: BL-019
def test_between_two_steps(t):
    """One slot; killed right after the second step's answer: the third comes."""
    s = t.own_server()
    c = t.client()
    w = t.worker(orch=1, act=1)
    ids = [c.start("o"), c.start("o")]
    first = w.turn()
    w.done(first, act.task(1, "a"))
    w.result(w.task(), "1")
    while True:
        i = w.turn()
        if i.id == first.id:
            break
        w.done(i, act.complete())
    w.done(i, act.task(2, "a"))
    w.result(w.task(), "2")
    s.restart()
    w = t.worker(orch=1, act=1)
    done = set()
    while len(done) < 1 or first.id not in done:
        i = w.turn()
        if i.id == first.id:
            assert events_of(i.new, "taskCompleted")[0].result.value == "2"
            w.done(i, act.task(3, "a"))
            w.result(w.task(), "3")
            while True:
                i = w.turn()
                w.done(i, act.complete())
                done.add(i.id)
                if i.id == first.id:
                    break
        else:
            w.done(i, act.complete())
            done.add(i.id)
    c = t.client()
    for id in ids:
        if c.status(id) != "COMPLETED":
            w.done(w.turn(id=id), act.complete())
        assert c.wait(id).orchestrationStatus == COMPLETED
    check_legal(c.history(first.id), True)


# reports: BL-008
@limit(120)
def test_nothing_looks_missing_after_a_start(t):
    """From the first accepted connection on: UNAVAILABLE or the instance, never exists=false."""
    s = t.own_server()
    c = t.client()
    n = 20_000 if NIGHTLY else 1_500
    futures = [c.future("StartInstance", c.create("o", "i%d" % k, input="x" * 200), 60) for k in range(n)]
    for f in futures:
        f.result(60)
    for round in range(3):
        s.kill()
        answers, stop = [], threading.Event()

        def ask(seed):
            rng = random.Random(seed)
            mine = Client(s.target, t.hub)
            get = mine.stub("GetInstance")
            while not stop.is_set():
                try:
                    r = get(pb.GetInstanceRequest(instanceId="i%d" % rng.randrange(n)),
                            metadata=mine.metadata, timeout=5)
                    answers.append(r.exists)
                except grpc.RpcError as e:
                    if e.code() != grpc.StatusCode.UNAVAILABLE:
                        answers.append(e.code().name)
                    time.sleep(0.002)
            mine.close()

        threads = [threading.Thread(target=ask, args=(k,), daemon=True) for k in range(3)]
        for x in threads:
            x.start()
        s.start()
        eventually(lambda: answers.count(True) > 200, 30)
        stop.set()
        for x in threads:
            x.join()
        assert set(answers) == {True}, set(answers)


# reports: BL-077
def test_restarts_invent_nothing(t):
    s = t.own_server()
    c, w = t.pair()
    id = c.start("o", "")
    w.done(w.turn())
    for _ in range(5):
        s.restart()
    w = t.worker()
    with sqlite3.connect("file:%s?mode=ro" % s.store_path(), uri=True) as db:
        tables = [r[0] for r in db.execute("select name from sqlite_master where type = 'table'")]
        counts = {x: db.execute("select count(*) from %s" % x).fetchone()[0] for x in tables
                  if "instance" in x or "object" in x}
    assert counts and max(counts.values()) == 1, counts
    assert t.client().status(id) == "RUNNING"
    w.quiet()


def metric(s, name):
    """The value of a metric without labels."""
    for line in s.get("/metrics")[1].splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    raise AssertionError("no metric " + name)


def delete_by_hand(s, t, prefix):
    """What somebody with sqlite3 may do: the instances whose ids begin so, and their histories."""
    like = prefix + "%"
    with sqlite3.connect(s.store_path(), timeout=10) as db:
        keys = [k for k, in db.execute("select key from object where id like ?", [like])]
        db.execute("delete from history where execution in (select execution from object where id like ?)", [like])
        db.execute("delete from object where id like ?", [like])
    db.close()
    return keys


def rows_of(s, keys):
    with sqlite3.connect("file:%s?mode=ro" % s.store_path(), uri=True) as db:
        got = {x: db.execute("select count(*) from %s where object in (%s)" % (x, ",".join(map(str, keys)))).fetchone()[0]
               for x in ("timer", "inbox", "task")}
    db.close()
    return got


def deleted_by_hand(t, settings, while_down):
    s = t.own_server(settings)
    c = t.client()
    w = t.worker(filters=filters(orchestrations=["o"], activities=["a", "b"]))
    for id in ("gone-timer", "gone-task", "gone-events", "stays"):
        c.start("o", id)
    c.start("nobody has it", "gone-pending")
    for id in ("gone-timer", "gone-task", "gone-events", "stays"):
        i = w.turn(id=id)
        w.done(i, *{"gone-timer": [act.timer(1, after=1)], "gone-task": [act.task(1, "a")], "gone-events": [],
                    "stays": [act.timer(1, after=1), act.task(2, "b")]}[id])
    w.task(id="gone-task")  # held; its answer will be of no use
    w.result(w.task(id="stays"), "r")
    w.turn(id="stays")
    c.event("gone-events", "e", "v")
    w.turn(id="gone-events")
    if while_down:
        s.kill()
    keys = delete_by_hand(s, t, "gone-")
    assert len(keys) == 4, keys
    if while_down:
        s.start()
    # What was held comes back when its worker is lost; and who knows "nobody has it" is there by now.
    w.close()
    w = t.worker()
    end = time.monotonic() + 30
    while c.status("stays") != "COMPLETED" or any(rows_of(s, keys).values()):
        assert time.monotonic() < end, (c.status("stays"), rows_of(s, keys), s.log_tail())
        try:
            i = w.next(timeout=0.3)
        except AssertionError:  # nothing now: the timers are to come
            continue
        if i.kind == "task":
            w.result(i, "r")
        elif i.id == "stays" and {"taskCompleted", "timerFired"} <= set(kinds(i.events)):
            w.done(i, act.complete(result="well"))
        else:  # also of what was still in memory when it was handed out
            w.done(i)
    assert c.get("stays").output.value == "well"
    # The ids are free, and the server is as it was.
    for id in ("gone-timer", "gone-task", "gone-events", "gone-pending"):
        assert c.get(id) is None
        c.start("o", id)
        w.done(w.turn(id=id), act.complete(result="again"))
        assert c.wait(id).output.value == "again"
    eventually(lambda: metric(s, "perdure_orphans_dropped_total") >= 2, 10)  # published a moment later
    log = s.log()
    assert log.count("work of an instance that is gone") == 1, log
    assert "level=error" not in log, log
    assert s.get("/healthz")[0] == 200 and metric(s, "perdure_store_healthy") == 1


# reports: BL-064
def test_instances_deleted_by_hand(t):
    """Their timers, events and activities are dropped with one warning; nothing is retried for ever, others go on."""
    deleted_by_hand(t, {}, while_down=False)


# reports: BL-064
def test_instances_deleted_by_hand_that_are_not_in_memory(t):
    deleted_by_hand(t, {"cache.objects": "1"}, while_down=False)


# reports: BL-064
def test_instances_deleted_by_hand_while_the_server_is_down(t):
    deleted_by_hand(t, {}, while_down=True)


class Load:
    """Workers and clients that go on over kills, and the books of what was acknowledged."""

    def __init__(self, t, s, seed, agents=(None, None), target=None):
        """agents: the user-agent of each worker; target: where workers connect, if not to s."""
        self.t, self.s = t, s
        self.agents, self.target = agents, target or s
        self.rng = random.Random(seed)
        self.stop = threading.Event()
        self.enough = threading.Event()
        self.lock = threading.Lock()
        self.started = {}
        self.events = {}
        self.results = {}
        self.doubles = []
        self.workers = [self._thread(self._work, k) for k in range(2)]
        self.askers = [self._thread(self._ask, k) for k in range(2)]

    @staticmethod
    def _thread(fn, k):
        x = threading.Thread(target=fn, args=(k,), daemon=True)
        x.start()
        return x

    def stop_asking(self):
        self.enough.set()
        for x in self.askers:
            x.join(30)

    def _work(self, k):
        while not self.stop.is_set():
            a = Auto(self.target, self.t.hub, {"chain": self.chain, "fan": self.fan, "events": self.wait_events,
                                          "loop": self.loop, "parent": self.parent},
                     {"a": lambda i: i.input}, threads=2, check=True, agent=self.agents[k])
            while not self.stop.is_set() and not a.worker.ended.is_set():
                time.sleep(0.02)
            for e in a.errors:
                if isinstance(e, AssertionError) and "has ended" not in str(e):
                    self.doubles.append(e)
            a.close()

    @staticmethod
    def chain(i):
        done = [e.result.value for e in events_of(i.events, "taskCompleted")]
        if len(done) < 3:
            n = kinds(i.events).count("taskScheduled")
            return [act.task(n, "a", str(n))] if n == len(done) else []
        return [act.complete(result=",".join(done))]

    @staticmethod
    def fan(i):
        if not i.past:
            return [act.task(n, "a", str(n)) for n in range(10)] + [act.timer(50, after=0.05)]
        done = sorted(int(e.result.value) for e in events_of(i.events, "taskCompleted"))
        fired = "timerFired" in kinds(i.events)
        return [act.complete(result=str(sum(done)))] if len(done) == 10 and fired else []

    @staticmethod
    def wait_events(i):
        got = [e.input.value for e in events_of(i.events, "eventRaised")]
        return [act.complete(result=",".join(got))] if "end" in got else []

    @staticmethod
    def loop(i):
        n = int(i.started.input.value or "0")
        return [act.complete(result=str(n))] if n == 5 else [act.again(input=str(n + 1))]

    @staticmethod
    def parent(i):
        if not i.past:
            return [act.child(n, "chain") for n in range(3)]
        done = events_of(i.events, "subOrchestrationInstanceCompleted")
        return [act.complete(result=str(len(done)))] if len(done) == 3 else []

    WANT = {"chain": "0,1,2", "fan": "45", "loop": "5", "parent": "3"}

    def _ask(self, k):
        rng = random.Random(self.rng.random())
        n = 0
        while not self.enough.is_set():
            c = Client(self.s.target, self.t.hub)
            try:
                while not self.enough.is_set():
                    n += 1
                    name = rng.choice(["chain", "fan", "events", "loop", "parent"])
                    id = "%s-%d-%d" % (name, k, n)
                    c.call("StartInstance", c.create(name, id), 10)
                    with self.lock:
                        self.started[id] = name
                    if name == "events":
                        self.events[id] = []
                        for x in range(5):
                            c.call("RaiseEvent", pb.RaiseEventRequest(
                                instanceId=id, name="e", input=pb.StringValue(value=str(x))), 10)
                            self.events[id].append(str(x))
                        c.call("RaiseEvent", pb.RaiseEventRequest(
                            instanceId=id, name="e", input=pb.StringValue(value="end")), 10)
                        self.events[id].append("end")
                    time.sleep(0.01)
            except grpc.RpcError:
                time.sleep(0.05)
            finally:
                c.close()

    def finish(self):
        """All that was acknowledged ends as it must."""
        self.s.expected_down = False
        c = self.t.client()
        with self.lock:
            started = dict(self.started)
        # Events whose last raise was cut off need an end.
        for id, seen in self.events.items():
            if "end" not in seen:
                c.event(id, "e", "end")
        for id, name in started.items():
            state = c.wait(id, 60)
            assert state is not None and state.orchestrationStatus == COMPLETED, (id, state)
            if name == "events":
                got = state.output.value.split(",")
                want = [x for x in self.events[id] if x != "end"]
                # An event whose answer was lost may be there as well: never between, never twice.
                assert got[: len(want)] == want, (id, got, want)
                numbers = [x for x in got if x != "end"]
                assert len(set(numbers)) == len(numbers), (id, got)
            else:
                assert state.output.value == self.WANT[name], (id, state.output)
            h = check_legal(c.history(id), True)
            assert events_of(h, "executionCompleted")[0].orchestrationStatus == state.orchestrationStatus
        return len(started)

    def close(self):
        self.stop.set()
        for x in self.workers:
            x.join(20)


# checklist: 138
# reports: BL-014, BL-065, BL-173, BL-012
@serial
@limit(170)
def test_kill_at_random_under_load(t):
    """Six kills; 100 with PERDURE_NIGHTLY. The seed is fixed there and fresh at night."""
    seed = int.from_bytes(os.urandom(4), "big") if NIGHTLY else 20240611
    print("# kill_at_random seed %d" % seed, flush=True)
    rng = random.Random(seed)
    s = t.own_server()
    load = Load(t, s, seed)
    try:
        for _ in range(100 if NIGHTLY else 6):
            time.sleep(0.2 + rng.random() * 1.3)
            s.kill()
            begin = time.monotonic()
            s.start()
            assert time.monotonic() - begin < 10
    finally:
        load.stop_asking()
    n = load.finish()
    load.close()
    assert n > 20, n
    assert not load.doubles, load.doubles[:3]
    assert "busy" not in s.log().lower() and "locked" not in s.log().lower(), s.log_tail()


if NIGHTLY:
    test_kill_at_random_under_load.limit = 1200


# checklist: 138, 139, 157
@serial
@limit(170)
def test_kill_at_random_without_tokens(t):
    """The same with workers that play GO and JAVA."""
    seed = int.from_bytes(os.urandom(4), "big") if NIGHTLY else 31
    print("# kill_at_random_without_tokens seed %d" % seed, flush=True)
    rng = random.Random(seed)
    s = t.own_server()
    load = Load(t, s, seed, agents=(GO, JAVA))
    try:
        for _ in range(30 if NIGHTLY else 4):
            time.sleep(0.3 + rng.random() * 2)
            s.restart()
    finally:
        load.stop_asking()
    n = load.finish()
    load.close()
    assert n > 10, n
    assert not load.doubles, load.doubles[:3]


# checklist: 126, 58
# reports: BL-030, BL-177, BL-010, BL-026
@serial
@limit(170)
def test_workers_lost_at_random(t):
    """The server stays, its workers' connections are cut again and again."""
    seed = int.from_bytes(os.urandom(4), "big") if NIGHTLY else 41
    print("# workers_lost_at_random seed %d" % seed, flush=True)
    rng = random.Random(seed)
    s = t.own_server()
    p = t.proxy()
    load = Load(t, s, seed, target=p.target)
    try:
        for _ in range(200 if NIGHTLY else 15):
            time.sleep(0.05 + rng.random() * 0.6)
            p.cut()
    finally:
        load.stop_asking()
    n = load.finish()
    load.close()
    assert n > 20, n
    assert not load.doubles, load.doubles[:3]


if NIGHTLY:
    test_kill_at_random_without_tokens.limit = 900
    test_workers_lost_at_random.limit = 900


# reports: BL-014
@limit(90)
def test_a_torn_log(t):
    """The last bytes of the write-ahead log are missing: it opens, and is whole."""
    s = t.own_server()
    for cut in (1, 100, 4000):
        c, w = t.pair()
        for n in range(20):
            c.start("o", "c%d-%d" % (cut, n))
        for n in range(10):
            w.done(w.turn(), act.task(1, "a"))
        s.kill()
        wal = s.store_path() + "-wal"
        if os.path.exists(wal) and os.path.getsize(wal) > cut:
            os.truncate(wal, os.path.getsize(wal) - cut)
        s.start()
        c = t.client()
        w = t.worker()
        for n in range(20):
            id = "c%d-%d" % (cut, n)
            state = c.get(id)
            if state is not None and state.orchestrationStatus == RUNNING:
                check_legal(c.history(id))
        w.close()


# reports: BL-137
@serial
def test_a_copy_made_under_load(t):
    """As docs/operating.md says to make one: the store of one moment, with all that was acknowledged before it."""
    s = t.own_server()
    c = t.client()
    auto = t.auto({"o": Load.chain}, {"a": lambda i: i.input})
    stop, acknowledged = threading.Event(), []

    def start(k):
        mine = Client(s.target, t.hub)
        while not stop.is_set():
            acknowledged.append(mine.start("o", "i%d-%d" % (k, len(acknowledged))))
        mine.close()

    threads = [threading.Thread(target=start, args=(k,), daemon=True) for k in range(3)]
    for x in threads:
        x.start()
    copies = []
    for n in range(3):
        eventually(lambda: len(acknowledged) > 30 * (n + 1), 30)
        before = list(acknowledged)
        path = os.path.join(s.dir, "copy%d.db" % n)
        db = sqlite3.connect(s.store_path())
        db.execute("vacuum into ?", [path])
        db.close()
        copies.append((path, before))
    stop.set()
    for x in threads:
        x.join()
    auto.check()
    for path, before in copies:
        other = t.later(Server(store="sqlite:" + path)).start()
        c = t.client(server=other)
        t.auto({"o": Load.chain}, {"a": lambda i: i.input}, server=other)
        for id in before:
            state = c.wait(id, 30)
            assert state is not None and state.output.value == "0,1,2", (id, state)
            check_legal(c.history(id), True)
        other.term()
        assert other.wait_exit() == 0
        db = sqlite3.connect(path)
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
        db.close()


def test_two_servers_on_one_store(t):
    s = t.own_server()
    c = t.client()
    c.start("o", "x")
    r = subprocess.run([binary(), "serve", "--store", s.store, "--listen", "127.0.0.1:0", "--http", "off"],
                       capture_output=True, text=True, timeout=30)
    assert r.returncode == 3 and str(s.process.pid) in r.stderr and not r.stdout, r
    assert c.get("x") is not None
    s.kill()
    s.start()


def test_a_memory_store_leaves_nothing(t):
    s = t.own_server(store="memory")
    id, c, w, i = t.started()
    w.done(i, act.complete(result="r"))
    assert c.wait(id).output.value == "r"
    assert not [f for f in os.listdir(s.dir) if f.startswith("perdure")]


# reports: BL-116
@limit(90)
@serial
def test_no_busy_errors_under_load(t):
    s = t.own_server()
    autos = [t.auto({"o": lambda i: [act.complete(result="r")]}, threads=2) for _ in range(3)]
    stop, errors, counts = threading.Event(), [], []

    def push():
        c = t.client()
        n = 0
        while not stop.is_set():
            try:
                c.start("o")
                n += 1
            except grpc.RpcError as e:
                errors.append(e)
        counts.append(n)

    threads = [threading.Thread(target=push, daemon=True) for _ in range(3)]
    for x in threads:
        x.start()
    # People look into the file meanwhile.
    end = time.monotonic() + (600 if NIGHTLY else 5)
    while time.monotonic() < end:
        with sqlite3.connect("file:%s?mode=ro" % s.store_path(), uri=True) as db:
            db.execute("select count(*) from sqlite_master").fetchone()
        time.sleep(0.2)
    stop.set()
    for x in threads:
        x.join()
    assert not errors, errors[0]
    for a in autos:
        a.check()
    assert sum(counts) > 100
    assert "busy" not in s.log().lower() and "locked" not in s.log().lower(), s.log_tail()


if NIGHTLY:
    test_no_busy_errors_under_load.limit = 700


# reports: BL-122
@serial
@limit(120)
def test_memory_after_many_instances(t):
    """What has ended is not kept in memory."""
    s = t.own_server()
    c = t.client()
    a = t.auto({"o": lambda i: [act.complete(result="r" * 100)]}, threads=3)

    def run(n):
        futures = []
        for _ in range(n):
            futures.append(c.future("StartInstance", c.create("o", input="i" * 100), 60))
            if len(futures) >= 100:
                for f in futures:
                    f.result(60)
                futures = []
        last = c.start("o")
        c.wait(last, 900)
        eventually(lambda: a.turns >= n, 900)
        a.turns = 0

    scale = 20 if NIGHTLY else 1
    run(2000 * scale)
    before = s.rss()
    run(3000 * scale)
    after = s.rss()
    a.check()
    assert after - before < 12 << 20, (before, after)


if NIGHTLY:
    test_memory_after_many_instances.limit = 1200


def test_an_older_store_goes_on(t):
    """A store of schema 1, as the first version left it at SIGTERM: migrated once, and everything in it ends."""
    s = t.own_server(start=False)
    path = os.path.join(s.dir, "perdure.db")
    with gzip.open(os.path.join(os.path.dirname(__file__), "data", "store-of-schema-1.db.gz")) as old:
        data = old.read()
    with open(path, "wb") as f:
        f.write(data)

    def version():
        db = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
        try:
            return db.execute("PRAGMA user_version").fetchone()[0]
        finally:
            db.close()

    assert version() == 1
    s.start()
    assert version() == 3
    c, w = t.client("upgrade"), t.worker("upgrade")
    done = c.get("done")
    assert done.orchestrationStatus == COMPLETED and done.output.value == "end"
    check_legal(c.history("done"), True)
    assert (c.status("later"), c.status("paused")) == ("PENDING", "SUSPENDED")
    state = c.get("runs")
    assert state.customStatus.value == "half" and dict(state.tags) == {"k": "v"}
    a = w.task()
    assert a.req.name == "a" and a.req.input.value == "in" and a.id == "runs"
    s.restart()  # rows of both kinds, after a crash too
    c, w = t.client("upgrade"), t.worker("upgrade")
    w.result(w.task(), "late")
    kid = w.turn(id="child")
    w.done(kid, act.complete(result="from the child"))
    seen = []
    while len(seen) < 4:
        i = w.turn(id="runs")
        seen += [k for k in kinds(i.new) if k in ("eventRaised", "taskCompleted", "timerFired")]
        w.done(i, *([act.complete(result="all")] if len(seen) == 4 else []))
    assert sorted(seen) == ["eventRaised", "eventRaised", "taskCompleted", "timerFired"]
    assert raised_inputs(c.history("runs")) == ["first", "second"]
    parent = w.turn(id="parent")
    assert events_of(parent.new, "subOrchestrationInstanceCompleted")[0].result.value == "from the child"
    w.done(parent, act.complete())
    c.resume("paused")
    i = w.turn(id="paused")
    assert raised_inputs(i.events) == ["kept"]
    w.done(i, act.complete())
    for id in ("runs", "parent", "child", "paused"):
        assert c.wait(id).orchestrationStatus == COMPLETED
        check_legal(c.history(id), True)
