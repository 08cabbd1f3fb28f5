// The hub's time. Everything that is due later hangs on one alarm.

export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Calls the listener at a time, or not at all; a later call replaces an earlier one. */
  wakeAt(at: number | undefined): void;
}

/** The longest that a timer can wait; beyond, it would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** A process does not stay alive for what is due later than this. */
const AWAITED_MS = 5_000;

/** The real time, with a real timer. It goes by what `Date` and `setTimeout` are when they are called, so faked timers of a test runner work. */
export class RealClock implements Clock {
  private readonly listener: () => void;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private at: number | undefined;

  constructor(listener: () => void) {
    this.listener = listener;
  }

  now(): number {
    return Date.now();
  }

  wakeAt(at: number | undefined): void {
    if (at === this.at) return;
    this.at = at;
    clearTimeout(this.timer);
    this.timer = undefined;
    if (at === undefined) return;
    const wait = Math.min(Math.max(at - this.now(), 0), MAX_TIMER_MS);
    this.timer = setTimeout(() => {
      this.at = undefined;
      this.listener();
    }, wait);
    // In Node, where a timer is an object, a test waits for a retry, and does not hang for the end of a token.
    if (wait > AWAITED_MS) (this.timer as { unref?: () => void }).unref?.();
  }
}

/** A time that stands still until a test moves it. */
export class ManualClock implements Clock {
  private readonly listener: () => void;
  private time: number;
  private at: number | undefined;

  constructor(listener: () => void, start: number) {
    this.listener = listener;
    this.time = start;
  }

  now(): number {
    return this.time;
  }

  wakeAt(at: number | undefined): void {
    this.at = at;
  }

  /** When something is due next. */
  get nextDue(): number | undefined {
    return this.at;
  }

  /** Moves to a time; what is due there happens. */
  moveTo(time: number): void {
    this.time = Math.max(time, this.time);
    if (this.at === undefined || this.at > this.time) return;
    this.at = undefined;
    this.listener();
  }
}
