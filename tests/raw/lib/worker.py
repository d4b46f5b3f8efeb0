"""A worker by hand: it receives items one by one and answers what the test says."""

import queue
import threading
import time

import grpc

from . import actions as act
from .client import Client, channel
from .history import check_turn
from .proto import METHODS, kinds, pb, sv

GO = "grpc-go/1.56.3"
JAVA = "grpc-java-netty/1.59.0"


class Item:
    """One work item: kind is turn, task, ping or entity; raw are its bytes."""

    def __init__(self, data, worker):
        self.raw = data
        self.item = pb.WorkItem.FromString(data)
        self.token = self.item.completionToken
        self.worker = worker
        which = self.item.WhichOneof("request")
        self.kind = {
            "orchestratorRequest": "turn",
            "activityRequest": "task",
            "healthPing": "ping",
        }.get(which, which)
        self.req = getattr(self.item, which) if which else None
        if self.kind == "turn":
            self.id = self.req.instanceId
            self.execution = self.req.executionId.value
            self.past = list(self.req.pastEvents)
            self.new = list(self.req.newEvents)
        elif self.kind == "task":
            self.id = self.req.orchestrationInstance.instanceId
            self.execution = self.req.orchestrationInstance.executionId.value
            self.name = self.req.name
            self.task_id = self.req.taskId
            self.input = self.req.input.value

    @property
    def events(self):
        return self.past + self.new

    @property
    def started(self):
        """The executionStarted of a turn."""
        return next(e.executionStarted for e in self.events if e.HasField("executionStarted"))

    def __repr__(self):
        if self.kind == "turn":
            return "<turn of %s: %d past, new %s>" % (self.id, len(self.past), kinds(self.new))
        if self.kind == "task":
            return "<task %s %d of %s>" % (self.name, self.task_id, self.id)
        return "<%s>" % self.kind


def filters(orchestrations=None, activities=None, entities=None):
    """WorkItemFilters: lists of names or of (name, [versions])."""
    f = pb.WorkItemFilters()
    for given, field in (
        (orchestrations, f.orchestrations),
        (activities, f.activities),
        (entities, f.entities),
    ):
        for entry in given or ():
            name, versions = entry if isinstance(entry, tuple) else (entry, [])
            e = field.add(name=name)
            if versions:
                e.versions.extend(versions)
    return f


