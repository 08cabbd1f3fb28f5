import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { build } from "esbuild";
import { WebSocketServer } from "ws";
import { execute, HOME } from "../support/package.ts";
import { Packed } from "../support/packed.ts";

let packed: Packed;

before(async () => {
  packed = await Packed.build();
});

after(() => packed.remove());

/** Something that answers AUTH and PUBLISH, so that a program can be seen to work. */
async function listen(t: { after: (run: () => void) => void }): Promise<string> {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  server.on("connection", (socket) => {
    socket.on("message", (data: Buffer) => {
      const { op, corr, opts } = JSON.parse(data.toString()) as { op: string; corr: string; opts?: { id: string } };
      socket.send(JSON.stringify(op === "AUTH" ? { op: "OK", corr } : { op: "OK", corr, id: opts?.id, seq: 1, ts: 1, durable: "fsync" }));
    });
  });
  await new Promise((resolve) => server.once("listening", resolve));
  t.after(() => server.close());
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

const BODY = `
  const hub = new PromClient(process.env.HUB_URL, "token");
  hub.publish("orders", { id: 1 }, { id: "7f1c2a90-52c1-4b7e-8a55-0c9f3e2d1b00" }).then(async (receipt) => {
    console.log(receipt.id, receipt.seq, new HubError("closed", "x") instanceof Error, typeof Retry, typeof Return);
    await hub.close();
  });
`;
const PRINTED = "7f1c2a90-52c1-4b7e-8a55-0c9f3e2d1b00 1 true function function\n";

test("publint finds nothing to complain about", async () => {
  await execute("node", ["node_modules/publint/src/cli.js", "--strict", packed.tarball]);
});

test("the types are right for every way to import them", async () => {
  // Not for TypeScript's old way to resolve modules, which does not know the field exports: it finds no subpath.
  await execute("node", ["node_modules/@arethetypeswrong/cli/dist/index.js", packed.tarball, "--no-emoji", "--profile", "node16"]);
});

test("a fresh project of ES modules runs, and ends by itself", async (t) => {
  const directory = await packed.project("esm", {
    "package.json": '{"type":"module"}',
    "main.js": `import { PromClient, HubError, Retry, Return } from "event-hub-client";${BODY}`,
  });
  assert.equal(await execute("node", ["main.js"], directory, { HUB_URL: await listen(t) }), PRINTED);
});

test("a fresh project of CommonJS runs, and ends by itself", async (t) => {
  const directory = await packed.project("cjs", {
    "package.json": "{}",
    "main.js": `const { PromClient, HubError, Retry, Return } = require("event-hub-client");${BODY}`,
  });
  assert.equal(await execute("node", ["main.js"], directory, { HUB_URL: await listen(t) }), PRINTED);
});

test("a fresh project of TypeScript compiles without skipLibCheck, as both kinds of modules, and runs", async (t) => {
  const main = `
    import { PromClient, type Receipt } from "event-hub-client";
    interface Topics { orders: { id: number }; [t: \`process.\${string}.state\`]: { pid: number } }
    const hub = new PromClient<Topics>("${await listen(t)}", "token");
    const published: Promise<Receipt> = hub.publish("orders", { id: 1 });
    // @ts-expect-error -- another payload
    const wrong = (): Promise<Receipt> => hub.publish("orders", { pid: 1 });
    void published.then(async ({ seq }) => { console.log(seq, typeof wrong); await hub.close(); });
  `;
  const directory = await packed.project("typescript", { "package.json": "{}", "main.mts": main, "main.cts": main });
  const strict = ["--strict", "--exactOptionalPropertyTypes", "--target", "es2022", "--lib", "es2022,dom"];
  const tsc = join(HOME, "node_modules/typescript/bin/tsc");
  await execute("node", [tsc, ...strict, "--module", "nodenext", "main.mts", "main.cts"], directory);
  for (const file of ["main.mjs", "main.cjs"]) assert.equal(await execute("node", [file], directory), "1 function\n");
  const bundler = ["--module", "esnext", "--moduleResolution", "bundler", "--noEmit", "main.mts"];
  await execute("node", [tsc, ...strict, ...bundler], directory);
});

test("a bundle for workers and one for browsers have no ws and nothing of Node (crossmint-sdk#1122)", async () => {
  const directory = await packed.project("bundles", {
    "package.json": '{"type":"module"}',
    "main.js": 'export { PromClient } from "event-hub-client";',
  });
  for (const conditions of [["workerd", "worker"], ["browser"], ["deno"], ["bun"], []]) {
    const { metafile, outputFiles } = await build({
      absWorkingDir: directory,
      entryPoints: ["main.js"],
      bundle: true,
      write: false,
      metafile: true,
      format: "esm",
      platform: conditions.length === 0 ? "neutral" : "browser",
      mainFields: ["module", "main"],
      conditions,
    });
    const inputs = Object.keys(metafile.inputs).filter((name) => /node_modules\/ws\/|^node:/.test(name));
    assert.deepEqual(inputs, [], `with the conditions ${conditions.join(", ")}`);
    assert.doesNotMatch(outputFiles[0]?.text ?? "", /require\(/);
  }
});

test("the entry for service workers is one file", async () => {
  const directory = await packed.project("service-worker", {
    "package.json": '{"type":"module"}',
    "main.js": 'export { PromClient } from "event-hub-client/service-worker";',
  });
  const { outputFiles } = await build({
    absWorkingDir: directory,
    entryPoints: ["main.js"],
    bundle: true,
    splitting: true,
    outdir: "out",
    write: false,
    format: "esm",
  });
  assert.equal(outputFiles.length, 1);
  assert.doesNotMatch(outputFiles[0]?.text ?? "", /\bimport\s*\(|require\(/);
});

test("importing the package makes nothing: no timer, no listener, no connection", async () => {
  const program = `
    import { createHook } from "node:async_hooks";
    const made = [];
    let listening = false;
    createHook({ init: (id, type) => { if (listening && /Timeout|TCP|Immediate/.test(type)) made.push(type); } }).enable();
    await import("ws");
    listening = true;
    await import("event-hub-client");
    listening = false;
    console.log(JSON.stringify(made));
  `;
  const directory = await packed.project("import", { "package.json": "{}" });
  assert.equal(await execute("node", ["--input-type=module", "-e", program], directory), "[]\n");
});

test("the package has its licences and its types, and no sources or tests", async () => {
  const list = (await execute("tar", ["-tzf", packed.tarball])).split("\n").filter((name) => name !== "");
  assert.ok(list.includes("package/dist/LICENSE-MIT") && list.includes("package/dist/LICENSE-APACHE"));
  assert.ok(list.includes("package/README.md"));
  assert.deepEqual(list.filter((name) => !/^package\/(dist\/|package\.json$|README\.md$)/.test(name)), []);
  const { version, dependencies } = JSON.parse(await readFile(join(HOME, "package.json"), "utf8")) as { version: string; dependencies: object };
  assert.match(version, /^\d+\.\d+\.\d+$/);
  assert.deepEqual(Object.keys(dependencies), ["ws"]);
});

test("inboxes and outboxes need no driver to be imported, and share the classes of the client", async () => {
  const names = ["inbox", "inbox/mongodb", "inbox/postgres", "inbox/sqlite", "outbox/mongodb", "outbox/postgres", "outbox/sqlite"];
  const body = `
    const { Return } = client;
    const { exactlyOnceTx, memoryInbox } = entries[0];
    const store = { ...memoryInbox(), once: async (mark, run) => { await run({}); return true; }, faultOf: () => "unavailable" };
    const handler = exactlyOnceTx(store, () => new Return({ delayMs: 7 }), { consumer: "c" });
    const ctx = { signal: new AbortController().signal, deadline: Infinity, ack_deadline_ms: 1000, group: "g", publish() {} };
    handler({ topic: "t", id: "i", seq: 1 }, ctx).catch((error) => console.log(error instanceof Return, error.delayMs, entries.length));
  `;
  const esm = await packed.project("inbox-esm", {
    "package.json": '{"type":"module"}',
    "main.js": `import * as client from "event-hub-client"; const entries = await Promise.all(${JSON.stringify(names)}.map((name) => import("event-hub-client/" + name)));${body}`,
  });
  const cjs = await packed.project("inbox-cjs", {
    "package.json": "{}",
    "main.js": `const client = require("event-hub-client"); const entries = ${JSON.stringify(names)}.map((name) => require("event-hub-client/" + name));${body}`,
  });
  for (const directory of [esm, cjs]) assert.equal(await execute("node", ["main.js"], directory), "true 7 7\n");
});
