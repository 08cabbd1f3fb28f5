import type { PromClient } from "../../../src/index.ts";
import type { Condition } from "../../support/condition.ts";
import type { Topics } from "./lab.ts";

/** Publishes that wait for their answers at the same time. */
const BURST = 20;
/** Events that are published and not handled, apart from a burst. */
const AHEAD = 100;
/** Handlers take less than this. */
const HANDLER_MS = 40;

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
  #publishing: Promise<void> | undefined;
  #isStopping = false;
  #published = 0;
  #completed = 0;
  #running = 0;

  constructor(client: PromClient<Topics>, changed: Condition, keys: number) {
    this.#client = client;
    this.#changed = changed;
    this.#keys = keys;
  }

  /** Resolves when the subscription stands. From then on events are published until `stop`, also without a connection. */
  async start(): Promise<void> {
    await this.#client.subscribe(
      "steps",
      "g",
      async ({ payload: { key, n } }) => {
        const id = `${key} ${n}`;
        const before = this.#started.get(id) ?? 0;
        this.#started.set(id, before + 1);
        this.#running++;
        await new Promise((resolve) => setTimeout(resolve, n % HANDLER_MS));
        this.#running--;
        const last = this.#last.get(key) ?? 0;
        if (before === 0) {
          if (n !== last + 1) this.#outOfOrder.push(`${key}: ${n} after ${last}`);
          this.#last.set(key, n);
          this.#completed++;
        }
        this.#changed.changed();
      },
      { ordering: "key", concurrency: 16, maxInFlight: 200 },
    );
    this.#publishing = this.#publish();
    // `stop` tells of it.
    this.#publishing.catch(() => undefined);
  }

  async #publish(): Promise<void> {
    while (!this.#isStopping) {
      const burst: Promise<unknown>[] = [];
      while (burst.length < BURST) {
        const key = `k${this.#published % this.#keys}`;
        const n = Math.floor(this.#published / this.#keys) + 1;
        this.#published++;
        burst.push(this.#client.publish("steps", { key, n }, { key, order: "key" }));
      }
      await Promise.all(burst);
      await this.#changed.until(() => this.#completed >= this.#published - AHEAD);
    }
  }

  /** Waits until so many more events have been handled. */
  async more(events: number): Promise<void> {
    const enough = this.#completed + events;
    await this.#changed.until(() => this.#completed >= enough);
  }

  /** Waits until no handler runs: while events are published, that is so only when none arrive. */
  async idle(): Promise<void> {
    await this.#changed.until(() => this.#running === 0);
  }

  /** Publishes no more, and waits until all that was published has been handled. */
  async stop(): Promise<Figures> {
    this.#isStopping = true;
    await this.#publishing;
    await this.#changed.until(() => this.#completed >= this.#published);
    const twice = [...this.#started.values()].filter((times) => times > 1).length;
    return { events: this.#completed, lost: this.#published - this.#started.size, twice, outOfOrder: this.#outOfOrder };
  }
}
