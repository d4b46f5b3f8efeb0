"""One `perdure serve` process: start, kill, stop, start again on the same port and store."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

from .proto import ROOT

READY = re.compile(
    r"^perdure ready pid=(\d+) grpc=(\S+) http=(\S+) store=(\S+) version=(\S+)$"
)
SANITIZER = re.compile(r"((ERROR|WARNING): \w+Sanitizer|runtime error:|SUMMARY: \w+Sanitizer)")


def binary():
    return os.environ.get("PERDURE", os.path.join(ROOT, "build", "perdure"))


class ServerDied(Exception):
    pass


class Server:
    """A server process. settings: a dict for --set; extra: further flags.

    Times out when no ready line comes. The log (stderr) is kept in `log_path`.
    """

    def __init__(self, settings=None, store=None, extra=(), listen=None, http="127.0.0.1:0", env=None):
        # A machine busy with other tests may well flush slowly; that is no overload here. Two loops, however few processors.
        self.settings = {"overload.commit_time": "60s", "loop.threads": "2", **(settings or {})}
        self.dir = tempfile.mkdtemp(prefix="perdure-raw-")
        self.store = store or "sqlite:" + os.path.join(self.dir, "perdure.db")
        self.extra = list(extra)
        self.listen = list(listen or ["127.0.0.1:0"])
        self.http_listen = http
        self.env = env or {}
        self.log_path = os.path.join(self.dir, "log")
        self.process = None
        self.stdout_rest = b""
        self.expected_down = True

    def command(self):
        cmd = [binary(), "serve", "--store", self.store]
        for l in self.listen:
            cmd += ["--listen", l]
        cmd += ["--http", self.http_listen]
        for k, v in sorted(self.settings.items()):
            cmd += ["--set", "%s=%s" % (k, v)]
        return cmd + self.extra

    def start(self, timeout=60):
        """Starts it and waits for the ready line; keeps the ports for later starts."""
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            self.command(),
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=self.dir,
            env={**os.environ, **self.env},
        )
        log.close()
        line = self._line(timeout)
        m = READY.match(line)
        if not m:
            self.kill()
            raise ServerDied("no ready line but %r; log: %s" % (line, self.log_tail()))
        self.pid = int(m.group(1))
        self.grpc = m.group(2).split(",")
        self.http = m.group(3).split(",")
        self.version = m.group(5)
        self.target = self.grpc[0]
        if not self.target.startswith("unix:"):
            self.host, port = self.target.rsplit(":", 1)
            self.port = int(port)
        self.listen = list(self.grpc)
        if self.http != ["off"]:
            self.http_listen = self.http[0]
        self.expected_down = False
        return self

    def _line(self, timeout):
        box = []
        t = threading.Thread(target=lambda: box.append(self.process.stdout.readline()), daemon=True)
        t.start()
        t.join(timeout)
        if not box:
            raise ServerDied("no ready line within %s s; log: %s" % (timeout, self.log_tail()))
        if not box[0]:
            self.process.wait(10)
            raise ServerDied(
                "exit status %s before the ready line; log: %s"
                % (self.process.returncode, self.log_tail())
            )
        return box[0].decode().rstrip("\n")

    def kill(self):
        """kill -9, and wait until it is gone."""
        self.expected_down = True
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait(30)

    def signal(self, number):
        os.kill(self.process.pid, number)

    def freeze(self):
        self.signal(signal.SIGSTOP)

    def thaw(self):
        self.signal(signal.SIGCONT)

    def term(self):
        """SIGTERM; returns at once."""
        self.expected_down = True
        self.signal(signal.SIGTERM)

    def wait_exit(self, timeout=60):
        """Waits for the exit and gives its status."""
        return self.process.wait(timeout)

    def restart(self):
        """kill -9 and start again, same port, same store."""
        self.kill()
        return self.start()

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def log(self):
        try:
            with open(self.log_path, errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def log_tail(self, n=1500):
        return self.log()[-n:]

    def trouble(self):
        """Why this server counts as broken, or None: died unasked, or a sanitizer spoke."""
        if not self.expected_down and not self.alive():
            return "server died with status %s; log: %s" % (
                self.process.returncode,
                self.log_tail(),
            )
        found = SANITIZER.search(self.log())
        if found:
            at = max(0, found.start() - 200)
            return "sanitizer: " + self.log()[at : at + 4000]
        return None

    def rss(self):
        """Resident bytes of the process; 0 under a sanitizer, whose memory tells nothing."""
        if os.environ.get("PERDURE_SANITIZED") == "1":
            return 0
        with open("/proc/%d/status" % self.process.pid) as f:
            for line in f:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def threads(self):
        return len(os.listdir("/proc/%d/task" % self.process.pid))

    def cpu(self):
        """CPU seconds used so far, user and system."""
        with open("/proc/%d/stat" % self.process.pid) as f:
            rest = f.read().rsplit(")", 1)[1].split()
        return (int(rest[11]) + int(rest[12])) / os.sysconf("SC_CLK_TCK")

    def get(self, path, timeout=10):
        """HTTP GET on the first HTTP listener: (status, text)."""
        url = "http://%s%s" % (self.http[0], path)
        try:
            with urllib.request.urlopen(url, timeout=timeout) as r:
                return r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def store_path(self):
        return self.store[len("sqlite:"):]

    def close(self):
        if self.process and self.process.poll() is None:
            try:
                self.signal(signal.SIGCONT)
            except OSError:
                pass
        self.kill()
        if self.process and self.process.stdout:
            self.process.stdout.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def eventually(fn, timeout=20, what=None, pause=0.02):
    """Calls fn until it gives something true; returns that. A failing assert counts as not yet."""
    end = time.monotonic() + timeout
    last = None
    while True:
        try:
            got = fn()
            if got:
                return got
            last = got
        except AssertionError as e:
            last = e
        if time.monotonic() > end:
            raise AssertionError("%s did not happen in %s s (last: %r)" % (what or fn, timeout, last))
        time.sleep(pause)
