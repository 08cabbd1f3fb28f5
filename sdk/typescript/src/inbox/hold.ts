// Keeps an event here while its store cannot be used or another copy is busy with it.

import { Return } from "../consume/outcome.ts";
import type { Context } from "../consume/types.ts";
import type { LogLevel } from "../options.ts";
import type { StoreFault } from "./store.ts";

/** The first wait before another try, and the longest one. */
const FIRST_WAIT_MS = 20;
const LONGEST_WAIT_MS = 1_000;
/** How long a handler is run again after conflicts with other transactions, before it counts as failed. The same as in the drivers of MongoDB. */
const CONFLICTS_MS = 120_000;
/** When events come again that were given back in an outage. */
const RETURN_DELAY_MS = 10_000;
/** How often a lease is looked at, as a part of the time to settle. */
const LOOKS_PER_LEASE = 6;
const LONGEST_LOOK_MS = 10_000;

export type Log = (level: LogLevel, message: string, fields: Readonly<Record<string, unknown>>) => void;

/** `busy`: another process handles a copy of the event, or writes to the database. The wait for it has no limit. */
export type Fault = StoreFault | "busy";

export interface HoldOptions {
  readonly consumer: string;
  readonly holdMs: number;
  readonly log: Log;
}

/** What the handlers of one inbox know of its store. */
export class Outage {
  readonly #options: HoldOptions;
  #since: number | undefined;

  constructor(options: HoldOptions) {
    this.#options = options;
  }

  /** Notes a failure of the store. Returns whether the outage has lasted long enough for events to be given back. */
  begin(error: unknown): boolean {
    const { consumer, holdMs, log } = this.#options;
    if (this.#since === undefined) {
      this.#since = Date.now();
      log("warn", "inbox unavailable", { consumer, error });
    }
    return Date.now() - this.#since >= holdMs;
  }

  end(): void {
    if (this.#since === undefined) return;
    const { consumer, log } = this.#options;
    log("info", "inbox available again", { consumer, afterMs: Date.now() - this.#since });
    this.#since = undefined;
  }
}

/** One delivery: its lease is extended during everything but its handler, whose time the subscription's `autoExtend` bounds. */
export class Hold {
  readonly #ctx: Context;
  readonly #outage: Outage;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isExtending = false;

  constructor(ctx: Context, outage: Outage) {
    this.#ctx = ctx;
    this.#outage = outage;
    this.#look();
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Runs a handler. */
  async released<T>(run: () => T | PromiseLike<T>): Promise<T> {
    this.end();
    try {
      return await run();
    } finally {
      this.#look();
    }
  }

  /** Does something with the store until no fault of the store is in the way. Throws what is no fault, and the reason of the signal. */
  async through<T>(work: () => Promise<T>, faultOf: (error: unknown) => Fault | undefined): Promise<T> {
    const { signal } = this.#ctx;
    let conflictsSince: number | undefined;
    for (let tries = 0; ; tries++) {
      try {
        const result = await work();
        this.#outage.end();
        return result;
      } catch (error) {
        const fault = faultOf(error);
        if (fault === undefined) throw error;
        signal.throwIfAborted();
        if (fault === "unavailable" && this.#outage.begin(error)) {
          throw new Return({ delayMs: RETURN_DELAY_MS, reason: "the inbox is not available" });
        }
        if (fault === "conflict") {
          conflictsSince ??= Date.now();
          if (Date.now() - conflictsSince >= CONFLICTS_MS) throw error;
        }
      }
      const longest = Math.min(FIRST_WAIT_MS * 2 ** Math.min(tries, 16), LONGEST_WAIT_MS);
      await pause(longest * (0.5 + Math.random() / 2), signal);
    }
  }

  #look(): void {
    const { ack_deadline_ms: time } = this.#ctx;
    this.#timer = setTimeout(() => {
      // A subscription with autoExtend has extended the lease before.
      if (!this.#isExtending && this.#ctx.deadline - Date.now() <= time / 2) {
        this.#isExtending = true;
        // A lease that cannot be extended is lost; then the signal is aborted.
        void this.#ctx.extend(time).catch(() => undefined).then(() => (this.#isExtending = false));
      }
      this.#look();
    }, Math.min(time / LOOKS_PER_LEASE, LONGEST_LOOK_MS));
  }
}

/** Resolves after a time. Rejects with the reason of the signal. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const passed = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)));
  return untilAborted(passed, signal).finally(() => clearTimeout(timer));
}

/** The promise, or the reason of the signal if that comes first. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the reason is whatever the signal has
    const abort = (): void => reject(signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
