"""The workloads of `perdure bench` for Temporal: its worker and its clients in one process, by its SDK.

    temporal_load.py ADDRESS WORKLOAD CONCURRENCY WARMUP_SECONDS SECONDS COUNT PAYLOAD DELAY_MS

COUNT 0: for SECONDS. Says "ready" when the warm-up has ended, measures after a line of input, and prints one JSON
document. Outputs are checked; a wrong one ends it with status 1.
"""

import asyncio
import json
import os
import sys
import time
import uuid
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

QUEUE = "bench"
MINUTE = timedelta(minutes=1)
EXECUTIONS = 5


def make(seed, number, pad):
    return "%s.%d.%s" % (seed, number, pad)


def parse(text):
    seed, number, pad = text.split(".", 2)
    return seed, int(number), pad


def pad_of(seed, length):
    return "".join(chr(ord("a") + (ord(seed[i % 8]) + i) % 26) for i in range(length))


@activity.defn(name="step")
async def step(text: str) -> str:
    seed, number, pad = parse(text)
    return make(seed, number + 1, pad)


def run_step(text):
    return workflow.execute_activity(step, text, start_to_close_timeout=MINUTE)


async def chain(text, steps):
    for _ in range(steps):
        text = await run_step(text)
    return text


@workflow.defn(name="hello1")
class Hello1:
    @workflow.run
    async def run(self, text: str) -> str:
        return await chain(text, 1)


@workflow.defn(name="chain5")
class Chain5:
    @workflow.run
    async def run(self, text: str) -> str:
        return await chain(text, 5)


@workflow.defn(name="chain50")
class Chain50:
    @workflow.run
    async def run(self, text: str) -> str:
        return await chain(text, 50)


@workflow.defn(name="fanout100")
class Fanout100:
    @workflow.run
    async def run(self, text: str) -> str:
        seed, _, pad = parse(text)
        results = await asyncio.gather(*[run_step(make(seed, i, pad)) for i in range(100)])
        assert all(parse(r)[::2] == (seed, pad) for r in results)
        return make(seed, sum(parse(r)[1] for r in results), pad)


@workflow.defn(name="timer")
class Timer:
    @workflow.run
    async def run(self, text: str) -> str:
        await asyncio.sleep(parse(text)[1] / 1e6)
        return text


@workflow.defn(name="event")
class Event:
    def __init__(self):
        self.data = None

    @workflow.run
    async def run(self, text: str) -> str:
        await workflow.wait_condition(lambda: self.data is not None)
        return self.data

    @workflow.signal
    def go(self, data: str) -> None:
        self.data = data


@workflow.defn(name="suborch")
class Suborch:
    @workflow.run
    async def run(self, text: str) -> str:
        return await workflow.execute_child_workflow(Hello1.run, text)


@workflow.defn(name="continue-as-new")
class ContinueAsNew:
    @workflow.run
    async def run(self, text: str) -> str:
        text = await run_step(text)
        if parse(text)[1] < EXECUTIONS:
            workflow.continue_as_new(text)
        return text


WORKFLOWS = [Hello1, Chain5, Chain50, Fanout100, Timer, Event, Suborch, ContinueAsNew]
RESULTS = {"hello1": 1, "chain5": 5, "chain50": 50, "fanout100": 5050, "event": 1, "suborch": 1, "continue-as-new": 5}


class Load:
    def __init__(self, client, workload, payload, delay_us):
        self.client, self.workload, self.payload, self.delay = client, workload, payload, delay_us
        self.latencies = []

    async def operation(self):
        id = uuid.uuid4().hex
        seed, pad = id[:8], pad_of(id[:8], self.payload)
        begin = self.delay if self.workload == "timer" else 0
        began = time.monotonic()
        handle = await self.client.start_workflow(self.workload, make(seed, begin, pad), id=id, task_queue=QUEUE,
                                                  result_type=str)
        if self.workload == "event":
            await handle.signal("go", make(seed, 1, pad))
        output = await handle.result()
        took = time.monotonic() - began
        expected = make(seed, RESULTS.get(self.workload, begin), pad)
        if output != expected or (self.workload == "timer" and took < self.delay / 1e6):
            raise SystemExit("wrong output: %s, not %s" % (output[:100], expected[:100]))
        self.latencies.append(took)

    async def run(self, concurrency, seconds, count):
        """A closed loop, until the time is over or, with a count, that many have begun; then to the end of all."""
        began, left = time.monotonic(), [count]

        async def one():
            while left[0] > 0 if count else time.monotonic() - began < seconds:
                left[0] -= 1
                await self.operation()

        self.latencies = []
        await asyncio.gather(*[one() for _ in range(concurrency)])
        return time.monotonic() - began


def at(values, fraction):
    return values[max(0, min(len(values) - 1, int(fraction * len(values) + 0.999999) - 1))] * 1e3


async def main():
    address, workload = sys.argv[1:3]
    concurrency, warmup, seconds, count, payload, delay = [float(a) for a in sys.argv[3:9]]
    client = await Client.connect(address)
    worker = Worker(client, task_queue=QUEUE, workflows=WORKFLOWS, activities=[step],
                    workflow_runner=UnsandboxedWorkflowRunner(), max_concurrent_workflow_tasks=200,
                    max_concurrent_activities=200)
    load = Load(client, workload, int(payload), int(delay * 1000))
    async with worker:
        if warmup:
            await load.run(int(concurrency), warmup, 0)
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        cpu = time.process_time()
        took = await load.run(int(concurrency), seconds, int(count))
        cpu = time.process_time() - cpu
        values = sorted(load.latencies)
        print(json.dumps({
            "operations": len(values), "seconds": took, "rate": len(values) / took,
            "clientCpuUs": cpu * 1e6 / len(values),
            "latencyMs": {"p50": at(values, 0.5), "p99": at(values, 0.99), "max": values[-1] * 1e3},
        }), flush=True)
        os._exit(0)  # the server goes next: the worker need not be patient


asyncio.run(main())
