"""Every command: what it does, what it prints, how it exits."""

import json
import os
import re
import time

from command import Cli, end, perdure
from lib import actions as act
from lib.server import eventually
from lib.worker import echo

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")


def events(item, kind):
    return [e for e in list(item.req.pastEvents) + list(item.req.newEvents) if e.HasField(kind)]


def until_event(item):
    """Ends with the data of the first event, whatever its name."""
    raised = events(item, "eventRaised")
    return [act.complete(result=raised[0].eventRaised.input.value)] if raised else []


def one_task(item):
    done = events(item, "taskCompleted")
    if done:
        return [act.complete(result=done[0].taskCompleted.result.value)], '"done"'
    return [act.task(1, "up", item.started.input.value)], '"asked"'


def fails(item):
    return [act.fail(type="Boom", message="it broke\nbadly", inner=act.failure("Inner", "why"))]


def a_worker(t):
    return t.auto({"echo": echo, "event": until_event, "task": one_task, "fails": fails},
                  {"up": lambda item: item.req.input.value.upper()})


# ---- start ----


def test_start_prints_the_id(t):
    cli = Cli(t)
    got = cli("start", "echo", "--id", "a-1").ok()
    assert got.out == "a-1\n", got
    made = cli("start", "echo").ok()
    assert re.fullmatch(r"\S{8,100}\n", made.out), made
    assert cli("start", "echo", "--json").ok().json.keys() == {"instanceId"}


def test_start_tells_everything(t):
    c, cli = t.client(), Cli(t)
    cli("start", "NAME", "--id", "x", "--input", ' {"a": [1, 2.50]} ', "--version", "1.2",
        "--tag", "k=v", "--tag", "empty=", "--tag", "eq=a=b", "--at", "+1h").ok()
    state = c.get("x")
    assert state.name == "NAME" and state.version.value == "1.2"
    assert state.input.value == '{"a": [1, 2.50]}', state.input.value
    assert dict(state.tags) == {"k": "v", "empty": "", "eq": "a=b"}
    assert 3590 < state.scheduledStartTimestamp.seconds - time.time() < 3601
    cli("start", "NAME", "--id", "y", "--at=2999-01-02T03:04:05Z").ok()
    assert c.get("y").scheduledStartTimestamp.ToJsonString() == "2999-01-02T03:04:05Z"
    cli("start", "NAME", "--id", "z").ok()
    state = c.get("z")
    assert not state.HasField("input") and not state.HasField("version") and not state.tags


def test_start_input_from_file_and_stdin(t):
    c, cli = t.client(), Cli(t)
    path = os.path.join(t.server.dir, t.hub + ".json")
    with open(path, "w") as f:
        f.write('["from", "file"]\n')
    cli("start", "o", "--id", "f", "--input", "@" + path).ok()
    assert c.get("f").input.value == '["from", "file"]'
    big = '"' + "x" * 3_000_000 + '"'
    cli("start", "o", "--id", "s", "--input", "-", input=big + "\n").ok()
    assert c.get("s").input.value == big
    cli("start", "o", "--id", "n", "--input", "123456789012345678901234567890").ok()
    assert c.get("n").input.value == "123456789012345678901234567890"
    cli("start", "o", "--input", "@/nowhere/at/all").failed(2, "/nowhere/at/all", "No such file")


def test_start_refuses_bad_input(t):
    cli, c = Cli(t), t.client()
    cli("start", "o", "--id", "bad", "--input", "text").failed(2, "--input", "JSON", '"text"')
    cli("start", "o", "--id", "bad", "--input", "").failed(2, "--input", "JSON")
    cli("start", "o", "--id", "bad", "--input", '{"a":1} x').failed(2, "JSON")
    cli("start", "o", "--id", "bad", "--input", "-", input="").failed(2, "JSON")
    cli("start", "o", "--id", "bad", "--at", "soon").failed(2, "--at", "soon")
    cli("start", "o", "--id", "bad", "--tag", "novalue").failed(2, "--tag", "K=V")
    cli("start", "o", "--id", "bad", "--tag", "=v").failed(2, "--tag", "K=V")
    cli("start", "o", "--timeout", "2s").failed(2, "--timeout", "--wait")
    assert c.get("bad") is None


