// The way between clients and the hub: one thing after the other, each in a turn of its own, as frames of a socket come.

/** A test that fakes timers must not stop the frames: what the platform had when this module was loaded. */
const { setTimeout: laterTask } = globalThis;
const immediately = (globalThis as { setImmediate?: (run: () => void) => unknown }).setImmediate;

/** Turns in a row before the platform's timers and I/O have theirs: two ends that answer each other for ever must not starve them. */
const TURNS_IN_A_ROW = 1000;

/** Resolves when the platform has gone round once: everything that was ready to run has run. */
export function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    if (immediately) immediately(resolve);
    else laterTask(resolve, 0);
  });
}

export class Wire {
  private readonly waiting: (() => void)[] = [];
  private isRunning = false;
  private turns = 0;

  get isIdle(): boolean {
    return !this.isRunning;
  }

  /** Does something in a turn of its own, behind everything that was posted before. */
  post(run: () => void): void {
    this.waiting.push(run);
    if (this.isRunning) return;
    this.isRunning = true;
    this.next();
  }

  /** Resolves when nothing is on the way, and nobody has put something on the way in the meantime. */
  async idle(): Promise<void> {
    do {
      await nextTask();
    } while (!this.isIdle);
  }

  private next(): void {
    this.turns += 1;
    // A promise's turn comes whatever a test has faked.
    const turn = this.turns % TURNS_IN_A_ROW === 0 ? nextTask() : Promise.resolve();
    void turn.then(() => this.run());
  }

  private run(): void {
    try {
      this.waiting.shift()?.();
    } finally {
      if (this.waiting.length > 0) this.next();
      else this.isRunning = false;
    }
  }
}