class Worker:
    """One connection with one GetWorkItems stream; open() again gives a new stream on it."""

    def __init__(self, server, hub=None, orch=0, act=0, ent=0, filters=None, caps=(), name="",
                 agent=None, headers=(), deadline=None, tokens=True, check=True, options=(),
                 open=True, credentials=None):
        self.target = server if isinstance(server, str) else server.target
        self.hub = hub
        self.metadata = ([("taskhub", hub)] if hub else []) + list(headers)
        self.tokens = tokens and agent not in (GO, JAVA)
        self.check = check
        self.deadline = deadline
        self.request = pb.GetWorkItemsRequest(
            maxConcurrentOrchestrationWorkItems=orch,
            maxConcurrentActivityWorkItems=act,
            maxConcurrentEntityWorkItems=ent,
            capabilities=list(caps),
            workItemFilters=filters,
            worker_instance_id=name,
        )
        self.channel = channel(self.target, agent, options, credentials)
        self._stubs = {}
        self.stream = None
        if open:
            self.open()

    def open(self):
        """Opens the stream (again); items of an earlier one are forgotten."""
        self.items = queue.Queue()
        self.held = []
        self.pings = 0
        self.status = None
        self.ended = threading.Event()
        m = METHODS["GetWorkItems"]
        self.stream = self.channel.unary_stream(
            m.path, request_serializer=m.request.SerializeToString, response_deserializer=lambda b: b
        )(self.request, metadata=self.metadata, timeout=self.deadline, wait_for_ready=True)
        threading.Thread(
            target=self._read, args=(self.stream, self.items, self.ended), daemon=True
        ).start()
        return self

    def ready(self, timeout=20):
        """Waits for the response headers: the server has the stream."""
        box = []
        t = threading.Thread(target=lambda: box.append(self.stream.initial_metadata()), daemon=True)
        t.start()
        t.join(timeout)
        assert box, "no response headers of GetWorkItems in %s s" % timeout
        return self

    def _read(self, stream, items, ended):
        try:
            for data in stream:
                items.put(data)
            status = ("OK", stream.details())
        except grpc.RpcError as e:
            status = (e.code().name, e.details())
        except ValueError as e:  # the channel was closed under it
            status = ("CLOSED", str(e))
        if stream is self.stream:
            self.status = status
        ended.set()
        items.put(None)

    def wait_end(self, timeout=30):
        """Waits until the stream has ended: (code name, details)."""
        assert self.ended.wait(timeout), "the stream is still open after %s s" % timeout
        return self.status

    def _take(self, timeout):
        data = self.items.get(timeout=timeout)
        if data is None:
            self.items.put(None)
            raise AssertionError("the stream has ended: %s" % (self.status,))
        item = Item(data, self)
        if item.kind == "ping":
            self.pings += 1
            assert item.token == ""
            return None
        if self.check and item.kind == "turn" and not item.req.requiresHistoryStreaming:
            try:
                check_turn(item.req)
            except AssertionError as e:
                e.item = item
                e.add_note("the item: %r" % item)
                raise
        assert 0 < len(item.token.encode()) <= 256, repr(item.token)
        return item

    def next(self, kind=None, timeout=20, id=None):
        """The next item (of a kind, of an instance); others are kept for later calls."""
        def fits(i):
            return (kind is None or i.kind == kind) and (id is None or i.id == id)

        for i in self.held:
            if fits(i):
                self.held.remove(i)
                return i
        end = time.monotonic() + timeout
        while True:
            left = end - time.monotonic()
            if left <= 0:
                raise AssertionError("no %s in %s s (others: %s)" % (kind or "item", timeout, self.held))
            try:
                item = self._take(left)
            except queue.Empty:
                continue
            if item is None:
                continue
            if fits(item):
                return item
            self.held.append(item)

    def turn(self, timeout=20, id=None):
        return self.next("turn", timeout, id)

    def task(self, timeout=20, id=None):
        return self.next("task", timeout, id)

    def none(self, seconds=0.7, kind=None, id=None):
        """Nothing (of the kind, of the instance) comes for so long."""
        try:
            item = self.next(kind, seconds, id)
        except AssertionError as e:
            if str(e).startswith("no "):
                return
            raise
        raise AssertionError("unexpected %r" % item)

    def quiet(self, kind=None, id=None):
        """Nothing (of the kind, of the instance) is on its way: what is ready goes out before the turns of two
        instances that are started now, one after the other. Only if no other stream of the hub may have those."""
        for _ in range(2):
            probe = self.call("StartInstance", pb.CreateInstanceRequest(name="probe")).instanceId
            turn = self.turn(id=probe)
            came = [i for i in self.held if (kind is None or i.kind == kind) and (id is None or i.id == id)]
            assert not came, "unexpected %r" % came
            self.done(turn, act.complete())

    def ping(self, timeout):
        """Waits for a HealthPing."""
        end = time.monotonic() + timeout
        before = self.pings
        while self.pings == before:
            left = end - time.monotonic()
            assert left > 0, "no HealthPing in %s s" % timeout
            try:
                item = self._take(left)
            except queue.Empty:
                continue
            if item is not None:
                self.held.append(item)

    def stub(self, method):
        if method not in self._stubs:
            m = METHODS[method]
            self._stubs[method] = self.channel.unary_unary(
                m.path,
                request_serializer=m.request.SerializeToString,
                response_deserializer=m.response.FromString,
            )
        return self._stubs[method]

    def call(self, method, request, timeout=30):
        return self.stub(method)(
            request, timeout=timeout, metadata=self.metadata, wait_for_ready=True
        )

    def response(self, item, actions=(), status=None, token=None, processed=None, trace=None,
                 instance=None, partial=False, chunk=None, requires_history=False):
        if token is None:
            token = item.token if self.tokens else ""
        r = pb.OrchestratorResponse(
            instanceId=item.id if instance is None else instance,
            customStatus=sv(status),
            completionToken=token,
            orchestrationTraceContext=trace,
            requiresHistory=requires_history,
            isPartial=partial,
        )
        if processed is not None:
            r.numEventsProcessed.value = processed
        if chunk is not None:
            r.chunkIndex.value = chunk
        r.actions.extend(actions)
        return r

    def done(self, item, *actions, timeout=30, **kw):
        """CompleteOrchestratorTask with these actions."""
        return self.call("CompleteOrchestratorTask", self.response(item, actions, **kw), timeout)

    def activity_response(self, item, result=None, failure=None, token=None, instance=None, task=None):
        if token is None:
            token = item.token if self.tokens else ""
        return pb.ActivityResponse(
            instanceId=item.id if instance is None else instance,
            taskId=item.task_id if task is None else task,
            result=sv(result),
            failureDetails=failure,
            completionToken=token,
        )

    def result(self, item, result=None, failure=None, timeout=30, **kw):
        """CompleteActivityTask."""
        return self.call(
            "CompleteActivityTask", self.activity_response(item, result, failure, **kw), timeout
        )

    def abandon(self, item=None, token=None):
        token = item.token if token is None else token
        if item is None or item.kind == "turn":
            return self.call(
                "AbandonTaskOrchestratorWorkItem", pb.AbandonOrchestrationTaskRequest(completionToken=token)
            )
        return self.call(
            "AbandonTaskActivityWorkItem", pb.AbandonActivityTaskRequest(completionToken=token)
        )

    def cancel(self):
        """Ends the stream, keeps the connection."""
        self.stream.cancel()
        self.ended.wait(10)

    def close(self):
        """Drops the connection with everything on it."""
        if self.stream is not None:
            self.stream.cancel()
        self.channel.close()


