"""Is a history one that the protocol allows? Structure here; what the code makes of it, by the SDKs."""

from durabletask.internal import orchestrator_service_pb2 as pb

# Kinds of events that an orchestrator's actions leave, and what resolves each.
SCHEDULES = {"taskScheduled": "task", "timerCreated": "timer", "subOrchestrationInstanceCreated": "child"}
RESOLVES = {
    "taskCompleted": ("task", "taskScheduledId"), "taskFailed": ("task", "taskScheduledId"),
    "timerFired": ("timer", "timerId"),
    "subOrchestrationInstanceCompleted": ("child", "taskScheduledId"),
    "subOrchestrationInstanceFailed": ("child", "taskScheduledId"),
}
RECORDED = set(SCHEDULES) | {"eventSent", "executionCompleted"}
NEVER = {"orchestratorCompleted", "continueAsNew", "historyState", "genericEvent"}


class Illegal(Exception):
    pass


def kind_of(event):
    return event.WhichOneof("eventType")


def turns(events):
    """[(past, arrived, recorded)] of each turn of a history."""
    starts = [i for i, e in enumerate(events) if kind_of(e) == "orchestratorStarted"]
    out = []
    for n, start in enumerate(starts):
        end = starts[n + 1] if n + 1 < len(starts) else len(events)
        split = start
        while split < end and kind_of(events[split]) not in RECORDED:
            split += 1
        out.append((events[:start], events[start:split], events[split:end]))
    return out


def check(events, state):
    """Raises Illegal when a history breaks a rule of the protocol."""
    def need(condition, text, *args):
        if not condition:
            raise Illegal(text % args)

    need(len(events) >= 3, "only %d events", len(events))
    names = [kind_of(e) for e in events]
    need(names[:2] == ["orchestratorStarted", "executionStarted"], "begins with %s", names[:2])
    need(names.count("executionStarted") == 1, "started %d times", names.count("executionStarted"))
    need(names[-1] == "executionCompleted" and names.count("executionCompleted") == 1, "ends with %s", names[-3:])
    need(not NEVER & set(names), "has %s", NEVER & set(names))
    need(events[1].executionStarted.orchestrationInstance.executionId.value == state.executionId.value,
         "is of another execution than the state")
    done = events[-1].executionCompleted
    need(done.orchestrationStatus == state.orchestrationStatus, "and state differ in status")
    need(done.result.value == state.output.value, "and state differ in output")

    last_start, open_ids, fire_at = 0, {}, {}
    for past, arrived, recorded in turns(events):
        at = arrived[0].timestamp.ToNanoseconds()
        need(len(arrived) >= 2, "a turn at %d without an event", len(past))
        need(at > last_start or not past, "orchestratorStarted goes back")
        last_start = at
        for e in arrived:
            name = kind_of(e)
            need(e.eventId == -1, "%s has id %d", name, e.eventId)
            need(e.timestamp.seconds > 0, "%s without a time", name)
            if name in RESOLVES:
                what, field = RESOLVES[name]
                key = (what, getattr(getattr(e, name), field))
                need(open_ids.pop(key, None), "%s %d resolved twice, or never scheduled", *key)
                if what == "timer":
                    need(e.timerFired.fireAt == fire_at[key], "timer %d fired for another time", key[1])
                    need(at > e.timerFired.fireAt.ToNanoseconds(), "timer %d fired early", key[1])
        for e in recorded:
            name = kind_of(e)
            need(name in RECORDED, "%s among what a turn records", name)
            if name in SCHEDULES:
                key = (SCHEDULES[name], e.eventId)
                need(key not in open_ids, "%s %d scheduled twice", *key)
                open_ids[key] = True
                if name == "timerCreated":
                    fire_at[key] = e.timerCreated.fireAt
    return names


def completion(response):
    """(status, result) that a replay's response ends with; None when it goes on."""
    for action in response.actions:
        if action.HasField("completeOrchestration"):
            c = action.completeOrchestration
            return c.orchestrationStatus, c.result.value
    return None


def same_actions(response, recorded):
    """Whether a replayed turn answers with what was recorded of it: kinds, ids, names, inputs."""
    def of_action(a):
        kind = a.WhichOneof("orchestratorActionType")
        v = getattr(a, kind)
        if kind == "scheduleTask":
            return (a.id, "taskScheduled", v.name, v.input.value)
        if kind == "createTimer":
            return (a.id, "timerCreated", "", str(v.fireAt.ToNanoseconds()))
        if kind == "createSubOrchestration":
            return (a.id, "subOrchestrationInstanceCreated", v.name, v.input.value)
        return None

    def of_event(e):
        kind = kind_of(e)
        v = getattr(e, kind)
        if kind == "taskScheduled":
            return (e.eventId, kind, v.name, v.input.value)
        if kind == "timerCreated":
            return (e.eventId, kind, "", str(v.fireAt.ToNanoseconds()))
        if kind == "subOrchestrationInstanceCreated":
            return (e.eventId, kind, v.name, v.input.value)
        return None

    want = sorted(filter(None, map(of_event, recorded)))
    got = sorted(filter(None, map(of_action, response.actions)))
    return want == got, want, got


def request_of(instance, execution, past, new):
    request = pb.OrchestratorRequest(instanceId=instance, pastEvents=past, newEvents=new)
    request.executionId.value = execution
    return request
