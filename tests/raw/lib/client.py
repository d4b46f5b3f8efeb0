"""A client of the service on grpcio: every unary RPC, the history stream, and errors as data."""

import time

import grpc

from .proto import METHODS, STATUS_NAMES, pb, sv, ts

OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 300),
    ("grpc.enable_retries", 0),
    ("grpc.max_metadata_size", 1 << 20),
    ("grpc.absolute_max_metadata_size", 1 << 20),
]


def channel(target, agent=None, options=(), credentials=None):
    opts = {**dict(OPTIONS), **dict(options)}
    if agent:
        opts["grpc.primary_user_agent"] = agent
    if credentials:
        return grpc.secure_channel(target, credentials, options=list(opts.items()))
    return grpc.insecure_channel(target, options=list(opts.items()))


def same(data):
    return data


def error_of(call):
    """(code name, message) of a call that must fail; call is a function."""
    try:
        got = call()
    except grpc.RpcError as e:
        return e.code().name, e.details()
    raise AssertionError("expected an error, got %r" % (got,))


def expect_error(call, code, message=None, contains=None):
    """The call must fail with this code, and this message or a part of it."""
    got, text = error_of(call)
    assert got == code, "expected %s, got %s: %s" % (code, got, text)
    if message is not None:
        assert text == message, "expected message %r, got %r" % (message, text)
    if contains is not None:
        assert contains.lower() in (text or "").lower(), "%r is not in %r" % (contains, text)
    return text


class Client:
    """All calls of one hub over a connection of its own."""

    def __init__(self, server, hub=None, agent=None, headers=(), options=(), credentials=None):
        self.target = server if isinstance(server, str) else server.target
        self.hub = hub
        self.metadata = ([("taskhub", hub)] if hub else []) + list(headers)
        self.channel = channel(self.target, agent, options, credentials)
        self._stubs = {}

    def close(self):
        self.channel.close()

    def stub(self, method, raw=False):
        key = (method, raw)
        if key not in self._stubs:
            m = METHODS[method]
            make = self.channel.unary_stream if m.streams else self.channel.unary_unary
            self._stubs[key] = make(
                m.path,
                request_serializer=same if raw else m.request.SerializeToString,
                response_deserializer=m.response.FromString,
            )
        return self._stubs[key]

    def call(self, method, request=None, timeout=30, metadata=None, raw=False, **kw):
        """A unary call; `raw` sends bytes as they are."""
        if request is None:
            request = METHODS[method].request()
        return self.stub(method, raw)(
            request,
            timeout=timeout,
            metadata=self.metadata if metadata is None else metadata,
            wait_for_ready=True,
            **kw,
        )

    def future(self, method, request, timeout=None):
        return self.stub(method).future(
            request, timeout=timeout, metadata=self.metadata, wait_for_ready=True
        )

    def error(self, method, request=None, **kw):
        return error_of(lambda: self.call(method, request, **kw))

    # The RPCs, one by one.

    def create(self, name="o", id="", input=None, version=None, at=None, replaceable=None,
               execution=None, tags=None, trace=None):
        r = pb.CreateInstanceRequest(
            instanceId=id,
            name=name,
            input=sv(input),
            version=sv(version),
            executionId=sv(execution),
            parentTraceContext=trace,
        )
        if at is not None:
            r.scheduledStartTimestamp.CopyFrom(at if not isinstance(at, (int, float)) else ts(at))
        if replaceable is not None:
            r.orchestrationIdReusePolicy.SetInParent()
            r.orchestrationIdReusePolicy.replaceableStatus.extend(replaceable)
        for k, v in (tags or {}).items():
            r.tags[k] = v
        return r

    def start(self, name="o", id="", timeout=30, **kw):
        return self.call("StartInstance", self.create(name, id, **kw), timeout).instanceId

    def get(self, id, payloads=True):
        """The state, or None."""
        r = self.call("GetInstance", pb.GetInstanceRequest(instanceId=id, getInputsAndOutputs=payloads))
        assert r.exists == r.HasField("orchestrationState")
        return r.orchestrationState if r.exists else None

    def status(self, id):
        state = self.get(id, False)
        return None if state is None else STATUS_NAMES[state.orchestrationStatus]

    def until(self, id, status, timeout=20):
        """Polls until the instance has this status; gives its state."""
        end = time.monotonic() + timeout
        while True:
            state = self.get(id)
            if state is not None and state.orchestrationStatus == status:
                return state
            if time.monotonic() > end:
                raise AssertionError(
                    "%s is not %s but %s"
                    % (id, STATUS_NAMES[status], state and STATUS_NAMES[state.orchestrationStatus])
                )
            time.sleep(0.02)

    def wait(self, id, timeout=30, payloads=True):
        """WaitForInstanceCompletion; the state, or None when the id stayed unknown."""
        r = self.call(
            "WaitForInstanceCompletion",
            pb.GetInstanceRequest(instanceId=id, getInputsAndOutputs=payloads),
            timeout,
        )
        return r.orchestrationState if r.exists else None

    def wait_start(self, id, timeout=30, payloads=True):
        r = self.call(
            "WaitForInstanceStart",
            pb.GetInstanceRequest(instanceId=id, getInputsAndOutputs=payloads),
            timeout,
        )
        return r.orchestrationState if r.exists else None

    def event(self, id, name="e", input=None):
        self.call("RaiseEvent", pb.RaiseEventRequest(instanceId=id, name=name, input=sv(input)))

    def suspend(self, id, reason=None):
        self.call("SuspendInstance", pb.SuspendRequest(instanceId=id, reason=sv(reason)))

    def resume(self, id, reason=None):
        self.call("ResumeInstance", pb.ResumeRequest(instanceId=id, reason=sv(reason)))

    def terminate(self, id, output=None, recursive=False):
        self.call(
            "TerminateInstance",
            pb.TerminateRequest(instanceId=id, output=sv(output), recursive=recursive),
        )

    def purge(self, id, **kw):
        return self.call("PurgeInstances", pb.PurgeInstancesRequest(instanceId=id, **kw))

    def chunks(self, id, execution=None, for_work=False, timeout=60):
        """StreamInstanceHistory: the list of its chunks."""
        return list(
            self.stub("StreamInstanceHistory")(
                pb.StreamInstanceHistoryRequest(
                    instanceId=id, executionId=sv(execution), forWorkItemProcessing=for_work
                ),
                timeout=timeout,
                metadata=self.metadata,
                wait_for_ready=True,
            )
        )

    def history(self, id, **kw):
        return [e for c in self.chunks(id, **kw) for e in c.events]
