"""The server killed, stopped and drained; workers killed, frozen and back again."""

import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta

import grpc
import pytest
from conftest import YARDSTICK, channel_options, eventually, of_kind, pb
from durabletask import task

pytestmark = pytest.mark.skipif(bool(YARDSTICK), reason="needs a server of its own")
HERE = os.path.dirname(os.path.abspath(__file__))


def echo(ctx, x):
    return x


def call(ctx, x):
    return (yield ctx.call_activity("work", input=x))


def until_up(action):
    """Repeats it while the server is away."""
    def attempt():
        try:
            action()
            return True
        except grpc.RpcError as e:
            assert e.code() == grpc.StatusCode.UNAVAILABLE, e
            return False
    eventually(attempt)


def test_acknowledged_start_survives(own_server, new_hub):
    """checklist: 13; reports: BL-008"""
    server = own_server()
    hub = new_hub(server)
    ids = []
    for round in range(5):
        for n in range(50):
            ids.append(hub.start(echo, input=n, instance_id="r%d-%d" % (round, n)))
        server.restart()
        until_up(lambda: hub.start(echo, input=0, instance_id="up-%d" % round))
        for id in ids:
            assert hub.status(id) == "PENDING", id
    hub.new_worker([echo])
    for id in ids:
        assert hub.finish(id).get_output() == int(id.rsplit("-", 1)[1])


def test_activity_over_a_restart(own_server, new_hub):
    """checklist: 57; reports: BL-004, BL-012"""
    server = own_server()
    hub = new_hub(server)
    entered, release = threading.Event(), threading.Event()
    runs = []

    def work(ctx, x):
        runs.append(x)
        entered.set()
        release.wait(20)
        return x

    worker = hub.new_worker([call], [work])
    original, sent = worker._execute_activity, []

    def execute(req, stub, token):
        class Stub:
            def CompleteActivityTask(self, res):
                # The first result comes with its old token, on a connection to the new process.
                with grpc.insecure_channel(server.address) as channel:
                    complete = channel.unary_unary(
                        "/TaskHubSidecarService/CompleteActivityTask",
                        request_serializer=pb.ActivityResponse.SerializeToString,
                        response_deserializer=pb.CompleteTaskResponse.FromString)
                    answer = complete(res, metadata=hub.metadata, wait_for_ready=True, timeout=20)
                sent.append(res.completionToken)
                return answer
        return original(req, Stub(), token)

    worker._execute_activity = execute
    id = hub.start(call, input="x")
    assert entered.wait(10)
    server.restart()
    release.set()
    assert hub.finish(id, 20).get_output() == "x"
    assert len(of_kind(hub.history(id), "TaskCompleted")) == 1
    assert sent


WORKER = """
import sys, time
sys.path.insert(0, %r)
from conftest import Hub, eventually
class At: address = sys.argv[1]
hub = Hub(At, sys.argv[2])
def call(ctx, x):
    return (yield ctx.call_activity("work", input=x))
def turn(ctx, x):
    if not ctx.is_replaying and sys.argv[3] == "hold-turn":
        print("holding", flush=True)
        time.sleep(1000)
    return sys.argv[3]
def work(ctx, x):
    if sys.argv[3] == "hold":
        print("holding", flush=True)
        time.sleep(1000)
    return sys.argv[3]
hub.new_worker({"call": call, "turn": turn}, {"work": work})
print("ready", flush=True)
sys.stdin.read()
import os
os._exit(0)
""" % HERE


class WorkerProcess:
    def __init__(self, hub, mode):
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-c", WORKER, hub.server.address, hub.name, mode],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE)
        assert self.process.stdout.readline() == "ready\n"

    def holding(self):
        assert self.process.stdout.readline() == "holding\n"

    def signal(self, number):
        self.process.send_signal(number)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def worker_process():
    made = []

    def make(hub, mode):
        made.append(WorkerProcess(hub, mode))
        return made[-1]

    yield make
    for w in made:
        w.close()


@pytest.mark.parametrize("what,mode", [("call", "hold"), ("turn", "hold-turn")], ids=["activity", "turn"])
def test_worker_killed(hub, worker_process, what, mode):
    """checklist: 58; reports: BL-005, BL-010"""
    first = worker_process(hub, mode)
    id = hub.start(what, input=1)
    first.holding()
    first.signal(signal.SIGKILL)
    begin = time.monotonic()
    worker_process(hub, "second")
    assert hub.finish(id, 20).get_output() == "second"
    assert time.monotonic() - begin < 5
    if what == "call":
        assert len(of_kind(hub.history(id), "TaskCompleted")) == 1


def test_worker_frozen(own_server, new_hub, worker_process):
    """reports: BL-003, BL-025

    Shortened by its settings: 30 s and 20 s otherwise."""
    hub = new_hub(own_server({"keepalive.idle": "2s", "keepalive.timeout": "2s"}))
    first = worker_process(hub, "hold")
    id = hub.start("call", input=1)
    first.holding()
    first.signal(signal.SIGSTOP)
    worker_process(hub, "second")
    assert hub.finish(id, 20).get_output() == "second"
    first.signal(signal.SIGCONT)


