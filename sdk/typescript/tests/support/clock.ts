import * as deferred from "../../src/deferred.ts";
import type { LoadDeferred, PageEvent, Platform } from "../../src/platform.ts";
import type { OpenSocket } from "../../src/socket.ts";

interface Timer {
  readonly at: number;
  readonly run: () => void;
}

/** Lets everything run that needs no time: promises, and what they bring about. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** A platform whose time passes only when a test says so. */
export class ManualPlatform implements Platform {
  #steady = 1_000;
  #wallAhead = 1_700_000_000_000;
  #timers = new Set<Timer>();
  readonly #watchers = new Set<(event: PageEvent) => void>();
  /** How many timers were ever set, and the times that they were set for. */
  readonly timersSet: number[] = [];
  /** What the jitter draws. */
  luck = 0.5;
  openSocket: OpenSocket;
  /** What loads the deferred part; a test may replace it. */
  loader: LoadDeferred = () => deferred;
  loadDeferred: LoadDeferred = () => this.loader();

  constructor(openSocket: OpenSocket) {
    this.openSocket = openSocket;
  }

  steady = (): number => this.#steady;
  wall = (): number => this.#steady + this.#wallAhead;
  random = (): number => this.luck;
  defer = (run: () => void): void => queueMicrotask(run);

  setTimer = (run: () => void, ms: number): unknown => {
    // As Node and browsers do.
    const timer = { at: this.#steady + (ms > 2 ** 31 - 1 ? 1 : ms), run };
    this.timersSet.push(ms);
    this.#timers.add(timer);
    return timer;
  };

  clearTimer = (timer: unknown): void => {
    this.#timers.delete(timer as Timer);
  };

  /** Whether the page is hidden when a client begins to watch it. */
  isHidden = false;

  watchPage = (tell: (event: PageEvent) => void): (() => void) => {
    this.#watchers.add(tell);
    tell(this.isHidden ? "hidden" : "visible");
    return () => this.#watchers.delete(tell);
  };

  get timers(): number {
    return this.#timers.size;
  }

  get watchers(): number {
    return this.#watchers.size;
  }

  /** When the next timer runs, from now. */
  get nextTimer(): number {
    return Math.min(...[...this.#timers].map((timer) => timer.at)) - this.#steady;
  }

  /** Time passes, timer by timer. */
  async pass(ms: number): Promise<void> {
    const end = this.#steady + ms;
    await settle();
    for (;;) {
      const next = [...this.#timers].filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#steady = Math.max(this.#steady, next.at);
      next.run();
      await settle();
    }
    this.#steady = end;
    await settle();
  }

  /** The computer sleeps: the clock of the day goes on, timers and the steady clock do not. */
  sleep(ms: number): void {
    this.#wallAhead += ms;
  }

  tell(event: PageEvent): void {
    for (const watcher of [...this.#watchers]) watcher(event);
  }
}
