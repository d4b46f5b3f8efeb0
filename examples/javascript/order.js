// An order, from the stock to the parcel: a worker and a client of Perdure in one program.
//
//     node order.js [SECONDS]
//
// SECONDS is how long the customer may change their mind, 2 without it. The server is the one at
// $PERDURE_SERVER, localhost:4001 without it.
"use strict";

const grpc = require("@grpc/grpc-js");
const {
  NoOpLogger, OrchestrationStatus, TaskHubGrpcClient, TaskHubGrpcWorker, whenAll,
} = require("@microsoft/durabletask-js");

const PRICES = { tea: 5, cup: 12, spoon: 3 };

// ---- activities: they do the work, and run again if their worker dies before it has answered ----

const activities = {
  checkStock: (ctx, items) => items.filter((item) => item in PRICES),
  addUp: (ctx, items) => items.reduce((sum, item) => sum + PRICES[item], 0),
  pack: (ctx, item) => `boxed ${item}`,
  label: (ctx, boxes) => `parcel of ${boxes.join(", ")}`,
};

// ---- orchestrations: they say what comes next, and are replayed from their history ----

const orchestrations = {
  order: async function* (ctx, wanted) {
    // A chain: each activity gets what the one before has given.
    const items = yield ctx.callActivity("checkStock", wanted.items);
    const total = yield ctx.callActivity("addUp", items);
    // Fan-out and fan-in: all at once, and then all results.
    const boxes = yield whenAll(items.map((item) => ctx.callActivity("pack", item)));
    // A durable timer: it rings also if the server was down in between.
    yield ctx.createTimer(wanted.seconds);
    // An event from outside. It may have come long before: the server keeps it.
    const payment = yield ctx.waitForExternalEvent("payment");
    // A sub-orchestration.
    const parcel = yield ctx.callSubOrchestrator("ship", boxes);
    return `${payment.by} paid ${total} for a ${parcel}`;
  },

  ship: async function* (ctx, boxes) {
    return yield ctx.callActivity("label", boxes);
  },
};

// ---- the client ----

// Waits for the end of an instance, however often the server is restarted meanwhile.
async function finish(client, instance) {
  for (;;) {
    try {
      return await client.waitForOrchestrationCompletion(instance);
    } catch (e) {
      if (e.name === "TimeoutError") continue;
      if (e.code !== grpc.status.UNAVAILABLE) throw e;
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
}

async function main() {
  const seconds = Number(process.argv[2] || 2);
  const options = {
    hostAddress: process.env.PERDURE_SERVER || "localhost:4001",
    logger: new NoOpLogger(),
  };

  const worker = new TaskHubGrpcWorker(options);
  for (const [name, f] of Object.entries(orchestrations)) worker.addNamedOrchestrator(name, f);
  for (const [name, f] of Object.entries(activities)) worker.addNamedActivity(name, f);
  await worker.start();

  const client = new TaskHubGrpcClient(options);
  const wanted = { items: ["tea", "unicorn", "cup", "spoon"], seconds };
  const instance = await client.scheduleNewOrchestration("order", wanted);
  console.log(`${instance} started`);
  await client.raiseOrchestrationEvent(instance, "payment", { by: "Ada" });

  const state = await finish(client, instance);
  const completed = state.runtimeStatus === OrchestrationStatus.COMPLETED;
  const result = completed ? JSON.parse(state.serializedOutput) : state.failureDetails?.message;
  console.log(`${instance} ${OrchestrationStatus[state.runtimeStatus]}: ${result}`);
  await worker.stop();
  await client.stop();
  return completed ? 0 : 1;
}

main().then(process.exit, (e) => {
  console.error(e);
  process.exit(1);
});
