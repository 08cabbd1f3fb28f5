// A hub in memory, a store that fails when it is told to, and deliveries by hand.

import type { TestContext } from "node:test";
import { type InboxOptions, type InboxStore, type Mark, memoryInbox, type StoreFault, type SynchronousInbox, type TransactionalInbox } from "../../src/inbox/index.ts";
import { PromClient } from "../../src/node.ts";
import { MemoryHub } from "../../src/testing/index.ts";
import type { Context, EventRecord } from "../../src/index.ts";

export const quiet: InboxOptions = { consumer: "billing", log: () => undefined };

/** A hub in memory, and a client that ends with the test. */
export function setUp(t: TestContext): { hub: MemoryHub; client: PromClient } {
  const hub = new MemoryHub();
  const client = new PromClient({ urls: [hub.url], token: hub.token(), webSocket: hub.webSocket, on: { log: () => undefined } });
  t.after(() => client.close());
  return { hub, client };
}

/** An inbox in memory that can be out of order, and that says what it was asked. */
export class FlakyStore implements InboxStore {
  readonly #marks = memoryInbox();
  /** What fails while it is down. */
  down: "nothing" | "everything" | "add" = "nothing";
  asked: ("has" | "add")[] = [];

  has(mark: Mark): Promise<boolean> {
    this.asked.push("has");
    return this.down === "everything" ? Promise.reject(new Error("the store is down")) : this.#marks.has(mark);
  }

  add(mark: Mark): Promise<void> {
    this.asked.push("add");
    return this.down === "nothing" ? this.#marks.add(mark) : Promise.reject(new Error("the store is down"));
  }

  purge: InboxStore["purge"] = (options) => this.#marks.purge(options);
}

/** Errors that the stores below take for theirs. */
export class Fault extends Error {
  constructor(readonly fault: StoreFault) {
    super(fault);
  }
}

/** What a transaction has written, once it is committed. */
export interface Tx {
  write(text: string): void;
}

/** An inbox with transactions in memory. `faults` are thrown one after the other instead of a commit. */
export class TransactionalStore extends FlakyStore implements TransactionalInbox<Tx> {
  readonly committed: string[] = [];
  readonly faults: Fault[] = [];

  async once(mark: Mark, run: (tx: Tx) => Promise<void>): Promise<boolean> {
    if (await this.has(mark)) return false;
    const written: string[] = [];
    await run({ write: (text) => written.push(text) });
    const fault = this.faults.shift();
    if (fault) throw fault;
    await this.add(mark);
    this.committed.push(...written);
    return true;
  }

  faultOf(error: unknown): StoreFault | undefined {
    return error instanceof Fault ? error.fault : undefined;
  }
}

/** The same for a driver that blocks. */
export class SynchronousStore extends FlakyStore implements SynchronousInbox<Tx> {
  readonly committed: string[] = [];
  readonly faults: Fault[] = [];
  readonly #ids = new Set<string>();

  override has({ id }: Mark): Promise<boolean> {
    return Promise.resolve(this.#ids.has(id));
  }

  onceSync({ id }: Mark, run: (tx: Tx) => void): boolean {
    if (this.#ids.has(id)) return false;
    const written: string[] = [];
    run({ write: (text) => written.push(text) });
    const fault = this.faults.shift();
    if (fault) throw fault;
    this.#ids.add(id);
    this.committed.push(...written);
    return true;
  }

  faultOf(error: unknown): StoreFault | undefined {
    return error instanceof Fault ? error.fault : undefined;
  }
}

/** A delivery by hand. */
export function delivery(change: Partial<EventRecord> = {}): { event: EventRecord; ctx: Context; controller: AbortController; published: { id?: string }[] } {
  const event = { id: "018f4e3a-1b2c-7d3e-8f40-112233445566", seq: 1, ts: 1, topic: "orders", payload: 1, ...change };
  const controller = new AbortController();
  const published: { id?: string }[] = [];
  const ctx: Context = {
    signal: controller.signal,
    attempt: 1,
    maxAttempts: 5,
    deadline: Date.now() + 30_000,
    ack_deadline_ms: 30_000,
    epoch: 0,
    group: "billing",
    topic: event.topic,
    extend: (ms) => Promise.resolve(ms),
    publish: (_: string, __: unknown, options: { id?: string } = {}) => {
      published.push(options);
      return Promise.resolve({ id: options.id ?? "", seq: 1, ts: 1, durable: "memory" as const });
    },
  };
  return { event, ctx, controller, published };
}
