"""What operators meet: refusal before trouble, metrics, settings (spec 8.6, 13)."""

import os
import re
import shutil
import sqlite3
import subprocess
import time

from lib import actions as act
from lib.client import Client, channel, error_of, expect_error
from lib.h2 import grpc_frame
from lib.history import check_legal, events_of
from lib.proto import COMPLETED, FAILED, METHODS, kinds, pb, sv
from lib.runner import Skip, limit
from lib.server import binary, eventually


# reports: BL-138
def test_little_disk_left(t):
    """New work is refused before the disk is full; everything that frees or finishes is taken."""
    s = t.own_server()
    if shutil.disk_usage(s.dir).free > 1 << 40:
        raise Skip("over 1 TiB free: no setting is above that")
    c, w = t.pair()
    c.start("o", "run")
    w.done(w.turn(), act.task(1, "a"))
    a = w.task()
    c.start("o", "done")
    w.done(w.turn(), act.complete())
    c.start("o", "waits")
    s.settings["overload.disk_free"] = "1024GiB"
    w.close()
    s.restart()
    c, w = t.client(), t.worker()
    assert s.get("/healthz")[0] == 200
    for method, request in (
        ("StartInstance", c.create("o", "new")),
        ("RaiseEvent", pb.RaiseEventRequest(instanceId="run", name="e")),
        ("WaitForInstanceCompletion", pb.GetInstanceRequest(instanceId="run")),
    ):
        code, text = c.error(method, request)
        assert code == "RESOURCE_EXHAUSTED", (method, code, text)
    assert c.get("new") is None
    w.result(w.task() if a is None else a, "r")
    got = {}
    for _ in range(2):
        i = w.turn()
        got[i.id] = i
    w.done(got["run"], act.complete(result="r"))
    assert c.get("run").output.value == "r"
    c.suspend("waits")
    c.resume("waits")
    w.done(got["waits"])
    c.terminate("waits", "t")
    assert c.purge("done").deletedInstanceCount == 1
    assert kinds(c.history("run"))[-1] == "executionCompleted"
    # And taken again when there is room.
    del s.settings["overload.disk_free"]
    s.restart()
    t.client().start("o", "new")


# reports: BL-087
def test_outputs_over_the_clients_limit(t):
    """6 MB of output: readable without payloads, and with them by a client that allows it."""
    c, w = t.pair(check=False)
    id = c.start("o")
    w.done(w.turn(), act.complete(result="x" * (6 << 20)))
    stock = t.client(options=[("grpc.max_receive_message_length", 4 << 20)])
    assert stock.get(id, False).orchestrationStatus == COMPLETED
    code, text = error_of(lambda: stock.get(id, True))
    assert code == "RESOURCE_EXHAUSTED" and "4194304" in text, (code, text)
    assert stock.get(id, False) is not None, "the connection is fine"
    assert len(c.get(id).output.value) == 6 << 20


# reports: BL-142, BL-141
@limit(90)
def test_metrics_are_bounded(t):
    s = t.own_server()
    c = t.client()
    for n in range(1500):
        c.start("name-%d" % n, "instance-%d" % n)
    code, text = s.get("/metrics")
    assert code == 200 and len(text) < 2 << 20, len(text)
    assert "instance-" not in text, "instance ids are no labels"
    assert text.count("name-") < 1200, text.count("name-")
    for line in text.splitlines():
        assert line.startswith("#") or not line or re.match(
            r'^[a-zA-Z_:][a-zA-Z0-9_:]*(\{[^}]*\})? [-+0-9.eE]+(Inf|NaN)?$', line), line
    names = {l.split()[2] for l in text.splitlines() if l.startswith("# TYPE")}
    for wanted in ("rpc", "commit", "batch", "work_ready", "work_in_flight", "timer", "waiter", "connection", "instance",
                   "store", "wal"):
        assert any(wanted in n for n in names), (wanted, sorted(names))


