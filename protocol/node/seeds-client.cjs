// The client of the seeds, as it stands there, against a hub: HUB_URL, HUB_TOKEN, SEEDS (the page that has it).
// Its packages are found by NODE_PATH. Prints a line per thing that held; the first that does not ends it.
"use strict";
const assert = require("node:assert/strict");
const fs = require("node:fs");
const ts = require("typescript");

const { HUB_URL, HUB_TOKEN, SEEDS } = process.env;

/** The code block of the page that has the class, with its types taken off and nothing else changed. */
function seedsClient() {
  const blocks = fs.readFileSync(SEEDS, "utf8").matchAll(/```ts\n([^]*?)```/g);
  const code = [...blocks].map((block) => block[1]).find((text) => text.includes("export class PromClient"));
  assert.ok(code, `no PromClient in ${SEEDS}`);
  const options = { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022 };
  const { outputText } = ts.transpileModule(code, { compilerOptions: options });
  const module = { exports: {} };
  new Function("require", "module", "exports", outputText)(require, module, module.exports);
  return module.exports.PromClient;
}

/** Something that is awaited until `count` values were pushed. */
function inbox() {
  const values = [];
  let wake = () => {};
  return {
    push: (value) => { values.push(value); wake(); },
    values,
    async have(count) {
      while (values.length < count) await new Promise((resolve) => { wake = resolve; });
      return values;
    },
  };
}

function held(what) {
  console.log(`held: ${what}`);
}

async function main() {
  const PromClient = seedsClient();

  const stranger = new PromClient(HUB_URL, "not a token");
  await assert.rejects(stranger.connect(), /^Error: jwt_invalid: /);
  stranger.close();
  held("a bad token fails the connect, with its code");

  const client = new PromClient(HUB_URL, HUB_TOKEN);
  await client.connect();
  held("connect");

  const good = inbox();
  await client.subscribe("heartbeat.received", "ops", (event, ctx) => good.push({ event, ctx }));
  await client.publish("heartbeat.received", { pid: 7 }, { key: "host-1", tags: ["a"], headers: { trace: "1" }, sid: "boot" });
  await client.publish("heartbeat.received", { pid: 8 });
  const [first, second] = await good.have(2);
  assert.deepEqual(
    { ...first.event, id: "", ts: 0 },
    { id: "", seq: 1, ts: 0, topic: "heartbeat.received", key: "host-1", sid: "boot", headers: { trace: "1" }, payload: { pid: 7 }, tags: ["a"] },
  );
  assert.deepEqual(first.ctx, { attempt: 1, maxAttempts: 5, ack_deadline_ms: 30000 });
  assert.deepEqual(second.event.payload, { pid: 8 });
  held("publish and subscribe, with every option it has");

  const bad = inbox();
  await client.subscribe("process.state", "ops", async (event, ctx) => {
    bad.push(ctx.attempt);
    if (ctx.attempt < 3) throw new Error("not yet");
  }, { from: "earliest" });
  await client.publish("process.state", { up: true });
  assert.deepEqual(await bad.have(3), [1, 2, 3]);
  held("a handler that throws is a nack: the event comes again until it does not");

  // Commands of one connection are carried out in their order, and the third topic shows that they were.
  await client.unsubscribe("heartbeat.received", "ops");
  await client.publish("heartbeat.received", { pid: 9 });
  const last = inbox();
  await client.subscribe("fence", "ops", (event) => last.push(event));
  await client.publish("fence", 1);
  await last.have(1);
  assert.equal(good.values.length, 2);
  held("unsubscribe");

  client.close();
}

// Node ends by itself once the socket is closed; a client that hangs does not hold up the tests.
setTimeout(() => {
  console.error("still at it after 60 s");
  process.exit(2);
}, 60_000).unref();
process.on("exit", (code) => { if (code === 0) held("close: nothing keeps the program alive"); });
main().catch((error) => {
  console.error(error);
  process.exit(1);
});
