// A payload as text, indented. Only the lines in sight are in the document, so that a megabyte opens at once.
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { download } from "../lib/clipboard.ts";
import { bytes, count, size, visible } from "../lib/format.ts";
import { Rows } from "../lib/lines.ts";
import { Button, CopyButton } from "./basics.tsx";

const LINE_PX = 19;
/** A longer line goes on in the next row. */
const ROW_CHARS = 1_000;

export function Payload({ text, name, label = "Payload" }: { text: string; name: string; label?: string }) {
  const frame = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const view = useSignal(400);
  const rows = useMemo(() => new Rows(text, ROW_CHARS), [text]);
  const length = useMemo(() => size(text), [text]);
  useEffect(() => {
    if (frame.current === null) return;
    view.value = frame.current.clientHeight || 400;
    frame.current.scrollTop = 0;
  }, [text]);
  const first = useComputed(() => Math.max(0, Math.floor(top.value / LINE_PX) - 10));
  const last = Math.min(rows.count, first.value + Math.ceil(view.value / LINE_PX) + 30);
  const shown = Array.from({ length: Math.max(0, last - first.value) }, (_, at) => visible(rows.row(first.value + at)));
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
        aria-label={`${label}, ${count(rows.count)} lines`}
        onScroll={(event) => { top.value = event.currentTarget.scrollTop; }}
      >
        <div style={{ height: `${rows.count * LINE_PX}px` }}>
          <pre style={{ transform: `translateY(${first.value * LINE_PX}px)` }}>{shown.join("\n")}</pre>
        </div>
      </div>
    </section>
  );
}
