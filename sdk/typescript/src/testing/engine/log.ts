// A topic: a log of events with seqs from 1, and ids that are unique in it.

import { canonical } from "../json/canonical.ts";
import { type StoredEvent, storedEvent } from "./event.ts";
import type { NewEvent } from "../../rules/new-event.ts";
import { Refusal, badRequest } from "../../rules/refusal.ts";

/** Where to start reading. */
export type Position =
  | { from: "latest" }
  | { from: "earliest" }
  | { from: "ts"; ts: number }
  | { from: "afterId"; id: string }
  | { from: "afterSeq"; seq: number };

/** Where an event is. */
export interface Receipt {
  id: string;
  seq: number;
  ts: number;
  duplicate: boolean;
}

export class TopicLog {
  readonly name: string;
  /** The event with seq n is at n - 1: nothing is ever cleaned away. */
  private readonly events: StoredEvent[] = [];
  private readonly byId = new Map<string, StoredEvent>();
  private readonly newest = new Map<string, number>();
  /** Bytes of all events up to each seq. */
  private readonly bytesUpTo: number[] = [0];

  constructor(name: string) {
    this.name = name;
  }

  get last(): number {
    return this.events.length;
  }

  /** The event `id`, if the topic has it. */
  find(id: string): StoredEvent | undefined {
    return this.byId.get(id);
  }

  at(seq: number): StoredEvent | undefined {
    return this.events[seq - 1];
  }

  all(): readonly StoredEvent[] {
    return this.events;
  }

  /** Whether a newer event has the key of this one. */
  isOvertaken(event: StoredEvent): boolean {
    return event.key !== undefined && (this.newest.get(event.key) ?? 0) > event.seq;
  }

  /** Appends an event, unless the topic has its id. */
  append(event: NewEvent, id: string, now: number): Receipt {
    const known = this.byId.get(id);
    if (known) {
      const isSame = known.key === event.options.key && canonical(known.payload) === canonical(event.payload);
      if (isSame) return { id, seq: known.seq, ts: known.ts, duplicate: true };
      const msg = `topic ${this.name} has this id at seq ${known.seq} with another payload or key; use a new id for a new event`;
      throw new Refusal("id_conflict", msg, { id });
    }
    const seq = this.last + 1;
    const committed = Math.max(now, this.events.at(-1)?.committed ?? 0);
    const stored = storedEvent(event, { id, seq, ts: event.options.ts ?? now, committed });
    this.events.push(stored);
    this.byId.set(id, stored);
    this.bytesUpTo.push((this.bytesUpTo[seq - 1] ?? 0) + stored.json.length);
    if (stored.key !== undefined) this.newest.set(stored.key, seq);
    return { id, seq, ts: stored.ts, duplicate: false };
  }

  /** The seq after which reading starts. */
  resolve(position: Position): number {
    switch (position.from) {
      case "latest":
        return this.last;
      case "earliest":
        return 0;
      case "ts":
        return this.events.filter((event) => event.committed < position.ts).length;
      case "afterId": {
        const found = this.byId.get(position.id);
        if (found) return found.seq;
        const msg = `topic ${this.name} has no event ${position.id}, or no longer remembers it`;
        throw new Refusal("unknown_id", msg, { id: position.id });
      }
      case "afterSeq":
        if (position.seq <= this.last) return position.seq;
        throw badRequest(
          `seq ${position.seq} is beyond the end of topic ${this.name}; allowed is 0 to ${this.last}`,
        );
    }
  }

  /** Whether what follows `seq` has more bytes than these. */
  hasMoreAfter(seq: number, bytes: number): boolean {
    return (this.bytesUpTo[this.last] ?? 0) - (this.bytesUpTo[seq] ?? 0) > bytes;
  }
}

/** Refuses a place that means something in one topic only. */
export function checkForSeveral(position: Position): void {
  if (position.from === "afterId" || position.from === "afterSeq") {
    throw badRequest("afterId and afterSeq are places in one topic; for several use earliest, latest or ts");
  }
}
