#!/usr/bin/env python3
"""Perdure and other servers under the same workloads: compare.py [--quick] [--rounds N] [--only NAME]... [--out FILE]

Each round starts every server afresh on an empty store, one after the other, every second round in the other order;
the figures are medians over the rounds, with the smallest and the largest. Each CPU figure is also given as a multiple
of a POST to nghttpd of the same round. All servers keep what they ran. --quick takes a quarter of an hour; without it runs are
longer and there are more workloads. --update writes the tables into docs/benchmarks.md, --table prints them again from
a file of --out. tools/bench-env.sh installs the others.
"""

import argparse
import json
import os
import platform
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import flushes  # noqa: E402
import tables  # noqa: E402
from process import use  # noqa: E402
from systems import ROOT, SYSTEMS, Load, Nghttpd  # noqa: E402

SETTLE, IDLE = 1.0, 1.0  # seconds before and of the measurement of an idle server
FAST = {"Perdure", "Restate", "Restate, 1 partition"}
# Of these one operation takes so long that a number of them is measured, not a time.
COUNTED = {"durabletask-go": {"hello1": 64, "chain5": 64, "timer": 64, "event": 64, "suborch": 64,
                              "continue-as-new": 64},
           "Temporal dev server": {"hello1": 128, "chain5": 64, "timer": 128, "event": 128, "suborch": 64,
                                   "continue-as-new": 64}}


def plan(name, quick):
    """The loads for one server, in order."""
    warmup, seconds = (0.5, 2.0) if quick else (2.0, 8.0)
    wide = 8 if name == "Python in-memory" else 64
    pairs = [("hello1", wide), ("chain5", wide)]
    if name == "Perdure":
        pairs += [("hello1", 8), ("chain5", 8)]
    if name in FAST:
        pairs += [("chain50", 64), ("fanout100", 64)]
    if not quick:
        pairs += [(w, wide) for w in ("timer", "event", "suborch", "continue-as-new")
                  if not (w == "continue-as-new" and name.startswith("Restate"))]  # it has no such thing
    pairs.append(("hello1", 1))
    loads = []
    for workload, concurrency in pairs:
        count = COUNTED.get(name, {}).get(workload, 0) if concurrency > 1 else 0
        loads.append(Load(workload, concurrency, seconds=seconds, count=count, warmup=0 if count else warmup))
    return loads


def idle(system):
    """Resident bytes and CPU milliseconds a second of a server that nobody uses."""
    time.sleep(SETTLE)
    before, began = use(system.server.pid), time.monotonic()
    time.sleep(IDLE)
    after, took = use(system.server.pid), time.monotonic() - began
    return {"rssBytes": after["rss"], "cpuMs": (after["cpu"] - before["cpu"]) * 1e3 / took}


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def measure(cls, quick, yardstick, folder):
    """One server in one round; {"hello1@64": figures, ...}."""
    system = cls()
    system.start(folder)
    try:
        got = {"start": {"readyMs": system.ready * 1e3, **idle(system)}}
        for load in plan(cls.NAME, quick):
            figures = system.run(load)
            figures["posts"] = figures["cpuUs"] / yardstick
            got[f"{load.workload}@{load.concurrency}"] = figures
            say(f"  {cls.NAME}: {load.workload}@{load.concurrency}: {figures['cpuUs']:.1f} us CPU, "
                f"{figures['rate']:.1f}/s, p50 {figures['latencyMs']['p50']:.2f} ms")
        return got
    finally:
        system.stop()


def folder_for(base):
    return tempfile.TemporaryDirectory(prefix="bench-", dir=base, ignore_cleanup_errors=True)


def run_round(number, systems, args):
    with folder_for(args.dir) as folder:
        yardstick = Nghttpd().measure(folder)
    say(f"round {number + 1} of {args.rounds}: a POST to nghttpd takes {yardstick:.2f} us CPU")
    got = {"nghttpd": yardstick}
    for cls in systems if number % 2 == 0 else systems[::-1]:
        with folder_for(args.dir) as folder:
            got[cls.NAME] = measure(cls, args.quick, yardstick, folder)
    return got


def look_at_flushes(systems, base):
    got = {}
    for cls in systems:
        with folder_for(base) as folder:
            system = cls()
            system.start(folder)
            try:
                got[cls.NAME] = flushes.look_at(system, folder, min(64, cls.CONCURRENCY_MAX))
                say(f"  {cls.NAME}: {got[cls.NAME]}")
            finally:
                system.stop()
    return got


def flush_times(base, count=200):
    """The disk's own: milliseconds of an fdatasync behind 4 KiB, which replace others or make the file longer."""
    got = {}
    for name, room in (("inPlace", count), ("appended", 0)):
        took = []
        with tempfile.TemporaryFile(dir=base) as f:
            f.write(b"y" * 4096 * room)
            f.flush()
            os.fsync(f.fileno())
            for at in range(count):
                os.pwrite(f.fileno(), b"x" * 4096, at * 4096)
                began = time.perf_counter()
                os.fdatasync(f.fileno())
                took.append((time.perf_counter() - began) * 1e3)
        took.sort()
        got[name] = {"p50": statistics.median(took), "p99": took[int(count * 0.99)]}
    return got


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--quick", action="store_true")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", action="append", help="a server by its name; repeatable")
    p.add_argument("--out", help="all figures, as JSON")
    p.add_argument("--dir", help="where the stores go; default: the folder for temporary files")
    p.add_argument("--table", metavar="FILE", help="measure nothing: the tables of such a file")
    p.add_argument("--update", action="store_true", help="write the tables into docs/benchmarks.md")
    p.add_argument("--no-flushes", action="store_true", help="without the runs under strace")
    args = p.parse_args()
    if args.table:
        result = json.loads(Path(args.table).read_text())
    else:
        systems = [s for s in SYSTEMS if not args.only or s.NAME in args.only]
        if not systems:
            p.error("there are " + ", ".join(s.NAME for s in SYSTEMS))
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a server under way is stopped, too
        began = time.monotonic()
        result = {"date": time.strftime("%Y-%m-%d"), "quick": args.quick, "cores": os.cpu_count(),
                  "kernel": platform.release(), "disk": flush_times(args.dir),
                  "about": {s.NAME: s.ABOUT for s in systems}, "rounds": []}
        for number in range(args.rounds):
            result["rounds"].append(run_round(number, systems, args))
            if args.out:
                Path(args.out).write_text(json.dumps(result, indent=1))
        result["flushes"] = {} if args.no_flushes else look_at_flushes(systems, args.dir)
        result["load"], result["seconds"] = os.getloadavg()[1], time.monotonic() - began
        say(f"{result['seconds']:.0f} s in all")
    if args.out:
        Path(args.out).write_text(json.dumps(result, indent=1))
    text = tables.render(result)
    print(text)
    if args.update:
        tables.update(ROOT / "docs/benchmarks.md", text)


if __name__ == "__main__":
    main()
