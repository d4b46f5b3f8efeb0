"""`perdure check` and `perdure backup`: each corruption is found by its name, and a copy taken under load is sound and whole."""

import json
import os
import shutil
import sqlite3
import threading

from command import Cli, perdure
from lib import actions as act
from lib.server import eventually

UNKNOWN = 1 << 40


def program(item):
    """Two tasks, a timer of an hour and a child that waits, then it waits for an event itself."""
    if any(e.HasField("taskScheduled") for e in item.events):
        return []
    return [act.task(1, "done"), act.task(2, "nobody"), act.timer(3, after=3600), act.child(4, "waits", item.id + ".kid")]


def filled(t):
    """A stopped server whose store has instances of every sort."""
    s = t.own_server(settings={"drain.time": "100ms"})  # one of the tasks is never answered
    c = t.client(server=s)
    t.auto({"P": program, "waits": lambda item: [], "ends": lambda item: [act.complete(result='"x"')]},
           {"done": lambda item: '"done"'}, server=s)
    for i in range(3):
        c.start("P", "p%d" % i)
        c.start("ends", "e%d" % i)
        c.wait("e%d" % i)
    eventually(lambda: all(c.history("p%d.kid" % i) for i in range(3)), 20, "the children have begun")
    eventually(lambda: all(any(e.HasField("taskCompleted") for e in c.history("p%d" % i)) for i in range(3)), 20, "a task is done")
    c.suspend("p0")
    c.event("p0", "late", "1")  # stays in its inbox
    stopped(s)
    return s


def stopped(s):
    s.term()
    assert s.wait_exit() == 0


def store_of(s):
    return s.store[len("sqlite:"):]


class Broken:
    """A copy of the store, changed by hand."""

    def __init__(self, s, name):
        self.path = os.path.join(s.dir, name + ".db")
        shutil.copyfile(store_of(s), self.path)

    def sql(self, *statements):
        db = sqlite3.connect(self.path)
        for text in statements:
            assert db.execute(text).rowcount != 0, "nothing was changed by " + text
        db.commit()
        assert db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        db.close()
        return self

    def bytes(self, change):
        with open(self.path, "r+b") as f:
            data = bytearray(f.read())
            change(data)
            f.seek(0)
            f.write(data)
        return self

    def check(self):
        before = open(self.path, "rb").read()
        got = perdure("check", "--store", "sqlite:" + self.path, "--json")
        assert got.err == "", got
        assert open(self.path, "rb").read() == before, "check has changed the store"
        assert not os.path.exists(self.path + ".lock"), "its lock stays behind"
        return got


DAMAGE = {
    "orphan-history": ["INSERT INTO history (execution, row, key_base, events, time, frames) VALUES (%d, 1, 1, 0, 1, x'')" % UNKNOWN],
    "orphan-inbox": ["INSERT INTO inbox (object, seq, type, execution, ref, time, ready, event) VALUES (%d, 1, 17, 0, 0, 1, 0, x'')" % UNKNOWN],
    "orphan-timer": ["INSERT INTO timer (due, key, object, execution, what, ref) VALUES (1, 1, %d, %d, 1, 1)" % (UNKNOWN, UNKNOWN),
                     "UPDATE meta SET number = number + 1 WHERE name = 'timers'"],
    "orphan-work": ["DELETE FROM workgroup WHERE name = 'nobody'"],
    "unknown-hub": ["UPDATE workgroup SET hub = 77 WHERE name = 'nobody'"],
    "count-instances": ["UPDATE count SET n = n + 1 WHERE status = 1"],
    "count-timers": ["UPDATE meta SET number = number + 1 WHERE name = 'timers'"],
    "next-number": ["UPDATE meta SET number = 1 WHERE name = 'next_key'"],
    "history-gap": ["DELETE FROM history WHERE row = 1 AND execution = (SELECT execution FROM object WHERE id = 'p1')"],
    "history-numbers": ["UPDATE object SET history_events = history_events + 1, sum = NULL WHERE id = 'e1'"],
    "history-undecodable": ["UPDATE history SET frames = CAST(substr(frames, 1, length(frames) - 1) || x'ff' AS BLOB), sum = NULL "
                            "WHERE row = 1 AND execution = (SELECT execution FROM object WHERE id = 'e2')"],
    # The rows of an ended history change places.
    "history-order": ["UPDATE history SET row = row + 10, sum = NULL WHERE execution = (SELECT execution FROM object WHERE id = 'p2')",
                      "UPDATE history SET row = 13 - row, sum = NULL WHERE execution = (SELECT execution FROM object WHERE id = 'p2')"],
    "inbox-bounds": ["UPDATE inbox SET seq = -5 - seq, sum = NULL WHERE object = (SELECT key FROM object WHERE id = 'p0')"],
    "row-damaged": ["UPDATE object SET name = 'another' WHERE id = 'e0'"],
}


