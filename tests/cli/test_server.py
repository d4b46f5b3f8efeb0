"""`perdure serve`: its flags, addresses, files and signals."""

import fcntl
import json
import os
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import time

from command import CLEAN, perdure
from lib import actions as act
from lib.proto import ROOT
from lib.server import binary, eventually
from serving import Serving, refused

LOCAL = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
QUIET = ("--listen", "127.0.0.1:0", "--http", "off")


def answers(target):
    """It takes calls there."""
    perdure("status", "--server", target, "--json").ok()


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
        return True
    except OSError:
        return False


# ---- the ready line and addresses ----


def test_ready_line(t):
    s = Serving(t, *LOCAL).start()
    assert s.pid == s.process.pid and s.store == "memory"
    assert "perdure %s (" % s.version in perdure("version").out
    host, port = s.target.rsplit(":", 1)
    assert host == "127.0.0.1" and int(port) > 0
    answers(s.target)
    s.stop()


def test_http_off(t):
    s = Serving(t, *QUIET).start()
    assert s.http == ["off"], s.line
    s.stop()


def test_localhost_is_both_families(t):
    s = Serving(t, "--listen", "localhost:0", "--http", "localhost:0").start()
    port = int(re.fullmatch(r"localhost:(\d+)", s.target)[1])
    web = int(re.fullmatch(r"localhost:(\d+)", s.http[0])[1])
    answers("localhost:%d" % port)
    answers("127.0.0.1:%d" % port)
    with socket.create_connection(("127.0.0.1", web), 5):
        pass
    if has_ipv6():
        answers("[::1]:%d" % port)
        with socket.create_connection(("::1", web), 5):
            pass
    s.stop()


def test_many_addresses(t):
    flags = ["--listen", "127.0.0.1:0", "--listen", "unix:DIR/sock", "--http", "127.0.0.1:0",
             "--http", "127.0.0.2:0"]
    if has_ipv6():
        flags += ["--listen", "[::1]:0"]
    s = Serving(t, *flags).start()
    assert len(s.grpc) == (3 if has_ipv6() else 2) and len(s.http) == 2, s.line
    for target in s.grpc:
        answers(target)
    assert re.fullmatch(r"127\.0\.0\.2:\d+", s.http[1])
    s.stop()


def test_unix_socket(t):
    s = Serving(t, "--listen", "unix:DIR/sock", "--http", "off").start()
    path = os.path.join(s.dir, "sock")
    assert s.grpc == ["unix:" + path]
    mode = os.stat(path).st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o660, oct(mode)
    answers(s.target)
    s.process.kill()
    s.process.wait()
    assert os.path.exists(path)
    s.start()  # what a killed server left is no obstacle
    answers(s.target)
    s.stop()
    assert not os.path.exists(path)


def test_addresses_in_use(t):
    s = Serving(t, *LOCAL).start()
    refused(t, "--listen", s.target, "--http", "off", status=1, says=[s.target, "in use"])
    refused(t, "--listen", "127.0.0.1:0", "--http", s.http[0], status=1, says=[s.http[0], "in use"])
    u = Serving(t, "--listen", "unix:DIR/sock", "--http", "off").start()
    refused(t, "--listen", u.target, "--http", "off", status=1, says=[u.target, "another process"])
    answers(u.target)
    u.stop()
    s.stop()


def test_a_memory_server_leaves_nothing(t):
    s = Serving(t, *LOCAL).start()
    s.stop()
    assert os.listdir(s.dir) == ["log"]


def test_default_store(t):
    s = Serving(t, *QUIET, store=None).start()
    assert s.store == "sqlite:perdure.db"
    s.stop()
    assert "perdure.db" in os.listdir(s.dir)


# ---- what is refused ----


