// The released JavaScript SDK against a server: main.js [GROUP]...
//
// The server's address comes in PERDURE_SERVER, the task hub in PERDURE_HUB (none: no header is sent).
// Prints `PASS group.test` or `FAIL group.test: why`, a line each. Exit status 1 when one failed.
"use strict";

const assert = require("assert");
const grpc = require("@grpc/grpc-js");
const {
  TaskHubGrpcClient, TaskHubGrpcWorker, NoOpLogger, OrchestrationStatus, RetryPolicy, whenAll, whenAny,
  terminateOptions,
} = require("@microsoft/durabletask-js");

const address = process.env.PERDURE_SERVER || "localhost:4001";
const hub = process.env.PERDURE_HUB;
const options = { hostAddress: address, logger: new NoOpLogger() };
if (hub) {
  options.metadataGenerator = async () => {
    const m = new grpc.Metadata();
    m.set("taskhub", hub);
    return m;
  };
}
const client = new TaskHubGrpcClient(options);
const worker = new TaskHubGrpcWorker(options);
const tests = [];
const status = (s) => OrchestrationStatus[s.runtimeStatus];
const after = (ctx, ms) => new Date(ctx.currentUtcDateTime.getTime() + ms);
let number = 0;
const newId = () => `js-${process.pid}-${number++}`;

function test(name, body) {
  tests.push({ name, body });
}

