"""What a process and its descendants use, and servers that end with their measurement."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def _stat(pid):
    """The fields behind the name, from the state on; None when it has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def tree(pid):
    """The process and its descendants."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat(name)
            if fields:
                parents[int(name)] = int(fields[1])
    found = [pid]
    for one in found:
        found.extend(child for child, parent in parents.items() if parent == one)
    return found


def _value(path, key):
    try:
        for line in Path(path).read_text().splitlines():
            if line.startswith(key):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def use(pid):
    """CPU seconds, bytes written to file systems, resident bytes: of all of them together."""
    cpu = written = rss = 0
    for one in tree(pid):
        try:
            cpu += time.clock_gettime(~one << 3 | 2)  # the CPU clock of a process, to the nanosecond
        except OSError:
            continue
        fields = _stat(one)
        if fields:
            cpu += (int(fields[13]) + int(fields[14])) / TICKS  # children that were waited for
        io = f"/proc/{one}/io"
        written += _value(io, "write_bytes:") - _value(io, "cancelled_write_bytes:")
        rss += _value(f"/proc/{one}/status", "VmRSS:") * 1024
    return {"cpu": cpu, "written": written, "rss": rss}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def is_open(port):
    with socket.socket() as s:
        s.settimeout(1)
        return s.connect_ex(("127.0.0.1", port)) == 0


class Process:
    """A program with its own group; what it says goes to a file, all of it."""

    def __init__(self, args, folder, env=None, name="server"):
        self.log = Path(folder) / f"{name}.log"
        self.began = time.monotonic()
        with open(self.log, "ab") as log:
            self.popen = subprocess.Popen(
                [str(a) for a in args], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                start_new_session=True, env={**os.environ, **(env or {})})
        self.pid = self.popen.pid

    def wait_until(self, ready, seconds=60):
        """Seconds from the start until it was ready."""
        while not ready():
            if self.popen.poll() is not None or time.monotonic() - self.began > seconds:
                raise RuntimeError(f"{self.popen.args[0]} does not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.002)
        return time.monotonic() - self.began

    def stop(self):
        """All of its group: nothing of a measurement reaches into the next."""
        for number, seconds in ((signal.SIGTERM, 5), (signal.SIGKILL, 10)):
            try:
                os.killpg(self.pid, number)
                self.popen.wait(seconds)
            except ProcessLookupError:
                pass
            except subprocess.TimeoutExpired:
                continue
        self.popen.wait()


class Driver:
    """A load program that says "ready" after its warm-up, measures after a line, and prints its figures."""

    def __init__(self, args, folder, env=None, seconds=300):
        self.seconds = seconds
        self.log = Path(folder) / "driver.log"
        with open(self.log, "ab") as log:
            self.popen = subprocess.Popen(
                [str(a) for a in args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=folder,
                text=True, env={**os.environ, **(env or {})})

    def read(self):
        line = self.popen.stdout.readline()
        if not line:
            self.popen.wait()
            raise RuntimeError(f"the load fails: {self.log.read_text()[-2000:]}")
        return line

    def go(self):
        self.popen.stdin.write("go\n")
        self.popen.stdin.flush()

    def stop(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        self.popen.stdin.close()
        self.popen.stdout.close()
