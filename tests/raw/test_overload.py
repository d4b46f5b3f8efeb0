"""More than the server can do, and for long: what is too much is refused by name, the rest is done, and when the work is
over nothing is left of it in memory or in the tables (spec 8.6).

Short in `make test`; tests/nightly/46-soak.sh runs each for SOAK_SECONDS.
"""

import os
import sqlite3
import time

from lib import actions as act
from lib.client import Client
from lib.history import check_legal
from lib.proto import kinds, pb
from lib.runner import NIGHTLY, limit, serial
from lib.server import eventually

SECONDS = int(os.environ.get("SOAK_SECONDS", "3600")) if NIGHTLY else 0
PASSING = ("inbox", "task", "timer", "mailbox", "trash")  # tables that only work in progress fills


def rounds(least):
    """At least so many, and as many as the time allows."""
    end = time.monotonic() + SECONDS
    n = 0
    while n < least or time.monotonic() < end:
        yield n
        n += 1


def table_sizes(s, *tables):
    db = sqlite3.connect("file:%s?mode=ro" % s.store_path(), uri=True)
    try:
        return {x: db.execute("select count(*) from %s" % x).fetchone()[0] for x in tables}
    finally:
        db.close()


def pages_in_use(s):
    db = sqlite3.connect("file:%s?mode=ro" % s.store_path(), uri=True)
    try:
        return db.execute("pragma page_count").fetchone()[0] - db.execute("pragma freelist_count").fetchone()[0]
    finally:
        db.close()


def metrics(s):
    return {k: float(v) for k, v in (line.rsplit(" ", 1) for line in s.get("/metrics")[1].splitlines()
                                     if not line.startswith("#"))}


def nothing_failed(s):
    m = metrics(s)
    bad = {k: v for k, v in m.items() if k.startswith("perdure_rpcs_total") and v and
           any(code in k for code in ('"INTERNAL"', '"UNKNOWN"', '"UNAVAILABLE"', '"OTHER"'))}
    assert not bad and m["perdure_commits_failed_total"] == 0 and m["perdure_store_healthy"] == 1, bad
    assert s.get("/healthz")[0] == 200
    assert "level=error" not in s.log() and "level=warn" not in s.log(), s.log_tail()


def nothing_waits(s):
    m = metrics(s)
    return not any(v for k, v in m.items() if k.startswith(("perdure_work_ready", "perdure_work_in_flight"))
                   or k in ("perdure_work_paused", "perdure_waiters", "perdure_timers"))


def ask_and_end(i):
    """An activity, and a timer that nobody waits for."""
    if "taskCompleted" in kinds(i.events):
        return [act.complete(result="r")]
    return [] if i.past else [act.task(1, "a", "x"), act.timer(2, after=3600)]


