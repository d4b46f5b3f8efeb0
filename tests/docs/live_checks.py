"""What the pages say, held to the running program: commands, flags, metrics, exit statuses, backup."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import urllib.request
from pathlib import Path

from pages import GUESTS, ROOT

BINARY = Path(os.environ.get("PERDURE", ROOT / "build" / "perdure")).resolve()
READY = re.compile(r"perdure ready pid=(\d+) grpc=(\S+) http=(\S+) store=(\S+) version=(\S+)")
FREE = {"PERDURE_LISTEN": "localhost:0", "PERDURE_HTTP": "localhost:0"}
SECONDS = 60


def clean_environment(**more):
    env = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    return dict(env, **more)


class Server:
    """Waits for the ready line; ends with SIGTERM."""

    def __init__(self, arguments, cwd, env, command=None):
        self.log = open(Path(cwd) / "server.log", "a+")
        self.process = subprocess.Popen(command or [str(BINARY), "serve", *arguments], cwd=cwd, env=env,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        start_new_session=True)
        self.line = ""
        for self.line in self.process.stdout:  # make may say something before
            if self.line.startswith("perdure "):
                break
        found = READY.match(self.line)
        if not found:
            self.process.kill()
            self.process.wait()
            self.log.seek(0)
            raise RuntimeError(f"no ready line but {self.line!r}: {self.log.read()[-500:]}")
        self.pid = int(found.group(1))
        self.grpc, self.http = found.group(2).split(",")[0], found.group(3).split(",")[0]

    def stop(self):
        """Its exit status."""
        if self.process.poll() is None:
            os.kill(getattr(self, "pid", self.process.pid), signal.SIGTERM)
        try:
            status = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = "killed"
        self.process.stdout.close()
        self.log.close()
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()


class Sandbox:
    """A folder with `perdure` on PATH and as build/perdure, and a server on orders.db there."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="perdure-docs-"))
        (self.folder / "build").mkdir()
        (self.folder / "bin").mkdir()
        for place in ("build", "bin"):
            (self.folder / place / "perdure").symlink_to(BINARY)
        self.env = clean_environment(PATH=f"{self.folder}/bin:{os.environ['PATH']}")
        try:
            self.server = Server(["--store", "sqlite:orders.db"], self.folder, dict(self.env, **FREE))
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        self.env["PERDURE_SERVER"] = self.server.grpc

    def shell(self, text):
        text = text.replace("localhost:4001", self.server.grpc).replace("localhost:4002", self.server.http)
        return subprocess.run(["sh", "-eu", "-c", text], cwd=self.folder, env=self.env, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS)

    def perdure(self, *arguments):
        return subprocess.run([BINARY, *arguments], cwd=self.folder, env=self.env, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.__exit__()
        shutil.rmtree(self.folder)


# ---- code blocks ---------------------------------------------------------------------------------


def matches(pattern, text):
    """Line by line; `…` stands for anything."""
    parts = [".*".join(re.escape(part) for part in line.split("…")) for line in pattern.splitlines()]
    return re.fullmatch("\n".join(parts), text.strip("\n")) is not None


def run_block(sandbox, block, output):
    done = sandbox.shell(block.text)
    if done.returncode != 0:
        yield f"{block}: exit status {done.returncode}: {done.stderr.strip()[-300:]}"
    elif output and not matches(output.text, done.stdout):
        yield f"{block}: the output is not as shown: {done.stdout[-300:]!r}"


def serve_block(block):
    """One command, on free ports."""
    words = shlex.split(next(block.commands()))
    words = [re.sub(r"^localhost:\d+$", "localhost:0", word) for word in words]
    with tempfile.TemporaryDirectory() as folder:
        server = Server(words[2:], folder, clean_environment())
        status = server.stop()
        if status != 0:
            yield f"{block}: exit status {status} after SIGTERM"


def config_block(block):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "perdure.conf").write_text(block.text)
        server = Server(["--config", "perdure.conf"], folder, clean_environment(**FREE))
        status = server.stop()
        if status != 0:
            yield f"{block}: exit status {status} after SIGTERM"