def test_bad_flags(t):
    for flags, says in (
        (["--nope"], ["--nope", "perdure help serve"]),
        (["--nope=1"], ["--nope"]),
        (["serve-me"], ['"serve-me"']),
        (["--http", "off", "--listen"], ["--listen", "value"]),
        (["--listen", "nonsense"], ["nonsense"]),
        (["--listen", "127.0.0.1:99999"], ["127.0.0.1:99999"]),
        (["--listen", "127.0.0.1:1,,127.0.0.1:2"], ["empty"]),
        (["--http", "nonsense"], ["nonsense"]),
        (["--log-level", "loud"], ["--log-level", "loud", "debug, info, warn or error"]),
        (["--log-format", "xml"], ["--log-format", "xml", "json"]),
        (["--insecure=maybe"], ["--insecure", "maybe", "plaintext", "anonymous"]),
        (["--set", "turn.timeout"], ["--set", "turn.timeout", "KEY=VALUE"]),
        (["--set", "no.such=1"], ["--set", "no.such"]),
        (["--set", "turn.timeouts=1s"], ["turn.timeouts", "turn.timeout"]),
        (["--set", "turn.timeout=fast"], ["turn.timeout", "fast"]),
        (["--set", "history.max_events=many"], ["history.max_events", "many"]),
        (["--set", "hub.auto_create=perhaps"], ["hub.auto_create", "perhaps", "true"]),
        (["--tls-cert", "f"], ["--tls-cert", "without --tls-key"]),
        (["--tls-key", "f"], ["--tls-key", "without --tls-cert"]),
        (["--tls-cert", "DIR/none", "--tls-key", "f"], ["DIR/none", "certificate", "No such file"]),
        (["--tls-client-ca", "f"], ["--tls-client-ca", "without --tls-cert"]),
        (["--api-keys", "DIR/none"], ["DIR/none", "No such file", "perdure key create"]),
        (["--config", "DIR/missing"], ["DIR/missing", "No such file"]),
    ):
        refused(t, *flags, *([] if "--listen" in flags else ["--listen", "127.0.0.1:0"]),
                *([] if "--http" in flags else ["--http", "off"]), says=says)
    refused(t, *QUIET, store="mongodb:x", says=["--store", "mongodb:x", "sqlite:PATH"])
    refused(t, *QUIET, store="sqlite:", says=["--store", "sqlite:"])
    refused(t, *QUIET, store="postgres://u:secret@h/d", says=["--store", "later version"])


def test_passwords_are_never_shown(t):
    got = refused(t, *QUIET, store="postgres://user:secret@host/db")
    assert "secret" not in got.err, got


def test_a_bad_environment(t):
    for name, value, says in (
        ("PERDURE_STORE", "what", "what"),
        ("PERDURE_LISTEN", "nonsense", "nonsense"),
        ("PERDURE_TLS_CERT", "f", "--tls-cert is given without --tls-key"),
        ("PERDURE_TLS_KEY", "f", "--tls-key is given without --tls-cert"),
        ("PERDURE_TLS_CLIENT_CA", "f", "--tls-client-ca is given without --tls-cert"),
        ("PERDURE_API_KEYS", "DIR/keys", "DIR/keys"),
        ("PERDURE_CONFIG", "DIR/none", "DIR/none"),
    ):
        flags = ["--http", "off"] + ([] if name == "PERDURE_LISTEN" else ["--listen", "127.0.0.1:0"])
        refused(t, *flags, env={name: value}, store=None if name == "PERDURE_STORE" else "memory",
                says=[says] + ([name] if name == "PERDURE_STORE" else []))


def test_beyond_loopback(t):
    everywhere = ("--listen", "0.0.0.0:0", "--http", "off")
    refused(t, *everywhere, says=["0.0.0.0:0", "encryption and authentication", "--insecure"])
    refused(t, *everywhere, "--insecure=plaintext", says=["authentication"])
    refused(t, *everywhere, "--insecure=anonymous", says=["encryption"])
    refused(t, "--listen", "[::]:0", "--http", "off", says=["[::]:0"])
    refused(t, "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0", says=["0.0.0.0:0"])
    for flags in (["--insecure"], ["--insecure=plaintext", "--insecure=anonymous"]):
        s = Serving(t, *everywhere, *flags).start()
        warning = [line for line in s.text().splitlines() if "level=warn" in line]
        assert len(warning) == 1 and "encryption and authentication" in warning[0], s.text()
        answers("127.0.0.1:" + s.target.rsplit(":", 1)[1])
        s.stop()
    s = Serving(t, *QUIET, "--insecure").start()  # needless, and no reason to warn
    assert "level=warn" not in s.text(), s.text()
    s.stop()


# ---- stores that cannot be opened ----


def test_two_servers_on_one_store(t):
    first = Serving(t, *QUIET, "--store", "sqlite:DIR/s.db", store=None).start()
    refused(t, *QUIET, store=first.store, status=3,
            says=[first.dir + "/s.db", "in use by process %d" % first.pid, "stop that server"])
    answers(first.target)
    first.process.kill()
    first.process.wait()
    first.start()
    first.stop()


