#!/usr/bin/env python3
"""Runs one of the SDK programs against a server of its own: run.py NAME COMMAND...

NAME (js, go, java) goes before the names of its tests, and makes its task hub. PERDURE_SERVER and
PERDURE_HUB are set for the command. For js, the ten thousand waits of js/waits.js come after it.
"""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from harness import Server, ServerError, eventually  # noqa: E402

# What a Java activity may return before its completion is an error: alone.after_an_error_answer.
SETTINGS = {"java": {"request.bytes": "1MiB"}}


def waiters(server):
    found = re.search(r"^perdure_waiters(?:\{[^}]*\})? (\d+)", server.get("/metrics"), re.MULTILINE)
    return int(found.group(1)) if found else None


def given_up_waits(server, node):
    """10 000 waits given up by the SDK's own timer cost a record each and go with their connection.

    checklist: 143
    """
    before, threads = server.rss_bytes(), server.threads()
    env = dict(os.environ, PERDURE_SERVER=server.address, PERDURE_HUB="waits")
    process = subprocess.Popen([node, os.path.join(HERE, "js", "waits.js")], env=env, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == "given up 10000\n"
        eventually(lambda: waiters(server) == 10000, 10, "10 000 waits are there")
        each = (server.rss_bytes() - before) / 10000
        assert each < 8192, "%d bytes a wait" % each
        assert server.threads() <= threads
        process.stdin.close()
        process.wait(20)
        eventually(lambda: waiters(server) == 0, 10, "the waits are gone")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def main():
    name, command = sys.argv[1], sys.argv[2:]
    settings = SETTINGS.get(name, {})
    server = Server(settings).start()
    env = dict(os.environ, PERDURE_SERVER=server.address, PERDURE_HUB="sdk-" + name)
    if name == "java":
        env["PERDURE_RESULT_LIMIT"] = str(1 << 20)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=env, text=True)
    failed = seen = 0
    for line in process.stdout:
        verdict, _, rest = line.partition(" ")
        if verdict in ("PASS", "FAIL", "SKIP") and rest:
            line = "%s %s.%s" % (verdict, name, rest)
            seen += 1
            failed += verdict == "FAIL"
        print(line, end="", flush=True)
    status = process.wait()
    if not seen or (status != 0 and not failed):
        print("FAIL %s.program: exit status %d after %d tests" % (name, status, seen))
        failed += 1
    if name == "js":
        try:
            given_up_waits(server, command[0])
            print("PASS js.start.10000_waits_given_up")
        except Exception as e:
            print("FAIL js.start.10000_waits_given_up: %r" % e)
            failed += 1
    if failed:
        print(server.log_tail(), file=sys.stderr)
    try:
        server.close()
        print("PASS %s.server_ends_well" % name)
    except ServerError as e:
        print("FAIL %s.server_ends_well: %s" % (name, str(e).splitlines()[0]))
        print(e, file=sys.stderr)
        failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