def test_start_of_a_taken_id(t):
    cli = Cli(t)
    cli("start", "o", "--id", "twice").ok()
    cli("start", "o", "--id", "twice").failed(5, "twice")


def test_start_refused_by_the_server(t):
    Cli(t)("start", "o", "--id", "x" * 200).failed(2, "100")


def test_start_wait(t):
    cli = Cli(t)
    a_worker(t)
    got = cli("start", "task", "--id", "w", "--input", '"abc"', "--wait", "--json").ok().json
    assert got["instanceId"] == "w" and got["status"] == "COMPLETED" and got["output"] == '"ABC"'
    assert got["customStatus"] == '"done"'
    bad = cli("start", "fails", "--id", "f", "--wait", "--json")
    assert bad.status == 1 and bad.json["status"] == "FAILED", bad
    slow = cli("start", "event", "--id", "slow", "--wait", "--timeout", "300ms")
    slow.failed(6, "slow", "was started")
    cli("raise", "slow", "e", "1").ok()


# ---- get ----


def test_get_json_has_it_all(t):
    c, cli = t.client(), Cli(t)
    a_worker(t)
    cli("start", "task", "--id", "g", "--input", '"ö"', "--version", "2", "--tag", "k=v", "--wait").ok()
    got = cli("get", "g", "--json").ok().json
    state = c.get("g")
    assert got["instanceId"] == "g" and got["name"] == "task" and got["version"] == "2"
    assert got["status"] == "COMPLETED" and got["executionId"] == state.executionId.value
    assert got["input"] == '"ö"' and got["output"] == '"Ö"' and got["customStatus"] == '"done"'
    assert got["tags"] == {"k": "v"}
    for key in ("createdTimestamp", "lastUpdatedTimestamp", "completedTimestamp"):
        assert TIME.match(got[key]), got[key]
    assert got["createdTimestamp"] <= got["completedTimestamp"]
    assert "failureDetails" not in got and "parentInstanceId" not in got


def test_get_of_a_failure(t):
    cli = Cli(t)
    a_worker(t)
    cli("start", "fails", "--id", "f").ok()
    got = cli("wait", "f", "--json")
    assert got.status == 1
    details = got.json["failureDetails"]
    assert details["errorType"] == "Boom" and details["errorMessage"] == "it broke\nbadly"
    assert details["innerFailure"]["errorMessage"] == "why"
    table = cli("get", "f").ok()
    assert table.fields["status"] == "FAILED" and "Boom: it broke" in table.fields["failure"], table
    assert "Inner: why" in table.fields["caused by"], table


def test_get_table(t):
    cli = Cli(t)
    cli("start", "some name", "--id", "tab", "--input", "[1]", "--tag", "a=b").ok()
    fields = cli("get", "tab").ok().fields
    assert fields["instance"] == "tab" and fields["name"] == "some name", fields
    assert fields["status"] == "PENDING" and fields["input"] == "[1]" and fields["tags"] == "a=b"
    assert TIME.match(fields["created"]), fields


def test_get_cannot_drive_a_terminal(t):
    c, cli = t.client(), Cli(t)
    c.start("bad\x1b[31mname", id="esc", input='"\x1b]0;title\x07"')
    got = cli("get", "esc").ok()
    assert "\x1b" not in got.out and "\x07" not in got.out, got
    assert cli("get", "esc", "--json").ok().json["name"] == "bad\x1b[31mname"


def test_get_unknown(t):
    cli = Cli(t)
    cli("get", "nobody").failed(4, "nobody", t.hub)
    cli("get", "nobody", "--json").failed(4, "nobody")


# ---- wait ----


def test_wait_for_completion(t):
    cli = Cli(t)
    a_worker(t)
    cli("start", "event", "--id", "w").ok()
    waiting = cli.begin("wait", "w", "--json")
    time.sleep(0.2)
    cli("raise", "w", "go", '{"n":1}').ok()
    got = end(waiting).ok().json
    assert got["status"] == "COMPLETED" and got["output"] == '{"n":1}'
    assert cli("wait", "w").ok().fields["status"] == "COMPLETED"


