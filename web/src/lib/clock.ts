// The time as far as ages on the page are concerned: once a second, and not while the tab is hidden.
import { signal } from "@preact/signals";

export const now = signal(Date.now());

export function start(): void {
  setInterval(() => {
    if (document.visibilityState === "visible") now.value = Date.now();
  }, 1_000);
}
