import type { EventRecord, Receipt } from "../types.ts";
import { uuid5 } from "./uuid5.ts";
import type { PublishOptions } from "../publish/entry.ts";
import { epochOf, type Lease } from "./lease.ts";
import type { Outcome } from "./settlement.ts";
import type { Context, Delivery } from "./types.ts";

/** The namespace of the ids that handlers' publishes get. */
const DERIVED = "6c1f0a52-7d3e-5b9a-8f46-2e0d9c7b1a35";

/** The id of the event that a handler publishes as its `n`th one, from 0. */
export function followingId(group: string, { topic, id }: EventRecord, n: number): string {
  return uuid5(DERIVED, JSON.stringify([group, topic, id, n]));
}

/** What a context asks its subscription. */
export interface Holder {
  readonly topic: string;
  readonly group: string;
  extend(lease: Lease, ms: number): Promise<number>;
  settle(lease: Lease, outcome: Outcome): Promise<boolean>;
  publish(topic: string, payload: unknown, options: PublishOptions): Promise<Receipt>;
}

/** A delivery as a handler sees it. What it says changes when the event comes again while its handler runs. */
class HandlerContext implements Context {
  readonly #lease: Lease;
  readonly #holder: Holder;

  constructor(lease: Lease, holder: Holder) {
    this.#lease = lease;
    this.#holder = holder;
  }

  get signal(): AbortSignal {
    const lease = this.#lease;
    if (lease.controller === undefined) {
      lease.controller = new AbortController();
      const why = lease.lost ?? lease.closing;
      if (why !== undefined) lease.controller.abort(why);
    }
    return lease.controller.signal;
  }

  get attempt(): number {
    return this.#lease.ctx.attempt;
  }

  get maxAttempts(): number {
    return this.#lease.ctx.maxAttempts;
  }

  get ack_deadline_ms(): number {
    return this.#lease.ctx.ack_deadline_ms;
  }

  get epoch(): number {
    return epochOf(this.#lease.ctx);
  }

  get deadline(): number {
    return this.#lease.deadline;
  }

  get group(): string {
    return this.#holder.group;
  }

  get topic(): string {
    return this.#holder.topic;
  }

  extend(ms: number): Promise<number> {
    return this.#holder.extend(this.#lease, ms);
  }

  publish(topic: string, payload: unknown, options: PublishOptions = {}): Promise<Receipt> {
    const { event } = this.#lease;
    const id = followingId(this.#holder.group, event, this.#lease.published++);
    return this.#holder.publish(topic, payload, { id, caused_by: [event.id], ...options });
  }

  settle(outcome: Outcome): Promise<boolean> {
    return this.#holder.settle(this.#lease, outcome);
  }
}

/** A delivery of an iterator: it is settled by hand. */
class IteratorDelivery extends HandlerContext implements Delivery {
  readonly event: EventRecord;

  constructor(lease: Lease, event: EventRecord, holder: Holder) {
    super(lease, holder);
    this.event = event;
  }

  ack(): Promise<boolean> {
    return this.settle({ op: "ACK" });
  }

  nack(options: { delayMs?: number; reason?: string } = {}): Promise<boolean> {
    return this.settle({ op: "NACK", ...options });
  }

  return(options: { delayMs?: number } = {}): Promise<boolean> {
    return this.settle({ op: "RETURN", ...options });
  }
}

export function createContext(lease: Lease, holder: Holder): Context {
  return new HandlerContext(lease, holder);
}

export function createDelivery(lease: Lease, event: EventRecord, holder: Holder): Delivery {
  return new IteratorDelivery(lease, event, holder);
}
