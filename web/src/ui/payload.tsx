// A payload as text, indented. Only the lines in sight are in the document, so that a megabyte opens at once.
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { download } from "../lib/clipboard.ts";
import { bytes, count, size, visible } from "../lib/format.ts";
import { indentedLines } from "../lib/json.ts";
import { Button, CopyButton } from "./basics.tsx";

const LINE_PX = 19;
/** A longer line goes on in the next one: a browser takes long to lay out a line of a megabyte. */
const LINE_CHARS = 1_000;

/** The lines of a text, long ones in pieces. */
function linesOf(text: string): string[] {
  return indentedLines(text).flatMap((line) => {
    if (line.length <= LINE_CHARS) return [line];
    const pieces: string[] = [];
    for (let at = 0; at < line.length; at += LINE_CHARS) pieces.push(`${at === 0 ? "" : "↪ "}${line.slice(at, at + LINE_CHARS)}`);
    return pieces;
  });
}

export function Payload({ text, name, label = "Payload" }: { text: string; name: string; label?: string }) {
  const frame = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const view = useSignal(400);
  const lines = useMemo(() => linesOf(text), [text]);
  const length = useMemo(() => size(text), [text]);
  useEffect(() => {
    if (frame.current === null) return;
    view.value = frame.current.clientHeight || 400;
    frame.current.scrollTop = 0;
  }, [text]);
  const first = useComputed(() => Math.max(0, Math.floor(top.value / LINE_PX) - 10));
  const last = Math.min(lines.length, first.value + Math.ceil(view.value / LINE_PX) + 30);
  const shown = lines.slice(first.value, last).map(visible);
  return (
    <section class="payload" aria-label={label}>
      <header>
        <h3>{label}</h3>
        <span class="muted">{bytes(length)}</span>
        <CopyButton text={text} label={`Copy the ${label.toLowerCase()}`}>Copy</CopyButton>
        <Button kind="quiet" onClick={() => download(`${name}.json`, text)}>Download</Button>
      </header>
      <div
        ref={frame}
        class="lines"
        tabIndex={0}
        role="region"
        aria-label={`${label}, ${count(lines.length)} lines`}
        onScroll={(event) => { top.value = event.currentTarget.scrollTop; }}
      >
        <div style={{ height: `${lines.length * LINE_PX}px` }}>
          <pre style={{ transform: `translateY(${first.value * LINE_PX}px)` }}>{shown.join("\n")}</pre>
        </div>
      </div>
    </section>
  );
}
