"""Much in one instance or one message: histories, events, fan-outs, 64 MiB requests; and too few files."""

import subprocess
import time

from cases_many import RESIDENT, ms
from lib import BINARY, EXHAUSTED, MIB, UNAVAILABLE, check, drive, eventually


def events_of(s, id):
    """How many events `perdure history` shows."""
    got = subprocess.run([BINARY, "history", "--server", s.target, "--json", id], capture_output=True, text=True, timeout=300)
    check(got.returncode == 0, "perdure history:", got.stderr)
    return sum(1 for line in got.stdout.splitlines() if line.strip())


def history(t):
    """One instance with 50,000 history events: activities in rounds, and a turn behind so many after a kill."""
    rounds, each = t.size(25, 5), t.size(1000, 300)
    s = t.server()
    worker = t.drive(s, "worker", connections=2)
    worker.line("open")
    before = s.cpu()
    got = drive(s, "start", input="%d %d" % (rounds, each), expect=str(rounds * each), prefix="h-", count=1, wait=1, verify=1, timeout=900)
    w = worker.end()
    seen = events_of(s, "h-0")
    check(seen > 2 * rounds * each, "events:", seen)
    t.note("%d events in %.1f s, %d turns, %.0f us CPU an event, largest item %.1f MiB", seen, got["end_ms"]["max"] / 1000, w["turns"],
           (s.cpu() - before) * 1e6 / seen, w["item_bytes_max"] / MIB)
    n = rounds * each * 2
    drive(s, "start", name="collect", input=str(n), prefix="c-", count=1)
    drive(s, "raise", prefix="c-", count=n - 5, concurrency=500)
    worker = t.drive(s, "worker", connections=1, allow=UNAVAILABLE)
    time.sleep(0.2)
    s.expect(0, "perdure_work_ready", timeout=300)
    s.expect_idle()
    worker.end()
    s.restart()
    worker = t.drive(s, "worker", connections=1)
    worker.line("open")
    begun = time.monotonic()
    drive(s, "raise", prefix="c-", **{"from": n - 5}, count=5)
    drive(s, "wait", prefix="c-", count=1, expect=str(n))
    t.note("a turn behind %d events, cold, %.0f ms", n, (time.monotonic() - begun) * 1000)
    worker.end()
    t.memory(s, RESIDENT, 96)


def events(t):
    """100,000 events to one instance: bounded batches, once each, in order; continuing as new and in one history (checklist 52)."""
    n = t.size(100_000, 6000)
    s = t.server(history__max_events=250_000)
    for name, input in (("events", "%d 0" % n), ("collect", str(n))):
        drive(s, "start", name=name, input=input, prefix=name, count=1)
        got = drive(s, "raise", prefix=name, count=n, concurrency=500)
        rate = n / got["seconds"]
        waiting = t.drive(s, "wait", prefix=name, count=1, expect=str(n))
        waiting.line("waiting")
        before, begun = s.cpu(), time.monotonic()
        worker = t.drive(s, "worker", connections=1)
        waiting.result(900)
        took = time.monotonic() - begun
        w = worker.end()
        t.note("%s: raised %.0f/s (%s), consumed in %.1f s by %d turns, %.1f us CPU each", name, rate, ms(got["raise_ms"]), took,
               w["turns"], (s.cpu() - before) * 1e6 / n)
        check(w["turns"] >= n / 1000, "batches were larger than turn.events:", w)
    check(events_of(s, "collect0") > n, "the history is too short")
    t.memory(s, RESIDENT, 96)


def fanout(t):
    """10,000 activities in one instance, out and in."""
    n = t.size(10_000, 2000)
    s = t.server()
    worker = t.drive(s, "worker", connections=4)
    worker.line("open")
    before = s.cpu()
    got = drive(s, "start", input="1 %d" % n, expect=str(n), count=1, wait=1, verify=1, timeout=600)
    w = worker.end()
    check(w["activities"] == n, "activities run:", w["activities"])
    t.note("%d activities in %.1f s, %d turns, %.0f us CPU each", n, got["end_ms"]["max"] / 1000, w["turns"],
           (s.cpu() - before) * 1e6 / n)
    t.memory(s, RESIDENT, 64)


