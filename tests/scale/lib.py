"""What the cases share: a server process, its disk, its figures, and `drive` processes against it."""

import json
import mmap
import os
import queue
import re
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ.get("PERDURE", os.path.join(ROOT, "build", "perdure"))
PROGRAMS = os.path.join(os.path.dirname(BINARY), "tests", "scale")
READY = re.compile(r"perdure ready pid=(\d+) grpc=(\S+) http=(\S+) ")
MIB = 1 << 20
# gRPC statuses
EXHAUSTED, UNAVAILABLE = "8", "14"
ENOSPC, EROFS = 28, 30


class Failed(Exception):
    """What a case found wrong."""


def check(condition, *what):
    if not condition:
        raise Failed(" ".join(str(w) for w in what))


def eventually(fn, timeout, what):
    """Until fn() is true; gives its value."""
    end = time.monotonic() + timeout
    while True:
        got = fn()
        if got:
            return got
        check(time.monotonic() < end, "not within %s s: %s" % (timeout, what))
        time.sleep(0.05)


class Disk:
    """The struct control of bad_disk.c."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "disk")
        with open(self.path, "wb") as f:
            f.write(bytes(64))
        with open(self.path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 64)

    def set(self, flush_ms=0, write_errno=0, free=0):
        struct.pack_into("=IIQ", self.map, 0, flush_ms, write_errno, free)

    def refused(self):
        return struct.unpack_from("=Q", self.map, 24)[0]


class Server:
    """One `perdure serve` on a file of its own; `files`: soft and hard limit of open files."""

    def __init__(self, bad_disk=False, files=None, **settings):
        self.dir = tempfile.mkdtemp(prefix="perdure-scale-")
        self.settings = {k.replace("__", "."): v for k, v in settings.items()}
        self.disk = Disk(self.dir) if bad_disk else None
        self.files = files
        self.listen = "127.0.0.1:0"
        self.peak = 0
        self.process = None

    def start(self, timeout=120):
        command = [BINARY, "serve", "--store", "sqlite:" + os.path.join(self.dir, "perdure.db"),
                   "--listen", self.listen, "--http", "127.0.0.1:0"]
        for k, v in sorted(self.settings.items()):
            command += ["--set", "%s=%s" % (k, v)]
        env = dict(os.environ)
        if self.disk:
            env["LD_PRELOAD"] = os.path.join(PROGRAMS, "bad_disk.so")
            env["PERDURE_BAD_DISK"] = self.disk.path
        limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, self.files)) if self.files else None
        begun = time.monotonic()
        with open(self.log_path(), "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            cwd=self.dir, env=env, text=True, preexec_fn=limit)
        box = queue.Queue()
        threading.Thread(target=lambda: box.put(self.process.stdout.readline()), daemon=True).start()
        try:
            line = box.get(timeout=timeout)
        except queue.Empty:
            raise Failed("no ready line in %s s; log: %s" % (timeout, self.log()[-1500:])) from None
        self.ready_ms = (time.monotonic() - begun) * 1000
        m = READY.match(line)
        check(m, "no ready line but %r; log: %s" % (line, self.log()[-1500:]))
        self.pid = int(m[1])
        self.target, self.http = m[2], m[3]
        self.listen = self.target
        return self

    def log_path(self):
        return os.path.join(self.dir, "log")

    def log(self):
        with open(self.log_path(), errors="replace") as f:
            return f.read()

    def status(self, key):
        with open("/proc/%d/status" % self.pid) as f:
            for line in f:
                if line.startswith(key + ":"):
                    return int(line.split()[1]) * 1024
        raise Failed("no %s" % key)

    def rss(self):
        return self.status("VmRSS")

    def peak_rss(self):
        """The most of this process, and of those before it."""
        if self.process and self.process.poll() is None:
            self.peak = max(self.peak, self.status("VmHWM"))
        return self.peak

    def forget_peak(self):
        self.peak = 0
        with open("/proc/%d/clear_refs" % self.pid, "w") as f:
            f.write("5")

    def cpu(self):
        with open("/proc/%d/stat" % self.pid) as f:
            rest = f.read().rsplit(")", 1)[1].split()
        return (int(rest[11]) + int(rest[12])) / os.sysconf("SC_CLK_TCK")

    def get(self, path):
        try:
            with urllib.request.urlopen("http://%s%s" % (self.http, path), timeout=30) as r:
                return r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def metric(self, name, **labels):
        """The sum over what has all these labels."""
        total, seen = 0.0, False
        for line in self.get("/metrics")[1].splitlines():
            m = re.match(r"(\w+)(?:\{(.*)\})? (\S+)$", line)
            if m and m[1] == name and all('%s="%s"' % kv in (m[2] or "") for kv in labels.items()):
                total, seen = total + float(m[3]), True
        check(seen, "no metric", name, labels)
        return total

    def expect(self, want, name, timeout=30, **labels):
        """Metrics are made every 50 ms or so: until this one has that value."""
        end = time.monotonic() + timeout
        while (got := self.metric(name, **labels)) != want:
            check(time.monotonic() < end, "%s %s is %s and not %s" % (name, labels or "", got, want))
            time.sleep(0.05)

    def expect_idle(self):
        """No work is left, and no waiter."""
        for name in ("perdure_work_ready", "perdure_work_in_flight", "perdure_work_paused", "perdure_waiters"):
            self.expect(0, name)

    def kill(self):
        self.peak_rss()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def restart(self):
        self.kill()
        return self.start()

    def stop(self):
        """SIGTERM; it has to end well."""
        self.peak_rss()
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(60)
        except subprocess.TimeoutExpired:
            raise Failed("SIGTERM did not end the server within 60 s") from None
        self.process.stdout.close()
        check(status == 0, "exit status", status, self.log()[-1500:])

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


class Drive:
    """One `drive` process. Its lines are JSON; the last one ends it."""

    def __init__(self, server, role, **options):
        command = [os.path.join(PROGRAMS, "drive"), role, "--server", server.target]
        for k, v in options.items():
            command += ["--" + k.replace("_", "-"), str(v)]
        self.what = " ".join(command[1:])
        self.errors = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _fail(self, why):
        self.close()
        self.errors.seek(0)
        raise Failed("%s: %s; %s" % (self.what, why, self.errors.read()[-3000:]))

    def line(self, key, timeout=300):
        """Its next line has this key."""
        got = self._next(timeout, key)
        if key not in got:
            self._fail("%s in place of %r" % (got, key))
        return got

    def _next(self, timeout, key):
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            self._fail("no %r in %s s" % (key, timeout))
        if line is None:
            self._fail("it ended before %r" % key)
        try:
            return json.loads(line)
        except ValueError:
            self._fail("not JSON: %r" % line)

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self, timeout=60):
        """Tells it to end."""
        self.process.stdin.close()
        return self.result(timeout)

    def result(self, timeout=300):
        """Its last line, when it has ended well."""
        end = time.monotonic() + timeout
        got = {}
        while "wrong" not in got:
            got = self._next(max(end - time.monotonic(), 0.01), "wrong")
        status = self.process.wait(30)
        if status or got["wrong"]:
            self._fail("it found %s things wrong: %s" % (got["wrong"], got))
        self.close()
        return got

    def running(self):
        return self.process.poll() is None

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def drive(server, role, timeout=300, **options):
    """Runs it to its end."""
    return Drive(server, role, **options).result(timeout)
