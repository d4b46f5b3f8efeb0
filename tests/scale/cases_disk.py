"""Disks that are slow, full and read-only, under a server that works (bad_disk.c)."""

import time

from cases_many import RESIDENT, ms
from lib import ENOSPC, EROFS, EXHAUSTED, MIB, UNAVAILABLE, check, drive, eventually


def load(t, s, allow="", **kw):
    """Workers, and starts that go on until they are told to check."""
    worker = t.drive(s, "worker", connections=2, orchestrations=200, activities=200, allow=allow)
    worker.line("open")
    starter = t.drive(s, "start", connections=2, concurrency=100, verify=2, input="2 2", expect="4", allow=allow, **kw)
    return worker, starter


def finish(t, s, worker, starter, seconds):
    """Everything that was acknowledged ends, what was refused is not there, and the server is as before."""
    started = starter.line("started", seconds + 120)["started"]
    starter.go()
    got = starter.result(300)
    w = worker.end()
    check(got["completed"] == started, got)
    check(got["absent"] == got["asked"] - started, got)
    s.expect_idle()
    check(s.get("/readyz")[0] == 200, s.get("/readyz"))
    t.note("%d started and done, %d refused; starts %s", started, got["absent"], ms(got["start_ms"]))
    return got, w


def slow_disk(t):
    """100 ms a flush: slow, not wrong. A flush of seconds: new work is refused, and nothing else."""
    seconds = t.size(60, 6)
    s = t.server(bad_disk=True)
    s.disk.set(flush_ms=100)
    worker, starter = load(t, s, duration_ms=seconds * 1000)
    got, w = finish(t, s, worker, starter, seconds)
    check(set(got["codes"]) == {"0"} and set(w["codes"]) == {"0"}, "errors on a slow disk:", got["codes"], w["codes"])
    check(got["start_ms"]["p50"] > 90, "the disk was not slow:", got["start_ms"])
    s.disk.set()
    worker, starter = load(t, s, duration_ms=t.size(20_000, 8000), prefix="stall-")
    time.sleep(1)
    s.disk.set(flush_ms=120_000)
    time.sleep(4)
    got = drive(s, "start", count=20, concurrency=20, prefix="refused-", allow=EXHAUSTED)
    check(got["codes"] == {EXHAUSTED: 20}, "starts 3 s into a flush:", got["codes"])
    waits = drive(s, "wait", count=20, prefix="stall-", allow=EXHAUSTED)
    check(waits["refused"] == 20, "waits 3 s into a flush:", waits)
    s.disk.set()
    got, w = finish(t, s, worker, starter, 60)
    check(set(got["codes"]) == {"0"} and set(w["codes"]) == {"0"}, "errors after a stall:", got["codes"], w["codes"])
    t.memory(s, RESIDENT, 96)


def broken(t, errno, seconds):
    """Writes fail under load, for a while: UNAVAILABLE, reads go on, and it serves again by itself."""
    s = t.server(bad_disk=True)
    drive(s, "start", count=10, prefix="old-", name="collect", input="1")
    total = seconds + t.size(10, 3)
    worker, starter = load(t, s, allow=UNAVAILABLE, duration_ms=total * 1000)
    time.sleep(t.size(3, 1))
    s.disk.set(write_errno=errno)
    eventually(lambda: s.metric("perdure_store_healthy") == 0, 10, "the store is known to be ill")
    check(s.get("/readyz")[0] == 503, "ready all the same")
    begun = time.monotonic()
    reads = drive(s, "read", count=10, prefix="old-", concurrency=1, allow=UNAVAILABLE, timeout=10)
    check(sum(reads["codes"].values()) == 10, "reads while the store cannot commit:", reads)
    got = drive(s, "start", count=10, prefix="refused-", allow=UNAVAILABLE)
    check(got["codes"] == {UNAVAILABLE: 10}, "starts while the store cannot commit:", got["codes"])
    time.sleep(max(0, seconds - (time.monotonic() - begun)))
    s.disk.set()
    begun = time.monotonic()
    eventually(lambda: s.get("/readyz")[0] == 200, 20, "ready again")
    t.note("ready again after %.0f ms", (time.monotonic() - begun) * 1000)
    got, w = finish(t, s, worker, starter, total)
    check(got["codes"].get(UNAVAILABLE, 0) > 0, "nothing was refused:", got["codes"])
    check(s.disk.refused() > 0, "no write failed")
    drive(s, "raise", prefix="old-", count=1)
    worker = t.drive(s, "worker", connections=1)
    check(drive(s, "wait", prefix="old-", count=1)["answered"] == 1, "an older instance")
    worker.end()
    return s


def full_disk(t):
    """Writes get ENOSPC; then little is free: new work is refused early, and what is there goes on."""
    s = broken(t, ENOSPC, t.size(20, 3))
    s.disk.set(free=100 * MIB)
    worker, starter = load(t, s, allow=EXHAUSTED, duration_ms=t.size(10_000, 3000), prefix="late-")
    time.sleep(t.size(5, 1.5))
    s.disk.set()
    got, w = finish(t, s, worker, starter, 30)
    check(got["codes"].get(EXHAUSTED, 0) > 0 and set(w["codes"]) <= {"0"}, got["codes"], w["codes"])
    t.memory(s, RESIDENT, 96)


def read_only_disk(t):
    """Writes and opening for writing get EROFS, as after a remount."""
    s = broken(t, EROFS, t.size(20, 3))
    t.memory(s, RESIDENT, 96)


CASES = [slow_disk, full_disk, read_only_disk]