def messages(t):
    """64 MiB requests from many connections for a minute: the budgets hold, none is half taken, small calls go on."""
    size, senders = t.size(64 * MIB - 65536, 4 * MIB - 65536), t.size(12, 12)
    settings = {"request__bytes": "4MiB", "request__buffered_bytes": "8MiB", "overload__queued_bytes": "8MiB"} if t.small else {}
    s = t.server(**settings)
    worker = t.drive(s, "worker", connections=1, hub="small")
    worker.line("open")
    big = t.drive(s, "big", bytes=size, connections=senders, duration_ms=t.size(60_000, 4000), allow=EXHAUSTED)
    beside = drive(s, "start", hub="small", duration_ms=t.size(50_000, 2500), rate=100, concurrency=8, wait=1, verify=1, allow=EXHAUSTED,
                   timeout=300)
    got = big.result(300)
    check(got["accepted"] == got["purged"] > 0, got)
    check(beside["completed"] > 0, beside)
    t.note("%d of %.0f MiB taken in %.0f s (%s), %d refused", got["accepted"], size / MIB, got["seconds"], ms(got["start_ms"]),
           got["codes"].get(EXHAUSTED, 0))
    t.note("beside them %d instances %s", beside["completed"], ms(beside["end_ms"]))
    worker.end()
    t.memory(s, RESIDENT, 120)
    s.expect(0, "perdure_instances", status="TERMINATED")
    s.stop()
    s = t.server(bad_disk=True, overload__commit_time="off", overload__queued_bytes="4MiB")
    s.disk.set(flush_ms=120_000)
    first = t.drive(s, "start", count=1, prefix="first-")
    time.sleep(0.5)  # its commit has begun
    big = t.drive(s, "big", bytes=MIB, connections=12, duration_ms=2000, allow=EXHAUSTED)
    time.sleep(4)
    s.disk.set()
    got = big.result(60)
    check(1 <= got["accepted"] <= 3, "4 MiB may wait, and of 12 that came at once were taken:", got)
    first.result(60)
    t.note("of 12 MiB that came at once %d waited where 4 may", got["accepted"])


def files(t):
    """64 files: the soft limit is raised to that, connections beyond are refused at once, and served again later."""
    s = t.server(files=(40, 64))
    idle = t.drive(s, "idle", connections=10)
    idle.line("open", 30)
    check("connections are refused" not in s.log(), s.log())
    check(s.metric("perdure_connections_refused_total") == 0, "refused before there was a reason")
    got = drive(s, "flood", connections=200)
    check(got["refused"] >= 100 and got["served"] >= 1, got)
    check(got["hung"] == 0, "connections that were neither served nor closed:", got)
    t.note("200 more connections: %d served, %d refused within %.0f ms", got["served"], got["refused"], got["refuse_ms"]["max"])
    eventually(lambda: s.metric("perdure_connections_refused_total") >= got["refused"], 10, "the metric tells")
    lines = [x for x in s.log().splitlines() if "connections are refused" in x or "cannot accept" in x]
    check(len(lines) == 1, "the log tells it %d times: %s" % (len(lines), lines[:3]))
    s.expect(10, "perdure_connections")
    worker = t.drive(s, "worker", connections=2)
    worker.line("open", 30)
    done = drive(s, "start", count=500, concurrency=16, wait=1, verify=1)
    check(done["completed"] == 500, done)
    worker.end()
    idle.go()
    check(idle.result(30)["lost"] == 0, "an older connection was lost")
    t.memory(s, RESIDENT, 64)


CASES = [history, events, fanout, messages, files]