def make_run(page):
    """`make run`, and the ready line that the page shows."""
    shown = next(block.text for block in page.blocks if block.mark == "ready")
    with tempfile.TemporaryDirectory() as folder:
        env = clean_environment(PERDURE_STORE=f"sqlite:{folder}/perdure.db",
                                PERDURE_LISTEN="localhost:0,localhost:0",
                                PERDURE_HTTP="localhost:0,localhost:0")
        env.pop("MAKEFLAGS", None)
        env.pop("MAKELEVEL", None)
        server = Server([], folder, env, ["make", "--no-print-directory", "-C", str(ROOT), "run"])
        line = server.line
        status = server.stop()
        if status != 0:
            yield f"{page.name}: make run ends with {status} after SIGTERM"

    def shape(text):
        return re.sub(r":\d+", ":N", re.sub(r"(pid|store)=\S+", r"\1=…", text)).strip()

    if shape(line) != shape(shown):
        yield f"{page.name}: the ready line is {line.strip()!r}"


def run_page(page):
    """What is marked to be run, from top to bottom, beside one server."""
    with Sandbox() as sandbox:
        for block, after in zip(page.blocks, page.blocks[1:] + [None]):
            if block.mark == "run":
                output = after if after and after.language == "text" and not after.mark else None
                yield from run_block(sandbox, block, output)
            elif block.mark == "serve":
                yield from serve_block(block)
            elif block.mark == "config":
                yield from config_block(block)


# ---- the command's own words ------------------------------------------------------------------------


def help_of(*words):
    return subprocess.run([BINARY, "help", *words], capture_output=True, text=True).stdout


def commands_of(pages):
    """(where, words behind `perdure`) of every command that a page shows."""
    for page in pages.values():
        for code in page.inline():
            if re.match(r"perdure [a-z]", code) and not code.startswith("perdure ready"):
                yield page.name, code.split()[1:]
        for block in page.blocks:
            if not block.is_shell() and block.language != "ini":
                continue
            for command in block.commands():
                found = re.search(r"(?:^|[/ =])perdure ((?:[a-z]|--).*)", re.split(r"&&|;|\|", command)[0])
                if found and not command.startswith(("install ", "make ")):
                    yield str(block), shlex.split(found.group(1))


def check_command_words(pages):
    known = set(re.findall(r"^  (\w+)", help_of(), re.MULTILINE)) | {"help"}
    helps = {name: help_of(name) for name in known}
    for where, words in commands_of(pages):
        if words[0] not in known:
            yield f"{where}: there is no command {words[0]}"
            continue
        for word in words[1:]:
            flag = re.match(r"--[a-z-]+", word)
            if flag and not re.search(rf"{flag.group(0)}\b", helps[words[0]]):
                yield f"{where}: perdure {words[0]} has no {flag.group(0)}"
    everything = "\n".join(helps.values())
    for page in pages.values():
        for code in page.inline():
            flag = re.match(r"--[a-z-]+", code)
            if flag and page.name not in GUESTS | {"docs/testing.md"} and flag.group(0) not in everything:
                yield f"{page.name}: nothing takes {flag.group(0)}"
    for name in sorted(known - {"help"}):
        if f"`perdure {name}" not in pages["README.md"].prose and name != "version":
            yield f"README.md: perdure {name} is not in the table"


# ---- metrics ------------------------------------------------------------------------------------------


def check_metrics(pages):
    """The table is complete, labels too, and no page names another metric."""
    with Sandbox() as sandbox:
        sandbox.perdure("start", "Hello", "--id", "first")
        text = urllib.request.urlopen(f"http://{sandbox.server.http}/metrics").read().decode()
    served = {}
    for name in re.findall(r"^# TYPE (\w+)", text, re.MULTILINE):
        labels = re.findall(rf"^{name}(?:_bucket|_sum|_count)?\{{(.*?)\}}", text, re.MULTILINE)
        served[name] = {label for line in labels for label in re.findall(r'(\w+)="', line)} - {"le"}
    said = {}
    for cells in pages["docs/operating.md"].rows("metric", "labels"):
        for name in re.findall(r"`(\w+)`", cells[0]):
            said[name] = set(re.findall(r"\w+", cells[1]))
    for name in sorted(set(served) | set(said)):
        if served.get(name) != said.get(name):
            yield f"docs/operating.md: {name}: labels {said.get(name)} in the page, {served.get(name)} in /metrics"
    for page in pages.values():
        for code in page.inline():
            if re.fullmatch(r"perdure_[a-z_]+", code) and code not in served:
                yield f"{page.name}: {code} is not in /metrics"


