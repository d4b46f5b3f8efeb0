#!/usr/bin/env python3
"""The checks of the crash test notice what they are there for: each broken history or list must be refused."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "sdk"))
sys.path.insert(0, HERE)

import crash  # noqa: E402
import histories  # noqa: E402
import workload  # noqa: E402
from durabletask.internal import orchestrator_service_pb2 as pb  # noqa: E402

failed = 0
EXECUTION = "0" * 32


def event(kind, id=-1, at=0, **fields):
    e = pb.HistoryEvent(eventId=id)
    e.timestamp.seconds = 1_700_000_000 + at
    body = getattr(e, kind)
    body.SetInParent()
    for name, value in fields.items():
        if name in ("fireAt",):
            body.fireAt.seconds = 1_700_000_000 + value
        elif name in ("input", "result"):
            getattr(body, name).value = value
        else:
            setattr(body, name, value)
    if kind == "executionStarted":
        body.orchestrationInstance.executionId.value = EXECUTION
    return e


def legal():
    """The history of workload.chain(1) cut to what the checks look at: two activities and a timer would do."""
    events, n = [event("orchestratorStarted", at=1), event("executionStarted", at=1, name="chain", input="1")], 1
    for id in range(1, 6):
        events.append(event("taskScheduled", id, at=2 * id, name="inc", input=str(n)))
        n += 1
        events.append(event("orchestratorStarted", at=2 * id + 1))
        events.append(event("taskCompleted", at=2 * id + 1, taskScheduledId=id, result=str(n)))
    events.append(event("executionCompleted", at=20, orchestrationStatus=crash.COMPLETED, result="6"))
    return events


def state(output="6"):
    s = pb.OrchestrationState(orchestrationStatus=crash.COMPLETED)
    s.executionId.value = EXECUTION
    s.output.value = output
    return s


def expect(name, call, good):
    global failed
    try:
        call()
        noticed = None
    except histories.Illegal as e:
        noticed = e
    right = (noticed is None) == good
    print("%s crash.self_test.%s" % ("PASS" if right else "FAIL", name), flush=True)
    if not right:
        failed += 1
        print("--- %s: noticed %s" % (name, noticed), file=sys.stderr)


def broken(name, change, output="6"):
    events = legal()
    change(events)
    expect("notices_" + name, lambda: histories.check(events, state(output)), False)


def swap(events, i, j):
    events[i], events[j] = events[j], events[i]


def differs(name, change):
    """The structure stays legal; the replay tells."""
    events = legal()
    change(events)
    histories.check(events, state(events[-1].executionCompleted.result.value))
    expect("replay_notices_" + name, lambda: crash.replay(crash.PythonReplay(), "i", events), False)


def main():
    expect("a_legal_history", lambda: histories.check(legal(), state()), True)
    expect("a_legal_replay", lambda: crash.replay(crash.PythonReplay(), "i", legal()), True)
    broken("a_completion_twice", lambda e: e.insert(5, event("taskCompleted", at=3, taskScheduledId=1, result="2")))
    broken("one_never_scheduled", lambda e: setattr(e[4].taskCompleted, "taskScheduledId", 9))
    broken("two_schedulings", lambda e: e.insert(3, event("taskScheduled", 1, at=2, name="inc", input="1")))
    broken("a_turn_without_events", lambda e: e.insert(3, event("orchestratorStarted", at=3)))
    broken("time_going_back", lambda e: setattr(e[6].timestamp, "seconds", 1_600_000_000))
    broken("a_lost_end", lambda e: e.pop())
    broken("two_ends", lambda e: e.append(e[-1]))
    broken("another_output", lambda e: None, output="7")
    broken("orchestrator_completed", lambda e: e.insert(3, event("orchestratorCompleted", at=2)))
    broken("an_early_timer", lambda e: e.__setitem__(slice(3, 3), [
        event("timerCreated", 7, at=2, fireAt=900), event("orchestratorStarted", at=2),
        event("timerFired", at=2, timerId=7, fireAt=900)]))
    differs("another_input", lambda e: setattr(e[2].taskScheduled.input, "value", "5"))
    differs("another_result", lambda e: setattr(e[-1].executionCompleted.result, "value", "7"))
    differs("a_changed_answer", lambda e: setattr(e[4].taskCompleted.result, "value", "9"))

    good = [("all", ["0.0", "1.2", "end.0"], ["0.0", "1.2", "end.0"]),
            ("one_unacknowledged_more", ["0.0", "0.1", "1.0", "end.0"], ["0.1", "1.0", "end.0"]),
            ("an_end_stored_before_its_acknowledgement", ["0.0", "end.0"], ["0.0", "end.1"])]
    bad = [("a_lost_event", ["0.0", "end.0"], ["0.0", "1.0", "end.0"]),
           ("a_doubled_event", ["0.0", "0.0", "end.0"], ["0.0", "end.0"]),
           ("a_wrong_order", ["1.0", "0.0", "end.0"], ["0.0", "1.0", "end.0"])]
    for name, got, acknowledged in good + bad:
        def look():
            wrong = crash.wrong_events(got, acknowledged)
            if wrong:
                raise histories.Illegal(wrong)
        expect("events_" + name, look, (name, got, acknowledged) in good)
    assert workload.EVENTS > 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