# reports: BL-141
def test_metrics_tell_the_counts(t):
    s = t.own_server()
    c, w = t.pair()
    for n in range(7):
        c.start("o", "i%d" % n)
    for _ in range(3):
        w.done(w.turn(), act.complete())

    def count(status):
        for line in s.get("/metrics")[1].splitlines():
            if line.startswith("#") or "instance" not in line:
                continue
            if status.lower() in line.lower():
                return float(line.rsplit(" ", 1)[1])
        return None

    eventually(lambda: count("COMPLETED") == 3 and count("PENDING") == 4, 10,
               "3 completed, 4 pending in /metrics")


def test_bad_settings(t):
    for args in (["--set", "no.such=1"], ["--set", "turn.timeout=fast"], ["--set", "request.bytes=-1"],
                 ["--set", "history.max_events"], ["--listen", "nonsense"], ["--listen", "127.0.0.1:99999"],
                 ["--store", "mongodb:x"], ["--nope"], ["--tls-cert", "x"], ["--api-keys", "x"]):
        r = subprocess.run([binary(), "serve", "--store", "memory", "--http", "off"]
                           + (["--listen", "127.0.0.1:0"] if "--listen" not in args else []) + args,
                           capture_output=True, text=True, timeout=20)
        assert r.returncode == 2 and r.stderr.strip() and not r.stdout, (args, r)
        assert r.stderr.strip().count("\n") <= 2, r.stderr


# reports: BL-021, BL-022
@limit(60)
def test_times_of_turns_and_activities_are_apart(t):
    """A turn's time-out says nothing about activities; a live worker keeps its activity."""
    t.shared(turn__timeout="1s", keepalive__idle="1s", keepalive__timeout="1s", ping__interval="1s")
    id, c, w, i = t.started()
    other = t.worker(orch=0)
    w.done(i, act.task(1, "long"))
    got = None
    for x in (w, other):
        try:
            got = x.task(timeout=2)
            break
        except AssertionError:
            continue
    w.none(4, "task")
    other.none(0.1, "task")
    x.result(got, "r")
    for y in (w, other):
        try:
            i = y.turn(timeout=0.9)
            y.done(i, act.complete(result="r"))
            break
        except AssertionError:
            continue
    assert c.wait(id, 10).output.value == "r"


# reports: BL-076, BL-084
def test_ids_are_case_sensitive_and_kinds_apart(t):
    c, w = t.pair()
    c.start("o", "abc", input="x" * 100_000)
    c.start("o", "ABC", input="y" * 100_000)
    for _ in range(2):
        i = w.turn()
        w.done(i, act.complete(result=i.id))
    assert c.purge("ABC").deletedInstanceCount == 1
    assert c.get("abc").output.value == "abc" and c.get("ABC") is None
    expect_error(lambda: c.start("o", "@counter@x"), "INVALID_ARGUMENT")
    expect_error(lambda: c.event("@counter@x"), "NOT_FOUND")
    c.terminate("@counter@x")
    assert c.get("@counter@x") is None


def test_errors_never_show_insides(t):
    """No paths and no stack traces in any message."""
    c = t.client()
    texts = []
    for method in METHODS:
        if METHODS[method].streams:
            continue
        for raw in (b"", b"\xff", b"\x0a\x01x"):
            try:
                c.call(method, raw, raw=True, timeout=2)
            except Exception as e:
                texts.append(e.details() or "")
    for text in texts:
        assert "/" not in text.replace("and/or", "") and ".c:" not in text and "\n" not in text, text
        assert text and len(text) < 2000


# reports: BL-118
def test_idle_workers_write_nothing(t):
    s = t.own_server({"ping.interval": "300ms"})
    c, w = t.pair()
    c.start("o", "x")
    w.done(w.turn(), act.timer(1, after=3600))
    others = [t.worker() for _ in range(30)]
    for x in others:
        x.ready()

    def files():
        return {f: (os.stat(os.path.join(s.dir, f)).st_size, os.stat(os.path.join(s.dir, f)).st_mtime_ns)
                for f in os.listdir(s.dir) if f.startswith("perdure.db")}, flushes()

    def flushes():
        return [l for l in s.get("/metrics")[1].splitlines() if l.startswith("perdure_store_flushes_total ")]

    time.sleep(1)
    before = files()
    assert len(before[0]) >= 3 and len(before[1]) == 1, before
    for x in others[:3]:
        for _ in range(3):
            x.ping(10)
    assert files() == before