def names(got):
    return {f["name"] for f in got.json["findings"]}


def test_each_corruption_is_found_by_name(t):
    s = filled(t)
    sound = Broken(s, "sound").check()
    assert sound.status == 0 and names(sound) == set(), sound
    assert int(sound.json["instances"]) == 9, sound
    for name, statements in DAMAGE.items():
        got = Broken(s, name).sql(*statements).check()
        assert got.status == 1 and name in names(got), (name, got)


def test_a_damaged_page_is_found(t):
    broken = Broken(filled(t), "page")
    root = sqlite3.connect(broken.path)
    page = root.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'object_id'").fetchone()[0]
    root.close()

    def zero(data):
        data[(page - 1) * 4096 + 8:page * 4096] = b"\0" * 4088

    got = broken.bytes(zero).check()
    assert got.status == 1 and "database-damaged" in names(got), got


def test_check_for_people(t):
    s = filled(t)
    good = perdure("check", "--store", s.store).ok()
    assert good.out.startswith("sound: 9 instances with "), good
    bad = perdure("check", "--store", "sqlite:" + Broken(s, "b").sql(*DAMAGE["count-timers"]).path)
    assert bad.status == 1 and bad.out.startswith("count-timers: counted as 4, there are 3\nnot sound: 9 instances"), bad


def test_check_of_what_is_no_store(t):
    s = t.own_server()
    perdure("check", "--store", s.store).failed(3, "is in use by process %d" % s.process.pid)
    missing = os.path.join(s.dir, "none.db")
    perdure("check", "--store", "sqlite:" + missing).failed(3, missing, "No such file")
    assert not os.path.exists(missing)
    perdure("check", "--store", "memory").failed(2, "sqlite:PATH")
    perdure("check", "--store").failed(2, "--store")


def test_check_of_a_killed_server(t):
    """What its log has is read, and stays where it is."""
    s = t.own_server()
    c = t.client(server=s)
    for i in range(20):
        c.start("o", "i%d" % i)
    s.kill()
    log = store_of(s) + "-wal"
    size = os.path.getsize(log)
    assert size > 0
    got = perdure("check", "--store", s.store, "--json").ok()
    assert int(got.json["instances"]) == 20 and not got.json["findings"], got
    assert os.path.getsize(log) == size
    s.start()
    assert all(c.get("i%d" % i) for i in range(20))


def test_a_server_in_memory_has_no_store(t):
    s = t.own_server(store="memory")
    cli = Cli(t, s)
    cli("check").failed(1, "in memory")
    dest = os.path.join(s.dir, "b.db")
    cli("backup", dest).failed(1, "in memory")
    assert not os.path.exists(dest)


def test_check_and_backup_under_load(t):
    """Everything that was acknowledged before the backup is in it, and both are sound."""
    s = t.own_server()
    c, cli = t.client(server=s), Cli(t, s)
    t.auto({"P": program, "waits": lambda item: [], "ends": lambda item: [act.complete(result='"x"')]},
           {"done": lambda item: '"done"'}, server=s)
    for i in range(30):
        c.start("P", "before%d" % i)
    stop, begun = threading.Event(), []

    def load(k):
        mine = t.client(server=s)
        while not stop.is_set():
            mine.start("ends", "load%d-%d" % (k, len(begun)))
            begun.append(1)

    threads = [threading.Thread(target=load, args=(k,)) for k in range(8)]
    for x in threads:
        x.start()
    try:
        eventually(lambda: len(begun) > 50, 30, "there is load")
        dest = os.path.join(s.dir, "backup.db")
        got = cli("backup", dest, "--json").ok()
        assert got.json["bytes"] == os.path.getsize(dest), got
        live = cli("check", "--json").ok()
        assert not live.json["findings"], live
    finally:
        stop.set()
        for x in threads:
            x.join()
    assert os.stat(dest).st_mode & 0o777 == 0o600
    assert not os.path.exists(store_of(s) + ".backup"), "the copy beside the store has no name any more"
    copied = perdure("check", "--store", "sqlite:" + dest, "--json").ok()
    assert not copied.json["findings"], copied
    r = t.own_server(store="sqlite:" + dest)
    restored = t.client(server=r)
    assert all(restored.get("before%d" % i) for i in range(30))


def test_backup_refuses_what_is_there(t):
    s = t.own_server()
    cli, dest = Cli(t, s), os.path.join(s.dir, "b.db")
    with open(dest, "w") as f:
        f.write("mine")
    cli("backup", dest).failed(2, dest, "File exists")
    assert open(dest).read() == "mine"
    cli("backup", os.path.join(s.dir, "no", "b.db")).failed(1, "No such file")
    stopped(s)
    other = os.path.join(s.dir, "c.db")
    cli("backup", other).failed(6, s.target)
    assert not os.path.exists(other), "half a backup stays behind"
