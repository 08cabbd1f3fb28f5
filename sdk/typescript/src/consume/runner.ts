import type { Lease } from "./lease.ts";

/** Starts deliveries, at most so many at once, and those of a key one after the other. */
export interface Runner {
  readonly running: number;
  add(lease: Lease): void;
  /** Starts what may be started. */
  pump(): void;
  /** A delivery that was started has ended. */
  finish(lease: Lease): void;
}

/** `start` returns whether it has started the delivery; else it was dropped. `mayStart` is false during a pause. */
export function createRunner(
  concurrency: number,
  isKeyed: boolean,
  mayStart: () => boolean,
  start: (lease: Lease) => boolean,
): Runner {
  let ready: Lease[] = [];
  let head = 0;
  /** What waits for an earlier delivery of its key; a key that has none waiting has an empty list. */
  const behind = new Map<string, Lease[]>();
  let running = 0;
  let isPumping = false;

  const keyOf = ({ event }: Lease): string | undefined =>
    isKeyed && event.key !== undefined ? `${event.topic}\0${event.key}` : undefined;

  function release(lease: Lease): void {
    const key = keyOf(lease);
    if (key === undefined) return;
    const next = behind.get(key)?.shift();
    if (next === undefined) behind.delete(key);
    else ready.push(next);
  }

  function pump(): void {
    // Handlers that end at once come back here.
    if (isPumping) return;
    isPumping = true;
    while (running < concurrency && head < ready.length && mayStart()) {
      const lease = ready[head++] as Lease;
      running++;
      if (!start(lease)) {
        running--;
        release(lease);
      }
    }
    if (head === ready.length) {
      ready = [];
      head = 0;
    } else if (head > 1024) {
      ready = ready.slice(head);
      head = 0;
    }
    isPumping = false;
  }

  return {
    get running() {
      return running;
    },
    add(lease) {
      const key = keyOf(lease);
      const waiting = key === undefined ? undefined : behind.get(key);
      if (waiting !== undefined) {
        waiting.push(lease);
        return;
      }
      if (key !== undefined) behind.set(key, []);
      ready.push(lease);
    },
    pump,
    finish(lease) {
      running--;
      release(lease);
      pump();
    },
  };
}
