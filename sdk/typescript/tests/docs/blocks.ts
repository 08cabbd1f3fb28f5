// The code of the pages: every block of TypeScript, and how a page marks it.
//
// A comment before a block marks it: `<!-- prelude -->` is what all fragments of the page begin with, `<!-- run -->` is run, and
// `<!-- run until printed -->` is run until it has printed what it says, and then interrupted. With `, in any order` the lines may come in another
// order. `<!-- render -->` has components that are rendered. A block that imports from "event-hub-client" stands by itself; another one is a
// fragment. A comment `// prints: TEXT` says what is printed.

import { readFileSync } from "node:fs";
import { HOME } from "../../tools/declarations.mjs";

export const PAGES = ["README.md", "docs/sdk-typescript.md", "docs/exactly-once.md", "sdk/typescript/README.md"];

export interface Block {
  readonly page: string;
  /** The line of the page before its first one. */
  readonly line: number;
  readonly language: "ts" | "tsx";
  readonly mark: string;
  readonly code: string;
  /** What comes before it when it is compiled or run. */
  readonly prelude: string;
}

const FENCE = /^(?:<!-- (.*) -->\n)?```(tsx?)\n([^]*?)^```$/gm;

export function blocksOf(page: string): Block[] {
  const text = readFileSync(`${HOME}../../${page}`, "utf8");
  const found = [...text.matchAll(FENCE)].map((match) => {
    const [all, mark = "", language, code = ""] = match;
    const before = text.slice(0, match.index + all.indexOf("```"));
    return { page, line: before.split("\n").length, language: language as "ts" | "tsx", mark, code };
  });
  const prelude = found.find(({ mark }) => mark === "prelude")?.code ?? "";
  return found.map((block) => ({ ...block, prelude: isFragment(block) ? prelude : "" }));
}

function isFragment({ mark, code }: { mark: string; code: string }): boolean {
  return mark !== "prelude" && !/from "event-hub-client";/.test(code);
}

/** How a block is named in the output of tests. */
export function nameOf({ page, line }: Block): string {
  return `${page}:${line}`;
}
