/** How long to wait, and for people why. */
interface Delay {
  delayMs?: number;
  reason?: string;
}

/** A handler throws or returns it: the event has failed, and comes again after `delayMs`. */
export class Retry extends Error {
  readonly delayMs: number | undefined;

  constructor({ delayMs, reason = "retry" }: Delay = {}) {
    super(reason);
    this.delayMs = delayMs;
  }
}

/** The same, but the event has not failed: a dependency is down, for instance. */
export class Return extends Retry {}