def test_hangup_is_no_end(t):
    import signal
    s = t.own_server()
    c, w = t.pair()
    w.ready()
    for _ in range(3):
        s.signal(signal.SIGHUP)
    c.start("o", "x")
    w.done(w.turn(), act.complete(result="r"))
    assert c.wait("x").output.value == "r" and not w.ended.is_set()


def test_many_hubs(t):
    """A thousand of them: each works, none costs much, all are there after a kill."""
    s = t.own_server()
    c = t.client()
    before = s.rss()
    hubs = ["hub-%d" % n for n in range(1000)]
    for hub in hubs:
        c.call("StartInstance", c.create("o", "x", input=hub), metadata=[("taskhub", hub)])
    assert s.rss() - before < 40 << 20, s.rss() - before
    s.restart()
    c = t.client()
    for hub in hubs[::50]:
        r = c.call("GetInstance", pb.GetInstanceRequest(instanceId="x", getInputsAndOutputs=True),
                   metadata=[("taskhub", hub)])
        assert r.orchestrationState.input.value == hub
    w = t.worker(hub="HUB-7")
    assert w.turn().started.input.value == "hub-7"


def levels(f):
    return 1 + levels(f.innerFailure) if f.HasField("innerFailure") else 1


def test_settings_are_honoured(t):
    """Those that no other test here sets: what is set is what holds."""
    s = t.own_server({"failure.levels": "3", "history.chunk_bytes": "1KiB", "worker.name_bytes": "8",
                      "stream.unsent_bytes": "64KiB", "loop.threads": "7", "id.action_chars": "20"})
    plain = len(os.listdir("/proc/%d/task" % t.own_server().pid))
    assert len(os.listdir("/proc/%d/task" % s.pid)) == plain + 5, "two loops by default"
    c = t.client(server=s)
    w = t.worker(server=s, name="12345678")
    w.ready()
    assert t.worker(server=s, name="123456789").wait_end()[0] == "INVALID_ARGUMENT"
    # Levels of failures, and chunks.
    f = act.failure("L0")
    for n in range(1, 10):
        f = act.failure("L%d" % n, inner=f)
    id = c.start("o", "long")
    w.done(w.turn(), *[act.task(n, "a", "x" * 200) for n in range(40)])
    for _ in range(40):
        w.result(w.task())
    i = w.turn(id=id)
    while len(i.events) < 83:  # some results may come in a turn of their own
        w.done(i)
        i = w.turn(id=id)
    w.done(i, act.complete(status=FAILED, failure=f))
    assert levels(c.wait(id).failureDetails) == 3
    chunks = c.chunks(id)
    assert len(chunks) > 8 and max(x.ByteSize() for x in chunks) <= 1024, [x.ByteSize() for x in chunks]
    # Ids in actions and look-ups.
    expect_error(lambda: c.get("x" * 21), "INVALID_ARGUMENT",
                 "Instance id length 21 exceeds the maximum length of 20")
    assert c.get("x" * 20) is None
    # A stream whose client does not read.
    w.close()
    for n in range(30):
        c.start("o", "big%d" % n, input="x" * 30_000)
    slow = t.h2(server=s, window=10, grant=False)
    slow.start("GetWorkItems", pb.GetWorkItemsRequest(), hub=t.hub)

    def in_flight():
        for line in s.get("/metrics")[1].splitlines():
            if line.startswith('perdure_work_in_flight{kind="orchestration"}'):
                return int(line.rsplit(" ", 1)[1])
        raise AssertionError("no perdure_work_in_flight")

    eventually(lambda: in_flight() > 0, 10)
    time.sleep(0.5)
    assert 1 <= in_flight() <= 5, in_flight()


