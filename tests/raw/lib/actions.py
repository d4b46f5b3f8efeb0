"""Orchestrator actions, short to write."""

import time

from .proto import COMPLETED, CONTINUED_AS_NEW, FAILED, TERMINATED, pb, sv, ts


def _tags(action, tags):
    for k, v in (tags or {}).items():
        action.tags[k] = v


def task(id, name, input=None, version=None, tags=None, trace=None):
    a = pb.OrchestratorAction(
        id=id,
        scheduleTask=pb.ScheduleTaskAction(
            name=name, input=sv(input), version=sv(version), parentTraceContext=trace
        ),
    )
    _tags(a.scheduleTask, tags)
    return a


def timer(id, after=None, at=None):
    """A timer `after` seconds from now, or at the Timestamp `at`."""
    fire = at if at is not None else ts(time.time() + after)
    return pb.OrchestratorAction(id=id, createTimer=pb.CreateTimerAction(fireAt=fire))


def child(id, name, instance="", input=None, version=None, tags=None, trace=None):
    a = pb.OrchestratorAction(
        id=id,
        createSubOrchestration=pb.CreateSubOrchestrationAction(
            instanceId=instance,
            name=name,
            input=sv(input),
            version=sv(version),
            parentTraceContext=trace,
        ),
    )
    _tags(a.createSubOrchestration, tags)
    return a


def send(id, instance, name, data=None):
    return pb.OrchestratorAction(
        id=id,
        sendEvent=pb.SendEventAction(
            instance=pb.OrchestrationInstance(instanceId=instance), name=name, data=sv(data)
        ),
    )


def terminate(id, instance, reason=None, recurse=False):
    return pb.OrchestratorAction(
        id=id,
        terminateOrchestration=pb.TerminateOrchestrationAction(
            instanceId=instance, reason=sv(reason), recurse=recurse
        ),
    )


def complete(id=1000, status=COMPLETED, result=None, failure=None, details=None):
    return pb.OrchestratorAction(
        id=id,
        completeOrchestration=pb.CompleteOrchestrationAction(
            orchestrationStatus=status,
            result=sv(result),
            failureDetails=failure,
            details=sv(details),
        ),
    )


def fail(id=1000, type="Boom", message="it broke", **kw):
    return complete(id, FAILED, failure=failure(type, message, **kw))


def terminated(id=1000, result=None):
    return complete(id, TERMINATED, result)


def again(id=1000, input=None, version=None, carry=(), tags=None):
    """Continue as new."""
    a = complete(id, CONTINUED_AS_NEW, input)
    c = a.completeOrchestration
    if version is not None:
        c.newVersion.value = version
    for e in carry:
        c.carryoverEvents.add().CopyFrom(e)
    _tags(c, tags)
    return a


def failure(type="Boom", message="it broke", stack=None, inner=None, fatal=False, properties=None):
    f = pb.TaskFailureDetails(
        errorType=type,
        errorMessage=message,
        stackTrace=sv(stack),
        innerFailure=inner,
        isNonRetriable=fatal,
    )
    for k, v in (properties or {}).items():
        f.properties[k].CopyFrom(value(v))
    return f


def value(v):
    """A protobuf Value of None, bool, number, text, list or dict."""
    out = pb.Value()
    if v is None:
        out.null_value = 0
    elif isinstance(v, bool):
        out.bool_value = v
    elif isinstance(v, (int, float)):
        out.number_value = v
    elif isinstance(v, str):
        out.string_value = v
    elif isinstance(v, (list, tuple)):
        out.list_value.SetInParent()
        for x in v:
            out.list_value.values.add().CopyFrom(value(x))
    else:
        out.struct_value.SetInParent()
        for k, x in v.items():
            out.struct_value.fields[k].CopyFrom(value(x))
    return out


def raised(name, input=None):
    """An eventRaised, as carried over by continue-as-new."""
    return pb.HistoryEvent(
        eventId=-1,
        timestamp=ts(time.time()),
        eventRaised=pb.EventRaisedEvent(name=name, input=sv(input)),
    )
