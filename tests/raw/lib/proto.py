"""The messages and methods of the Durable Task service, made from proto/durabletask.proto.

Nothing generated is kept: protoc writes a descriptor set into a temporary folder and the
classes are built from it. `pb.WorkItem` is a class, `METHODS["Hello"]` a Method, and the
eight statuses are module constants (RUNNING, COMPLETED, ...).
"""

import atexit
import collections
import os
import shutil
import subprocess
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
SERVICE = "TaskHubSidecarService"

Method = collections.namedtuple("Method", "name path request response streams")


def _load():
    work = tempfile.mkdtemp(prefix="perdure-proto-")
    atexit.register(shutil.rmtree, work, ignore_errors=True)
    out = os.path.join(work, "set.pb")
    proto = os.path.join(ROOT, "proto")
    subprocess.run(
        ["protoc", "-I", proto, "--include_imports", "--descriptor_set_out=" + out]
        + [os.path.join(proto, n) for n in ("durabletask.proto", "perdure_admin.proto")],
        check=True,
    )
    with open(out, "rb") as f:
        return descriptor_pb2.FileDescriptorSet.FromString(f.read())


_set = _load()
_pool = descriptor_pool.DescriptorPool()
for _file in _set.file:
    _pool.Add(_file)


class _Namespace:
    """Message classes by their short name; those of google.protobuf too."""

    def __getattr__(self, name):
        for full in (name, "google.protobuf." + name):
            try:
                descriptor = _pool.FindMessageTypeByName(full)
            except KeyError:
                continue
            cls = message_factory.GetMessageClass(descriptor)
            setattr(self, name, cls)
            return cls
        raise AttributeError(name)


pb = _Namespace()


def message_class(full_name):
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(full_name))


def methods_of(service):
    """The methods of a service by its full name, as a dict of Method."""
    found = {}
    for m in _pool.FindServiceByName(service).methods:
        proto = descriptor_pb2.MethodDescriptorProto()
        m.CopyToProto(proto)
        found[m.name] = Method(
            m.name,
            "/%s/%s" % (service, m.name),
            message_factory.GetMessageClass(m.input_type),
            message_factory.GetMessageClass(m.output_type),
            proto.server_streaming,
        )
    return found


METHODS = methods_of(SERVICE)

_status = _pool.FindEnumTypeByName("OrchestrationStatus").values_by_name
RUNNING, COMPLETED, CONTINUED_AS_NEW, FAILED, CANCELED, TERMINATED, PENDING, SUSPENDED = (
    _status["ORCHESTRATION_STATUS_" + n].number
    for n in (
        "RUNNING COMPLETED CONTINUED_AS_NEW FAILED CANCELED TERMINATED PENDING SUSPENDED".split()
    )
)
STATUS_NAMES = {v.number: n[len("ORCHESTRATION_STATUS_"):] for n, v in _status.items()}


def sv(text):
    """A StringValue, or None for None: protobuf takes None as unset."""
    return None if text is None else pb.StringValue(value=text)


def ts(seconds):
    """A Timestamp of a number of seconds since 1970 (float or int)."""
    micros = int(round(seconds * 1_000_000))
    return pb.Timestamp(seconds=micros // 1_000_000, nanos=micros % 1_000_000 * 1000)


def secs(timestamp):
    """The inverse of ts(), as float."""
    return timestamp.seconds + timestamp.nanos / 1e9


def nanos(timestamp):
    """A Timestamp as one whole number of nanoseconds, to compare exactly."""
    return timestamp.seconds * 1_000_000_000 + timestamp.nanos


def kind(event):
    """The name of a history event's kind."""
    return event.WhichOneof("eventType")


def kinds(events):
    return [kind(e) for e in events]


def events_of(events, name):
    """The payloads of all events of one kind."""
    return [getattr(e, name) for e in events if kind(e) == name]