async function eventually(condition, what) {
  for (const end = Date.now() + 20000; ;) {
    const got = await condition();
    if (got) return got;
    if (Date.now() > end) throw new Error(`did not happen: ${what || condition}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const start = (name, input, id) => client.scheduleNewOrchestration(name, input, id || newId());
const finish = (id, seconds = 30) => client.waitForOrchestrationCompletion(id, true, seconds);
const until = (id, want) => eventually(async () => {
  const s = await client.getOrchestrationState(id, false);
  return s && status(s) === want;
}, `${id} is ${want}`);
const output = (s) => JSON.parse(s.serializedOutput);
const kinds = async (id) => (await client.getOrchestrationHistory(id)).map((e) => e.type);
async function rejects(promise, code, text) {
  await assert.rejects(promise, (e) => e.code === code && (text === undefined || e.details.includes(text)));
}

// ---- programs ----

const ran = {};
const release = {};
const activities = {
  inc: (ctx, x) => x + 1,
  square: (ctx, x) => x * x,
  echo: (ctx, x) => x,
  nothing: () => undefined,
  fails: () => { throw new Error("no luck"); },
  flaky: (ctx, key) => {
    ran[key] = (ran[key] || 0) + 1;
    if (ran[key] < 3) throw new Error(`try ${ran[key]}`);
    return ran[key];
  },
  held: async (ctx, key) => {
    ran[key] = (ran[key] || 0) + 1;
    await new Promise((resolve) => { release[key] = resolve; });
    return key;
  },
};
const retry = (n) => new RetryPolicy({ maxNumberOfAttempts: n, firstRetryIntervalInMilliseconds: 20 });

const orchestrators = {
  echoes: async (ctx, x) => x,
  fails_itself: async () => { throw new TypeError("that was it"); },
  chain: async function* (ctx, n) {
    for (let i = 0; i < 5; i++) n = yield ctx.callActivity("inc", n);
    return n;
  },
  fan: async function* (ctx, n) {
    const tasks = [];
    for (let i = 0; i < n; i++) tasks.push(ctx.callActivity("square", i));
    return (yield whenAll(tasks)).reduce((a, b) => a + b, 0);
  },
  example: async function* (ctx, x) {
    const a = yield ctx.callActivity("echo", x);
    yield ctx.createTimer(after(ctx, 20));
    return yield ctx.callSubOrchestrator("echoes", a);
  },
  status: async function* (ctx) {
    ctx.setCustomStatus("one");
    yield ctx.waitForExternalEvent("go");
    ctx.setCustomStatus({ two: 2 });
    return 1;
  },
  catches: async function* (ctx, name) {
    try {
      yield name === "child" ? ctx.callSubOrchestrator("fails_itself") : ctx.callActivity(name);
    } catch (e) {
      return e.message;
    }
    return "no failure";
  },
  retries: async function* (ctx, x) {
    return yield x.child
      ? ctx.callSubOrchestrator("flaky_child", x.key, { retry: retry(5), instanceId: x.key })
      : ctx.callActivity("flaky", x.key, { retry: retry(5) });
  },
  flaky_child: async function* (ctx, key) {
    const n = yield ctx.callActivity("inc", ran[key] || 0);
    if (!ctx.isReplaying) ran[key] = n;
    if (n < 3) throw new Error(`try ${n}`);
    return n;
  },
  nothing: async function* (ctx) {
    return (yield ctx.callActivity("nothing")) === undefined ? "undefined" : "something";
  },
  hold: async function* (ctx, key) { return yield ctx.callActivity("held", key); },
  sleeps: async function* (ctx, ms) {
    const at = after(ctx, ms);
    yield ctx.createTimer(at);
    return ctx.currentUtcDateTime.getTime() - at.getTime();
  },
  naps: async function* (ctx) {
    const tasks = [];
    for (let i = 1; i <= 50; i++) tasks.push(ctx.createTimer(after(ctx, 10 * i)));
    yield whenAll(tasks);
    return "awake";
  },
  race: async function* (ctx) {
    const event = ctx.waitForExternalEvent("go");
    const timer = ctx.createTimer(after(ctx, 3600 * 1000));
    return (yield whenAny([event, timer])) === event ? event.getResult() : "timer";
  },
  parent: async function* (ctx, id) {
    const got = yield ctx.callSubOrchestrator("tells", 1, id ? { instanceId: id } : undefined);
    return got;
  },
  tells: async (ctx, x) => [x, ctx.instanceId, ctx.parent && ctx.parent.instanceId],
  wide: async function* (ctx, n) {
    const tasks = [];
    for (let i = 0; i < n; i++) tasks.push(ctx.callSubOrchestrator("echoes", i));
    return (yield whenAll(tasks)).reduce((a, b) => a + b, 0);
  },
  waits: async function* (ctx) { return yield ctx.waitForExternalEvent("go"); },
  parent_of_waits: async function* (ctx, id) {
    try {
      return yield ctx.callSubOrchestrator("waits", null, { instanceId: id, retry: retry(3) });
    } catch (e) {
      return e.message;
    }
  },
  collects: async function* (ctx, n) {
    const got = [];
    for (let i = 0; i < n; i++) got.push(yield ctx.waitForExternalEvent("e"));
    return got;
  },
  sends: async function* (ctx, id) {
    ctx.sendEvent(id, "go", { from: ctx.instanceId });
    ctx.sendEvent("nobody-there", "go", 1);
    yield ctx.createTimer(after(ctx, 1));
    return "sent";
  },
  loop: async function* (ctx, n) {
    yield ctx.callActivity("echo", n);
    if (n < 10) {
      ctx.continueAsNew(n + 1, false);
      return;
    }
    return n;
  },
  carry: async function* (ctx, got) {
    got = got.concat([yield ctx.waitForExternalEvent("e")]);
    if (got.length < 100) {
      ctx.continueAsNew(got, true);
      return;
    }
    return got;
  },
  eternal: async function* (ctx, n) {
    yield ctx.createTimer(after(ctx, 5));
    ctx.continueAsNew(n + 1, false);
  },
};

// ---- tests ----

// checklist: 10, 24
test("start.hello", async () => {
  const id = newId();
  assert.strictEqual(await start("echoes", { a: [1, "ü"] }, id), id);
  const s = await finish(id);
  assert.strictEqual(status(s), "COMPLETED");
  assert.deepStrictEqual(output(s), { a: [1, "ü"] });
  assert.strictEqual(s.failureDetails, undefined);
});

// JS always sends scheduledStartTimestamp; epoch 0 is none. checklist: 14
test("start.at", async () => {
  const at = new Date(Date.now() + 1500);
  const id = await client.scheduleNewOrchestration("echoes", 1, newId(), at);
  await new Promise((resolve) => setTimeout(resolve, 500));
  assert.strictEqual(status(await client.getOrchestrationState(id)), "PENDING");
  await finish(id);
  assert.ok(Date.now() >= at.getTime());
});

// checklist: 15; reports: BL-069
test("start.reuse", async () => {
  const id = newId();
  await start("echoes", 1, id);
  await finish(id);
  await start("waits", null, id);
  await until(id, "RUNNING");
  await rejects(start("echoes", 1, id), grpc.status.ALREADY_EXISTS, `Orchestration instance '${id}' already exists`);
  await client.raiseOrchestrationEvent(id, "go", 2);
  assert.strictEqual(output(await finish(id)), 2);
});

// checklist: 22
test("start.unknown_and_purged", async () => {
  assert.strictEqual(await client.getOrchestrationState("nobody"), undefined);
  const id = await start("echoes", 1);
  await finish(id);
  assert.strictEqual((await client.purgeOrchestration(id)).deletedInstanceCount, 1);
  assert.strictEqual(await client.getOrchestrationState(id), undefined);
});

// checklist: 14
test("start.tags_and_version", async () => {
  const id = await client.scheduleNewOrchestration("echoes", 1, {
    instanceId: newId(), tags: { a: "b" }, version: "1.2",
  });
  const s = await finish(id);
  assert.deepStrictEqual(s.tags, { a: "b" });
});

// JS gives its waits no deadline and leaves the call open when its own timer ends it: ten thousand of those
// (a part of them here, all in tests/sdk/js/waits.js) cost a record each and go with the connection.
// checklist: 27, 143
test("start.waits_given_up", async () => {
  const id = await start("waits");
  await until(id, "RUNNING");
  const given = await Promise.allSettled(
    Array.from({ length: 500 }, () => client.waitForOrchestrationCompletion(id, true, 1)));
  assert.ok(given.every((g) => g.status === "rejected"), "a wait ended");
  await client.raiseOrchestrationEvent(id, "go", 1);
  assert.strictEqual(output(await finish(id)), 1);
});

// checklist: 34
test("turns.example", async () => {
  const id = await start("example", "x");
  assert.strictEqual(output(await finish(id)), "x");
  assert.deepStrictEqual((await kinds(id)).map(String).map((k) => k.replace(/Event$/, "")), [
    "OrchestratorStarted", "ExecutionStarted", "TaskScheduled", "OrchestratorStarted", "TaskCompleted",
    "TimerCreated", "OrchestratorStarted", "TimerFired", "SubOrchestrationInstanceCreated",
    "OrchestratorStarted", "SubOrchestrationInstanceCompleted", "ExecutionCompleted",
  ]);
});

// checklist: 39
test("turns.custom_status", async () => {
  const id = await start("status");
  await eventually(async () => (await client.getOrchestrationState(id)).serializedCustomStatus === '"one"');
  await client.raiseOrchestrationEvent(id, "go");
  assert.strictEqual((await finish(id)).serializedCustomStatus, '{"two":2}');
});

test("turns.failure", async () => {
  const s = await finish(await start("fails_itself"));
  assert.strictEqual(status(s), "FAILED");
  assert.strictEqual(s.failureDetails.errorType, "TypeError");
  assert.ok(s.failureDetails.message.includes("that was it"));
});

test("turns.many_at_once", async () => {
  const ids = await Promise.all(Array.from({ length: 100 }, (_, n) => start("chain", n * 10)));
  const states = await Promise.all(ids.map((id) => finish(id)));
  assert.deepStrictEqual(states.map(output), ids.map((_, n) => n * 10 + 5));
});

test("activities.chain", async () => assert.strictEqual(output(await finish(await start("chain", 1))), 6));

// reports: BL-096, BL-179
test("activities.fan_out", async () => {
  for (const n of [100, 1000]) {
    const want = Array.from({ length: n }, (_, i) => i * i).reduce((a, b) => a + b, 0);
    assert.strictEqual(output(await finish(await start("fan", n))), want);
  }
});

// JS sends "" for undefined: kept. checklist: 55
test("activities.undefined", async () => {
  assert.strictEqual(output(await finish(await start("nothing"))), "undefined");
});

test("activities.failure", async () => {
  assert.ok(output(await finish(await start("catches", "fails"))).includes("no luck"));
});

// checklist: 43
test("activities.retries", async () => {
  assert.strictEqual(output(await finish(await start("retries", { key: newId() }))), 3);
});

// checklist: 61
test("activities.while_suspended", async () => {
  const key = newId();
  const id = await start("hold", key);
  await eventually(() => release[key]);
  await client.suspendOrchestration(id);
  release[key]();
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.strictEqual(status(await client.getOrchestrationState(id)), "SUSPENDED");
  await client.resumeOrchestration(id);
  assert.strictEqual(output(await finish(id)), key);
  assert.strictEqual(ran[key], 1);
});

// checklist: 63, 64
test("timers.short", async () => {
  for (const ms of [0, -1000, 1, 300]) {
    const late = output(await finish(await start("sleeps", ms)));
    assert.ok(late >= 0 && late < 5000, `${late} ms late`);
  }
});

// reports: BL-040
test("timers.many", async () => assert.strictEqual(output(await finish(await start("naps"))), "awake"));

// reports: BL-034
test("timers.against_event", async () => {
  const id = await start("race");
  await until(id, "RUNNING");
  await client.raiseOrchestrationEvent(id, "go", "event");
  assert.strictEqual(output(await finish(id)), "event");
});

// JS leaves the child's id to the server, which makes it of the execution id. checklist: 67, 71
test("children.minted_id", async () => {
  const id = await start("parent");
  const [x, child, parent] = output(await finish(id));
  assert.strictEqual(x, 1);
  assert.match(child, /^[0-9a-f]{32}:[0-9a-f]{4}$|^.+:[0-9a-f]{4}$/);
  assert.strictEqual(parent, id);
  assert.strictEqual(status(await client.getOrchestrationState(child)), "COMPLETED");
});

// checklist: 67
test("children.given_id", async () => {
  const child = newId();
  assert.strictEqual(output(await finish(await start("parent", child)))[1], child);
});

// checklist: 74
test("children.fan_out", async () => {
  assert.strictEqual(output(await finish(await start("wide", 200))), 199 * 100);
});

// checklist: 68
test("children.failure", async () => {
  assert.ok(output(await finish(await start("catches", "child"))).includes("that was it"));
});

// checklist: 70
test("children.retries", async () => {
  assert.strictEqual(output(await finish(await start("retries", { child: true, key: newId() }))), 3);
});

// A terminated child is not retried: its failure says so. checklist: 69
test("children.terminated", async () => {
  const child = newId();
  const id = await start("parent_of_waits", child);
  await until(child, "RUNNING");
  await client.terminateOrchestration(child, "why");
  assert.ok(output(await finish(id)).includes(`Sub-orchestration instance '${child}' was terminated.`));
  assert.strictEqual(status(await client.getOrchestrationState(child)), "TERMINATED");
});

// checklist: 75
test("events.in_order", async () => {
  const id = await start("collects", 100);
  for (let n = 0; n < 100; n++) await client.raiseOrchestrationEvent(id, "e", n);
  assert.deepStrictEqual(output(await finish(id)), Array.from({ length: 100 }, (_, n) => n));
  await client.raiseOrchestrationEvent(id, "e", "late");
  await rejects(client.raiseOrchestrationEvent("nobody", "e"), grpc.status.NOT_FOUND);
});

// checklist: 76
test("events.sent", async () => {
  const target = await start("waits");
  const id = await start("sends", target);
  assert.strictEqual(output(await finish(id)), "sent");
  assert.deepStrictEqual(output(await finish(target)), { from: id });
});

// checklist: 79, 81
test("suspend.and_resume", async () => {
  const id = await start("collects", 3);
  await until(id, "RUNNING");
  await client.suspendOrchestration(id);
  assert.strictEqual(status(await client.getOrchestrationState(id)), "SUSPENDED");
  for (let n = 0; n < 3; n++) await client.raiseOrchestrationEvent(id, "e", n);
  await client.suspendOrchestration(id);
  await client.resumeOrchestration(id);
  assert.deepStrictEqual(output(await finish(id)), [0, 1, 2]);
  await client.resumeOrchestration(id);
  await rejects(client.suspendOrchestration("nobody"), grpc.status.NOT_FOUND);
});

// checklist: 82, 87
test("terminate.running_and_suspended", async () => {
  for (const suspended of [false, true]) {
    const id = await start("waits");
    await until(id, "RUNNING");
    if (suspended) await client.suspendOrchestration(id);
    await client.terminateOrchestration(id, { why: "enough" });
    const s = await finish(id);
    assert.strictEqual(status(s), "TERMINATED");
    assert.deepStrictEqual(output(s), { why: "enough" });
    await client.terminateOrchestration(id, "again");
  }
  await client.terminateOrchestration("nobody");
});

// checklist: 86; reports: BL-055
test("terminate.recursive", async () => {
  const child = newId();
  const id = await start("parent_of_waits", child);
  await until(child, "RUNNING");
  await client.terminateOrchestration(id, terminateOptions({ output: "all", recursive: true }));
  assert.strictEqual(status(await finish(id)), "TERMINATED");
  assert.strictEqual(status(await finish(child)), "TERMINATED");
});

// checklist: 85; reports: BL-054
test("terminate.eternal", async () => {
  const id = await start("eternal", 0);
  await eventually(async () => Number((await client.getOrchestrationState(id)).serializedInput) > 5);
  await client.terminateOrchestration(id, "stop");
  assert.strictEqual(output(await finish(id, 10)), "stop");
});

// checklist: 89
test("continue-as-new.loop", async () => {
  const id = await start("loop", 0);
  const s = await finish(id);
  assert.strictEqual(output(s), 10);
  assert.strictEqual(s.serializedInput, "10");
  assert.strictEqual((await kinds(id)).length, 6);
});

// checklist: 78; reports: BL-031
test("continue-as-new.keeps_events", async () => {
  const id = await start("carry", []);
  for (let n = 0; n < 100; n++) await client.raiseOrchestrationEvent(id, "e", n);
  assert.deepStrictEqual(output(await finish(id)), Array.from({ length: 100 }, (_, n) => n));
});

async function main(groups) {
  for (const [name, f] of Object.entries(orchestrators)) worker.addNamedOrchestrator(name, f);
  for (const [name, f] of Object.entries(activities)) worker.addNamedActivity(name, f);
  await worker.start();
  const chosen = tests.filter((t) => !groups.length || groups.some((g) => t.name.startsWith(g)));
  let failed = 0;
  await Promise.all(chosen.map(async ({ name, body }) => {
    const timer = setTimeout(() => {
      console.log(`FAIL ${name}: not within 60 s`);
      process.exit(1);
    }, 60000);
    try {
      await body();
      console.log(`PASS ${name}`);
    } catch (e) {
      failed++;
      console.log(`FAIL ${name}: ${String(e.stack).replace(/\n\s*/g, " | ")}`);
    }
    clearTimeout(timer);
  }));
  process.exit(failed ? 1 : 0); // the waits that were given up hold their calls
}

main(process.argv.slice(2));