def test_wait_for_start(t):
    cli = Cli(t)
    cli("start", "event", "--id", "w").ok()
    cli("wait", "w", "--for", "start", "--timeout", "200ms").failed(6, "w", "start")
    a_worker(t)
    assert cli("wait", "w", "--for", "start", "--json").ok().json["status"] == "RUNNING"


def test_wait_times_out(t):
    cli = Cli(t)
    cli("start", "event", "--id", "w").ok()
    begun = time.monotonic()
    cli("wait", "w", "--timeout", "500ms").failed(6, '"w"', "0.5 s")
    assert 0.45 < time.monotonic() - begun < 10
    cli("wait", "nobody", "--timeout", "300ms").failed(4, "nobody")


def test_wait_for_one_that_does_not_exist_yet(t):
    cli = Cli(t)
    a_worker(t)
    waiting = cli.begin("wait", "later", "--json", "--timeout", "30s")
    time.sleep(0.3)
    cli("start", "echo", "--id", "later", "--input", "7").ok()
    assert end(waiting).ok().json["output"] == "7"


def test_wait_of_a_terminated_one_exits_1(t):
    cli = Cli(t)
    cli("start", "o", "--id", "dead").ok()
    cli("terminate", "dead", "--output", '"why"').ok()
    got = cli("wait", "dead", "--json")
    assert got.status == 1 and got.json["status"] == "TERMINATED" and got.json["output"] == '"why"'


def test_wait_survives_a_restart(t):
    server = t.own_server()
    cli, c = Cli(t), t.client()
    cli("start", "echo", "--id", "w", "--input", "5").ok()
    waiting = cli.begin("wait", "w", "--json")
    bounded = cli.begin("wait", "w", "--json", "--timeout", "60s")
    eventually(lambda: "perdure_waiters 2" in server.get("/metrics")[1])
    server.kill()
    time.sleep(0.5)
    server.start()
    eventually(lambda: "perdure_waiters 2" in server.get("/metrics")[1])
    c.close()
    t.auto({"echo": echo})
    for process in (waiting, bounded):
        assert end(process).ok().json["output"] == "5"


def test_wait_survives_a_drain(t):
    server = t.own_server()
    cli = Cli(t)
    cli("start", "echo", "--id", "w", "--input", "6").ok()
    waiting = cli.begin("wait", "w", "--json")
    eventually(lambda: "perdure_waiters 1" in server.get("/metrics")[1])
    server.term()
    assert server.wait_exit() == 0
    server.start()
    t.auto({"echo": echo})
    assert end(waiting).ok().json["output"] == "6"


def test_wait_with_the_server_gone(t):
    server = t.own_server()
    cli = Cli(t)
    cli("start", "echo", "--id", "w").ok()
    waiting = cli.begin("wait", "w", "--timeout", "2s")
    eventually(lambda: "perdure_waiters 1" in server.get("/metrics")[1])
    server.kill()
    end(waiting).failed(6, t.server.target)
    # Nobody was ever there: no reason to wait for the time-out.
    begun = time.monotonic()
    cli("wait", "w", "--timeout", "60s").failed(6, "no server at", "perdure serve")
    assert time.monotonic() - begun < 20


def test_wait_on_a_frozen_server(t):
    """No word comes, and the time-out holds all the same."""
    server = t.own_server()
    cli = Cli(t)
    cli("start", "echo", "--id", "w").ok()
    server.freeze()
    begun = time.monotonic()
    cli("wait", "w", "--timeout", "300ms").failed(6, "w")
    assert time.monotonic() - begun < 15
    server.thaw()


def test_wait_bad_values(t):
    cli = Cli(t)
    cli("wait", "w", "--timeout", "long").failed(2, "--timeout", "long")
    cli("wait", "w", "--for", "ever").failed(2, "--for", "ever", "completion")


# ---- history ----


