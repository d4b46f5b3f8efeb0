"""Runs test functions: several at once, each with a hub of its own on a shared server.

A test is a function test_NAME(t) of a module tests/raw/test_*.py. `t` is a Test: it hands out
servers, clients and workers and closes them at the end. Options by decorator:

    @serial        run alone, after the others of its group
    @limit(SECS)   the time it may take (60 unless given)
    @nightly       only with PERDURE_NIGHTLY=1

Prints PASS, FAIL or SKIP and a name, a line each; what failed, on stderr.
"""

import concurrent.futures
import faulthandler
import fnmatch
import importlib
import itertools
import os
import sys
import threading
import time
import traceback
import uuid

from .client import Client
from .h2 import H2
from .proxy import Proxy
from .server import Server
from .worker import Auto, Worker

NIGHTLY = os.environ.get("PERDURE_NIGHTLY") == "1"


SANITIZED = os.environ.get("PERDURE_SANITIZED") == "1"


def serial(fn):
    fn.serial = True
    return fn


def limit(seconds):
    def set_it(fn):
        fn.limit = seconds
        return fn
    return set_it


def nightly(fn):
    fn.nightly = True
    return fn


class Skip(Exception):
    pass


class Pool:
    """Servers shared by tests, one for each set of settings; a dead one is replaced."""

    def __init__(self):
        self.lock = threading.Lock()
        self.servers = {}
        self.troubles = []

    def get(self, settings):
        key = tuple(sorted(settings.items()))
        with self.lock:
            server = self.servers.get(key)
            if server is not None and not server.alive():
                self.note(server)
                server.close()
                server = None
            if server is None:
                server = Server(dict(settings)).start()
                self.servers[key] = server
            return server

    def note(self, server):
        trouble = server.trouble()
        if trouble:
            self.troubles.append(trouble)

    def close(self):
        for server in self.servers.values():
            self.note(server)
            server.close()


class Test:
    """What one test works with."""

    __test__ = False
    counter = itertools.count()

    def __init__(self, pool, name):
        self.pool = pool
        self.name = name
        self.hub = "h%d-%s" % (next(self.counter), uuid.uuid4().hex[:8])
        self.things = []
        self.own = []
        self._shared = None

    def later(self, thing):
        self.things.append(thing)
        return thing

    @property
    def server(self):
        """The shared server with default settings."""
        if self._shared is None:
            self._shared = self.pool.get({})
        return self._shared

    def shared(self, **settings):
        """A shared server with these settings (dots written as __); the test's default from now."""
        self._shared = self.pool.get({k.replace("__", "."): v for k, v in settings.items()})
        return self._shared

    def own_server(self, settings=None, start=True, **kw):
        """A server of this test alone; the test's default from now."""
        s = self.later(Server(settings, **kw))
        self.own.append(s)
        self._shared = s
        if start:
            s.start()
        return s

    def client(self, hub=None, server=None, **kw):
        return self.later(Client(server or self.server, hub or self.hub, **kw))

    def worker(self, hub=None, server=None, **kw):
        return self.later(Worker(server or self.server, hub or self.hub, **kw))

    def auto(self, orchestrators, activities=None, hub=None, server=None, **kw):
        return self.later(Auto(server or self.server, hub or self.hub, orchestrators, activities, **kw))

    def h2(self, server=None, **kw):
        s = server or self.server
        return self.later(H2(s.host, s.port, **kw))

    def proxy(self, server=None):
        s = server or self.server
        return self.later(Proxy(s.host, s.port))

    def pair(self, name="o", **kw):
        """A client and a worker, in this test's hub."""
        return self.client(), self.worker(**kw)

    def started(self, name="o", client=None, worker=None, **kw):
        """Starts an instance and takes its first turn: (id, client, worker, item)."""
        c = client or self.client()
        w = worker or self.worker()
        id = c.start(name, **kw)
        return id, c, w, w.turn(id=id)

    def close(self):
        for thing in reversed(self.things):
            if isinstance(thing, Server):
                trouble = thing.trouble()
                if trouble:
                    self.pool.troubles.append(self.name + ": " + trouble)
            try:
                thing.close()
            except Exception:
                traceback.print_exc()


def _run_one(pool, name, fn, out):
    if getattr(fn, "nightly", False) and not NIGHTLY:
        out("SKIP %s: nightly only" % name)
        return True
    t = Test(pool, name)
    begin = time.monotonic()
    result = []

    def body():
        try:
            fn(t)
            result.append(None)
        except Skip as e:
            result.append(e)
        except BaseException:
            result.append(traceback.format_exc())

    thread = threading.Thread(target=body, daemon=True, name=name)
    thread.start()
    seconds = getattr(fn, "limit", 60) * (3 if SANITIZED else 1)
    thread.join(seconds)
    if not result:
        frame = sys._current_frames().get(thread.ident)
        where = "".join(traceback.format_stack(frame)) if frame else ""
        result.append("over %s s, at:\n%s" % (seconds, where))
    what = result[0]
    shared_dead = t._shared is not None and t._shared.trouble()
    try:
        t.close()
    except Exception:
        what = what or traceback.format_exc()
    if what is None and shared_dead:
        what = shared_dead
    if isinstance(what, Skip):
        out("SKIP %s: %s" % (name, what))
        return True
    if what is None:
        out("PASS %s (%.1f s)" % (name, time.monotonic() - begin))
        return True
    out("FAIL %s (%.1f s)" % (name, time.monotonic() - begin), what + (
        "\nand the server: " + shared_dead if shared_dead and shared_dead != what else ""))
    return False


def chosen(name, patterns):
    return any(fnmatch.fnmatch(name, p) or p in name for p in patterns)


def run(modules, jobs=8, only=None, skip=None):
    """Runs the tests of the modules; True when none failed."""
    lock = threading.Lock()

    def out(line, detail=None):
        with lock:
            if detail:
                print("--- %s\n%s" % (line, detail), file=sys.stderr, flush=True)
            print(line, flush=True)

    parallel, alone = [], []
    for m in modules:
        module = importlib.import_module(m)
        short = m.rsplit(".", 1)[-1].replace("test_", "", 1)
        for attr, fn in vars(module).items():
            if not attr.startswith("test_") or not callable(fn):
                continue
            name = "raw.%s.%s" % (short, attr[5:])
            if (only and not chosen(name, only)) or (skip and chosen(name, skip)):
                continue
            (alone if getattr(fn, "serial", False) else parallel).append((name, fn))
    faulthandler.enable()
    pool = Pool()
    ok = True
    # Longest first would be best; the limits are the only hint there is.
    parallel.sort(key=lambda p: -getattr(p[1], "limit", 60))
    with concurrent.futures.ThreadPoolExecutor(jobs) as executor:
        for good in executor.map(lambda p: _run_one(pool, p[0], p[1], out), parallel):
            ok &= good
    for name, fn in alone:
        ok &= _run_one(pool, name, fn, out)
    pool.close()
    for trouble in pool.troubles:
        ok = False
        out("FAIL raw.server", trouble)
    return ok