@limit(60)
def test_a_commit_that_takes_too_long(t):
    """overload.commit_time: what adds work is refused while one runs for longer, and taken after it."""
    t.own_server({"overload.commit_time": "1ms"})
    c = t.client()
    h = t.h2()
    refused = 0
    for _ in range(10):
        sent = [h.start("StartInstance", c.create("o", None, input="x" * 2000), hub=t.hub) for _ in range(400)]
        h.pump(lambda: all(x.over for x in sent), 30)
        for x in sent:
            code, text = x.status
            if code == "OK":
                continue
            assert code == "RESOURCE_EXHAUSTED" and "overload.commit_time" in text, x.status
            refused += 1
        if refused:
            break
    assert refused, "a batch of hundreds takes more than a millisecond"
    # When it is over, work is taken again.
    eventually(lambda: h.call("StartInstance", c.create("o", None), hub=t.hub).status[0] == "OK", 10)


def send_all(h, calls):
    """Sends each body as its stream's window opens; waits for all answers."""
    for stream, body in calls:
        assert h.data(stream, body)
    h.pump(lambda: all(stream.over for stream, _ in calls), 30)
    return [stream.status[0] for stream, _ in calls]


@limit(90)
def test_completions_are_held_back_not_refused(t):
    """overload.queued_bytes: past it completions wait by flow control, and all of them are taken (spec 8.6)."""
    s = t.own_server({"overload.queued_bytes": "64KiB"})
    c, w = t.client(), t.worker()
    id = c.start("o")
    w.done(w.turn(), *[act.task(n, "a") for n in range(24)])
    h = t.h2()
    sizes = {}
    calls = []
    for n in range(24):  # of all sizes: larger than all room, about as large, small ones
        x = w.task()
        sizes[x.task_id] = (600_000, 50_000, 10)[n % 3]
        r = pb.ActivityResponse(instanceId=id, taskId=x.task_id, completionToken=x.token,
                                result=sv("r" * sizes[x.task_id]))
        stream = h.open(METHODS["CompleteActivityTask"].path, [("taskhub", t.hub)])
        calls.append((stream, grpc_frame(r.SerializeToString())))

    # While a commit cannot go on, the server reads one window of each and no more.
    window = h.peer[4]  # SETTINGS_INITIAL_WINDOW_SIZE
    lock = sqlite3.connect(os.path.join(s.dir, "perdure.db"), isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    rest = []
    for stream, body in calls:
        h.data(stream, body[:window], end=len(body) <= window)
        rest.append((stream, body[window:]))
    for _ in range(2):
        assert h.call("Hello", b"").status[0] == "OK"
    waiting = [stream for stream, body in rest if body]
    opened = [stream for stream in waiting if h.stream_windows[stream.id] > 0]
    assert len(waiting) == 8 and len(opened) <= 1, [h.stream_windows[stream.id] for stream in waiting]
    assert not any(stream.over for stream, _ in calls)
    lock.execute("ROLLBACK")
    lock.close()
    assert send_all(h, [(stream, body) for stream, body in rest if body]) == ["OK"] * 8
    h.pump(lambda: all(stream.over for stream, _ in calls), 30)
    assert [stream.status[0] for stream, _ in calls] == ["OK"] * 24, [stream.status for stream, _ in calls]
    got = {}
    while len(got) < 24:
        i = w.turn(id=id)
        got.update({e.taskScheduledId: len(e.result.value)
                    for e in events_of(i.new, "taskCompleted")})
        w.done(i, *([act.complete()] if len(got) == 24 else []))
    assert got == sizes

    # The same for what ends instances.
    for n in range(20):
        c.start("waits", "t%d" % n)
    calls = [(h.open(METHODS["TerminateInstance"].path, [("taskhub", t.hub)]),
              grpc_frame(pb.TerminateRequest(instanceId="t%d" % n, output=sv("x" * 50_000)).SerializeToString()))
             for n in range(20)]
    assert send_all(h, calls) == ["OK"] * 20
