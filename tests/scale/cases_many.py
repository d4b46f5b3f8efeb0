"""Many of something: connections, workers, waiters, timers, instances, work."""

import time

from lib import EXHAUSTED, MIB, UNAVAILABLE, check, drive, eventually

RESIDENT = 512  # MiB, unless a case has a bound of its own


def ms(latency):
    return "p50 %.0f p99 %.0f max %.0f ms" % (latency["p50"], latency["p99"], latency["max"])


def connections(t):
    """10,000 idle connections: at most 400 MB, all alive after the server's pings, and nobody else notices them."""
    n = t.size(10_000, 500)
    s = t.server(**({"keepalive__idle": "1s"} if t.small else {}))
    worker = t.drive(s, "worker", connections=2)
    worker.line("open")
    alone = s.rss()
    idle = t.drive(s, "idle", connections=n)
    opened = idle.line("open", 120)
    eventually(lambda: s.metric("perdure_connections") >= n, 10, "all are counted")
    cpu, begun = s.cpu(), time.monotonic()
    time.sleep(t.size(55, 3))
    t.note("%d open in %.1f s, CPU of %d idle %.1f ms/s", n, opened["seconds"], n,
           (s.cpu() - cpu) * 1000 / (time.monotonic() - begun))
    got = drive(s, "start", count=200, concurrency=4, wait=1, verify=1)
    t.note("beside them 200 instances %s", ms(got["end_ms"]))
    idle.go()
    got = idle.result(120)
    check(got["lost"] == 0, "connections lost:", got["lost"])
    check(worker.end()["lost"] == 0, "the worker lost its stream")
    t.memory(s, 400, 25 + n * 40 / 1024)
    s.expect(0, "perdure_connections")
    eventually(lambda: s.rss() <= alone + 4 * MIB, 20, "memory is given back")
    t.note("%.0f MiB when they are gone", s.rss() / MIB)


def workers(t):
    """1,000 workers connect at once, with work waiting; and again at once when the server was killed."""
    n, count = t.size(1000, 100), t.size(20_000, 1000)
    s = t.server()
    drive(s, "start", count=count, concurrency=256, connections=4, input="2 3")
    herd = t.drive(s, "worker", connections=n, orchestrations=5, activities=5, allow=UNAVAILABLE)
    begun = time.monotonic()
    herd.line("open", 120)
    t.note("%d streams %.1f s after they began to connect", n, time.monotonic() - begun)
    starter = t.drive(s, "start", count=count, prefix="j-", concurrency=64, connections=4, input="2 3", expect="6", verify=2)
    starter.line("started")
    s.restart()
    begun = time.monotonic()
    s.expect(n, "perdure_work_streams", timeout=120)
    t.note("again %.1f s after a kill", time.monotonic() - begun)
    check_all = drive(s, "start", count=1, prefix="k-", wait=1, verify=1)
    t.note("then one instance took %.0f ms", check_all["end_ms"]["max"])
    starter.close()
    for prefix in ("i-", "j-"):
        got = t.drive(s, "check", count=count, prefix=prefix, concurrency=256, connections=4, expect="6").result(600)
        check(got["completed"] == count, got)
    got = herd.end()
    check(got["turns"] >= 2 * count and got["activities"] >= 12 * count, "too little was done:", got)
    s.expect_idle()
    t.memory(s, RESIDENT, 64)


def waiters(t):
    """100,000 blocked waits: at most 300 MB for them; each is answered once; the next one is refused."""
    n = t.size(100_000, 3000)
    s = t.server(**({"waiters__hub": n} if t.small else {}))
    drive(s, "start", count=n, concurrency=256, connections=4)
    before = s.rss()
    w = t.drive(s, "wait", count=n, concurrency=200, connections=8)
    got = w.line("waiting", 300)
    s.expect(n, "perdure_waiters")
    more = (s.rss() - before) / MIB
    t.note("%d waiting after %.1f s, %.0f MiB more", n, got["seconds"], more)
    check(more <= t.size(300, 20), "waiters take %.0f MiB" % more)
    refused = drive(s, "wait", count=1, allow=EXHAUSTED)
    check(refused["refused"] == 1, "one more was taken")
    w.go()
    worker = t.drive(s, "worker", connections=4)
    got = w.result(600)
    check(got["answered"] == n and got["answer_ms"]["count"] == n, got)
    t.note("all answered %.1f s after a worker came", got["answer_ms"]["max"] / 1000)
    worker.end()
    s.expect_idle()
    t.memory(s, RESIDENT, 64)


