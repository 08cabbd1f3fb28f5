import type { PromClient } from "../../../src/index.ts";
import type { Condition } from "../../support/condition.ts";
import type { Topics } from "./lab.ts";

/** Publishes that wait for their answers at the same time. */
const BURST = 20;
/** Events that are published and not handled, apart from a burst. */
const AHEAD = 100;
/** Handlers take less than this. */
const HANDLER_MS = 20;

/** What came of a load. */
export interface Figures {
  readonly events: number;
  readonly lost: number;
  readonly twice: number;
  readonly outOfOrder: readonly string[];
}

/** A client publishes events of several keys, numbered from 1 in each, and handles them. */
export class KeyedLoad {
  readonly #client: PromClient<Topics>;
  readonly #changed: Condition;
  readonly #keys: number;
  /** How often a handler was started for each event. */
  readonly #started = new Map<string, number>();
  /** The last number of each key whose handler has ended. */
  readonly #last = new Map<string, number>();
  readonly #outOfOrder: string[] = [];
  #publishing = Promise.resolve();
  #published = 0;
  #completed = 0;

  constructor(client: PromClient<Topics>, changed: Condition, keys: number) {
    this.#client = client;
    this.#changed = changed;
    this.#keys = keys;
  }

  /** Resolves when the subscription stands. */
  async subscribe(): Promise<void> {
    await this.#client.subscribe(
      "steps",
      "g",
      async ({ payload: { key, n } }) => {
        const id = `${key} ${n}`;
        const before = this.#started.get(id) ?? 0;
        this.#started.set(id, before + 1);
        await new Promise((resolve) => setTimeout(resolve, n % HANDLER_MS));
        if (before > 0) return;
        const last = this.#last.get(key) ?? 0;
        if (n !== last + 1) this.#outOfOrder.push(`${key}: ${n} after ${last}`);
        this.#last.set(key, n);
        this.#completed++;
        this.#changed.changed();
      },
      { ordering: "key", concurrency: 32, maxInFlight: 200 },
    );
  }

  /** Publishes up to so many events in all. Nothing waits for it but the next call, and `end`. */
  publishUpTo(events: number): void {
    this.#publishing = this.#publishing.then(() => this.#publish(events));
    // `end` tells of it.
    this.#publishing.catch(() => undefined);
  }

  async #publish(upTo: number): Promise<void> {
    let pending: Promise<unknown>[] = [];
    while (this.#published < upTo) {
      const key = `k${this.#published % this.#keys}`;
      const n = Math.floor(this.#published / this.#keys) + 1;
      this.#published++;
      pending.push(this.#client.publish("steps", { key, n }, { key, order: "key" }));
      if (pending.length < BURST) continue;
      await Promise.all(pending);
      pending = [];
      // So that events are published and handled at the same time.
      await this.reached(this.#published - AHEAD);
    }
    await Promise.all(pending);
  }

  /** Waits until so many events have been handled. */
  async reached(events: number): Promise<void> {
    await this.#changed.until(() => this.#completed >= events);
  }

  /** Waits until all that was published has been handled. */
  async end(): Promise<Figures> {
    await this.#publishing;
    await this.reached(this.#published);
    const twice = [...this.#started.values()].filter((times) => times > 1).length;
    return { events: this.#completed, lost: this.#published - this.#started.size, twice, outOfOrder: this.#outOfOrder };
  }
}
