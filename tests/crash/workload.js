// The JavaScript workload of the crash test; workload.py tells what it does.
//
//   workload.js ADDRESS HUB INSTANCES_AT_ONCE
//   workload.js replay      a serialized OrchestratorRequest in base64 a line in, a response a line out
"use strict";

const readline = require("readline");
const grpc = require("@grpc/grpc-js");
const { TaskHubGrpcClient, TaskHubGrpcWorker, NoOpLogger, whenAll } = require("@microsoft/durabletask-js");

const KINDS = ["chain", "fan", "timers", "events", "children", "loop", "carry"];
const EVENTS = 8;
const after = (ctx, ms) => new Date(ctx.currentUtcDateTime.getTime() + ms);

const ORCHESTRATORS = {
  chain: async function* (ctx, n) {
    for (let i = 0; i < 5; i++) n = yield ctx.callActivity("inc", n);
    return n;
  },
  fan: async function* (ctx, n) {
    const tasks = [];
    for (let i = 0; i < 100; i++) tasks.push(ctx.callActivity("square", n + i));
    const got = yield whenAll(tasks);
    return got.reduce((a, b) => a + b, 0);
  },
  timers: async function* (ctx, n) {
    yield ctx.createTimer(after(ctx, 50));
    n = yield ctx.callActivity("inc", n);
    const tasks = [];
    for (let i = 1; i < 6; i++) tasks.push(ctx.createTimer(after(ctx, 100 * i)));
    yield whenAll(tasks);
    return yield ctx.callActivity("inc", n);
  },
  events: async function* (ctx) {
    const got = [];
    for (;;) {
      const data = yield ctx.waitForExternalEvent("e");
      got.push(data);
      if (data.startsWith("end")) return got;
    }
  },
  children: async function* (ctx, n) {
    const tasks = [];
    for (let i = 0; i < 5; i++) tasks.push(ctx.callSubOrchestrator("chain", n + i));
    const got = yield whenAll(tasks);
    const last = yield ctx.callSubOrchestrator("timers", n);
    return got.reduce((a, b) => a + b, 0) + last;
  },
  loop: async function* (ctx, x) {
    const n = yield ctx.callActivity("inc", x.n);
    if (x.round < 9) {
      ctx.continueAsNew({ n, round: x.round + 1 }, false);
      return;
    }
    return n;
  },
  carry: async function* (ctx, x) {
    const data = yield ctx.waitForExternalEvent("e");
    const got = x.got.concat([data]);
    if (data.startsWith("end")) return got;
    ctx.continueAsNew({ n: x.n, round: 0, got }, true);
  },
};
const ACTIVITIES = { inc: (ctx, x) => x + 1, square: (ctx, x) => x * x };

function firstInput(kind, n) {
  if (kind === "loop") return { n, round: 0 };
  return kind === "carry" ? { n, round: 0, got: [] } : n;
}

function newWorker(options) {
  const worker = new TaskHubGrpcWorker({ logger: new NoOpLogger(), ...options });
  for (const [name, f] of Object.entries(ORCHESTRATORS)) worker.addNamedOrchestrator(name, f);
  for (const [name, f] of Object.entries(ACTIVITIES)) worker.addNamedActivity(name, f);
  return worker;
}

const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function repeat(call, doneBy) {
  for (let tries = 0; ; tries++) {
    try {
      await call(tries);
      return tries;
    } catch (e) {
      if (e.code === undefined && !/timeout|timed out/i.test(String(e))) throw e;
      if (e.code === doneBy) return tries;
      if (e.code !== undefined && e.code !== grpc.status.UNAVAILABLE && e.code !== grpc.status.CANCELLED) throw e;
    }
    await sleep(50);
  }
}

async function main([address, hub, atOnce]) {
  const options = {
    hostAddress: address,
    options: { "grpc.initial_reconnect_backoff_ms": 50, "grpc.max_reconnect_backoff_ms": 200 },
    metadataGenerator: async () => {
      const m = new grpc.Metadata();
      m.set("taskhub", hub);
      return m;
    },
  };
  const worker = newWorker(options);
  const client = new TaskHubGrpcClient({ logger: new NoOpLogger(), ...options });
  await worker.start();
  let number = 0;
  let stopping = false;

  async function one() {
    const n = number++;
    const kind = KINDS[n % KINDS.length];
    const id = `${hub}-${kind}-${n}`;
    await repeat(() => client.scheduleNewOrchestration(kind, firstInput(kind, n), id), grpc.status.ALREADY_EXISTS);
    say({ start: id, kind, n });
    if (kind === "events" || kind === "carry") {
      for (let i = 0; i <= EVENTS; i++) {
        const name = i === EVENTS ? "end" : String(i);
        const tries = await repeat((t) => client.raiseOrchestrationEvent(id, "e", `${name}.${t}`));
        say({ event: id, data: `${name}.${tries}` });
      }
    }
    await repeat(() => client.waitForOrchestrationCompletion(id, false, 20));
  }

  async function lane() {
    while (!stopping) await one();
  }

  readline.createInterface({ input: process.stdin }).once("line", () => { stopping = true; });
  const lanes = [];
  for (let i = 0; i < Number(atOnce); i++) lanes.push(lane());
  await Promise.all(lanes);
  say({ done: number });
  process.exit(0);
}

async function replay() {
  const worker = newWorker({});
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const response = await worker.processOrchestratorRequest(Buffer.from(line, "base64"));
    process.stdout.write(Buffer.from(response).toString("base64") + "\n");
  }
}

const args = process.argv.slice(2);
(args[0] === "replay" ? replay() : main(args)).catch((e) => {
  say({ error: String(e && e.stack) });
  process.exit(1);
});