def timers(t):
    """1,000,000 pending timers: in little memory, over a kill, and others fire in time beside them."""
    instances, each = t.size(1000, 40), 1000 if not t.small else 250
    s = t.server()
    worker = t.drive(s, "worker", connections=2, allow=UNAVAILABLE)
    worker.line("open")
    begun = time.monotonic()
    drive(s, "start", name="timers", input="%d 7200000" % each, prefix="far-", count=instances, concurrency=64, timeout=600)
    s.expect(instances * each, "perdure_timers", timeout=900)
    t.note("%d timers set in %.0f s, %.0f MiB", instances * each, time.monotonic() - begun, s.rss() / MIB)
    near = t.size(2000, 100)
    got = drive(s, "start", name="timers", input="5 2000", expect="5", prefix="near-", count=near, concurrency=near, wait=1, verify=1)
    t.note("%d near ones, instances took %s", 5 * near, ms(got["end_ms"]))
    worker.end()
    s.restart()
    t.note("ready %.0f ms after a kill, %.0f MiB", s.ready_ms, s.rss() / MIB)
    s.expect(instances * each, "perdure_timers")
    worker = t.drive(s, "worker", connections=2)
    worker.line("open")
    many, m = t.size(200, 10), 500
    got = drive(s, "start", name="timers", input="%d %d" % (m, t.size(20_000, 3000)), expect=str(m), prefix="burst-", count=many,
                concurrency=many, wait=1, verify=1, timeout=600)
    t.note("%d due at once, instances took %s", many * m, ms(got["end_ms"]))
    late = worker.end()["timer_late_ms"]
    t.note("late %s", ms(late))
    check(late["count"] == many * m, "fired:", late["count"])
    s.expect(instances * each, "perdure_timers")
    t.memory(s, RESIDENT, 80)


def cpu_of_hello(t, s, prefix, count):
    """Server CPU an instance, in us."""
    before = s.cpu()
    got = drive(s, "start", count=count, prefix=prefix, concurrency=64, connections=4, wait=1, verify=1)
    return (s.cpu() - before) * 1e6 / count, got


def stored(t):
    """1,000,000 stored instances: memory does not grow with them, nor does a start or the work of an instance."""
    n, probe = t.size(1_000_000, 15_000), t.size(20_000, 3000)
    s = t.server()
    worker = t.drive(s, "worker", connections=4, allow=UNAVAILABLE)
    worker.line("open")
    first, _ = cpu_of_hello(t, s, "a-", probe)
    got = drive(s, "start", count=n, concurrency=256, connections=4, wait=1, timeout=3600)
    t.note("%d done in %.0f s", n, got["seconds"])
    last, got = cpu_of_hello(t, s, "b-", probe)
    t.note("an instance costs %.0f us CPU with none stored, %.0f with all (%s)", first, last, ms(got["end_ms"]))
    worker.end()
    s.restart()
    t.note("ready %.0f ms after a kill, %.0f MiB, %.0f bytes of disk each", s.ready_ms, s.rss() / MIB,
           s.metric("perdure_store_bytes") / n)
    s.expect(n + 2 * probe, "perdure_instances", status="COMPLETED")
    before = s.cpu()
    got = drive(s, "check", count=n, concurrency=64, connections=4, timeout=3600)
    check(got["completed"] == n, got)
    t.note("each read once in %.0f s, %.0f us CPU", got["check_seconds"], (s.cpu() - before) * 1e6 / n)
    t.memory(s, RESIDENT, 64)


def overload(t):
    """More work than the workers can do, for ten minutes: taken and kept in the store; then done, each once."""
    seconds, rate, done = t.size(600, 5), 1500, t.size(600, 60)
    s = t.server(**({"ready__group": 1000} if t.small else {}))
    slow = t.drive(s, "worker", connections=4, orchestrations=50, activities=50, rate=done)
    slow.line("open")
    starter = t.drive(s, "start", duration_ms=seconds * 1000, rate=rate, concurrency=256, connections=4, verify=2)
    got = starter.line("started", seconds + 120)
    t.note("%d started in %.0f s", got["started"], got["seconds"])
    backlog = s.metric("perdure_instances", status="PENDING") + s.metric("perdure_instances", status="RUNNING")
    t.note("backlog %d, %.0f MiB", backlog, s.rss() / MIB)
    check(backlog > got["started"] / 2, "there was no overload")
    slow.end()
    fast = t.drive(s, "worker", connections=4)
    before, begun = s.cpu(), time.monotonic()
    starter.go()
    end = starter.result(3600)
    check(end["completed"] == got["started"] == end["asked"], end)
    t.note("starts %s, none refused; all done %.0f s later, %.0f us CPU each", ms(end["start_ms"]), time.monotonic() - begun,
           (s.cpu() - before) * 1e6 / backlog)
    fast.end()
    s.expect_idle()
    t.memory(s, RESIDENT, 96)


def names(t):
    """10,000 names of orchestrations wait in one hub, for a worker with room for one turn: no turn looks at all of them."""
    cost = []
    for n in (t.size(1000, 100), t.size(10_000, 2000)):
        s = t.server()
        drive(s, "start", names=1, count=n, concurrency=256, connections=2)
        worker = t.drive(s, "worker", connections=1, orchestrations=1, activities=1)
        before = s.cpu()
        got = drive(s, "check", count=n, concurrency=256, connections=2, timeout=600)
        check(got["completed"] == n, got)
        worker.end()
        cost.append((s.cpu() - before) * 1e6 / n)
        t.note("%d names: an instance costs %.0f us CPU", n, cost[-1])
        t.memory(s, RESIDENT, 64)
        s.stop()
    check(cost[1] < 3 * cost[0] + 200, "it grows with the number of names")


CASES = [connections, workers, waiters, timers, stored, names, overload]
