// The blocks of the pages that are marked to be run: with a hub in memory, or with the real one of EVENT_HUB_BIN.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { pathToFileURL } from "node:url";
import { HOME } from "../../tools/declarations.mjs";
import { Hub } from "../support/hub.ts";
import { type Block, blocksOf, nameOf, PAGES } from "./blocks.ts";
import { ADDRESS, isReal, sourcesIn } from "./sources.ts";

const TIMEOUT = 30_000;

function programOf({ prelude, code, mark }: Block, url: string): string {
  const isEnding = !mark.startsWith("run until printed") && prelude !== "";
  return sourcesIn(`${prelude}${code}${isEnding ? "await hub.close();\n" : ""}`, url);
}

interface Run {
  readonly lines: string[];
  readonly errors: string;
  readonly end: number | NodeJS.Signals | null;
}

/** Runs a program until it ends, or until it has printed so many lines if it does not end by itself. */
async function run(t: TestContext, block: Block, count: number): Promise<Run> {
  const hub = isReal ? await Hub.start(t) : undefined;
  const directory = await mkdtemp(join(tmpdir(), "event-hub-docs-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const file = join(directory, "program.ts");
  await writeFile(file, programOf(block, hub?.url ?? ADDRESS));
  const preload = hub === undefined ? ["--import", pathToFileURL(`${HOME}tests/docs/memory.ts`).href] : [];
  // What the test runner tells its own children is not for programs that run tests themselves.
  const { NODE_TEST_CONTEXT: _, ...inherited } = process.env;
  const program = spawn(process.execPath, ["--import", pathToFileURL(`${HOME}tools/typescript.mjs`).href, ...preload, file], {
    env: { ...inherited, TOKEN: hub?.token() ?? "" },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: TIMEOUT,
    killSignal: "SIGKILL",
  });
  let output = "";
  let errors = "";
  const linesOf = (): string[] => output.split("\n").slice(0, -1);
  program.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    if (block.mark.startsWith("run until printed") && linesOf().length >= count) program.kill("SIGINT");
  });
  program.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  const end = await new Promise<number | NodeJS.Signals | null>((resolve) => {
    program.once("close", (code, signal) => resolve(code ?? signal));
  });
  return { lines: linesOf(), errors, end };
}

/** The lines that a block says it prints. */
function printedBy({ code }: Block): string[] {
  return [...code.matchAll(/\/\/ prints: (.*)$/gm)].map(([, text = ""]) => text);
}

const programs = PAGES.flatMap(blocksOf).filter(({ mark }) => mark.startsWith("run"));

for (const block of programs) {
  test(`${nameOf(block)} runs, and prints what it says`, async (t) => {
    const expected = printedBy(block);
    const { lines, errors, end } = await run(t, block, expected.length);
    const told = block.mark.startsWith("run until printed") && end === "SIGINT";
    assert.ok(end === 0 || told, `the program ended with ${end}:\n${lines.join("\n")}\n${errors}`);
    if (expected.length === 0) return;
    const inOrder = (all: string[]): string[] => (block.mark.endsWith("in any order") ? all.sort() : all);
    assert.deepEqual(inOrder(lines), inOrder(expected), errors);
  });
}

test("there are programs", () => {
  assert.ok(programs.length > 10);
});