def test_drain(own_server, new_hub):
    """checklist: 137; reports: BL-001"""
    server = own_server()
    hub = new_hub(server)
    entered, release = threading.Event(), threading.Event()

    def work(ctx, x):
        entered.set()
        release.wait(10)
        return x

    hub.new_worker([call, echo], [work])
    id = hub.start(call, input="kept")
    assert entered.wait(10)
    server.should_run = False
    server.signal(signal.SIGTERM)
    threading.Timer(0.5, release.set).start()
    assert server.process.wait(40) == 0
    server.start()
    # The completion was taken while draining; the worker is back by itself.
    assert hub.finish(id, 20).get_output() == "kept"
    assert len(of_kind(hub.history(id), "TaskCompleted")) == 1
    assert hub.finish(hub.start(echo, input=1), 20).get_output() == 1


def test_clean_stop_under_load(own_server, new_hub):
    """checklist: 137"""
    server = own_server()
    hub = new_hub(server)

    def work(ctx, x):
        return x + 1

    def five(ctx, x):
        for _ in range(5):
            x = yield ctx.call_activity(work, input=x)
        return x

    hub.new_worker([five], [work])
    ids = [hub.start(five, input=n, instance_id="load-%d" % n) for n in range(200)]
    server.restart(clean=True)
    for n, id in enumerate(ids):
        assert hub.finish(id, 60).get_output() == n + 5
        assert len(of_kind(hub.history(id), "TaskCompleted")) == 5


def test_kills_under_load(own_server, new_hub):
    """checklist: 138, 50; reports: BL-012, BL-014, BL-030, BL-065, BL-173

    The small form, with one SDK; tests/crash has the large one."""
    server = own_server()
    hub = new_hub(server)

    def work(ctx, x):
        return x + 1

    def mixed(ctx, x):
        for _ in range(3):
            x = yield ctx.call_activity(work, input=x)
        got = yield task.when_all([ctx.call_activity(work, input=i) for i in range(10)])
        yield ctx.create_timer(timedelta(milliseconds=50))
        return x + sum(got)

    hub.new_worker([mixed], [work])
    ids = []
    for round in range(4):
        for n in range(20):
            id = "k%d-%d" % (round, n)
            until_up(lambda: start_once(hub, mixed, n, id))
            ids.append(id)
        server.restart()
    for id in ids:
        state = hub.finish(id, 60)
        assert state.get_output() == int(id.rsplit("-", 1)[1]) + 3 + 55
        events = hub.history(id)
        answered = [e.task_scheduled_id for e in of_kind(events, "TaskCompleted")]
        assert len(answered) == len(set(answered)) == 13
        assert events[-1].orchestration_status == pb.ORCHESTRATION_STATUS_COMPLETED


def start_once(hub, orchestrator, x, id):
    try:
        hub.start(orchestrator, input=x, instance_id=id)
    except grpc.RpcError as e:
        if e.code() != grpc.StatusCode.ALREADY_EXISTS:
            raise


def test_health_pings_keep_a_worker(own_server, new_hub):
    """checklist: 129

    Shortened: a worker that takes a silence of 3 s for a loss, and a ping each second. Ten minutes in make nightly."""
    from durabletask.grpc_options import GrpcWorkerResiliencyOptions
    nightly = os.environ.get("PERDURE_NIGHTLY") == "1"
    hub = new_hub(own_server({} if nightly else {"ping.interval": "1s"}))
    options = {} if nightly else {"resiliency_options": GrpcWorkerResiliencyOptions(
        silent_disconnect_timeout_seconds=3)}
    worker = hub.new_worker([echo], start=False, channel_options=channel_options(), **options)
    warnings = []
    worker._logger.warning = lambda text, *a: warnings.append(str(text))
    worker.start()
    hub.finish(hub.start(echo))
    threading.Event().wait(600 if nightly else 8)  # the silence is what is tested
    assert not warnings
    assert hub.finish(hub.start(echo, input="after"), 5).get_output() == "after"


def test_a_second_term_exits_at_once(own_server, new_hub):
    """Nothing acknowledged is lost by it."""
    server = own_server()
    hub = new_hub(server)
    never = threading.Event()

    def work(ctx, x):
        never.wait(5)
        return x

    hub.new_worker([call], [work])
    id = hub.start(call, input="x")
    hub.until(id, "RUNNING")
    server.should_run = False
    # Signals that come together are one: so again until it is gone.
    eventually(lambda: server.process.poll() is not None or server.signal(signal.SIGTERM), 5, pause=0.2)
    never.set()
    server.start()
    assert hub.finish(id, 20).get_output() == "x"