def a_level(sizes, slack, what):
    """Once everything has been used (caches fill for minutes) it grows by no more than `slack`."""
    used = sizes[max(1, len(sizes) // 2)] if NIGHTLY else sizes[1]
    assert sizes[-1] - used <= slack, (what, used, sizes[:: max(1, len(sizes) // 20)])


# reports: BL-013
@serial
@limit(120)
def test_more_than_the_server_can_do(t):
    """Each wave is many times what may wait in memory."""
    s = t.own_server({"overload.queued_bytes": "16KiB", "cache.objects": "100"})
    c = t.client()
    auto = t.auto({"o": ask_and_end}, {"a": lambda i: "r"})
    accepted, refused_all, memory, work = 0, 0, [], []
    for wave in rounds(5):
        cpu = s.cpu()
        h = t.h2()
        sent = {"w%d-%d" % (wave, n): None for n in range(400)}
        for id in sent:
            sent[id] = h.start("StartInstance", c.create("o", id, input="x" * 2000), hub=t.hub)
        h.pump(lambda: all(x.over for x in sent.values()), 60)
        h.close()
        taken = [id for id, x in sent.items() if x.status[0] == "OK"]
        refused = [id for id in sent if id not in set(taken)]
        for id in refused:
            code, text = sent[id].status
            assert code == "RESOURCE_EXHAUSTED", sent[id].status
            assert "overload.queued_bytes" in text or text == "too many requests wait for memory", sent[id].status
        accepted += len(taken)
        refused_all += len(refused)
        eventually(lambda: metrics(s)['perdure_instances{status="COMPLETED"}'] == accepted, 60)
        eventually(lambda: nothing_waits(s), 20)
        assert table_sizes(s, *PASSING) == dict.fromkeys(PASSING, 0)
        assert table_sizes(s, "object", "history", "hub", "workgroup") == {
            "object": accepted, "history": 2 * accepted, "hub": 1, "workgroup": 1}
        for id in refused[:5]:
            assert c.get(id) is None
        for id in taken[-5:]:
            check_legal(c.history(id), True)
        auto.check()
        nothing_failed(s)
        memory.append(s.rss())
        work.append((s.cpu() - cpu) / len(sent))
    print("# more_than_the_server_can_do: %d accepted, %d refused, resident MiB %s, CPU us a call %d to %d" % (
        accepted, refused_all, ", ".join("%.1f" % (m / (1 << 20)) for m in (memory[0], memory[1], memory[-1])),
        work[1] * 1e6, work[-1] * 1e6), flush=True)
    assert refused_all > 0 and accepted > 0, (accepted, refused_all)
    a_level(memory, 16 << 20, "resident memory")
    # And with no such load all is taken again.
    for n in range(50):
        c.start("o", "after-%d" % n)


# reports: BL-119
@serial
@limit(120)
def test_tables_and_files_level_off(t):
    """Ten hubs whose workers come and go with work in their hands; what ended is purged."""
    s = t.own_server({"wal.bytes": "8MiB", "cache.objects": "100"})
    hubs = ["%s-%d" % (t.hub, n) for n in range(10)]
    clients = {hub: Client(s, hub) for hub in hubs}
    made, used, file_bytes, memory, work = 0, [], [], [], []
    for round in rounds(5):
        cpu = s.cpu()
        ids = {hub: ["r%d-%d" % (round, n) for n in range(15)] for hub in hubs}
        calls = [clients[hub].future("StartInstance", clients[hub].create("o", id, input="x" * 3000), 60)
                 for hub in hubs for id in ids[hub]]
        for x in calls:
            x.result(60)
        for hub in hubs:  # one that takes what it gets and goes
            w = t.worker(hub=hub)
            w.next()
            w.close()
        autos = [t.auto({"o": ask_and_end}, {"a": lambda i: "r" * 3000}, hub=hub, threads=1) for hub in hubs]
        waits = [clients[hub].future("WaitForInstanceCompletion", pb.GetInstanceRequest(instanceId=id), 90)
                 for hub in hubs for id in ids[hub]]
        assert {x.result(90).orchestrationState.orchestrationStatus for x in waits} == {1}  # COMPLETED
        for a in autos:
            a.check()
            a.close()
        purges = [clients[hub].future("PurgeInstances", pb.PurgeInstancesRequest(instanceId=id), 60)
                  for hub in hubs for id in ids[hub]]
        made += len(purges)
        assert {x.result(60).deletedInstanceCount for x in purges} == {1}
        eventually(lambda: nothing_waits(s), 20)
        left = table_sizes(s, "object", "history", *PASSING, "hub", "workgroup")
        assert left == {**dict.fromkeys(("object", "history") + PASSING, 0), "hub": 10, "workgroup": 10}, left
        nothing_failed(s)
        file_bytes.append(os.path.getsize(s.store_path()) + os.path.getsize(s.store_path() + "-wal"))
        used.append(pages_in_use(s))
        memory.append(s.rss())
        work.append((s.cpu() - cpu) / len(purges))
    for c in clients.values():
        c.close()
    print("# tables_and_files_level_off: %d instances, pages %d, %d, %d, KiB of files %d, %d, %d, CPU us an instance"
          " %d to %d" % (made, used[0], used[1], used[-1], file_bytes[0] >> 10, file_bytes[1] >> 10,
                         file_bytes[-1] >> 10, work[1] * 1e6, work[-1] * 1e6), flush=True)
    a_level(used, 64, "pages in use")
    a_level(file_bytes, 16 << 20, "files")  # the log: twice what it may be when it starts anew
    a_level(memory, 16 << 20, "resident memory")
    if NIGHTLY:  # an instance does not cost more for all that were there before it
        third = len(work) // 3
        assert sum(work[-third:]) < 1.25 * sum(work[1:1 + third]), (work[1:4], work[-3:])
    s.term()
    assert s.wait_exit() == 0
    db = sqlite3.connect(s.store_path())
    assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
    db.close()


if NIGHTLY:
    test_more_than_the_server_can_do.limit = SECONDS + 300
    test_tables_and_files_level_off.limit = SECONDS + 300
