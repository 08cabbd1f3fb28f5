// The time as far as ages on the page are concerned: the hub's, once a second, and not while the tab is hidden. The clock of the browser may be wrong by
// hours, and all that has an age was stamped by the hub.
import { signal } from "@preact/signals";

/** Clocks that are closer than this are the same: answers take time, and say whole seconds. */
const TOLERANCE_MS = 2_000;

let offset = 0;

/** What the hub's clock shows, as far as that is known. */
export function hubTime(): number {
  return Date.now() + offset;
}

/** Takes what the hub's clock showed a moment ago. */
export function setHubTime(millis: number): void {
  const seen = millis - Date.now();
  if (Math.abs(seen - offset) <= TOLERANCE_MS) return;
  offset = seen;
  now.value = hubTime();
}

export const now = signal(hubTime());

export function start(): void {
  setInterval(() => {
    if (document.visibilityState === "visible") now.value = hubTime();
  }, 1_000);
}
