"""Fixtures of the tests with the released Python SDK.

`server` is one process for a module; `hub` is a task hub of the test's own on it, with clients and
workers that end with the test. `own_server(**settings)` gives a test a server of its own.

$PERDURE_YARDSTICK=host:port runs them against another server, without hubs: what needs hubs, restarts or settings
is skipped then.
"""

import itertools
import logging
import os
import sys
import threading
import uuid

import grpc
import pytest

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from durabletask import client as dt_client  # noqa: E402
from durabletask import worker as dt_worker  # noqa: E402
from durabletask.internal import orchestrator_service_pb2 as pb  # noqa: E402
from durabletask.grpc_options import (  # noqa: E402
    GrpcChannelOptions,
    GrpcWorkerResiliencyOptions,
)
from harness import Server, Yardstick, eventually  # noqa: E402

YARDSTICK = os.environ.get("PERDURE_YARDSTICK")
# The SDK logs every reconnect; a failed test shows what it wrote.
logging.getLogger("durabletask").setLevel(logging.WARNING)

RAW_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 300),
]


def channel_options(**kw):
    return GrpcChannelOptions(raw_options=list(RAW_OPTIONS), **kw)


class SpyWorker(dt_worker.TaskHubGrpcWorker):
    """The SDK's worker, with a list of the turns and activities it was given."""

    def __init__(self, **kw):
        super().__init__(**kw)
        self.turns = []
        self.tasks = []

    def _execute_orchestrator(self, req, stub, completionToken):
        self.turns.append(pb.OrchestratorRequest.FromString(req.SerializeToString()))
        return super()._execute_orchestrator(req, stub, completionToken)

    def _execute_activity(self, req, stub, completionToken):
        self.tasks.append(pb.ActivityRequest.FromString(req.SerializeToString()))
        return super()._execute_activity(req, stub, completionToken)

    def turns_of(self, instance):
        return [t for t in self.turns if t.instanceId == instance]


class Hub:
    """A task hub: a client, and as many workers as a test wants."""

    def __init__(self, server, name=None, made=None):
        self.server = server
        self.name = name or "h" + uuid.uuid4().hex[:12]
        self.made = made if made is not None else []
        self.metadata = None if YARDSTICK else [("taskhub", self.name)]
        self._client = None
        self._channel = None
        self._numbers = itertools.count()

    @property
    def client(self):
        if self._client is None:
            self._client = self.new_client()
        return self._client

    def new_client(self, **kw):
        kw.setdefault("channel_options", channel_options())
        c = dt_client.TaskHubGrpcClient(
            host_address=self.server.address, metadata=self.metadata, **kw)
        self.made.append(c.close)
        return c

    def new_worker(self, orchestrators=(), activities=(), start=True, **kw):
        """A worker with these functions, by their names, or {name: function}."""
        kw.setdefault("channel_options", channel_options())
        kw.setdefault("resiliency_options", GrpcWorkerResiliencyOptions(
            reconnect_backoff_base_seconds=0.1, reconnect_backoff_cap_seconds=0.5))
        w = SpyWorker(host_address=self.server.address, metadata=self.metadata, **kw)
        add(orchestrators, w.add_orchestrator, w._registry.add_named_orchestrator)
        add(activities, w.add_activity, w._registry.add_named_activity)
        if start:
            w.start()
        self.made.append(w.stop)
        return w

    def run(self, orchestrator, *activities, **kw):
        """A worker for these, and the state in which one instance of the first ends."""
        timeout = kw.pop("timeout", 30)
        extra = kw.pop("orchestrators", [])
        self.new_worker([orchestrator] + list(extra), activities)
        return self.finish(self.client.schedule_new_orchestration(orchestrator, **kw), timeout)

    def start(self, orchestrator, **kw):
        return self.client.schedule_new_orchestration(orchestrator, **kw)

    def finish(self, instance, timeout=30):
        state = self.client.wait_for_orchestration_completion(instance, timeout=timeout)
        assert state is not None, instance
        return state

    def status(self, instance):
        state = self.client.get_orchestration_state(instance, fetch_payloads=False)
        return None if state is None else state.runtime_status.name

    def raw_state(self, instance, payloads=True):
        """The OrchestrationState as it came: the SDK's own class shows only a part of it."""
        answer = self.client._stub.GetInstance(
            pb.GetInstanceRequest(instanceId=instance, getInputsAndOutputs=payloads))
        return answer.orchestrationState if answer.exists else None

    def future(self, method, request, timeout=None):
        """A call in flight: the SDK's own stubs wait for the answer in an interceptor."""
        if self._channel is None:
            self._channel = grpc.insecure_channel(self.server.address, options=RAW_OPTIONS)
            self.made.append(self._channel.close)
        answer = pb.GetInstanceResponse if "Instance" in method and method != "StartInstance" else pb.CreateInstanceResponse
        call = self._channel.unary_unary(
            "/TaskHubSidecarService/" + method, request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString)
        return call.future(request, timeout=timeout, metadata=self.metadata, wait_for_ready=True)

    def until(self, instance, status, timeout=20):
        eventually(lambda: self.status(instance) == status, timeout, "%s is %s" % (instance, status))

    def history(self, instance, **kw):
        return self.client.get_orchestration_history(instance, **kw)

    def id(self, prefix="i"):
        return "%s-%s-%d" % (prefix, self.name, next(self._numbers))


