"""What a server flushes before it answers, seen from outside with strace. Linux, and leave to trace.

Three short runs, apart from those that are timed: flushes an operation under load, flushes an operation when there is
one at a time, and, with each flush delayed, how many of them an answer waits for.
"""

import re
import signal
import subprocess
import time

from process import tree
from systems import Load

CALLS = "fsync,fdatasync,sync_file_range,msync,syncfs,sync"
DELAY_MS, DELAY_OF_MANY_MS = 100, 20  # of many: the second, or time-outs of the server itself would join in
MANY = 10


class Trace:
    """strace on all threads of the server, for the time of a `with`."""

    def __init__(self, system, folder, delay_ms=0):
        self.out = f"{folder}/strace"
        args = ["strace", "-f", "-c", "-U", "calls,name", "-o", self.out, "-e", f"trace={CALLS}"]
        if delay_ms:
            args += ["-e", f"inject={CALLS}:delay_enter={delay_ms * 1000}"]
        for pid in tree(system.server.pid):
            args += ["-p", str(pid)]
        self.args, self.calls = args, {}

    def __enter__(self):
        self.popen = subprocess.Popen(self.args, stderr=subprocess.PIPE, text=True)
        line = self.popen.stderr.readline()
        if "attached" not in line:
            raise RuntimeError("strace: " + line)
        time.sleep(0.3)  # it attaches to one thread after the other
        return self

    def __exit__(self, *exc):
        self.popen.send_signal(signal.SIGINT)
        self.popen.communicate(timeout=30)
        with open(self.out) as f:
            for line in f:
                found = re.match(r"\s*(\d+)\s+(\w+)$", line)
                if found and found[2] != "total":
                    self.calls[found[2]] = int(found[1])


def _run(system, folder, load, delay_ms=0):
    with Trace(system, folder, delay_ms) as trace:
        figures = system.run(load)
    return figures, trace.calls


def look_at(system, folder, concurrency):
    """Flushes an operation under load and alone, and those that an answer waits for, of hello1."""
    system.run(Load("hello1", 1, count=5))
    loaded, calls = _run(system, folder, Load("hello1", concurrency, count=max(concurrency, 50)))
    alone, calls_alone = _run(system, folder, Load("hello1", 1, count=6))
    delay = DELAY_MS if sum(calls_alone.values()) / alone["operations"] <= MANY else DELAY_OF_MANY_MS
    slow, _ = _run(system, folder, Load("hello1", 1, count=3), delay)
    waited = (slow["latencyMs"]["p50"] - alone["latencyMs"]["p50"]) / delay
    return {"loaded": sum(calls.values()) / loaded["operations"],
            "alone": sum(calls_alone.values()) / alone["operations"], "calls": sorted(calls), "waited": waited}
