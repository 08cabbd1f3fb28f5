// What an edit changes, line by line.
import { changes, excerpts } from "../lib/diff.ts";
import { count, visible } from "../lib/format.ts";
import { indentedLines } from "../lib/lines.ts";

/** Lines shown at most. */
const MOST = 200;
/** Characters of a line. */
const MOST_CHARS = 500;

export function Diff({ before, after }: { before: string; after: string }) {
  const lines = changes(indentedLines(before), indentedLines(after));
  if (lines.length === 0) return <p class="muted">The same.</p>;
  return (
    <pre class="diff" aria-label="Changes" tabIndex={0}>
      {excerpts(lines.slice(0, MOST), MOST_CHARS).map((line, index) => (
        <span key={index} class={line.sign === "-" ? "gone" : line.sign === "+" ? "new" : "muted"}>{`${line.sign} ${visible(line.text)}\n`}</span>
      ))}
      {lines.length > MOST && <span class="muted">{`… ${count(lines.length - MOST)} further lines\n`}</span>}
    </pre>
  );
}