def test_history(t):
    cli, c = Cli(t), t.client()
    a_worker(t)
    cli("start", "task", "--id", "h", "--input", '"abc"', "--wait").ok()
    lines = cli("history", "h", "--json").ok().lines
    want = c.history("h")
    assert len(lines) == len(want)
    kinds = [e.WhichOneof("eventType") for e in want]
    for line, kind, event in zip(lines, kinds, want):
        assert kind in line and line["eventId"] == event.eventId, line
        assert TIME.match(line["timestamp"])
    scheduled = [line for line in lines if "taskScheduled" in line][0]["taskScheduled"]
    assert scheduled["name"] == "up" and scheduled["input"] == '"abc"', scheduled
    last = lines[-1]["executionCompleted"]
    assert last["orchestrationStatus"] == "ORCHESTRATION_STATUS_COMPLETED", last
    assert last["result"] == '"ABC"'
    rows = cli("history", "h").ok().rows
    assert rows[0] == ["ID", "TIME", "EVENT", "DETAIL"], rows
    assert [row[2] for row in rows[1:]] == kinds, rows


def test_a_long_history_comes_whole(t):
    cli, c, w = Cli(t), t.client(), t.worker()
    c.start("o", id="long")
    item = w.turn(id="long")
    big = '"' + "b" * 20_000 + '"'
    w.done(item, *[act.task(i, "t", big) for i in range(1, 201)], timeout=60)
    eventually(lambda: len(c.history("long")) >= 202)
    lines = cli("history", "long", "--json").ok().lines
    assert sum("taskScheduled" in line for line in lines) == 200
    assert all(line["taskScheduled"]["input"] == big for line in lines if "taskScheduled" in line)


def test_history_unknown(t):
    Cli(t)("history", "nobody").failed(4, "nobody")
    Cli(t)("history", "nobody", "--follow").failed(2, "--follow", "later version")


def test_a_closed_pipe_is_no_crash(t):
    cli, c, w = Cli(t), t.client(), t.worker()
    c.start("o", id="pipe")
    w.done(w.turn(id="pipe"), *[act.task(i, "t", '"' + "x" * 9000 + '"') for i in range(1, 101)])
    eventually(lambda: len(c.history("pipe")) >= 102)
    process = cli.begin("history", "pipe", "--json")
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(20) in (1, -13), (process.returncode, err)
    assert err.count("\n") <= 1, err


# ---- raise ----


def test_raise(t):
    cli = Cli(t)
    w = t.worker()
    cli("start", "o", "--id", "r").ok()
    w.done(w.turn(id="r"))
    assert cli("raise", "r", "My Event", "[1]").ok().out == "r: event raised\n"
    item = w.turn(id="r")
    raised = events(item, "eventRaised")[0].eventRaised
    assert raised.name == "My Event" and raised.input.value == "[1]"
    w.done(item)
    assert cli("raise", "r", "none", "--json").ok().json == {"instanceId": "r", "result": "raised"}
    item = w.turn(id="r")
    assert not events(item, "eventRaised")[1].eventRaised.HasField("input")
    w.done(item)
    cli("raise", "r", "std", "-", input='{"from":"stdin"}').ok()
    item = w.turn(id="r")
    assert events(item, "eventRaised")[2].eventRaised.input.value == '{"from":"stdin"}'


def test_raise_a_negative_number(t):
    cli, w = Cli(t), t.worker()
    cli("start", "o", "--id", "r").ok()
    w.done(w.turn(id="r"))
    perdure("raise", *cli.where, "--", "r", "e", "-5").ok()
    assert events(w.turn(id="r"), "eventRaised")[0].eventRaised.input.value == "-5"


def test_raise_refusals(t):
    cli = Cli(t)
    cli("raise", "nobody", "e").failed(4, "nobody")
    cli("start", "o", "--id", "r").ok()
    cli("raise", "r", "e", "text").failed(2, "JSON")
    cli("raise", "r").failed(2, "ID EVENT [DATA]")
    cli("raise", "r", "e", "1", "2").failed(2, '"2"')


