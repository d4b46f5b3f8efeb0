#!/usr/bin/env python3
"""Kills the server again and again under the programs of three SDKs, and then looks at what is left.

    crash.py [--kills 30] [--seed N] [--at-once 6] [--languages python,javascript,go] [--keep]

Needs node with NODE_PATH, and the Go program built from tests/sdk/go/crash in $PERDURE_CRASH_GO.
The moments of the kills come from the seed. Each language has a hub of its own, worker and client in
one process, which is never restarted. At the end, for each hub:

  starts      every acknowledged start exists, and has ended COMPLETED with the right output
  events      every acknowledged event is in the output, once, in order; none is there twice
  children    every child that a history names has ended well
  histories   every history is one that the protocol allows: nothing resolved twice, no time goes back
  replay      the SDK replays every turn of every history and answers what is recorded
"""

import argparse
import base64
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import threading
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "sdk"))
sys.path.insert(0, HERE)
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc  # noqa: E402
import histories  # noqa: E402
import workload  # noqa: E402
from durabletask.internal import orchestrator_service_pb2 as pb  # noqa: E402
from durabletask.serialization import JsonDataConverter  # noqa: E402
from durabletask.worker import _OrchestrationExecutor, _Registry  # noqa: E402
from harness import Server, ServerError  # noqa: E402

COMPLETED = pb.ORCHESTRATION_STATUS_COMPLETED
COMMANDS = {
    "python": [sys.executable, "-B", os.path.join(HERE, "workload.py")],
    "javascript": [os.environ.get("NODE") or "node", os.path.join(HERE, "workload.js")],
    "go": [os.environ.get("PERDURE_CRASH_GO", "perdure-crash-go")],
}
failures = 0


def report(good, name, text=""):
    global failures
    print("%s crash.%s" % ("PASS" if good else "FAIL", name) + (" (%s)" % text if text and good else ""), flush=True)
    if not good:
        failures += 1
        print("--- crash.%s: %s" % (name, text), file=sys.stderr, flush=True)