def add(functions, plain, named):
    if isinstance(functions, dict):
        for name, function in functions.items():
            named(name, function)
    else:
        for function in functions:
            plain(function)


def rpc_error(call):
    """(code, message) of a call that must fail."""
    try:
        got = call()
    except grpc.RpcError as e:
        return e.code().name, e.details()
    raise AssertionError("expected an error, got %r" % (got,))


def kinds(history):
    """The event kinds of a history, short: TaskScheduled for TaskScheduledEvent."""
    return [type(e).__name__.removesuffix("Event") for e in history]


def of_kind(history, kind):
    return [e for e in history if type(e).__name__ == kind + "Event"]


def close_all(made):
    """Closes in reverse order, at once where that is a worker that must come to an end."""
    threads = [threading.Thread(target=f, daemon=True) for f in reversed(made)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(20)
    made.clear()


@pytest.fixture(scope="module")
def server():
    s = Yardstick(YARDSTICK) if YARDSTICK else Server()
    s.start()
    yield s
    s.close()


@pytest.fixture
def hub(server):
    made = []
    yield Hub(server, made=made)
    close_all(made)
    server.check()


@pytest.fixture
def new_hub():
    """new_hub(server): a further hub, or one on a server of the test's own."""
    made = []
    yield lambda server, name=None: Hub(server, name=name, made=made)
    close_all(made)


@pytest.fixture
def own_server():
    """own_server({"key": "value"}): a server of this test alone, started."""
    if YARDSTICK:
        pytest.skip("needs a server of its own")
    servers = []

    def make(settings=None, **kw):
        s = Server(settings, **kw)
        servers.append(s)
        return s.start()

    yield make
    for s in servers:
        s.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A line of the suite contract for each test; the server's log with what failed."""
    outcome = yield
    report = outcome.get_result()
    module = item.module.__name__.removeprefix("test_")
    name = "python.%s.%s" % (module, item.name.removeprefix("test_"))
    if report.skipped and report.when in ("setup", "call"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        _line("SKIP %s: %s" % (name, reason.removeprefix("Skipped: ")))
    elif report.failed:
        _line("FAIL %s%s" % (name, "" if report.when == "call" else ": in " + report.when))
        server = item.funcargs.get("server") if hasattr(item, "funcargs") else None
        if server is not None:
            report.sections.append(("server", server.log_tail()))
    elif report.when == "call":
        _line("PASS %s (%.1f s)" % (name, call.duration))


def _line(text):
    sys.__stdout__.write(text + "\n")
    sys.__stdout__.flush()
