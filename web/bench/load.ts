// The events that flow while a page is looked at.
import type { Hub } from "../tests/browser/harness/hub.ts";

export const TOPICS = 1_000;
export const EVENTS_PER_SECOND = 2_000;
/** Gets a tenth of the events. */
export const BUSY_TOPIC = topicName(0);
const BATCH_EVENTS = 20;
const BATCH_MS = (1_000 * BATCH_EVENTS) / EVENTS_PER_SECOND;

export function topicName(n: number): string {
  return `shop.part-${String(n).padStart(4, "0")}.changed`;
}

/** Publishes at a steady rate until it is stopped. */
export class Load {
  readonly #timer: NodeJS.Timeout;
  readonly #failed: Promise<never>;
  #sent = 0;

  private constructor(timer: NodeJS.Timeout, failed: Promise<never>) {
    this.#timer = timer;
    this.#failed = failed;
  }

  static async start(hub: Hub): Promise<Load> {
    const socket = await hub.socket();
    await socket.publish(Array.from({ length: TOPICS }, (_, n) => ({ topic: topicName(n), payload: n })));
    let fail: (error: unknown) => void = () => undefined;
    const failed = new Promise<never>((_, reject) => {
      fail = reject;
    });
    failed.catch(() => undefined);
    const started = performance.now();
    const timer = setInterval(() => {
      // Timers are late now and then; the rate is kept.
      const due = Math.floor((performance.now() - started) / BATCH_MS) * BATCH_EVENTS;
      if (due <= load.#sent) return;
      const events = Array.from({ length: Math.min(due - load.#sent, 1_000) }, (_, n) => event(load.#sent + n));
      load.#sent += events.length;
      socket.publish(events).catch(fail);
    }, BATCH_MS);
    const load = new Load(timer, failed);
    return load;
  }

  /** Lets it flow for a time; fails if a publish does. */
  async during(millis: number): Promise<void> {
    await Promise.race([new Promise((done) => setTimeout(done, millis)), this.#failed]);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

function event(n: number): { topic: string; payload: unknown; opts: object } {
  // Topics take turns in an order that is not that of their names.
  const topic = n % 10 === 0 ? BUSY_TOPIC : topicName((n * 7_919) % TOPICS);
  // The busy topic has a new key each time, as one of sessions or orders has.
  const key = topic === BUSY_TOPIC ? `part-${n}` : `part-${n % 500}`;
  return { topic, payload: { part: n, stock: n % 100, note: "x".repeat(150) }, opts: { key } };
}
