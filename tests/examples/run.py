"""Runs the four examples as their users do, against real servers: run.py [LANGUAGE]...

Prints `PASS examples.LANGUAGE.TEST` or FAIL, a line each. Exit status 1 when one failed. The languages
run side by side, each on a server of its own: a worker of one would take the work of another.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "sdk"))

from harness import Server, binary, eventually  # noqa: E402

RESULT = "Ada paid 20 for a parcel of boxed tea, boxed cup, boxed spoon"
VERSIONS = {
    "python": ("requirements.txt", "durabletask==1.12.0\n"),
    "javascript": ("package.json", '"@microsoft/durabletask-js": "0.4.0"'),
    "go": ("go.mod", "github.com/microsoft/durabletask-go v0.6.0\n"),
    "java": ("pom.xml", "<version>1.5.0</version>"),
}
LIMIT = 60  # seconds, for anything


class Example:
    """One language: how its example is built and run."""

    def __init__(self, language, work):
        self.language, self.work = language, work
        self.folder = ROOT / "examples" / language

    def build(self):
        env = os.environ
        if self.language == "go":
            subprocess.run([env["GO"], "build", "-mod=readonly", "-o", self.work + "/order", "."],
                           cwd=self.folder, check=True, timeout=10 * LIMIT)
        if self.language == "java":
            subprocess.run([env["JAVAC"], "-Xlint:all", "-Werror", "-cp", env["JAVA_CLASSPATH"], "-d", self.work,
                            "src/main/java/Order.java"], cwd=self.folder, check=True, timeout=10 * LIMIT)

    def command(self, seconds):
        env = os.environ
        return {
            "python": [env["PYTHON"], "order.py"],
            "javascript": [env["NODE"], "order.js"],
            "go": [self.work + "/order"],
            "java": [env["JAVA"], "-cp", self.work + ":" + env["JAVA_CLASSPATH"], "Order"],
        }[self.language] + [str(seconds)]


class Run:
    """A running example. Its stderr, where the SDKs log, is shown when something fails."""

    def __init__(self, example, server, seconds):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            example.command(seconds), cwd=example.folder, stdout=subprocess.PIPE, stderr=self.log, text=True,
            env={**os.environ, "PERDURE_SERVER": server.address})
        self.killer = threading.Timer(LIMIT, self.process.kill)
        self.killer.start()
        line = self.process.stdout.readline()
        found = re.fullmatch(r"(\S+) started\n", line)
        if not found:
            raise AssertionError(f"the example began with {line!r}\n{self.end()}")
        self.id = found[1]

    def end(self):
        """Kills it if it has not ended; gives its log."""
        self.killer.cancel()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.seek(0)
        log = self.log.read()
        self.log.close()
        return log

    def finish(self):
        """Until it has ended by itself with the right words."""
        said = self.process.stdout.read()
        status = self.process.wait()
        log = self.end()
        wanted = f"{self.id} COMPLETED: {RESULT}\n"
        assert (said, status) == (wanted, 0), f"it said {said!r} and ended with {status}\n{log}"


def perdure(server, *words):
    done = subprocess.run([binary(), *words, "--server", server.address], capture_output=True, text=True,
                          timeout=LIMIT)
    assert done.returncode == 0, f"perdure {' '.join(words)}: {done.returncode} {done.stderr}"
    return done.stdout


def completed(server, id):
    state = json.loads(perdure(server, "get", id, "--json"))
    assert state["status"] == "COMPLETED" and json.loads(state["output"]) == RESULT, state
    assert re.search(r"^status +COMPLETED$", perdure(server, "get", id), re.MULTILINE)


def at_timer(server, id):
    """Until the payment is there and the order waits for its timer."""
    def there():
        history = perdure(server, "history", id)
        return "timerCreated" in history and "eventRaised" in history
    eventually(there, LIMIT, f"{id} waits for its timer", pause=0.1)


# ---- the tests ----

def test_result(example, server):
    run = Run(example, server, 1)
    run.finish()
    completed(server, run.id)
    history = perdure(server, "history", run.id)
    counts = {kind: len(re.findall(rf" {kind}\b", history)) for kind in (
        "taskCompleted", "eventRaised", "subOrchestrationInstanceCompleted", "executionCompleted")}
    assert counts == {"taskCompleted": 5, "eventRaised": 1, "subOrchestrationInstanceCompleted": 1,
                      "executionCompleted": 1}, history
    # Java cuts the time of a timer to milliseconds, then finds it too early and sets a second one.
    assert " timerFired " in history, history


def test_server_killed(example, server):
    """The server is killed and started again: the example ends as if nothing had happened."""
    run = Run(example, server, 4)
    try:
        at_timer(server, run.id)
        assert run.process.poll() is None, "it ended before the kill"
        server.restart()
        run.finish()
    finally:
        run.killer.cancel()
        run.process.kill()
    completed(server, run.id)


def test_itself_killed(example, server):
    """The example is killed and started again: the second finishes what the first has begun."""
    first = Run(example, server, 1)
    try:
        at_timer(server, first.id)
    finally:
        first.end()
    state = json.loads(perdure(server, "get", first.id, "--json"))
    assert state["status"] == "RUNNING", f"it ended before the kill: {state}"
    second = Run(example, server, 600)
    try:
        perdure(server, "wait", first.id, "--timeout", f"{LIMIT - 10}s")
        completed(server, first.id)
    finally:
        second.end()


def test_versions(example, server):
    """The files of dependencies are well-formed and name the tested version of the SDK."""
    name, text = VERSIONS[example.language]
    path = example.folder / name
    assert text in path.read_text(), f"{name} does not say {text!r}"
    if example.language == "java":
        xml.etree.ElementTree.parse(path)
    if example.language == "javascript":
        wanted = json.loads(path.read_text())["dependencies"]
        locked = json.loads((example.folder / "package-lock.json").read_text())["packages"]
        assert locked[""]["dependencies"] == wanted
        for package, version in wanted.items():
            assert locked["node_modules/" + package]["version"] == version


TESTS = (test_versions, test_result, test_server_killed, test_itself_killed)


class Report:
    def __init__(self):
        self.lock = threading.Lock()
        self.failed = False

    def test(self, name, body, *arguments):
        try:
            body(*arguments)
        except Exception as e:  # noqa: BLE001 - told, and counted
            with self.lock:
                self.failed = True
                print(f"{type(e).__name__}: {e}"[:4000])
                print(f"FAIL examples.{name}", flush=True)
            return False
        with self.lock:
            print(f"PASS examples.{name}", flush=True)
        return True


def run_language(language, report):
    work = tempfile.mkdtemp(prefix="perdure-example-")
    example = Example(language, work)
    try:
        if not report.test(f"{language}.builds", example.build):
            return
        for test in TESTS:
            def on_a_server():
                with Server() as server:
                    test(example, server)
            report.test(f"{language}.{test.__name__.removeprefix('test_')}", on_a_server)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def main(languages):
    report = Report()
    threads = [threading.Thread(target=run_language, args=(language, report))
               for language in languages or VERSIONS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
