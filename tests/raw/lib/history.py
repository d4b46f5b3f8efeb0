"""What every work item and every history must look like (spec 4.2, 4.4)."""

import re

from .proto import events_of, kind, kinds, nanos, secs

EXECUTION_ID = re.compile(r"^[0-9a-f]{32}$")

ARRIVALS = {
    "executionStarted", "executionTerminated", "taskCompleted", "taskFailed",
    "subOrchestrationInstanceCompleted", "subOrchestrationInstanceFailed", "timerFired",
    "eventRaised", "executionSuspended", "executionResumed",
}
ACTIONS = {
    "taskScheduled", "subOrchestrationInstanceCreated", "timerCreated", "eventSent",
}
OPENED_BY = {
    "taskCompleted": "taskScheduled",
    "taskFailed": "taskScheduled",
    "timerFired": "timerCreated",
    "subOrchestrationInstanceCompleted": "subOrchestrationInstanceCreated",
    "subOrchestrationInstanceFailed": "subOrchestrationInstanceCreated",
}


def resolves(event):
    """(kind of scheduling, id) that an event resolves, or None."""
    k = kind(event)
    if k not in OPENED_BY:
        return None
    body = getattr(event, k)
    return OPENED_BY[k], body.timerId if k == "timerFired" else body.taskScheduledId


class Where:
    """Names an event in a failure; the text is made only then."""

    def __init__(self, events):
        self.events = events
        self.at = 0

    def __str__(self):
        names = kinds(self.events)
        return "event %d (%s) of %s" % (self.at, names[self.at], names)

    def __radd__(self, text):
        return text + str(self)


def check_legal(events, finished=None):
    """A history is one that a worker could replay. finished: whether it must (not) have ended."""
    assert events, "empty history"
    open_items = {}
    turn_state = None  # "arrivals" or "actions"
    last_started = 0
    ended = False
    names = kinds(events)
    where = Where(events)
    for i, e in enumerate(events):
        k = names[i]
        where.at = i
        assert not ended, "something after executionCompleted: " + where
        assert nanos(e.timestamp) > 0, "no timestamp: " + where
        if k == "orchestratorStarted":
            now = nanos(e.timestamp)
            assert now >= last_started, "time goes back: " + where
            last_started = now
            turn_state = "arrivals"
            assert e.eventId == -1, where
        elif k in ARRIVALS:
            forced = k == "executionTerminated" and names[i + 1 :] == ["executionCompleted"]
            assert turn_state == "arrivals" or forced, "an arrival outside the head of a turn: " + where
            assert e.eventId == -1, "id %d: %s" % (e.eventId, where)
            if k == "executionStarted":
                assert i == 1, where
            if k == "timerFired":
                assert last_started > nanos(e.timerFired.fireAt), "orchestratorStarted not after fireAt: " + where
            key = resolves(e)
            if key:
                assert open_items.get(key), "resolves nothing open: %s %s" % (key, where)
                open_items[key] -= 1
        elif k in ACTIONS:
            assert turn_state in ("arrivals", "actions"), where
            turn_state = "actions"
            assert e.eventId >= 0, "action id %d: %s" % (e.eventId, where)
            if k != "eventSent":
                key = (k, e.eventId)
                assert not open_items.get(key), "scheduled twice while open: %s %s" % (key, where)
                open_items[key] = 1
        elif k == "executionCompleted":
            assert e.eventId == -1, where
            ended = True
        else:
            raise AssertionError("not a kind of event for a history: " + where)
    assert kind(events[0]) == "orchestratorStarted", kinds(events)
    assert kind(events[1]) == "executionStarted", kinds(events)
    assert kinds(events).count("executionStarted") == 1
    check_termination_alone(events)
    if finished is not None:
        assert ended == finished, kinds(events)
    return events


def check_termination_alone(events):
    """executionTerminated shares its turn with orchestratorStarted only, or is the never-run form."""
    names = kinds(events)
    for i, k in enumerate(names):
        if k != "executionTerminated":
            continue
        alone = names[i - 1] == "orchestratorStarted"
        forced = names[i + 1 : i + 2] == ["executionCompleted"]
        assert alone or forced, names


def check_turn(request):
    """An OrchestratorRequest as it must be (4.2)."""
    past, new = list(request.pastEvents), list(request.newEvents)
    assert EXECUTION_ID.match(request.executionId.value), request.executionId
    assert request.HasField("entityParameters"), "no entityParameters"
    assert request.entityParameters.HasField("entityMessageReorderWindow"), "no reorder window"
    assert request.entityParameters.entityMessageReorderWindow.seconds == 0
    assert len(request.properties) == 0
    names = kinds(new)
    assert len(names) >= 2, "newEvents too short: %s" % names
    assert names[0] == "orchestratorStarted" and names.count("orchestratorStarted") == 1, names
    for e in past + new:
        assert nanos(e.timestamp) > 0, "no timestamp: %s" % e
    for e in new:
        assert kind(e) == "orchestratorStarted" or kind(e) in ARRIVALS, names
        assert e.eventId == -1, e
    for e in past:
        assert kind(e) in ARRIVALS | ACTIONS | {"orchestratorStarted"}, kinds(past)
    if past:
        check_legal(past + new, finished=False)
    else:
        assert names[1] == "executionStarted", names
        started = new[1].executionStarted
        assert started.orchestrationInstance.instanceId == request.instanceId
        assert started.orchestrationInstance.executionId.value == request.executionId.value
    if "executionTerminated" in names:
        assert names == ["orchestratorStarted", "executionTerminated"], names
    now = nanos(new[0].timestamp)
    for f in events_of(new, "timerFired"):
        assert now > nanos(f.fireAt), "orchestratorStarted %s is not after fireAt %s" % (new[0], f)


def raised_names(events):
    return [e.name for e in events_of(events, "eventRaised")]


def raised_inputs(events):
    return [e.input.value for e in events_of(events, "eventRaised")]


def times(events):
    return [secs(e.timestamp) for e in events]
