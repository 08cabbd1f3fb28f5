// The packed package under Deno and Bun, with a real hub that is killed and started again.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Hub } from "../support/hub.ts";
import { ADDRESS } from "../docs/sources.ts";
import { blocksOf, PAGES } from "../docs/blocks.ts";
import { HOME } from "../support/package.ts";
import { Packed } from "../support/packed.ts";
import { DENO, RUNTIMES, run } from "../support/runtimes.ts";

let packed: Packed;
let directory: string;

before(async () => {
  packed = await Packed.build();
  const program = await readFile(join(HOME, "tests/runtimes/restart.ts"), "utf8");
  directory = await packed.project("runtimes", { "package.json": "{}", "restart.ts": program });
});

after(() => packed.remove());

interface Group {
  readonly group: string;
  readonly lag: number;
  readonly inflight: number;
}

for (const runtime of RUNTIMES) {
  test(`a program under ${runtime.name} survives a hub that is killed: nothing is lost, doubled or out of order`, async (t) => {
    const hub = await Hub.start(t);
    const reports: { beats?: number }[] = [];
    let restarted: Promise<void> | undefined;
    await run(runtime, {
      directory,
      file: "restart.ts",
      permissions: { net: [new URL(hub.url).host], env: ["HUB_URL", "TOKEN"] },
      env: { HUB_URL: hub.url, TOKEN: hub.token() },
      onLine(line) {
        const report = JSON.parse(line) as { kill?: true; beats?: number };
        if (report.kill === true) restarted = hub.kill("SIGKILL").then(() => hub.run());
        else reports.push(report);
      },
    });
    await restarted;
    const beats = reports.at(-1)?.beats ?? 0;
    assert.deepEqual(reports, [
      { refused: "jwt_invalid" },
      { receipt: { id: "7f1c2a90-52c1-4b7e-8a55-0c9f3e2d1b00", seq: 1, ts: 0, durable: "fsync", duplicate: true } },
      {
        beats,
        handled: 600,
        twice: 0,
        outOfOrder: [],
        isWatchedInOrder: true,
        states: ["token", "opening", "authenticating", "ready", "waiting", "closing", "closed"],
        end: "closed",
      },
    ]);
    const numbers = async (topic: string): Promise<number[]> => (await hub.log(topic)).map(({ payload }) => (payload as { n: number }).n);
    assert.deepEqual((await numbers("steps")).sort((a, b) => a - b), Array.from({ length: 600 }, (_, n) => n), "each step is stored once");
    assert.deepEqual((await numbers("beats")).sort((a, b) => a - b), Array.from({ length: beats }, (_, n) => n), "each beat is stored once");
    for (const topic of ["steps", "beats"]) {
      const { groups } = (await hub.get(`groups?topic=${topic}`)) as { groups: Group[] };
      assert.deepEqual(groups.map(({ lag, inflight }) => ({ lag, inflight })), [{ lag: 0, inflight: 0 }], `every event of ${topic} is acked`);
    }
  });
}

/** The permissions of the commands in a page that run a program under Deno. */
function permissionsIn(page: string): string[] {
  const text = readFileSync(`${HOME}../../${page}`, "utf8");
  return [...text.matchAll(/^deno run (.*) first\.mjs$/gm)].map(([, flags = ""]) => flags);
}

for (const page of PAGES.filter((each) => permissionsIn(each).length > 0)) {
  for (const runtime of RUNTIMES) {
    test(`the first program of ${page} runs under ${runtime.name} with the permissions that the page names`, async (t) => {
      const hub = await Hub.start(t);
      const code = blocksOf(page)[0]?.code ?? "";
      assert.ok(code.includes(ADDRESS));
      const { host } = new URL(hub.url);
      await writeFile(join(directory, "first.mjs"), code.replace(ADDRESS, hub.url));
      const words = permissionsIn(page).flatMap((flags) => flags.replace(new URL(ADDRESS).host, host).split(" "));
      const printed = [...code.matchAll(/\/\/ prints: (.*)$/gm)].map(([, text = ""]) => text);
      let lines: string[] = [];
      await run(runtime === DENO ? { ...DENO, words: () => ["run", "--no-prompt", ...words] } : runtime, {
        directory,
        file: "first.mjs",
        permissions: {},
        env: { TOKEN: hub.token() },
        onLine(line, interrupt) {
          // Bun prints an object in several lines.
          lines = [...lines, line].join("\n").replace(/\{\n +(.*),\n\}/, "{ $1 }").split("\n");
          if (printed.every((text) => lines.includes(text))) interrupt();
        },
      });
      assert.deepEqual(lines.sort(), printed.sort());
    });
  }
}

test("both pages name the permissions", () => {
  assert.equal(PAGES.flatMap(permissionsIn).length, 2);
});
