"""`perdure bench`: its workloads on a real server, its figures, and that it notices what is wrong."""

import json
import os
import re
import subprocess
import sys
import tempfile

from command import begin, end, perdure
from lib import actions as act
from lib.server import eventually

# Instances that one operation makes, turns and activities that it takes.
WORKLOADS = {
    "hello1": (1, 2, 1),
    "chain5": (1, 6, 5),
    "chain50": (1, 51, 50),
    "fanout100": (1, 2, 100),
    "timer": (1, 2, 0),
    "event": (1, 2, 0),
    "suborch": (2, 4, 1),
    "continue-as-new": (1, 10, 5),
}
PREPARED = 256  # instances that wait-only waits for


def bench(s, *args, **kw):
    return perdure("bench", "--server", s.target, "--warmup", "0", *args, **kw)


def counts(s):
    got = perdure("status", "--server", s.target, "--json").ok().json
    return {i["status"]: int(i["count"]) for i in got["instances"]}, got


def calls(s, method):
    found = re.findall(r'^perdure_rpcs_total\{method="%s",code="(\w+)"\} (\d+)' % method,
                       s.get("/metrics")[1], re.M)
    return {code: int(n) for code, n in found if int(n)}


def one_workload(t, name):
    """On SQLite, with a payload and a warm-up: the figures are those of the workload, the server has all instances, ended."""
    instances, turns, activities = WORKLOADS[name]
    s = t.own_server()
    got = perdure("bench", name, "--server", s.target, "--concurrency", "4", "--count", "12", "--warmup", "4",
                  "--payload", "300", "--pid", str(s.pid), "--json").ok().json
    assert got["workload"] == name and got["loop"] == "closed" and got["targetRate"] is None, got
    assert got["valid"] is True and got["failed"] == 0 and got["failures"] == [], got
    assert got["operations"] == 12 and got["concurrency"] == 4 and got["payloadBytes"] == 300, got
    assert got["rate"] > 0 and got["seconds"] > 0, got
    l = got["latencyMs"]
    assert 0 < l["min"] <= l["p50"] <= l["p90"] <= l["p99"] <= l["max"] and l["min"] <= l["mean"] <= l["max"], l
    each = got["perOperation"]
    assert each["activities"] == activities, each
    # The results of activities that ran at once may come in more than one turn.
    assert turns <= each["turns"] <= 100 and (name == "fanout100" or each["turns"] == turns), each
    assert each["historyBytes"] > 300 * turns / 2 and each["clientCpuUs"] > 0, each
    p = got["process"]
    assert p["cpuUs"] > 0 and p["rssBytes"] > 1 << 20 and p["rssPeakBytes"] >= p["rssBytes"], p
    assert p["processes"] == 1 and (p["cpuUsPerActivity"] is None) == (activities == 0), p
    assert p["writtenBytes"] is None or p["writtenBytes"] >= 0, p
    assert got["commits"]["flushes"] > 0 and got["commits"]["commandsPerBatch"] >= 1, got
    seen, status = counts(s)
    assert seen == {"COMPLETED": 16 * instances}, seen
    assert status["ready"] == [] and status["inFlight"] == "0", status
    return s


def test_hello1(t):
    s = one_workload(t, "hello1")
    assert calls(s, "StartInstance") == {"OK": 16} and calls(s, "CompleteOrchestratorTask") == {"OK": 32}


def test_chain5(t):
    assert calls(one_workload(t, "chain5"), "CompleteActivityTask") == {"OK": 80}


def test_chain50(t):
    one_workload(t, "chain50")


def test_fanout100(t):
    one_workload(t, "fanout100")


def test_timer(t):
    one_workload(t, "timer")


def test_event(t):
    assert calls(one_workload(t, "event"), "RaiseEvent") == {"OK": 16}


def test_suborch(t):
    one_workload(t, "suborch")


def test_continue_as_new(t):
    one_workload(t, "continue-as-new")


def test_wait_only_writes_nothing(t):
    s = t.own_server()
    got = bench(s, "wait-only", "--concurrency", "8", "--count", "500", "--json").ok().json
    assert got["operations"] == 500 and got["valid"] is True, got
    assert got["perOperation"]["turns"] == 0 and got["perOperation"]["activities"] == 0, got
    assert got["commits"] == {"flushes": 0, "commandsPerBatch": None}, got
    assert counts(s)[0] == {"COMPLETED": PREPARED}
    assert calls(s, "WaitForInstanceCompletion") == {"OK": PREPARED + 500}


