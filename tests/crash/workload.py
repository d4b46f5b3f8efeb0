#!/usr/bin/env python3
"""The Python workload of the crash test: worker and client of one hub, until told to stop.

    workload.py ADDRESS HUB INSTANCES_AT_ONCE

What the server has acknowledged is printed, a JSON object a line, after the acknowledgement came:
{"start": id, "kind": k, "n": n} and {"event": id, "data": d}. On "stop" from standard input it
starts nothing more, waits for all it has started, prints {"done": count} and leaves.

workload.js and ../sdk/go/crash are the same in JavaScript and Go: same kinds, same names, same lines.
"""

import json
import logging
import os
import sys
import threading
import time
from datetime import timedelta

os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc  # noqa: E402
from durabletask import task  # noqa: E402
from durabletask.client import TaskHubGrpcClient  # noqa: E402
from durabletask.grpc_options import (  # noqa: E402
    GrpcChannelOptions, GrpcClientResiliencyOptions, GrpcWorkerResiliencyOptions,
)
from durabletask.worker import TaskHubGrpcWorker  # noqa: E402

KINDS = ["chain", "fan", "timers", "events", "children", "loop", "carry"]
EVENTS = 8


def inc(ctx, x):
    return x + 1


def square(ctx, x):
    return x * x


def chain(ctx, n):
    for _ in range(5):
        n = yield ctx.call_activity(inc, input=n)
    return n


def fan(ctx, n):
    got = yield task.when_all([ctx.call_activity(square, input=n + i) for i in range(100)])
    return sum(got)


def timers(ctx, n):
    yield ctx.create_timer(timedelta(milliseconds=50))
    n = yield ctx.call_activity(inc, input=n)
    yield task.when_all([ctx.create_timer(timedelta(milliseconds=100 * i)) for i in range(1, 6)])
    return (yield ctx.call_activity(inc, input=n))


def events(ctx, n):
    """All that was raised until the end, in order."""
    got = []
    while True:
        data = yield ctx.wait_for_external_event("e")
        got.append(data)
        if data.startswith("end"):
            return got


def children(ctx, n):
    got = yield task.when_all([ctx.call_sub_orchestrator(chain, input=n + i) for i in range(5)])
    last = yield ctx.call_sub_orchestrator(timers, input=n)
    return sum(got) + last


def loop(ctx, x):
    """Ten generations, an activity in each."""
    n = yield ctx.call_activity(inc, input=x["n"])
    if x["round"] < 9:
        ctx.continue_as_new({"n": n, "round": x["round"] + 1})
        return
    return n


def carry(ctx, x):
    """A generation an event: what is not read yet goes along."""
    data = yield ctx.wait_for_external_event("e")
    got = x["got"] + [data]
    if data.startswith("end"):
        return got
    ctx.continue_as_new({"n": x["n"], "round": 0, "got": got}, save_events=True)


ORCHESTRATORS = [chain, fan, timers, events, children, loop, carry]
ACTIVITIES = [inc, square]


def first_input(kind, n):
    if kind == "loop":
        return {"n": n, "round": 0}
    return {"n": n, "round": 0, "got": []} if kind == "carry" else n


class Workload:
    def __init__(self, address, hub, at_once):
        options = GrpcChannelOptions(raw_options=[
            ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.min_reconnect_backoff_ms", 50),
            ("grpc.max_reconnect_backoff_ms", 200), ("grpc.use_local_subchannel_pool", 1)])
        metadata = [("taskhub", hub)]
        self.worker = TaskHubGrpcWorker(
            host_address=address, metadata=metadata, channel_options=options,
            resiliency_options=GrpcWorkerResiliencyOptions(
                reconnect_backoff_base_seconds=0.1, reconnect_backoff_cap_seconds=0.5))
        for f in ORCHESTRATORS:
            self.worker.add_orchestrator(f)
        for f in ACTIVITIES:
            self.worker.add_activity(f)
        self.client = TaskHubGrpcClient(
            host_address=address, metadata=metadata, channel_options=options,
            resiliency_options=GrpcClientResiliencyOptions(channel_recreate_failure_threshold=0))
        self.hub, self.at_once = hub, at_once
        self.lock = threading.Lock()
        self.stopping = False
        self.number = 0

    def say(self, **what):
        with self.lock:
            print(json.dumps(what), flush=True)

    def next(self):
        with self.lock:
            self.number += 1
            return self.number - 1

    @staticmethod
    def repeat(call, done_by=()):
        """Until it is answered; gives how often that took. Unavailability is what this test is about."""
        tries = 0
        while True:
            try:
                call(tries)
                return tries
            except grpc.RpcError as e:
                if e.code() in done_by:
                    return tries
                if e.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                    raise
            except TimeoutError:
                pass
            tries += 1
            time.sleep(0.05)

    def one(self):
        n = self.next()
        kind = KINDS[n % len(KINDS)]
        id = "%s-%s-%d" % (self.hub, kind, n)
        self.repeat(lambda _: self.client.schedule_new_orchestration(
            kind, input=first_input(kind, n), instance_id=id), [grpc.StatusCode.ALREADY_EXISTS])
        self.say(start=id, kind=kind, n=n)
        if kind in ("events", "carry"):
            for i in range(EVENTS + 1):
                name = "end" if i == EVENTS else "%d" % i
                tries = self.repeat(lambda t: self.client.raise_orchestration_event(
                    id, "e", data="%s.%d" % (name, t)))
                self.say(event=id, data="%s.%d" % (name, tries))
        self.repeat(lambda _: self.client.wait_for_orchestration_completion(id, timeout=20))

    def lane(self):
        try:
            while not self.stopping:
                self.one()
        except Exception as e:
            self.say(error=repr(e))

    def run(self):
        self.worker.start()
        lanes = [threading.Thread(target=self.lane, daemon=True) for _ in range(self.at_once)]
        for lane in lanes:
            lane.start()
        sys.stdin.readline()
        self.stopping = True
        for lane in lanes:
            lane.join()
        self.say(done=self.number)
        os._exit(0)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    Workload(sys.argv[1], sys.argv[2], int(sys.argv[3])).run()
