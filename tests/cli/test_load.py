"""The load generator of tests/bench, in small: its workloads, its figures, and that it notices what is wrong."""

import json
import os
import re
import subprocess

from command import CLEAN, perdure
from lib import actions as act
from lib.server import binary, eventually


def program():
    path = os.environ.get("PERDURE_LOAD") or os.path.join(os.path.dirname(binary()), "tests/bench/load")
    if not os.path.exists(path):
        raise AssertionError("no %s: tests/suites/00-build.sh makes it" % path)
    return path


def load(*args, timeout=60):
    return subprocess.run([program(), *args], env=CLEAN, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=timeout)


def counts(s):
    got = perdure("status", "--server", s.target, "--json").ok().json
    return {i["status"]: int(i["count"]) for i in got["instances"]}, got


def test_hello1_on_sqlite(t):
    s = t.own_server()
    got = load("--server", s.target, "--workload", "hello1", "--concurrency", "8", "--count", "200",
               "--warmup", "20", "--pid", str(s.pid), "--json")
    assert got.returncode == 0, got
    f = json.loads(got.stdout)
    assert f["workload"] == "hello1" and f["count"] == 200 and f["concurrency"] == 8 and f["failed"] == 0, f
    assert f["rate"] > 0 and 0 < f["p50_ms"] <= f["p99_ms"], f
    assert f["server_rss_kib"] > 1000 and f["server_cpu_us"] > 0, f
    assert f["commands_per_batch"] >= 1 and f["flushes_per_instance"] > 0, f
    seen, status = counts(s)
    assert seen == {"COMPLETED": 220}, seen
    assert status["ready"] == [] and status["inFlight"] == "0", status


def test_chain5_is_the_whole_chain(t):
    s = t.own_server(store="memory")
    got = load("--server", s.target, "--workload", "chain5", "--concurrency", "4", "--count", "40",
               "--connections", "2", "--hub", "lots", "--json")
    assert got.returncode == 0 and json.loads(got.stdout)["failed"] == 0, got
    assert counts(s)[0] == {"COMPLETED": 40}
    done = [line for line in s.get("/metrics")[1].splitlines()
            if line.startswith('perdure_rpcs_total{method="CompleteActivityTask",code="OK"}')]
    assert done and float(done[0].rsplit(" ", 1)[1]) == 200, done


def test_by_time_and_for_people(t):
    s = t.own_server(store="memory")
    got = load("--server", s.target, "--duration", "1s", "--concurrency", "2")
    assert got.returncode == 0, got
    assert re.search(r"^rate [0-9.]+/s  p50 [0-9.]+ ms  p99 [0-9.]+ ms$", got.stdout, re.M), got
    assert re.search(r"^failed 0$", got.stdout, re.M), got
    assert counts(s)[0]["COMPLETED"] > 10


def test_it_notices_a_wrong_output(t):
    """Another worker takes some turns and ends them wrongly."""
    s = t.own_server(store="memory")
    t.auto({"hello1": lambda item: [act.complete(result='"wrong"')]},
           {"step": lambda item: item.req.input.value}, hub="default", threads=2).worker.ready()
    got = load("--server", s.target, "--concurrency", "8", "--count", "100", "--json")
    assert got.returncode == 1 and json.loads(got.stdout)["failed"] > 0, got
    assert "wrong" in got.stderr, got


def test_it_notices_a_server_that_dies(t):
    s = t.own_server(store="memory")
    process = subprocess.Popen([program(), "--server", s.target, "--duration", "30s"], env=CLEAN,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    eventually(lambda: counts(s)[0].get("COMPLETED", 0) > 5)
    s.kill()
    out, err = process.communicate(timeout=20)
    assert process.returncode == 1 and err, (out, err)


def test_usage(t):
    for args in ((), ("--server", "127.0.0.1:1", "--workload", "what"), ("--nope", "1"),
                 ("--server", "127.0.0.1:1", "--count", "many"), ("--server", "127.0.0.1:1", "--connections", "9"),
                 ("--server", "127.0.0.1:1", "--concurrency", "0")):
        got = load(*args)
        assert got.returncode == 2 and "usage: load" in got.stderr and not got.stdout, got
    got = load("--server", "127.0.0.1:1")
    assert got.returncode == 1 and "127.0.0.1:1" in got.stderr, got