def test_a_timer_takes_its_time(t):
    s = t.own_server(store="memory")
    got = bench(s, "timer", "--delay", "300ms", "--count", "4", "--concurrency", "4", "--json").ok().json
    assert got["latencyMs"]["min"] >= 300, got


def test_by_time_and_for_people(t):
    s = t.own_server(store="memory")
    got = bench(s, "--duration", "300ms", "--concurrency", "2", "--connections", "2", "--hub", "lots",
                "--pid", str(s.pid)).ok()
    number = r"[0-9.]+"
    for line in (r"workload   hello1, payload 0, concurrency 2, 2 connections, closed loop",
                 r"operations \d+ in {0} s, {0}/s", r"latency    p50 {0} ms  p90 {0} ms  p99 {0} ms  .*max {0} ms",
                 r"each       2.00 turns, 1.00 activities, \d+ history bytes .*",
                 r"server     {0} us CPU, {0} us an activity, .* resident, .*", r"commits    {0} flushes, .*"):
        assert re.search("^" + line.replace("{0}", number) + "$", got.out, re.M), (line, got)
    assert counts(s)[0]["COMPLETED"] >= 2
    assert {i["hub"] for i in counts(s)[1]["instances"]} == {"lots"}


def test_open_loop(t):
    """Operations are due at fixed times; 50 at 100 a second take half a second, however fast the server is."""
    s = t.own_server(store="memory")
    got = bench(s, "--rate", "100", "--count", "50", "--json").ok().json
    assert got["loop"] == "open" and got["targetRate"] == 100 and got["operations"] == 50, got
    assert got["seconds"] >= 0.49 and got["rate"] < 103, got
    for key in ("min", "p50", "p99", "max"):
        assert got["latencyMs"][key] >= got["serviceMs"][key], got
    got = perdure("bench", "--server", s.target, "--rate", "100", "--duration", "200ms", "--warmup", "5",
                  "--json").ok().json
    assert got["operations"] == 20, got
    got = bench(s, "--rate", "100", "--count", "20").ok()
    assert re.search(r"^service    p50 ", got.out, re.M) and "100/s due" in got.out, got


def test_open_loop_counts_from_when_it_was_due(t):
    """One at a time, each takes 50 ms, 100 are due a second: the last of 20 waits for 19 others, nearly 1 s in all."""
    s = t.own_server(store="memory")
    got = bench(s, "timer", "--delay", "50ms", "--rate", "100", "--count", "20", "--concurrency", "1",
                "--json").ok().json
    assert got["serviceMs"]["min"] >= 50, got
    assert got["latencyMs"]["max"] >= 20 * 50 - 19 * 10, got
    assert got["latencyMs"]["min"] >= 50 and got["latencyMs"]["mean"] > got["serviceMs"]["mean"] * 2, got


def invalid(result, *texts):
    """Exit 1, a reason on stderr, and the figures marked as worthless on stdout."""
    assert result.status == 1, result
    result.says("invalid", *texts)
    got = result.json
    assert got["valid"] is False and got["failed"] > 0 and len(got["failures"]) == min(got["failed"], 5), got
    return got


def test_a_wrong_output_is_noticed(t):
    """Another worker takes some turns and ends them wrongly."""
    s = t.own_server(store="memory")
    t.auto({"hello1": lambda item: [act.complete(result='"wrong"')]},
           {"step": lambda item: item.req.input.value}, hub="default", threads=2).worker.ready()
    got = bench(s, "--concurrency", "8", "--count", "60", "--json")
    assert any("wrong output" in text for text in invalid(got)["failures"]), got
    text = bench(s, "--concurrency", "8", "--count", "60")
    assert text.status == 1 and re.search("^failure ", text.out, re.M), text


def test_a_wrong_result_is_noticed(t):
    """Another worker's activities give back what belongs to another instance: the history tells."""
    s = t.own_server(store="memory")
    t.auto({}, {"step": lambda item: '"ffffffff.1."'}, hub="default", threads=2).worker.ready()
    got = bench(s, "--concurrency", "8", "--count", "200", "--json")
    assert any("another instance's" in text for text in invalid(got)["failures"]), got


def test_a_failed_instance_is_noticed(t):
    s = t.own_server(store="memory")
    t.auto({"hello1": lambda item: [act.complete(status=act.FAILED)]},
           {"step": lambda item: item.req.input.value}, hub="default", threads=2).worker.ready()
    got = bench(s, "--concurrency", "8", "--count", "60", "--json")
    assert any("did not complete: ORCHESTRATION_STATUS_FAILED" in text for text in invalid(got)["failures"]), got