class Auto:
    """A worker that runs by itself: orchestrators and activities are functions of the item.

    An orchestrator gives a list of actions or (actions, custom status); an activity gives its
    result text, or a TaskFailureDetails.
    Anything that goes wrong in it ends up in `errors`; `turns` and `tasks` count what was done.
    """

    def __init__(self, server, hub, orchestrators, activities=None, threads=4, **kw):
        self.worker = Worker(server, hub, **kw)
        self.orchestrators = orchestrators
        self.activities = activities or {}
        self.errors = []
        self.turns = 0
        self.tasks = 0
        self.stopped = False
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]
        for t in self.threads:
            t.start()

    def _run(self):
        while not self.stopped:
            try:
                item = self.worker._take(0.2)
            except queue.Empty:
                continue
            except AssertionError as e:
                if not self.stopped and self.worker.ended.is_set():
                    return
                self.errors.append(e)
                continue
            if item is None:
                continue
            try:
                self._one(item)
            except grpc.RpcError as e:
                if not self.stopped:
                    self.errors.append(e)
            except Exception as e:
                self.errors.append(e)

    def _one(self, item):
        if item.kind == "turn":
            got = self.orchestrators[item.started.name](item)
            if got is None:
                return
            acts, status = got if isinstance(got, tuple) else (got, None)
            with self.lock:
                self.turns += 1
            self.worker.done(item, *acts, status=status, timeout=60)
        else:
            got = self.activities[item.name](item)
            with self.lock:
                self.tasks += 1
            if isinstance(got, pb.TaskFailureDetails):
                self.worker.result(item, failure=got, timeout=60)
            else:
                self.worker.result(item, got, timeout=60)

    def close(self):
        self.stopped = True
        self.worker.close()

    def check(self):
        assert not self.errors, self.errors[:3]


def echo(item):
    """An orchestrator that completes at once with its input."""
    return [act.complete(result=item.started.input.value)]