# ---- suspend, resume, terminate, purge ----


def test_suspend_and_resume(t):
    cli, c = Cli(t), t.client()
    w = t.worker()
    cli("start", "o", "--id", "s").ok()
    w.done(w.turn(id="s"))
    assert cli("suspend", "s", "--reason", "lunch").ok().out == "s: suspended\n"
    assert c.status("s") == "SUSPENDED"
    assert cli("suspend", "s", "--json").ok().json == {"instanceId": "s", "result": "unchanged"}
    assert cli("resume", "s", "--reason", "back", "--json").ok().json["result"] == "resumed"
    assert c.status("s") == "RUNNING"
    item = w.turn(id="s")
    assert events(item, "executionSuspended")[0].executionSuspended.input.value == "lunch"
    assert events(item, "executionResumed")[0].executionResumed.input.value == "back"
    assert cli("resume", "s", "--json").ok().json["result"] == "unchanged"
    w.done(item, act.complete())
    cli("suspend", "s").failed(5, "s", "COMPLETED")
    cli("resume", "s").failed(5, "s", "COMPLETED")
    cli("suspend", "nobody").failed(4, "nobody")
    cli("resume", "nobody").failed(4, "nobody")


def test_terminate(t):
    cli, c = Cli(t), t.client()
    cli("start", "o", "--id", "plain").ok()
    cli("terminate", "plain").ok()
    assert cli("wait", "plain", "--json").json["status"] == "TERMINATED"
    w = t.worker()
    cli("start", "o", "--id", "x").ok()
    w.done(w.turn(id="x"), act.child(1, "kid", "kid-1"))
    eventually(lambda: c.status("kid-1"))
    got = cli("terminate", "x", "--output", '{"by":"hand"}', "--recursive", "--json").ok()
    assert got.json == {"instanceId": "x", "result": "terminating"}
    item = w.turn(id="x")
    ended = events(item, "executionTerminated")[0].executionTerminated
    assert ended.input.value == '{"by":"hand"}' and ended.recurse
    w.done(item, act.terminated(result='{"by":"hand"}'))
    assert c.wait("x").output.value == '{"by":"hand"}'
    cli("terminate", "x").failed(5, "x", "TERMINATED")
    cli("terminate", "nobody").failed(4, "nobody")


def test_purge(t):
    cli, c = Cli(t), t.client()
    a_worker(t)
    cli("start", "event", "--id", "p").ok()
    cli("purge", "p").failed(5, "p", "terminate")
    cli("raise", "p", "e", "1").ok()
    cli("wait", "p").ok()
    assert cli("purge", "p").ok().out == "p: purged\n"
    assert c.get("p") is None
    cli("purge", "p").failed(4, "p")
    cli("purge").failed(2, "ID")
    cli("purge", "p", "--status", "FAILED").failed(2, "not both")
    cli("purge", "--status", "ENDED").failed(2, "--status", '"ENDED"', "RUNNING")
    cli("purge", "--before", "yesterday").failed(2, "--before", "yesterday")


def test_purge_by_filter(t):
    cli, c = Cli(t), t.client()
    a_worker(t)
    for i in range(3):
        c.start("echo", "e%d" % i)
        c.wait("e%d" % i)
    c.start("fails", "f")
    c.wait("f")
    c.start("event", "runs")
    assert cli("purge", "--before", "-1h").ok().out == "0 purged\n"
    assert cli("purge", "--status", "failed", "--json").ok().json == {"deletedInstanceCount": 1}
    assert cli("purge", "--before", "+1h", "--status", "COMPLETED", "--status", "FAILED").ok().out == "3 purged\n"
    assert c.get("runs") is not None


def test_purge_recursive(t):
    cli, c, w = Cli(t), t.client(), t.worker()
    c.start("p", "p")
    w.done(w.turn(id="p"), act.child(1, "kid", "kid"))
    w.done(w.turn(id="kid"), act.complete())
    w.done(w.turn(id="p"), act.complete())
    cli("purge", "p", "--recursive").ok()
    assert c.get("p") is None and c.get("kid") is None


