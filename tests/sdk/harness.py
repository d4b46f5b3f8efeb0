"""A `perdure serve` process for tests of SDKs: started, killed, stopped, started again.

The program is $PERDURE, build/perdure without it. A test waits for events, never for time to
pass: the ready line, the exit of the process, the end of an instance.
"""

import os
import queue
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
READY = re.compile(
    r"^perdure ready pid=(?P<pid>\d+) grpc=(?P<grpc>\S+) http=(?P<http>\S+)"
    r" store=(?P<store>\S+) version=(?P<version>\S+)"
)
SANITIZER = re.compile(r"ERROR: \w+Sanitizer|runtime error:|SUMMARY: \w+Sanitizer")


def binary():
    return os.environ.get("PERDURE") or os.path.join(ROOT, "build", "perdure")


class ServerError(Exception):
    """The server did not start, died, or ended badly."""


class Server:
    """One server: the same store and port through any number of starts.

    settings: {"history.max_events": 500} for --set. Use it as a context manager, or call close().
    """

    def __init__(self, settings=None, store=None, extra=()):
        self.dir = tempfile.mkdtemp(prefix="perdure-sdk-")
        self.store = store or "sqlite:" + os.path.join(self.dir, "perdure.db")
        self.settings = dict(settings or {})
        self.extra = list(extra)
        self.listen = "localhost:0"
        self.http = "localhost:0"
        self.log_path = os.path.join(self.dir, "server.log")
        self.process = None
        self.should_run = False

    # ---- starting ----

    def command(self):
        args = [binary(), "serve", "--store", self.store, "--listen", self.listen]
        args += ["--http", self.http]
        for key, value in sorted(self.settings.items()):
            args += ["--set", "%s=%s" % (key, value)]
        return args + self.extra

    def start(self, timeout=30):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL,
                cwd=self.dir, text=True,
            )
        lines = queue.Queue()
        threading.Thread(target=self._read_stdout, args=(self.process, lines), daemon=True).start()
        try:
            line = lines.get(timeout=timeout)
        except queue.Empty:
            self.kill()
            raise ServerError("no ready line in %s s\n%s" % (timeout, self.log_tail())) from None
        match = READY.match(line)
        if not match:
            self.kill()
            raise ServerError(
                "instead of the ready line: %r, exit status %s\n%s"
                % (line, self.process.returncode, self.log_tail())
            )
        self.pid = int(match["pid"])
        self.version = match["version"]
        self.address = match["grpc"].split(",")[0]
        self.port = int(self.address.rsplit(":", 1)[1])
        self.http_address = match["http"].split(",")[0]
        self.listen, self.http = self.address, self.http_address
        self.should_run = True
        return self

    @staticmethod
    def _read_stdout(process, lines):
        """Passes the first line on and reads the rest away, so that the pipe never fills."""
        lines.put(process.stdout.readline())
        for _ in process.stdout:
            pass
        process.stdout.close()

    # ---- ending ----

    def signal(self, number):
        os.kill(self.process.pid, number)

    def kill(self):
        """kill -9; returns when the process is gone."""
        self.should_run = False
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait(30)

    def stop(self, timeout=45):
        """SIGTERM; the exit must be clean."""
        self.should_run = False
        self.signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerError("did not exit %s s after SIGTERM\n%s" % (timeout, self.log_tail())) from None
        if status != 0:
            raise ServerError("exit status %s after SIGTERM\n%s" % (status, self.log_tail()))

    def restart(self, clean=False):
        """Ends it (kill -9 unless clean) and starts it on the same store and port."""
        if clean:
            self.stop()
        else:
            self.kill()
        return self.start()

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def check(self):
        """Raises when the server died unasked or a sanitizer spoke."""
        if self.should_run and not self.alive():
            raise ServerError(
                "the server died: exit status %s\n%s" % (self.process.returncode, self.log_tail())
            )
        found = SANITIZER.search(self.log())
        if found:
            raise ServerError("sanitizer:\n" + self.log()[max(0, found.start() - 200):][:4000])

    def close(self):
        """Checks it, ends it, and removes its files unless something was wrong."""
        try:
            self.check()
            if self.alive():
                self.stop()
                self.check()
        except ServerError:
            self.kill()
            raise
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self.start() if self.process is None else self

    def __exit__(self, kind, *rest):
        if kind is None:
            self.close()
        else:
            self.kill()

    # ---- looking ----

    def log(self):
        try:
            with open(self.log_path, errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def log_tail(self, size=3000):
        return "log: " + self.log()[-size:]

    def get(self, path, timeout=10):
        """HTTP GET: the text."""
        with urllib.request.urlopen("http://%s%s" % (self.http_address, path), timeout=timeout) as r:
            return r.read().decode()

    def threads(self):
        return len(os.listdir("/proc/%d/task" % self.process.pid))

    def rss_bytes(self):
        with open("/proc/%d/status" % self.process.pid) as f:
            for line in f:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        raise ServerError("no VmRSS")

    def cpu_seconds(self):
        with open("/proc/%d/stat" % self.process.pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Yardstick:
    """Another server under the tests, at a given address: it is neither started nor ended here.

    $PERDURE_YARDSTICK=host:port has the SDK tests run against it: to tell a mistake in a test
    from one in the server.
    """

    def __init__(self, address):
        self.address = address
        self.port = int(address.rsplit(":", 1)[1])
        self.http_address = None
        self.dir = tempfile.mkdtemp(prefix="perdure-sdk-")

    def start(self):
        return self

    def check(self):
        pass

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def log_tail(self, size=0):
        return ""


def eventually(condition, timeout=20, what=None, pause=0.02):
    """Calls condition() until it is true and gives its value; fails after timeout."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("not within %s s: %s (last: %r)" % (timeout, what or condition, value))
        time.sleep(pause)
