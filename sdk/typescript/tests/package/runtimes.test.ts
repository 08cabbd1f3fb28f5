// The packed package under Deno and Bun, without a hub. `tests/hub/runtimes.test.ts` has the real one.

import assert from "node:assert/strict";
import { readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { HOME } from "../support/package.ts";
import { Packed } from "../support/packed.ts";
import { BUN, DENO, execute, RUNTIMES, type Runtime, run } from "../support/runtimes.ts";

const PROGRAMS = ["memory.ts", "restart.ts"];
/** Every entry of the package that is not for pages alone, as an ES module and as CommonJS. */
const ENTRIES = ["event-hub-client", "event-hub-client/testing", "event-hub-client/outbox/mongodb", "event-hub-client/outbox/postgres"];

const EXPORTS = ["HubError,PromClient,Retry,Return", "MemoryHub,Refusal", "mongoOutbox", "postgresOutbox"];
/** Added by runtimes to what a CommonJS module exports. */
const INTEROP = ["__esModule", "default", "module.exports"];
const LIST = `(exported) => console.log(Object.keys(exported).filter((name) => !${JSON.stringify(INTEROP)}.includes(name)).sort().join())`;

let packed: Packed;
let directory: string;

before(async () => {
  packed = await Packed.build();
  const files: Record<string, string> = {
    "package.json": '{"type":"module"}',
    "import.js": `const list = ${LIST};\nfor (const entry of ${JSON.stringify(ENTRIES)}) list(await import(entry));\n`,
    "require.cjs": `const list = ${LIST};\nfor (const entry of ${JSON.stringify(ENTRIES)}) list(require(entry));\n`,
  };
  for (const file of PROGRAMS) files[file] = await readFile(join(HOME, "tests/runtimes", file), "utf8");
  directory = await packed.project("runtimes", files);
  // Whatever needs it would fail.
  await rename(join(directory, "node_modules/ws"), join(directory, "node_modules/ws-removed"));
});

after(() => packed.remove());

/** The lines that a program prints. */
async function linesOf(runtime: Runtime, file: string, env: string[] = [], from = directory): Promise<string[]> {
  const lines: string[] = [];
  await run(runtime, { directory: from, file, permissions: env.length === 0 ? {} : { env }, env: {}, onLine: (line) => lines.push(line) });
  return lines;
}

for (const runtime of RUNTIMES) {
  test(`the hub in memory runs under ${runtime.name}, without a permission`, async () => {
    assert.deepEqual(await linesOf(runtime, "memory.ts"), ['{"seq":1,"duplicate":true,"mails":2}']);
  });

  test(`${runtime.name} imports every entry, without ws and without a permission`, async () => {
    assert.deepEqual(await linesOf(runtime, "import.js"), EXPORTS);
  });
}

test("Bun requires every entry, without ws", async () => {
  assert.deepEqual(await linesOf(BUN, "require.cjs"), EXPORTS);
});

test("Deno requires what Node does, with ws and the variables that it reads", async () => {
  const file = { "package.json": "{}", "require.cjs": await readFile(join(directory, "require.cjs"), "utf8") };
  const own = await packed.project("require", file);
  assert.deepEqual(await linesOf(DENO, "require.cjs", ["WS_NO_BUFFER_UTIL", "WS_NO_UTF_8_VALIDATE"], own), EXPORTS);
});

test("Deno's own compiler finds the types of every entry", async () => {
  await execute(DENO, ["check", ...PROGRAMS], directory);
});