def test_list(t):
    cli, c = Cli(t), t.client()
    a_worker(t)
    c.start("echo", "a1", tags={"team": "x", "k": ""})
    c.wait("a1")
    c.start("event", "a2", tags={"team": "x"})
    c.start("echo", "b1", tags={"team": "y"})
    c.wait("b1")
    ids = lambda *args: [r["instanceId"] for r in cli("list", "--json", *args).ok().lines]  # noqa: E731
    assert ids() == ["a1", "a2", "b1"]
    assert ids("--status", "completed") == ["a1", "b1"]
    assert ids("--status", "RUNNING", "--status", "PENDING") == ["a2"]
    assert ids("--name", "echo") == ["a1", "b1"] and ids("--prefix", "a") == ["a1", "a2"]
    assert ids("--tag", "team=x") == ["a1", "a2"] and ids("--tag", "team=x", "--tag", "k=") == ["a1"]
    assert ids("--created-from", "+1h") == [] and ids("--created-to", "-1h") == []
    assert ids("--created-from", "-1h", "--created-to", "+1h", "--limit", "2") == ["a1", "a2"]
    rows = cli("list").ok().rows
    assert rows[0] == ["ID", "NAME", "STATUS", "CREATED", "ENDED"]
    assert rows[1][:3] == ["a1", "echo", "COMPLETED"] and TIME.match(rows[1][3]) and TIME.match(rows[1][4])
    assert rows[2][4] == "-"
    assert cli("list", "--prefix", "none").ok().rows == [rows[0]]
    cli("list", "--limit", "many").failed(2, "--limit", "many")
    cli("list", "--status", "ENDED").failed(2, "--status", "ENDED")
    for i in range(120):
        c.start("event", "m%03d" % i)
    assert len(ids()) == 100 and len(ids("--limit", "0")) == 123


def test_restart(t):
    cli, c = Cli(t), t.client()
    a_worker(t)
    c.start("echo", "r", input='"x"')
    c.wait("r")
    before = c.get("r").executionId.value
    assert cli("restart", "r").ok().out == "r\n"
    assert c.wait("r").executionId.value != before
    new = cli("restart", "r", "--new-id", "--json").ok().json["instanceId"]
    assert new != "r" and c.wait(new).output.value == c.get("r").output.value
    cli("restart", "none").failed(4, "none")
    c.start("event", "runs")
    cli("restart", "runs").failed(5, "runs", "not in a terminal state")


# reports: BL-068
def test_commands_need_no_worker(t):
    """Of a name that no worker offers, before its first turn and after: what a command says has happened."""
    t.own_server({"terminate.grace": "200ms"})
    cli, c, w = Cli(t), t.client(), t.worker()
    c.start("deployed once", id="ran")
    w.done(w.turn(id="ran"), act.task(1, "gone too"))
    w.close()
    c.start("never deployed", id="new")
    for id, before in (("ran", "RUNNING"), ("new", "PENDING")):
        assert cli("suspend", id, "--json").ok().json == {"instanceId": id, "result": "suspended"}
        assert cli("get", id, "--json").ok().json["status"] == "SUSPENDED"
        cli("purge", id).failed(5, id, "SUSPENDED", "terminate")
        assert cli("resume", id, "--json").ok().json == {"instanceId": id, "result": "resumed"}
        assert cli("get", id, "--json").ok().json["status"] == before
        got = cli("terminate", id, "--output", '"by hand"', "--json").ok()
        assert got.json == {"instanceId": id, "result": "terminating"}
        ended = cli("wait", id, "--timeout", "20s", "--json")  # 1: it ended, but not COMPLETED
        assert ended.status == 1 and ended.json["status"] == "TERMINATED", ended
        assert ended.json["output"] == '"by hand"', ended
        cli("terminate", id).failed(5, id, "TERMINATED")
        assert cli("purge", id, "--json").ok().json == {"instanceId": id, "result": "purged"}
        for command in ("get", "suspend", "resume", "terminate", "purge"):
            cli(command, id).failed(4, id)
    status = cli("status", "--json").ok().json
    assert status["inFlight"] == "0" and not [r for r in status["ready"] if r.get("count", "0") != "0"], status


