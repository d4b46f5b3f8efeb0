// Ten thousand waits that this SDK's own timer ends, without a deadline of their calls; tests/sdk/run.py looks at
// the server meanwhile. Prints "given up N", holds the connection until its standard input ends, and leaves.
"use strict";

const grpc = require("@grpc/grpc-js");
const { TaskHubGrpcClient, NoOpLogger } = require("@microsoft/durabletask-js");

async function main() {
  const client = new TaskHubGrpcClient({
    hostAddress: process.env.PERDURE_SERVER,
    logger: new NoOpLogger(),
    metadataGenerator: async () => {
      const m = new grpc.Metadata();
      m.set("taskhub", process.env.PERDURE_HUB);
      return m;
    },
  });
  const id = await client.scheduleNewOrchestration("nobody", null, "waited-for");
  const waits = Array.from({ length: 10000 }, () => client.waitForOrchestrationCompletion(id, false, 3));
  const given = (await Promise.allSettled(waits)).filter((w) => w.status === "rejected").length;
  console.log(`given up ${given}`);
  process.stdin.on("end", () => process.exit(0)).resume();
}

main();
