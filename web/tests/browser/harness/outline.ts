// What a page says to a screen reader, with everything masked that is another one on each run. Two runs of the same page have the same outline, and a
// page that was changed has another one.
import type { Page } from "playwright-core";

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi;
const ADDRESS = /127\.0\.0\.1:\d+/g;
const DATE = /\d{4}-\d{2}-\d{2}( \d{2}:\d{2}:\d{2})?/g;
const CLOCK = /\d{2}:\d{2}:\d{2}/g;
const FORECAST = /\((?:measuring…|not moving|caught up|growing by|caught up in)[^)]*\)/g;
/** Ages and latencies, with as many parts as they have. */
const DURATION = /\bjust now\b|\d[\d.,]*(?: )?(?:ms|s|min|h|d)\b(?: \d[\d.,]* (?:ms|s|min|h|d)\b)*(?: ago)?/g;
const SIZE = /\d[\d.,]* (?:B|KiB|MiB|GiB)\b/g;
const NUMBER = /\d[\d.,]*[kMG]?/g;
/** A word behind a number, and a verb behind that, which are others for one than for many. */
const PLURAL = /# (event|letter|group|topic|problem|row|replay|attempt|key|member|hub|dead letter)s?\b/g;
const VERB = /\b(waits?|is|are|was|were)\b/g;

/** A line without what changes. */
export function masked(line: string): string {
  return line
    .replace(FORECAST, "(<forecast>)")
    .replace(UUID, "<id>")
    .replace(ADDRESS, "<address>")
    .replace(DATE, "<time>")
    .replace(CLOCK, "<time>")
    .replace(DURATION, "<duration>")
    .replace(SIZE, "<size>")
    .replace(NUMBER, "#")
    .replace(PLURAL, "# $1(s)")
    .replace(VERB, (verb) => (verb.startsWith("wait") ? "wait(s)" : verb === "is" || verb === "are" ? "is/are" : "was/were"));
}

/** One line of a snapshot, with those below it. */
type Node = { line: string; below: Node[] };

/** Roles of which a page has as many as there is data. */
const REPEATED = /^- (row|listitem)\b/;
/** A part whose rows come and go with the traffic of the last minute. */
const OF_THE_MINUTE = /^- region "Busiest topics"/;
/** What is said once, when it happens. */
const SPOKEN = /^- status/;

function parse(snapshot: string): Node[] {
  const root: Node = { line: "", below: [] };
  const open = [root];
  for (const line of snapshot.split("\n")) {
    const depth = (line.length - line.trimStart().length) / 2;
    const node = { line: masked(unquoted(line.trim())), below: [] };
    open.length = depth + 1;
    open[depth]?.below.push(node);
    open.push(node);
  }
  return root.below;
}

/** Whether a value is in quotes depends on what it is. */
function unquoted(line: string): string {
  return line.replace(/^- '(.*)'(:?)/, (_, text: string, colon: string) => `- ${text.replaceAll("''", "'")}${colon}`).replace(/^(- [\w/]+): "(.*)"$/, "$1: $2");
}

function written(nodes: readonly Node[], depth: number): string[] {
  const known = new Set<string>();
  const below = (node: Node) => (OF_THE_MINUTE.test(node.line) ? [] : written(node.below, depth + 1));
  const parts = nodes.map((node) => ({ isRepeated: REPEATED.test(node.line), text: [`${"  ".repeat(depth)}${node.line}`, ...below(node)].join("\n") }));
  const kept = parts.filter(({ isRepeated, text }) => !isRepeated || (!known.has(text) && known.add(text)));
  // Rows are in the order of values that are masked.
  const isTable = kept.length > 0 && kept.every(({ text }) => /^\s*- row\b/.test(text));
  return (isTable ? kept.sort((a, b) => (a.text < b.text ? -1 : 1)) : kept).map(({ text }) => text);
}

/** The outline of the page. Rows and items of lists that are alike once they are masked stand there once. */
export async function outline(page: Page): Promise<string> {
  const nodes = parse(await page.locator("body").ariaSnapshot()).filter(({ line }) => !SPOKEN.test(line));
  return `${written(nodes, 0).join("\n")}\n`;
}
