// Texts for screen readers: one polite text every few seconds, however often the page changes.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

const PAUSE_MS = 5_000;

export const spoken = signal("");
let waiting: string | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Says the text now, or the newest one of them when the pause is over. */
export function announce(text: string): void {
  if (timer !== undefined) {
    waiting = text;
    return;
  }
  spoken.value = text;
  timer = setTimeout(() => {
    timer = undefined;
    const next = waiting;
    waiting = undefined;
    if (next !== undefined && next !== spoken.peek()) announce(next);
  }, PAUSE_MS);
}

/** Announces a text whenever it changes. */
export function useAnnounced(text: string): void {
  useEffect(() => announce(text), [text]);
}
