"""`perdure serve` as an operator starts it: with exactly these flags, this environment."""

import os
import queue
import re
import shutil
import signal
import subprocess
import tempfile
import threading

from command import CLEAN, Result
from lib.server import SANITIZER, binary

READY = re.compile(r"perdure ready pid=(\d+) grpc=(\S+) http=(\S+) store=(\S+) version=(\S+)\n")


class Serving:
    """A server with a folder of its own, its working directory. `flags` may say DIR for it."""

    def __init__(self, t, *flags, env=None, store="memory", config=None):
        self.dir = tempfile.mkdtemp(prefix="perdure-cli-")
        t.later(self)
        if config is not None:
            with open(os.path.join(self.dir, "config"), "w") as f:
                f.write(config)
        self.flags = [f.replace("DIR", self.dir) for f in flags]
        if store:
            self.flags = ["--store", store] + self.flags
        self.env = {**CLEAN, **{k: v.replace("DIR", self.dir) for k, v in (env or {}).items()}}
        self.process = None
        self.log = self.out = None

    def begin(self):
        self.log_path = os.path.join(self.dir, "log")
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            [binary(), "serve", *self.flags], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=log, cwd=self.dir, env=self.env, text=True)
        log.close()
        return self

    def start(self, timeout=20):
        self.begin()
        lines = queue.Queue()
        threading.Thread(target=lambda: lines.put(self.process.stdout.readline()), daemon=True).start()
        try:
            self.line = lines.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError("no ready line; log: " + self.text()) from None
        match = READY.fullmatch(self.line)
        assert match, "%r, log: %s" % (self.line, self.text())
        self.pid = int(match[1])
        self.grpc, self.http = match[2].split(","), match[3].split(",")
        self.store, self.version = match[4], match[5]
        self.target = self.grpc[0]
        return self

    def text(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def signal(self, number):
        os.kill(self.process.pid, number)

    def wait(self, timeout=20):
        """The exit status; nothing but the ready line was on stdout."""
        status = self.process.wait(timeout)
        rest = self.process.stdout.read()
        assert rest == "", rest
        assert not SANITIZER.search(self.text()), self.text()
        return status

    def stop(self):
        self.signal(signal.SIGTERM)
        status = self.wait()
        assert status == 0, (status, self.text())

    def close(self):
        if self.process:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
            self.process.stdout.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def refused(t, *flags, status=2, store="memory", says=(), env=None, config=None):
    """It does not start: the exit status, and one line that says all this."""
    s = Serving(t, *flags, store=store, env=env, config=config)
    done = subprocess.run([binary(), "serve", *s.flags], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, cwd=s.dir, env=s.env, timeout=20)
    result = Result(["serve", *s.flags], done.returncode, done.stdout, done.stderr)
    result.failed(status, *[x.replace("DIR", s.dir) for x in says])
    s.close()
    return result