class Program:
    """One language's process, and what it says the server acknowledged."""

    def __init__(self, language, address, at_once):
        self.language, self.hub = language, "crash-" + language
        self.starts, self.events, self.errors, self.done = {}, {}, [], None
        self.process = subprocess.Popen(
            COMMANDS[language] + [address, self.hub, str(at_once)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                self.errors.append(line.strip())
                continue
            if "start" in said:
                self.starts[said["start"]] = (said["kind"], said["n"])
            elif "event" in said:
                self.events.setdefault(said["event"], []).append(said["data"])
            elif "done" in said:
                self.done = said["done"]
            else:
                self.errors.append(said.get("error", line))

    def stop(self):
        try:
            self.process.stdin.write("stop\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def wait(self, timeout):
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(5)


def output_of(kind, n):
    """The right output, or None where it depends on events."""
    timers = n + 2
    return {
        "chain": n + 5,
        "fan": sum((n + i) ** 2 for i in range(100)),
        "timers": timers,
        "children": sum(n + i + 5 for i in range(5)) + timers,
        "loop": n + 10,
    }.get(kind)


def wrong_events(got, acknowledged):
    """What is wrong with a list of received events, or None."""
    if len(set(got)) != len(got):
        return "an event came twice"
    missing = [a for a in acknowledged if a not in got]
    # The end may have been stored by a try that was not acknowledged: later tries then came too late.
    if missing and not (got and got[-1].startswith("end.") and all(m.startswith("end.") for m in missing)):
        return "acknowledged but lost: %s" % missing
    order = [(99 if a.startswith("end") else int(a.split(".")[0]), int(a.split(".")[1])) for a in got]
    return None if order == sorted(order) else "out of order: %s" % got


class Hub:
    """Raw calls to one hub."""

    def __init__(self, address, hub):
        self.channel = grpc.insecure_channel(address, options=[
            ("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)])
        self.metadata = [("taskhub", hub)]
        self._get = self.channel.unary_unary(
            "/TaskHubSidecarService/GetInstance", request_serializer=pb.GetInstanceRequest.SerializeToString,
            response_deserializer=pb.GetInstanceResponse.FromString)
        self._history = self.channel.unary_stream(
            "/TaskHubSidecarService/StreamInstanceHistory",
            request_serializer=pb.StreamInstanceHistoryRequest.SerializeToString,
            response_deserializer=pb.HistoryChunk.FromString)

    def state(self, id):
        got = self._get(pb.GetInstanceRequest(instanceId=id, getInputsAndOutputs=True),
                        metadata=self.metadata, timeout=30, wait_for_ready=True)
        return got.orchestrationState if got.exists else None

    def history(self, id):
        return [e for chunk in self._history(pb.StreamInstanceHistoryRequest(instanceId=id),
                                             metadata=self.metadata, timeout=60) for e in chunk.events]


# ---- replays ----

class PythonReplay:
    def __init__(self):
        self.registry = _Registry()
        for f in workload.ORCHESTRATORS:
            self.registry.add_orchestrator(f)
        import logging
        self.logger = logging.getLogger("replay")

    def __call__(self, id, execution, past, new):
        result = _OrchestrationExecutor(
            self.registry, self.logger, data_converter=JsonDataConverter()).execute(id, past, new)
        return pb.OrchestratorResponse(actions=result.actions)

    def close(self):
        pass


class ProcessReplay:
    """Replays in the SDK's own language, a line in and a line out."""

    def __init__(self, language):
        self.language = language
        self.process = subprocess.Popen(COMMANDS[language] + ["replay"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def __call__(self, id, execution, past, new):
        if self.language == "go":
            encode = [[base64.b64encode(e.SerializeToString()).decode() for e in events] for events in (past, new)]
            line = json.dumps({"id": id, "past": encode[0], "new": encode[1]})
        else:
            line = base64.b64encode(histories.request_of(id, execution, past, new).SerializeToString()).decode()
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise histories.Illegal("the SDK died of it")
        try:
            return pb.OrchestratorResponse.FromString(base64.b64decode(answer))
        except Exception:
            raise histories.Illegal("the SDK answers %s" % answer[:300]) from None

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


def replay(replayer, id, events):
    execution = events[1].executionStarted.orchestrationInstance.executionId.value
    for past, arrived, recorded in histories.turns(events):
        response = replayer(id, execution, past, arrived)
        same, want, got = histories.same_actions(response, recorded)
        if not same:
            raise histories.Illegal("a replayed turn gives %s, recorded is %s" % (got, want))
        ends = histories.completion(response)
        if recorded and histories.kind_of(recorded[-1]) == "executionCompleted":
            done = recorded[-1].executionCompleted
            if ends != (done.orchestrationStatus, done.result.value):
                raise histories.Illegal("the replay ends with %s" % (ends,))
        elif ends is not None:
            raise histories.Illegal("the replay ends too soon: %s" % (ends,))


# ---- the run ----

def verify(program, address):
    """All checks of one hub."""
    language, hub = program.language, Hub(address, program.hub)
    problems = {"starts": [], "events": [], "children": [], "histories": [], "replay": []}
    replayer = PythonReplay() if language == "python" else ProcessReplay(language)
    seen, replayed = {}, 0
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        ids = sorted(program.starts)
        states = dict(zip(ids, pool.map(hub.state, ids)))
        for id in ids:
            kind, n = program.starts[id]
            state = states[id]
            if state is None:
                problems["starts"].append("%s does not exist" % id)
                continue
            if state.orchestrationStatus != COMPLETED:
                problems["starts"].append("%s has status %s: %s" % (
                    id, pb.OrchestrationStatus.Name(state.orchestrationStatus), str(state.failureDetails)[:300]))
                continue
            got, want = json.loads(state.output.value or "null"), output_of(kind, n)
            if want is None:
                wrong = wrong_events(got, program.events.get(id, []))
                if wrong:
                    problems["events"].append("%s: %s" % (id, wrong))
            elif got != want:
                problems["starts"].append("%s gives %r, not %r" % (id, got, want))
            seen[id] = state
        todo = list(seen)
        while todo:
            children = []
            for id, events in zip(todo, pool.map(hub.history, todo)):
                try:
                    histories.check(events, seen[id])
                    replay(replayer, id, events)
                    replayed += 1
                except histories.Illegal as e:
                    where = "replay" if "replay" in str(e) or "SDK" in str(e) else "histories"
                    problems[where].append("%s: %s" % (id, e))
                except Exception as e:
                    problems["replay"].append("%s: %r" % (id, e))
                children += [e.subOrchestrationInstanceCreated.instanceId for e in events
                             if histories.kind_of(e) == "subOrchestrationInstanceCreated"]
            todo = []
            for id, state in zip(children, pool.map(hub.state, children)):
                if state is None or state.orchestrationStatus != COMPLETED:
                    problems["children"].append("child %s: %s" % (id, state and state.orchestrationStatus))
                else:
                    seen[id] = state
                    todo.append(id)
    replayer.close()
    for what, found in problems.items():
        text = {"starts": "%d instances" % len(program.starts), "events": "%d events" % sum(map(len, program.events.values())),
                "replay": "%d histories" % replayed}.get(what, "")
        report(not found, "%s.%s" % (language, what), "\n".join(found[:10]) if found else text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("--languages", default="python,javascript,go")
    parser.add_argument("--settle", type=float, default=90, help="seconds for all to end after the last kill")
    parser.add_argument("--keep", action="store_true", help="leave the store and the log behind")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
    print("crash: seed %d, %d kills" % (seed, args.kills), flush=True)
    moments = random.Random(seed)

    begin = time.monotonic()
    server = Server(extra=["--log-level", "warn"])
    server.start()
    # The address stays the same, so programs need not be told of restarts.
    programs = [Program(l, server.address, args.at_once) for l in args.languages.split(",")]
    slowest, survived = 0.0, True
    for kill in range(args.kills):
        # Some soon after the start, most when the programs are at work again.
        time.sleep(moments.uniform(0.05, 0.6) if moments.random() < 0.2 else moments.uniform(0.6, 3.4))
        try:
            server.check()
            server.kill()
            started = time.monotonic()
            server.start()
            slowest = max(slowest, time.monotonic() - started)
        except ServerError as e:
            report(False, "server", "after %d kills: %s" % (kill, e))
            survived = False
            break
    if survived:
        report(slowest < 10, "opens", "%.2f s at most to be ready" % slowest)
    for p in programs:
        p.stop()
    end = time.monotonic() + args.settle
    for p in programs:
        p.wait(max(1, end - time.monotonic()))
        good = p.done is not None and not p.errors
        report(good, "%s.ends" % p.language, "%s of %s instances ended; %s" % (
            p.done, len(p.starts), p.errors[:3]) if not good else "%d instances" % p.done)
    if survived and server.alive():
        for p in programs:
            verify(p, server.address)
        try:
            text = urllib.request.urlopen("http://%s/readyz" % server.http_address, timeout=10).status
            report(text == 200, "ready", "readyz says %s" % text)
            server.check()
            server.stop()
            report(True, "stops")
        except Exception as e:
            report(False, "stops", repr(e))
    print("crash: %.0f s, seed %d" % (time.monotonic() - begin, seed), flush=True)
    if failures or args.keep:
        print("kept: %s" % server.dir, file=sys.stderr)
        print(server.log_tail(6000), file=sys.stderr)
        server.kill()
    else:
        server.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