# ---- exit statuses, backup ------------------------------------------------------------------------------


def check_exit_statuses(pages):
    """Each row of the table is seen."""
    seen = set()

    def expect(column, status, done, words):
        seen.add((column, str(status)))
        if done.returncode != status or not re.search(words, done.stderr):
            yield f"docs/operating.md: {done.args} ends with {done.returncode}: {done.stderr.strip()[-300:]}"

    with Sandbox() as box:
        other = ("--listen", "localhost:0", "--http", "off")
        yield from expect("serve", 2, box.perdure("serve", "--store", "memory", "--nope"), "--nope")
        yield from expect("serve", 2, box.perdure("serve", "--store", "memory", "--listen", "0.0.0.0:0"),
                          "listens beyond loopback")
        yield from expect("serve", 3, box.perdure("serve", "--store", "sqlite:orders.db", *other),
                          rf"is in use by process {box.server.pid}\b")
        (box.folder / "text.db").write_text("no database at all, but a text\n" * 10)
        yield from expect("serve", 3, box.perdure("serve", "--store", "sqlite:text.db", *other),
                          "is not an SQLite database")
        yield from expect("serve", 1, box.perdure("serve", "--store", "memory", "--http", "off", "--listen",
                                                  box.server.grpc), "could not listen on")
        yield from expect("command", 0, box.perdure("start", "Hello", "--id", "first"), "")
        yield from expect("command", 5, box.perdure("start", "Hello", "--id", "first"), "already exists")
        yield from expect("command", 4, box.perdure("get", "nobody"), "nobody")
        yield from expect("command", 2, box.perdure("get"), "missing")
        yield from expect("command", 6, box.perdure("wait", "first", "--timeout", "100ms"),
                          "first|deadline exceeded")
        box.perdure("terminate", "first")
        yield from expect("command", 1, box.perdure("wait", "first"), "")
        status = box.server.stop()
        seen.add(("serve", "0"))
        if status != 0:
            yield f"docs/operating.md: SIGTERM ends with {status}"
        yield from expect("command", 6, box.perdure("status"), "could not connect")
    for cells in pages["docs/operating.md"].rows("status", "of `perdure serve`"):
        for column, cell in (("serve", cells[1]), ("command", cells[2])):
            if bool(cell) != ((column, cells[0]) in seen):
                yield f"docs/operating.md: exit status {cells[0]} of {column}: in the table or seen, not both"


def check_restore(pages):
    """The backup of docs/operating.md, put in the place of a store that went on and was killed."""
    block = next(b for b in pages["docs/operating.md"].blocks if "perdure backup" in b.text)
    with Sandbox() as box:
        box.perdure("start", "Hello", "--id", "before")
        done = box.shell(block.text)
        if done.returncode != 0:
            yield f"{block}: {done.stderr}"
            return
        box.perdure("start", "Hello", "--id", "after")
        os.kill(box.server.pid, signal.SIGKILL)
        box.server.stop()
        for name in ("orders.db-wal", "orders.db-shm"):
            (box.folder / name).unlink(missing_ok=True)
        (box.folder / "copy.db").replace(box.folder / "orders.db")
        with Server(["--store", "sqlite:orders.db"], box.folder, dict(box.env, **FREE)) as server:
            box.env["PERDURE_SERVER"] = server.grpc
            if box.perdure("get", "before").returncode != 0:
                yield "the instance from before the backup is not there"
            if box.perdure("get", "after").returncode != 4:
                yield "the instance from after the backup is there"


def run(pages):
    """Yields (name, findings) of each check."""
    if not BINARY.exists():
        yield "binary", [f"{BINARY} does not exist: make build"]
        return
    for page in pages.values():
        if any(block.mark in ("run", "serve", "config") for block in page.blocks):
            yield f"runs.{page.path.stem.lower()}", run_page(page)
    if BINARY == (ROOT / "build/perdure").resolve():
        yield "make_run", make_run(pages["README.md"])
    else:
        print("SKIP docs.make_run: PERDURE is not build/perdure")
    yield "command_words", check_command_words(pages)
    yield "metrics", check_metrics(pages)
    yield "exit_statuses", check_exit_statuses(pages)
    yield "restore", check_restore(pages)
