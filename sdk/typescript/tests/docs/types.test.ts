// Every block of TypeScript in the pages compiles against the types of the package.

import assert from "node:assert/strict";
import { test } from "node:test";
import ts from "typescript";
import { declarations, HOME, programOf } from "../../tools/declarations.mjs";
import { blocksOf, nameOf, PAGES } from "./blocks.ts";

/** What `event-hub codegen` writes, where a block imports it. */
const TOPICS = 'export interface Topics { "orders.created": { id: number; total: number } }\n';

const OPTIONS: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2022,
  lib: ["lib.es2023.d.ts", "lib.esnext.disposable.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts"],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  jsx: ts.JsxEmit.ReactJSX,
  types: ["node"],
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  skipLibCheck: true,
  noEmit: true,
};

/** What the compiler says of the blocks of the pages, by block. */
function check(blocks: ReturnType<typeof blocksOf>): Map<string, string[]> {
  const files = declarations();
  const directory = `${HOME}tests/docs/`;
  files.set(`${directory}topics.ts`, TOPICS);
  const paths = blocks.map(({ page, line, language, prelude, code }) => {
    const path = `${directory}${page.replaceAll("/", "-")}-${line}.${language}`;
    files.set(path, `${prelude}${code}\nexport {};\n`);
    return path;
  });
  const program = programOf(paths, files, OPTIONS);
  return new Map(
    blocks.map((block, at) => {
      const file = program.getSourceFile(paths[at] ?? "");
      assert.ok(file);
      const before = block.prelude.split("\n").length - 1;
      const found = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)].map(({ start = 0, messageText }) => {
        const line = file.getLineAndCharacterOfPosition(start).line - before;
        return `${block.page}:${block.line + 1 + line}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`;
      });
      return [nameOf(block), found];
    }),
  );
}

test("every block of the pages compiles", () => {
  const blocks = PAGES.flatMap(blocksOf);
  assert.ok(blocks.length > 20, "the pages have code");
  const found = check(blocks);
  assert.deepEqual([...found.values()].flat(), []);
});

test("a block that is wrong is found, with its line", () => {
  const wrong = { page: "a.md", line: 10, language: "ts", mark: "", prelude: 'import { PromClient } from "event-hub-client";\n' } as const;
  const code = 'const hub = new PromClient("ws://a");\nawait hub.publsh("t", 1);\n';
  assert.match(String(check([{ ...wrong, code }]).get("a.md:10")), /^a\.md:12: Property 'publsh' does not exist on type 'PromClient<AnyTopics>'/);
});
