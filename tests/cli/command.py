"""Runs `perdure COMMAND ...` against a server of a test."""

import json
import os
import subprocess

from lib.server import SANITIZER, binary

# What the machine that runs the tests has set must not change what they see.
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith("PERDURE_") and k != "NOTIFY_SOCKET"}


class Result:
    def __init__(self, args, status, out, err):
        self.args, self.status, self.out, self.err = args, status, out, err

    def __repr__(self):
        return "perdure %s: status %s\nstdout: %s\nstderr: %s" % (
            " ".join(self.args), self.status, self.out[:2000], self.err[:2000])

    def ok(self):
        assert self.status == 0, self
        assert self.err == "", self
        return self

    def failed(self, status, *texts):
        """That exit status, nothing on stdout, and one line on stderr which has all the texts."""
        assert self.status == status, self
        assert self.out == "", self
        self.says(*texts)
        return self

    def says(self, *texts):
        assert self.err.endswith("\n") and self.err.count("\n") == 1, self
        assert self.err.startswith("perdure"), self
        for text in texts:
            assert text in self.err, "%r is not said\n%r" % (text, self)

    @property
    def json(self):
        """The one document on stdout."""
        assert self.out.endswith("\n") and self.out.count("\n") == 1, self
        return json.loads(self.out)

    @property
    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def rows(self):
        """The cells of a table, which are two spaces or more apart."""
        return [[c.strip() for c in line.split("  ") if c.strip()] for line in self.out.splitlines()]

    @property
    def fields(self):
        """A list of names and values."""
        return {row[0]: row[1] if len(row) > 1 else "" for row in self.rows if row}


def begin(*args, env=None, stdin=subprocess.DEVNULL, **kw):
    """The process, running."""
    return subprocess.Popen(
        [binary(), *args], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**CLEAN, **(env or {})}, **kw)


def end(process, timeout=30, input=None):
    try:
        out, err = process.communicate(input, timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError("over %s s: %s\nstdout: %s\nstderr: %s" % (
            timeout, process.args, out, err)) from None
    assert not SANITIZER.search(err), err
    return Result(process.args[1:], process.returncode, out, err)


def perdure(*args, env=None, input=None, timeout=30, **kw):
    stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
    return end(begin(*args, env=env, stdin=stdin, **kw), timeout, input)


class Cli:
    """Commands on the server and the hub of a test."""

    def __init__(self, t, server=None):
        self.where = ["--server", (server or t.server).target, "--hub", t.hub]

    def __call__(self, *args, **kw):
        return perdure(*args, *self.where, **kw)

    def begin(self, *args, **kw):
        return begin(*args, *self.where, **kw)