# ---- workers, status, version, help ----


def test_workers(t):
    t.own_server()
    cli, w = Cli(t), t.worker()
    w.ready()
    got = cli("workers", "--json").ok().json["workers"]
    assert len(got) == 1, got
    one = got[0]
    assert one["hub"] == t.hub and one["tokenLess"] is False and TIME.match(one["connected"]), one
    assert isinstance(one["streamId"], str) and int(one["streamId"]) > 0  # uint64, as proto3 JSON has it
    assert {s["kind"] for s in one["slots"]} == {"orchestration", "activity"}, one
    assert "grpc-python" in one["userAgent"] and re.match(r"127\.0\.0\.1:\d+$", one["peer"]), one
    rows = cli("workers").ok().rows
    assert rows[0][:2] == ["STREAM", "HUB"] and rows[1][1] == t.hub, rows
    other = perdure("workers", "--server", t.server.target, "--hub", "other", "--json").ok().json
    assert other == {"workers": []}, other
    everybody = perdure("workers", "--server", t.server.target, "--json").ok().json
    assert len(everybody["workers"]) == 1


def test_workers_tell_what_they_hold(t):
    t.own_server()
    cli, c, w = Cli(t), t.client(), t.worker()
    c.start("o")
    item = w.turn()

    def held():
        slots = cli("workers", "--json").ok().json["workers"][0]["slots"]
        return {s["kind"]: s["unsettled"] for s in slots}

    assert held() == {"orchestration": 1, "activity": 0}, held()
    w.done(item, act.complete())
    eventually(lambda: held() == {"orchestration": 0, "activity": 0})


def test_status(t):
    server = t.own_server()
    cli = Cli(t)
    cli("start", "o", "--id", "a").ok()
    cli("start", "o", "--id", "b").ok()
    got = cli("status", "--json").ok().json
    assert got["version"] == server.version and got["draining"] is False
    assert got["store"]["url"] == server.store and int(got["store"]["bytes"]) > 0
    assert got["store"]["schemaVersion"] >= 1
    assert got["instances"] == [
        {"hub": t.hub, "kind": "orchestration", "status": "PENDING", "count": "2"}], got
    assert got["ready"] == [{"hub": t.hub, "kind": "orchestration", "count": "2"}], got
    assert int(got["commits"]["batches"]) >= 1 and int(got["commits"]["flushes"]) >= 1
    assert int(got["commits"]["commands"]) >= 2
    assert re.match(r"^\d+(\.\d+)?s$", got["uptime"]) and TIME.match(got["started"])
    assert int(got["connections"]) >= 1
    text = cli("status").ok().out
    assert server.version in text and server.store in text and "PENDING" in text, text


def test_version(t):
    got = perdure("version").ok()
    assert re.fullmatch(r"perdure \d+\.\d+\.\d+\S* \(.+\)\n", got.out), got
    assert perdure("--version").ok().out == got.out
    data = perdure("version", "--json").ok().json
    assert "perdure %s (%s)\n" % (data["version"], data["compiler"]) == got.out
    assert t.server.version == data["version"]
    perdure("version", "extra").failed(2, "extra")


COMMANDS = ["start", "get", "list", "wait", "history", "raise", "suspend", "resume", "terminate", "restart", "purge",
            "workers", "status", "backup", "check", "bench", "key", "version"]
LATER = ["rewind", "entity", "runs", "hub"]


def test_help(t):
    text = perdure("help").ok().out
    for name in COMMANDS + ["serve"]:
        assert re.search(r"^  %s\b" % name, text, re.M), name
        one = perdure("help", name).ok().out
        assert one.startswith("usage: perdure %s" % name), one
        assert perdure(name, "--help").ok().out == one
    for name in LATER:
        assert not re.search(r"^  %s\b" % name, text, re.M), name
    assert perdure("--help").ok().out == text
    for option in ("--id", "--input", "--at", "--version", "--tag", "--wait", "--server", "--hub", "--json"):
        assert option in perdure("help", "start").out, option
    perdure("help", "nonsense").failed(2, "nonsense")


