// One write to the document per frame, whatever comes in meanwhile.

let waiting: (() => void)[] = [];

/** Writes in the next frame. A hidden tab has no frames. */
export function inFrame(write: () => void): void {
  waiting.push(write);
  if (waiting.length > 1) return;
  if (document.visibilityState === "visible") requestAnimationFrame(flush);
  else setTimeout(flush);
}

/** Writes what waits without waiting for the frame, because a key is about to act on it. */
export function flush(): void {
  const writes = waiting;
  waiting = [];
  for (const write of writes) write();
}