def test_a_server_that_dies_is_noticed(t):
    s = t.own_server(store="memory")
    process = begin("bench", "--server", s.target, "--duration", "60s", "--json")
    eventually(lambda: counts(s)[0].get("COMPLETED", 0) > 5)
    s.kill()
    invalid(end(process))


def test_a_server_that_says_nothing_is_noticed(t):
    s = t.own_server(store="memory")
    s.freeze()
    got = bench(s, "--timeout", "500ms", "--count", "5", "--json")
    s.thaw()
    invalid(got, "answered nothing")


def test_no_server(t):
    perdure("bench", "--server", "127.0.0.1:1").failed(6, "127.0.0.1:1")


def test_usage(t):
    where = ("--server", "127.0.0.1:1")
    perdure("bench", "what", *where).failed(2, '"what"', "hello1", "wait-only")
    for option, value in (("count", "many"), ("count", "0"), ("connections", "9"), ("connections", "1"),
                          ("concurrency", "0"), ("rate", "0"), ("duration", "0"), ("duration", "x"),
                          ("warmup", "x"), ("payload", "x"), ("payload", "1GiB"), ("delay", "0"),
                          ("timeout", "0"), ("pid", "0"), ("pid", str((1 << 22) + 1))):
        perdure("bench", "--" + option, value, *where).failed(2, "--" + option)
    perdure("bench", "--count", "1", "--duration", "1s", *where).failed(2, "exclude")


# ---- the comparison with other servers ----

COMPARE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench")


def figures(cpu, post, rate=100.0):
    return {"operations": 9, "rate": rate, "latencyMs": {"p50": 1.5, "p99": 3.0, "max": 4.0}, "cpuUs": cpu,
            "posts": cpu / post, "writtenBytes": 2048.0, "rssBytes": 1 << 20}


def test_the_tables_of_the_comparison(t):
    """Medians over the rounds with their spread, multiples of a POST of the same round and of Perdure's median."""
    start = {"readyMs": 5.0, "rssBytes": 3 << 20, "cpuMs": 0.25}
    rounds = [{"nghttpd": post, "Perdure": {"start": start, "hello1@64": figures(ours, post)},
               "Restate": {"start": start, "hello1@64": figures(theirs, post, rate=7.0)}}
              for post, ours, theirs in ((2.0, 60.0, 900.0), (4.0, 80.0, 720.0), (2.0, 70.0, 700.0))]
    result = {"date": "2026-12-01", "quick": True, "cores": 2, "kernel": "k", "load": 1.0, "rounds": rounds,
              "disk": {"inPlace": {"p50": 1.0, "p99": 2.0}, "appended": {"p50": 3.0, "p99": 4.0}},
              "about": {"Perdure": "", "Restate": ""},
              "flushes": {"Perdure": {"loaded": 0.125, "alone": 4.0, "calls": ["fdatasync"], "waited": 4.2}}}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(result, f)
        f.flush()
        done = subprocess.run([sys.executable, os.path.join(COMPARE, "compare.py"), "--table", f.name],
                              capture_output=True, text=True, timeout=30, check=True)
    for row in ("| Perdure | all of it | 70.0 (60.0-80.0) | 30.0 | 1.00 | - | - | - |",
                "| Restate | its log | 720 (700-900) | 350 | 10.3 | - | - | - |",
                "| Perdure | 4 | 4.00 | 0.12 | fdatasync | 2.00 (2.00-2.00) |",
                "| Restate | its log | - | - | 7.00 (7.00-7.00) | - |",
                "| Perdure | 5.00 (5.00-5.00) | 3.00 (3.00-3.00) | 0.25 (0.25-0.25) |"):
        assert row in done.stdout.splitlines(), (row, done.stdout)


def test_the_command_and_the_comparison_see_the_same_process(t):
    s = t.own_server()
    sys.path.insert(0, COMPARE)
    from process import tree, use
    bench(s, "--count", "200", "--pid", str(s.pid)).ok()
    before = use(s.pid)
    got = bench(s, "--count", "300", "--pid", str(s.pid), "--json").ok().json
    after = use(s.pid)
    assert tree(s.pid) == [s.pid], tree(s.pid)
    # `use` has looked before and after, so it has seen as much and a bit more.
    cpu = (after["cpu"] - before["cpu"]) * 1e6
    assert got["process"]["cpuUs"] * 300 * 0.99 <= cpu <= got["process"]["cpuUs"] * 300 * 1.5 + 20000, (cpu, got)
    assert after["written"] - before["written"] >= (got["process"]["writtenBytes"] or 0) * 300 * 0.99, (after, got)
