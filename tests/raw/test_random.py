"""Random calls and random answers from one seed: nothing gets stuck, no history goes wrong.

Clients start, raise, suspend, resume, terminate, replace and purge at random; workers answer turns
with random actions, give items back, answer twice, go away. At the end everything is resumed and
terminated, and a good worker finishes what is left: each instance must end, with a legal history.
"""

import os
import queue
import random
import time

import grpc

from lib import actions as act
from lib.history import check_legal
from lib.proto import COMPLETED, FAILED, PENDING, RUNNING, SUSPENDED, TERMINATED, kinds, pb, sv
from lib.runner import NIGHTLY, limit, serial
from lib.worker import GO, JAVA, Worker


def brief(action):
    kind = action.WhichOneof("orchestratorActionType")
    if kind == "terminateOrchestration":
        return "terminate %s%s" % (action.terminateOrchestration.instanceId,
                                   " and below" * action.terminateOrchestration.recurse)
    if kind == "createSubOrchestration":
        return "child %s" % action.createSubOrchestration.instanceId
    if kind == "completeOrchestration":
        return "end with %d" % action.completeOrchestration.orchestrationStatus
    return kind


class Chaos:
    def __init__(self, t, s, seed, agents, kills):
        self.t, self.s = t, s
        self.rng = random.Random(seed)
        self.agents = agents
        self.kills = kills
        self.ids = ["i%d" % n for n in range(8)]
        self.log = []
        self.seen = set()
        self.stale = []
        self.connect()

    def connect(self):
        self.c = self.t.client()
        self.workers = [self.t.worker(agent=a) for a in self.agents]

    def pick(self):
        return self.rng.choice(self.ids)

    def actions(self, item):
        r = self.rng
        used = max([e.eventId for e in item.events] + [0])
        out = []
        for _ in range(r.choice([0, 0, 1, 1, 2, 4])):
            used += 1
            out.append(r.choice([
                lambda: act.task(used, r.choice("ab"), "x" * r.randrange(200)),
                lambda: act.timer(used, after=r.choice([-1, 0, 0.01, 0.05, 3600])),
                lambda: act.child(used, "kid", r.choice(["", self.pick(), "kid-%d" % r.randrange(6)])),
                lambda: act.send(used, self.pick(), "sent", str(used)),
                lambda: act.terminate(used, self.pick(), "by action", r.random() < 0.5),
            ])())
        if "executionTerminated" in kinds(item.new):
            return out + r.choice([[act.terminated(1000, "t")], [], [act.again(1000)], [act.complete(1000)]])
        end = r.random()
        if end < 0.15:
            out.insert(r.randrange(len(out) + 1), act.complete(1000, r.choice([COMPLETED, FAILED, TERMINATED])))
        elif end < 0.35:
            out.append(act.again(1000, "again", carry=[act.raised("carried", "c")] * r.randrange(3)))
        elif end < 0.38:
            out.append(pb.OrchestratorAction(id=used + 1))
        return out

    def client_step(self):
        r, c, id = self.rng, self.c, self.pick()
        what = r.choice(["start", "start", "replace", "event", "event", "event", "suspend", "resume", "resume",
                         "terminate", "purge", "get", "history"])
        self.log.append((what, id))
        try:
            if what == "start":
                c.start("o", id, at=time.time() + r.choice([-1, -1, 0.05]))
                self.seen.add(id)
            elif what == "replace":
                c.start("o", id, replaceable=[RUNNING, PENDING, SUSPENDED, TERMINATED, COMPLETED, FAILED])
                self.seen.add(id)
            elif what == "event":
                c.event(id, "e", str(r.random()))
            elif what == "suspend":
                c.suspend(id)
            elif what == "resume":
                c.resume(id)
            elif what == "terminate":
                c.terminate(id, "out", r.random() < 0.5)
            elif what == "purge":
                c.purge(id)
            elif what == "get":
                c.get(id)
            else:
                h = c.history(id)
                if h:
                    check_legal(h)
        except grpc.RpcError as e:
            assert e.code().name in ("NOT_FOUND", "ALREADY_EXISTS"), (what, id, e)

    def worker_step(self):
        r = self.rng
        w = r.choice(self.workers)
        try:
            item = w._take(r.choice([0.001, 0.02]))
        except queue.Empty:
            return
        if item is None:
            return
        how = r.random()
        self.log.append(("item", item, "%.2f" % how))
        if how < 0.04 and w.tokens:
            w.abandon(item)
        elif how < 0.06:
            k = self.workers.index(w)
            self.stale = [x for x in self.stale if x[0] is not w]
            w.close()
            self.workers[k] = self.t.worker(agent=self.agents[k])
        elif item.kind == "task":
            w.result(item, "r", act.failure() if r.random() < 0.2 else None)
            if r.random() < 0.1:
                w.result(item, "twice")
        else:
            acts = self.actions(item)
            is_over = True
            if how < 0.12 and len(acts) > 1 and w.tokens:
                for n, a in enumerate(acts[:-1]):
                    w.done(item, a, partial=True, chunk=n)
                w.done(item, acts[-1], chunk=len(acts) - 1)
            elif how < 0.15 and w.tokens:
                w.done(item, requires_history=True)
                is_over = False  # its token counts until the turn is out again
            else:
                self.log.append(("answer", item.id, [brief(a) for a in acts]))
                w.done(item, *acts)
            if r.random() < 0.1 and is_over:
                self.stale.append((w, item))
        if self.stale and r.random() < 0.1 and w.tokens:
            w2, old = self.stale.pop()
            if w2.tokens and old.kind == "turn":
                w2.call("CompleteOrchestratorTask", w2.response(old, [act.complete(result="stale!")]))

    def run(self, steps):
        for n in range(steps):
            (self.client_step if self.rng.random() < 0.4 else self.worker_step)()
            if self.kills and n and n % (steps // (self.kills + 1)) == 0:
                for w in self.workers:
                    w.close()
                self.stale = []
                self.s.restart()
                self.connect()

    def finish(self):
        """Resume and terminate everything; a good worker answers what comes."""
        for w in self.workers:
            w.close()
        c = self.c
        w = self.t.worker()
        end = time.monotonic() + 45
        while True:
            left = []
            for id in self.ids + ["kid-%d" % n for n in range(6)]:
                state = c.get(id, False)
                if state is not None and state.orchestrationStatus in (PENDING, RUNNING, SUSPENDED):
                    left.append((id, state.orchestrationStatus))
                    c.terminate(id, "end", True)
            if not left:
                break
            assert time.monotonic() < end, (left, [c.history(i) for i, _ in left][:2], self.log[-20:])
            idle = time.monotonic()
            while time.monotonic() - idle < 0.2:
                try:
                    item = w._take(0.1)
                except queue.Empty:
                    continue
                if item is None:
                    continue
                idle = time.monotonic()
                if item.kind == "task":
                    w.result(item)
                else:
                    w.done(item, act.terminated(100000, "end"))
        for id in self.ids:
            state = c.get(id)
            if state is None:
                continue
            h = check_legal(c.history(id), True)
            done = [e for e in h if e.HasField("executionCompleted")][0].executionCompleted
            assert done.orchestrationStatus == state.orchestrationStatus, id
            assert "stale!" not in state.output.value
            assert state.HasField("completedTimestamp")
        # And all ids are good for another life.
        for id in self.ids:
            c.start("o", id)
            item = None
            while item is None or item.id != id:
                item = w.turn(timeout=15)
                if item.id != id:
                    w.done(item, act.terminated(100000))
            assert kinds(item.new)[:2] == ["orchestratorStarted", "executionStarted"]
            w.done(item, act.complete(result="reborn"))
            assert c.wait(id).output.value == "reborn"


def chaos(t, seeds, steps, agents, kills=0):
    for seed in seeds:
        t.hub = "h-%d-%d" % (seed, time.monotonic_ns())
        print("# random seed %d" % seed, flush=True)
        x = None
        try:
            x = Chaos(t, t.own_server({"terminate.grace": "2s", "tokenless.redelivery": "200ms"}), seed,
                      agents, kills)
            x.run(steps)
            x.finish()
        except BaseException as e:
            e.add_note("seed %d; at the end: %s" % (seed, x and x.log[-20:]))
            item = getattr(e, "item", None)
            if item is not None:
                about = [l for l in x.log if item.id in repr(l)]
                e.add_note("bad item %r; about it: %s" % (item, about[-14:]))
            raise


def seeds(count):
    if NIGHTLY:
        return [int.from_bytes(os.urandom(4), "big") for _ in range(count * 20)]
    return list(range(1, count + 1))


# checklist: 130, 56
# reports: BL-018, BL-027, BL-052, BL-054, BL-173, BL-175
@limit(150)
def test_workers_with_tokens(t):
    chaos(t, seeds(4), 500, (None, None))


# checklist: 139, 157
@limit(150)
def test_workers_without_tokens(t):
    chaos(t, seeds(3), 400, (GO, JAVA))


# checklist: 138
# reports: BL-065, BL-173
@limit(150)
def test_with_kills(t):
    chaos(t, seeds(3), 400, (None, None, GO), kills=4)


if NIGHTLY:
    for _test in (test_workers_with_tokens, test_workers_without_tokens, test_with_kills):
        _test.limit = 3000