def test_a_store_that_is_removed_while_it_serves(t):
    """It stops: what it went on acknowledging nobody would find again."""
    for name in ("s.db", "s.db.lock"):
        s = Serving(t, *QUIET, "--store", "sqlite:DIR/s.db", store=None).start()
        os.rename(os.path.join(s.dir, name), os.path.join(s.dir, "away"))
        assert s.process.wait(timeout=30) == 1, name


def test_stores_that_are_not_ours(t):
    s = Serving(t, *QUIET, "--store", "sqlite:DIR/s.db", store=None).start()
    s.stop()
    db = os.path.join(s.dir, "s.db")
    refused(t, *QUIET, store="sqlite:" + s.dir, status=3, says=[s.dir, "directory"])
    refused(t, *QUIET, store="sqlite:/nowhere/at/all.db", status=3, says=["/nowhere/at", "No such file"])
    text = os.path.join(s.dir, "letter.txt")
    with open(text, "w") as f:
        f.write("Dear store, " * 500)
    refused(t, *QUIET, store="sqlite:" + text, status=3, says=[text, "not an SQLite database"])
    with open(text) as f:
        assert f.read() == "Dear store, " * 500
    other = os.path.join(s.dir, "other.db")
    with sqlite3.connect(other) as c:
        c.execute("CREATE TABLE mine (a)")
    c.close()
    before = open(other, "rb").read()
    refused(t, *QUIET, store="sqlite:" + other, status=3, says=[other, "another"])
    assert open(other, "rb").read() == before
    with sqlite3.connect(db) as c:
        tables = [r[0] for r in c.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        assert "migration" in tables or "schema_migration" in tables or tables, tables
        version = c.execute("PRAGMA user_version").fetchone()[0]
        c.execute("PRAGMA user_version = %d" % (version + 1000))
    c.close()
    newer = perdure_serve_status(db)
    assert newer.returncode == 3, newer
    assert db in newer.stderr and "newer server" in newer.stderr, newer


def perdure_serve_status(db):
    return subprocess.run([binary(), "serve", "--store", "sqlite:" + db, *QUIET], env=CLEAN,
                          capture_output=True, text=True, timeout=20)


def test_a_damaged_store(t):
    s = Serving(t, *QUIET, "--store", "sqlite:DIR/s.db", store=None).start()
    s.stop()
    db = os.path.join(s.dir, "s.db")
    with open(db, "r+b") as f:
        f.seek(100)
        f.write(b"\xff" * 3000)
    refused(t, *QUIET, store="sqlite:" + db, status=3, says=[db])


# ---- settings, environment, file ----


def settings_table():
    """(key, kind, default, min, max) of base/limits.h."""
    with open(os.path.join(ROOT, "src/base/limits.h")) as f:
        rows = re.findall(r'^\s*S\((\w+),\s*"([^"]+)",\s*(\w+),\s*([^,]+),\s*([^,]+),\s*([^,]+),\s*"', f.read(), re.M)
    unit = {"KIB": 1 << 10, "MIB": 1 << 20}

    def number(text):
        m = re.fullmatch(r"(KIB|MIB)\((\d+)\)", text.strip())
        return unit[m[1]] * int(m[2]) if m else int(text)

    return [(r[1], r[2], number(r[3]), number(r[4]), number(r[5])) for r in rows]


def written(kind, value):
    return {"TIME": "%dus" % value, "BYTES": "%d" % value, "COUNT": "%d" % value,
            "BOOL": "true" if value else "false",
            "ROLES": ",".join(r for i, r in enumerate(["read", "client", "worker", "admin"]) if value >> i & 1)}[kind]


def test_every_setting_can_be_set(t):
    table = settings_table()
    assert len(table) > 30
    for which in (2, 3):  # all at their default, and all at their least
        flags = []
        for row in table:
            value = row[which]
            if which == 3 and row[0] in ("request.bytes", "request.buffered_bytes", "connections.max",
                                         "streams.connection", "overload.queued_bytes"):
                value = row[2]  # at the least of these nobody could ask whether it works
            flags += ["--set", "%s=%s" % (row[0], written(row[1], value))]
        s = Serving(t, *QUIET, *flags).start()
        answers(s.target)
        s.stop()


def test_every_setting_has_a_range(t):
    for key, kind, _, least, most in settings_table():
        if kind in ("BOOL", "ROLES"):
            continue
        refused(t, *QUIET, "--set", "%s=%s" % (key, written(kind, most + 1)), says=[key, "range"])
        if least > 0:
            refused(t, *QUIET, "--set", "%s=%s" % (key, written(kind, least - 1)), says=[key, "range"])


def test_file_environment_flags(t):
    config = """# all of it
store = memory
listen = 127.0.0.1:0, 127.0.0.2:0   # two of them
http=off
log-level = error
id.client_chars = 7
"""
    s = Serving(t, "--config", "DIR/config", store=None, config=config).start()
    assert [a.split(":")[0] for a in s.grpc] == ["127.0.0.1", "127.0.0.2"] and s.http == ["off"], s.line
    assert s.store == "memory" and s.text() == "", s.text()
    perdure("start", "o", "--id", "12345678", "--server", s.target).failed(2, "7")
    s.stop()
    # The environment wins over the file, which it may name; flags win over both.
    s = Serving(t, store=None, config=config,
                env={"PERDURE_CONFIG": "DIR/config", "PERDURE_LISTEN": "127.0.0.3:0",
                     "PERDURE_STORE": "sqlite:DIR/env.db"}).start()
    assert [a.split(":")[0] for a in s.grpc] == ["127.0.0.3"] and s.store.endswith("/env.db"), s.line
    s.stop()
    s = Serving(t, "--listen", "127.0.0.4:0", "--set", "id.client_chars=8", "--store", "memory",
                store=None, config=config,
                env={"PERDURE_CONFIG": "DIR/config", "PERDURE_LISTEN": "127.0.0.3:0"}).start()
    assert [a.split(":")[0] for a in s.grpc] == ["127.0.0.4"] and s.store == "memory", s.line
    perdure("start", "o", "--id", "12345678", "--server", s.target).ok()
    s.stop()


def test_bad_files(t):
    for text, says in (("store\n", ["line 1", "key = value"]),
                       ("\n# fine\nnope = 1\n", ["line 3", "nope"]),
                       ("turn.timeout = fast\n", ["line 1", "turn.timeout", "fast"]),
                       ("config = other\n", ["line 1", "config"]),
                       ("tls-cert =\n", ["line 1", "file is empty"]),
                       ("auth.cert_roles = boss\n", ["line 1", "auth.cert_roles", '"boss"'])):
        refused(t, *QUIET, "--config", "DIR/config", config=text, says=says + ["DIR/config"])


# ---- logs ----


def test_json_log(t):
    s = Serving(t, *QUIET, "--log-format", "json", "--log-level", "debug").start()
    perdure("start", "o", "--server", s.target).ok()
    s.stop()
    lines = [json.loads(line) for line in s.text().splitlines()]
    assert lines and all({"time", "level", "event"} <= line.keys() for line in lines), lines


def test_text_log(t):
    s = Serving(t, *QUIET).start()
    s.stop()
    lines = s.text().splitlines()
    assert lines and all(re.search(r"\blevel=(debug|info|warn|error)\b", line) for line in lines), lines


# ---- without standard descriptors ----


def test_closed_descriptors_are_not_reused(t):
    """Nothing that is meant for people ends up in a file or a socket."""
    s = Serving(t, "--store", "sqlite:DIR/s.db", "--listen", "unix:DIR/sock", "--http", "off", store=None)
    s.process = subprocess.Popen(
        ["sh", "-c", 'exec "$0" serve "$@" <&- >&- 2>&-', binary(), *s.flags], cwd=s.dir, env=s.env,
        stdout=subprocess.PIPE, text=True)
    eventually(lambda: perdure("status", "--server", "unix:" + s.dir + "/sock").status == 0)
    for fd in "012":
        assert os.readlink("/proc/%d/fd/%s" % (s.process.pid, fd)) == "/dev/null"
    s.signal(signal.SIGTERM)
    assert s.process.wait(20) == 0
    got = subprocess.run(["sh", "-c", 'exec "$0" version >&-', binary()], capture_output=True, text=True,
                         env=CLEAN, timeout=20)
    assert got.returncode == 1 and "could not write" in got.stderr, got
    with open("/dev/full", "w") as full:
        got = subprocess.run([binary(), "help"], stdout=full, stderr=subprocess.PIPE, text=True, env=CLEAN)
    assert got.returncode == 1 and "No space left" in got.stderr, got


# ---- signals ----


def test_sigterm_and_sigint(t):
    for number in (signal.SIGTERM, signal.SIGINT):
        s = Serving(t, *LOCAL).start()
        s.signal(number)
        assert s.wait() == 0, s.text()


def hold_a_turn(t, s):
    """Work in flight: a drain waits for it."""
    w = t.worker(hub="default", server=s.target)
    perdure("start", "o", "--server", s.target).ok()
    return w.turn()


# reports: BL-015
def test_the_next_server_need_not_wait(t):
    """The store is given up with the process, stopped or killed: no lease to run out. Until then it is held."""
    s = Serving(t, *QUIET, "--store", "sqlite:DIR/s.db", store=None).start()
    lock = os.path.join(s.dir, "s.db.lock")
    item = hold_a_turn(t, s)
    s.signal(signal.SIGTERM)
    eventually(lambda: "draining" in s.text())
    refused(t, *QUIET, store=s.store, status=3, says=["in use by process %d" % s.pid])  # its drain is not over
    item.worker.done(item, act.complete(result="r"))
    assert s.wait() == 0, s.text()
    assert not is_locked(lock)
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        s.start()
        assert is_locked(lock)
        state = perdure("get", item.id, "--server", s.target, "--json").ok().json
        assert state["status"] == "COMPLETED" and state["output"] == "r", state
        s.signal(number)
        s.process.wait(20)
        assert not is_locked(lock)


def is_locked(path):
    """Asks the kernel, as a second server would; a clean stop takes the file away as well."""
    if not os.path.exists(path):
        return False
    with open(path, "r+b") as f:
        try:
            fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def test_a_second_signal_ends_it_at_once(t):
    s = Serving(t, *LOCAL).start()
    hold_a_turn(t, s)
    s.signal(signal.SIGTERM)
    eventually(lambda: "draining" in s.text())
    time.sleep(0.2)
    assert s.process.poll() is None
    begun = time.monotonic()
    s.signal(signal.SIGINT)
    s.wait(5)
    assert time.monotonic() - begun < 2


def test_a_hangup_does_not_cut_a_drain_short(t):
    s = Serving(t, *LOCAL, "--set", "drain.time=2s").start()
    hold_a_turn(t, s)
    begun = time.monotonic()
    s.signal(signal.SIGTERM)
    eventually(lambda: "draining" in s.text())
    s.signal(signal.SIGHUP)
    assert s.wait() == 0
    assert time.monotonic() - begun > 1.8


def test_sighup_rereads_the_log_level(t):
    s = Serving(t, *QUIET, "--config", "DIR/config", config="log-level = error\n").start()
    assert s.text() == ""
    with open(os.path.join(s.dir, "config"), "w") as f:
        f.write("log-level = debug\n")
    s.signal(signal.SIGHUP)
    eventually(lambda: "reread" in s.text())
    with open(os.path.join(s.dir, "config"), "w") as f:
        f.write("log-level = loud\n")
    s.signal(signal.SIGHUP)
    eventually(lambda: "loud" in s.text())  # said, and it goes on
    answers(s.target)
    s.stop()
    assert "draining" in s.text()


# ---- systemd ----


def notified(t, address, name):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(10)
        sock.bind(address)
        s = Serving(t, *QUIET, env={"NOTIFY_SOCKET": name}).start()
        assert sock.recv(1000).decode().split("\n")[0] == "READY=1"
        s.signal(signal.SIGTERM)
        assert sock.recv(1000).decode().split("\n")[0] == "STOPPING=1"
        assert s.wait() == 0


def test_sd_notify_path(t):
    s = Serving(t)
    path = os.path.join(s.dir, "notify")
    notified(t, path, path)


def test_sd_notify_abstract(t):
    name = "perdure-test-%d-%d" % (os.getpid(), time.monotonic_ns())
    notified(t, "\0" + name, "@" + name)


def test_sd_notify_to_nobody(t):
    for name in ("/nowhere/at/all", "nonsense", "@" + "x" * 200, ""):
        s = Serving(t, *QUIET, env={"NOTIFY_SOCKET": name}).start()
        s.stop()
