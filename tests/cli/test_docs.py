"""docs/cli.md, held to the program: commands, options, JSON keys, and its session."""

import os
import re
import subprocess

from command import CLEAN, Cli, perdure
from lib import actions as act
from lib.proto import ROOT, STATUS_NAMES, pb
from lib.server import binary
from test_commands import COMMANDS, LATER

with open(os.path.join(ROOT, "docs/cli.md")) as f:
    TEXT = f.read()


def section(title, level="##"):
    found = re.search(r"^%s %s.*?$(.*?)(?=^#{1,%d} |\Z)" % (level, title, len(level)), TEXT, re.M | re.S)
    assert found, title
    return found[1]


def options_of(text, column="option"):
    """--names in the first column of the table."""
    if "| %s |" % column not in text:
        return set()
    rows = text.split("| %s |" % column)[1].splitlines()[2:]
    return {n for row in rows if row.startswith("|") for n in re.findall(r"--[a-z-]+", row.split("|")[1])}


def test_commands_and_options(t):
    titles = re.findall(r"^### (.*)$", section("Commands"), re.M)
    names = [name.split()[0] for title in titles for name in title.split(", ")]
    assert sorted(names) == sorted(COMMANDS + ["help"]), names
    common = options_of(section("What all commands share"))
    for title in titles:
        for part in title.split(", "):
            name, _, args = part.partition(" ")
            if name == "help":
                continue
            text = perdure("help", name).ok().out
            assert text.splitlines()[0] == ("usage: perdure %s %s" % (name, args)).strip() + " [OPTION]...", part
            said = {o for o in re.findall(r"^\s+(--[a-z-]+)", text, re.M)}
            documented = options_of(section(re.escape(title), "###")) | common
            assert said == documented, (name, said ^ documented)


def test_flags_of_serve(t):
    said = set(re.findall(r"^\s+(--[a-z-]+)", perdure("help", "serve").ok().out, re.M))
    documented = options_of(section("serve"), "flag")
    assert said == documented, said ^ documented
    assert perdure("serve", "--help").ok().out == perdure("help", "serve").out


def test_later(t):
    named = set(re.findall(r"`([a-z]+)`", section("What comes later")))
    assert named == set(LATER), named ^ set(LATER)


def test_json_keys(t):
    keys = {k for row in section("JSON").split("| key |")[1].splitlines()[2:] if row.startswith("|")
            for k in re.findall(r"`(\w+)`", row.split("|")[1])}
    fields = {f.json_name for f in pb.OrchestrationState.DESCRIPTOR.fields}
    assert keys == fields - {"orchestrationStatus"} | {"status"}, keys ^ fields
    failure = next(r for r in section("JSON").splitlines() if r.startswith("| `failureDetails`"))
    assert set(re.findall(r"`(\w+)`", failure.split("|")[2])) == {
        f.json_name for f in pb.TaskFailureDetails.DESCRIPTOR.fields}
    statuses = next(r for r in section("JSON").splitlines() if r.startswith("| `status`"))
    assert set(re.findall(r"`(\w+)`", statuses.split("|")[2])) == set(STATUS_NAMES.values()) - {"CONTINUED_AS_NEW"}


def test_json_is_stable(t):
    cli, c, w = Cli(t), t.client(), t.worker()
    c.start("o", id="s", input="1", version="2", tags={"a": "b"})
    w.done(w.turn(id="s"), act.complete(result="3"), status="4")
    assert list(cli("wait", "s", "--json").ok().json) == [
        "instanceId", "name", "version", "status", "createdTimestamp", "lastUpdatedTimestamp", "input",
        "output", "customStatus", "executionId", "completedTimestamp", "tags"]


def test_the_session(t):
    s = t.own_server()
    with open(os.path.join(s.dir, "order.json"), "w") as f:
        f.write('{"item": "tea"}')
    env = {**CLEAN, "PERDURE_SERVER": s.target, "PATH": os.path.dirname(binary()) + ":" + CLEAN["PATH"]}
    blocks = re.findall(r"```sh\n(.*?)```", section("A session"), re.S)
    assert len(blocks) == 2
    count = 0
    for line in blocks[0].splitlines():
        want = re.search(r"# exit (\d)$", line)
        got = subprocess.run(["sh", "-c", line], env=env, cwd=s.dir, capture_output=True, text=True, timeout=30)
        assert got.returncode == (int(want[1]) if want else 0), (line, got)
        assert bool(got.stderr) == (got.returncode not in (0, 1)), (line, got)
        count += 1
    assert count > 10
    got = subprocess.run(["sh", "-ec", blocks[1]], env=env, cwd=s.dir, capture_output=True, text=True, timeout=30)
    assert got.returncode == 0 and '"input":"{\\"item\\": \\"tea\\"}"' in got.stdout, got
