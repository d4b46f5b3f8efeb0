/* The workloads of `perdure bench` for Restate: its service and its clients in one process.
 *
 *   restate_load.mjs INGRESS_PORT ADMIN_PORT SERVICE_PORT WORKLOAD CONCURRENCY WARMUP_SECONDS SECONDS COUNT PAYLOAD DELAY_MS
 *
 * COUNT 0: for SECONDS. Says "ready" when the warm-up has ended, measures after a line of input, and prints one JSON
 * document. Outputs are checked; a wrong one ends it with status 1. An activity is a ctx.run() of the handler's own
 * process, Restate's cheapest durable step. Invocations and journals are kept for a day.
 */
import http2 from "node:http2";
import { createRequire } from "node:module";
import { randomBytes } from "node:crypto";
import { once } from "node:events";

Promise.withResolvers ??= function () { /* Node.js 22 has it */
  let resolve, reject;
  const promise = new Promise((a, b) => { resolve = a; reject = b; });
  return { promise, resolve, reject };
};
const restate = createRequire(process.env.BENCH_NODE + "/")("@restatedev/restate-sdk");

const [ingressPort, adminPort, servicePort] = process.argv.slice(2, 5).map(Number);
const workload = process.argv[5];
const [concurrency, warmup, seconds, count, payload, delayMs] = process.argv.slice(6, 12).map(Number);
const CONNECTIONS = 4;
const KEPT = { days: 1 };

const make = (seed, number, pad) => `${seed}.${number}.${pad}`;
const parse = (text) => {
  const [seed, number] = text.split(".", 2);
  return { seed, number: Number(number), pad: text.slice(seed.length + number.length + 2) };
};
const padOf = (seed, length) =>
  Array.from({ length }, (_, i) => String.fromCharCode(97 + (seed.charCodeAt(i % 8) + i) % 26)).join("");

/* ---- the service ---- */

const step = (text) => {
  const v = parse(text);
  return make(v.seed, v.number + 1, v.pad);
};
const runStep = (ctx, text) => ctx.run("step", () => step(text));
const chain = (steps) => async (ctx, text) => {
  for (let i = 0; i < steps; i++) text = await runStep(ctx, text);
  return text;
};

const bench = restate.service({
  name: "bench",
  handlers: {
    hello1: chain(1),
    chain5: chain(5),
    chain50: chain(50),
    fanout100: async (ctx, text) => {
      const { seed, pad } = parse(text);
      const all = await restate.RestatePromise.all(
        Array.from({ length: 100 }, (_, i) => runStep(ctx, make(seed, i, pad))));
      if (!all.every((r) => parse(r).seed === seed && parse(r).pad === pad)) throw new Error("a foreign result");
      return make(seed, all.reduce((sum, r) => sum + parse(r).number, 0), pad);
    },
    timer: async (ctx, text) => {
      await ctx.sleep(parse(text).number / 1000);
      return text;
    },
    suborch: (ctx, text) => ctx.serviceClient({ name: "bench" }).hello1(text),
  },
  options: { journalRetention: KEPT, idempotencyRetention: KEPT },
});

const event = restate.workflow({
  name: "event",
  handlers: {
    run: (ctx) => ctx.promise("go"),
    go: (ctx, data) => ctx.promise("go").resolve(data),
  },
  options: { journalRetention: KEPT, workflowRetention: KEPT },
});

/* ---- the clients ---- */

const RESULTS = { hello1: 1, chain5: 5, chain50: 50, fanout100: 5050, event: 1, suborch: 1 };
const sessions = Array.from({ length: CONNECTIONS }, () => http2.connect(`http://127.0.0.1:${ingressPort}`));

async function post(session, path, body) {
  const req = session.request({ ":method": "POST", ":path": path, "content-type": "application/json" });
  let status;
  req.on("response", (headers) => { status = headers[":status"]; });
  req.setEncoding("utf8");
  req.end(JSON.stringify(body));
  let text = "";
  for await (const chunk of req) text += chunk;
  if (status < 200 || status > 299) throw new Error(`${path}: ${status} ${text}`);
  return text === "" ? undefined : JSON.parse(text);
}

let latencies = [];
async function operation(session) {
  const id = randomBytes(16).toString("hex");
  const seed = id.slice(0, 8), pad = padOf(seed, payload);
  const begin = workload === "timer" ? delayMs * 1000 : 0;
  const began = performance.now();
  let output;
  if (workload === "event") {
    const run = post(session, `/event/${id}/run`, null);
    await post(session, `/event/${id}/go`, make(seed, 1, pad));
    output = await run;
  } else {
    output = await post(session, `/bench/${workload}`, make(seed, begin, pad));
  }
  const took = performance.now() - began;
  const expected = make(seed, RESULTS[workload] ?? begin, pad);
  if (output !== expected || (workload === "timer" && took < delayMs)) {
    console.error(`wrong output: ${output}, not ${expected}`);
    process.exit(1);
  }
  latencies.push(took);
}

async function run(seconds, count) {
  const began = performance.now();
  let left = count;
  latencies = [];
  await Promise.all(Array.from({ length: concurrency }, async (_, i) => {
    while (count ? left > 0 : performance.now() - began < seconds * 1000) {
      left--;
      await operation(sessions[i % CONNECTIONS]);
    }
  }));
  return (performance.now() - began) / 1000;
}

/* ---- start ---- */

await restate.serve({ services: [bench, event], port: servicePort });
const registered = await fetch(`http://127.0.0.1:${adminPort}/deployments`, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ uri: `http://127.0.0.1:${servicePort}`, force: true }),
});
if (!registered.ok) throw new Error(await registered.text());
if (warmup) await run(warmup, 0);
console.log("ready");
process.stdin.resume();
await once(process.stdin, "data");
const before = process.cpuUsage();
const took = await run(seconds, count);
const cpu = process.cpuUsage(before);
latencies.sort((a, b) => a - b);
const at = (f) => latencies[Math.max(0, Math.min(latencies.length - 1, Math.ceil(f * latencies.length) - 1))];
console.log(JSON.stringify({
  operations: latencies.length, seconds: took, rate: latencies.length / took,
  clientCpuUs: (cpu.user + cpu.system) / latencies.length,
  latencyMs: { p50: at(0.5), p99: at(0.99), max: at(1) },
}));
process.exit(0);
