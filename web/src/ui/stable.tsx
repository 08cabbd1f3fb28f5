// A short list whose rows keep their places while the pointer or the focus is on it, so that nobody presses the button of another row. Values go on.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { count } from "../lib/format.ts";
import { updatedInPlace } from "../lib/stable.ts";

/** Hands the rows that are to be shown to `children`; `isGone` says of a row that it is not in the newest list any more. */
export function StableList<T>({ rows, id, children }: { rows: readonly T[]; id: (row: T) => string; children: (shown: readonly T[], isGone: (row: T) => boolean) => ComponentChildren }) {
  const isOver = useSignal(false);
  const hasFocus = useSignal(false);
  const isHeld = isOver.value || hasFocus.value;
  const held = useRef<readonly T[] | undefined>(undefined);
  held.current = isHeld ? updatedInPlace(held.current ?? rows, rows, id) : undefined;
  const shown = held.current ?? rows;
  const now = new Set(rows.map(id));
  const before = new Set(shown.map(id));
  const waiting = rows.filter((row) => !before.has(id(row))).length;
  return (
    <div
      class="stable"
      onMouseEnter={() => { isOver.value = true; }}
      onMouseLeave={() => { isOver.value = false; }}
      onFocusIn={({ target }) => { hasFocus.value = target instanceof Element && target.matches(":focus-visible"); }}
      onFocusOut={(event) => { hasFocus.value = event.relatedTarget instanceof Node && event.currentTarget.contains(event.relatedTarget); }}
    >
      {children(shown, (row) => !now.has(id(row)))}
      {waiting > 0 && <p class="held muted">{count(waiting)} new. Rows keep their places while the pointer or the focus is on them.</p>}
    </div>
  );
}