def test_usage_errors(t):
    perdure().failed(2, "perdure help")
    perdure("nonsense").failed(2, "nonsense", "perdure help")
    for name in COMMANDS:
        perdure(name, "--nonsense").failed(2, "--nonsense", "perdure help " + name)
    for name in ("get", "wait", "history", "suspend", "resume", "terminate", "restart", "start", "backup"):
        perdure(name).failed(2, "missing")
        perdure(name, "a", "b").failed(2, '"b"')
    perdure("get", "x", "--server").failed(2, "--server", "needs a value")
    perdure("get", "x", "--json=yes").failed(2, "--json", "no value")
    perdure("get", "x", "-j").failed(2, '"-j"')
    perdure("get", "x", "--hub", "a", "--hub", "b").failed(2, "--hub", "twice")


def test_later_commands_are_refused(t):
    for name in LATER:
        perdure(name, "anything", "--at-all").failed(2, "perdure " + name, "later version")


def test_bad_security_options(t):
    perdure("get", "x", "--tls-ca", "/nonexistent").failed(2, "/nonexistent", "No such file")
    perdure("get", "x", "--tls-cert", "f").failed(2, "--tls-cert", "without --tls-key")
    perdure("get", "x", "--tls-key", "f").failed(2, "--tls-key", "without --tls-cert")
    perdure("get", "x", "--tls-ca", "f", "--server", "http://localhost:1").failed(2, "plaintext")
    perdure("get", "x", "--api-key", "a b").failed(2, "--api-key", "character")
    perdure("get", "x", "--api-key", "@/nonexistent").failed(2, "--api-key", "/nonexistent", "No such file")
    perdure("get", "x", "--api-key", "@/dev/null").failed(2, "--api-key", "empty")
    perdure("get", "x", "--server", "https://localhost:1").failed(6, "https://localhost:1")


# ---- where the server is ----


def test_server_and_hub_from_the_environment(t):
    env = {"PERDURE_SERVER": t.server.target, "PERDURE_HUB": t.hub}
    perdure("start", "o", "--id", "env", env=env).ok()
    assert t.client().status("env") == "PENDING"
    perdure("get", "env", "--hub", t.hub + "x", env=env).failed(4, "env")
    perdure("get", "env", env={**env, "PERDURE_SERVER": "localhost:1"}).failed(6)
    perdure("get", "env", "--server", t.server.target,
            env={**env, "PERDURE_SERVER": "localhost:1"}).ok()
    c = t.client(hub="default")
    id = perdure("start", "o", "--server", t.server.target).ok().out.strip()
    assert c.status(id) == "PENDING"
    perdure("get", id, "--server", "http://%s/" % t.server.target).ok()


def test_no_server(t):
    for args in (("get", "x"), ("start", "o"), ("status",), ("workers",), ("history", "x"),
                 ("raise", "x", "e"), ("terminate", "x"), ("purge", "x"), ("wait", "x")):
        perdure(*args, "--server", "127.0.0.1:1").failed(6, "127.0.0.1:1", "refused", "perdure serve")
    perdure("get", "x", "--server", "nonsense").failed(2, "--server", "nonsense")
    perdure("get", "x", "--server", "unix:/nowhere/sock").failed(6, "/nowhere/sock")


def test_a_default_server(t):
    got = perdure("get", "x", timeout=60)
    assert got.status in (4, 6) and (got.status == 4 or "localhost:4001" in got.err), got


def test_a_bad_hub_name(t):
    got = perdure("get", "x", "--server", t.server.target, "--hub", "bad hub!")
    assert got.status in (2, 4) and got.err.count("\n") == 1, got


def test_json_is_one_line_each(t):
    cli = Cli(t)
    cli("start", "o", "--id", "one", "--input", json.dumps("line\nbreak\u2028\x00é")).ok()
    got = cli("get", "one", "--json").ok()
    assert json.loads(got.json["input"]) == "line\nbreak\u2028\x00é"
