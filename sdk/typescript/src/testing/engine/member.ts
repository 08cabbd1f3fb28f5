// A member of a group, over all the topics that its subscription covers: what it has in hand, and how it settles that by id.

import type { Lease } from "./dispatcher.ts";
import type { StoredEvent } from "./event.ts";
import type { Group } from "./group.ts";
import { MAX_DELAY_MS } from "../../rules/limits.ts";
import { Refusal, badRequest } from "../../rules/refusal.ts";

/** An event on its way to the consumer. */
export interface Delivery {
  event: StoredEvent;
  attempt: number;
  maxAttempts: number;
  /** The group's epoch: a seek raises it. */
  epoch: number;
  /** The time left to ack. */
  leftMs: number;
}

interface InHand {
  group: Group;
  lease: Lease<Member>;
}

interface Held extends InHand {
  event: StoredEvent;
}

export class Member {
  readonly groups = new Set<Group>();
  /** Leases of all its groups. */
  outstanding = 0;
  /** Its groups are to be asked again. */
  hasFreedRoom = false;
  isPaused = false;
  private readonly maxInFlight: number;
  private readonly ackTimeout: number;
  private readonly deliver: (member: Member, delivery: Delivery) => void;
  private readonly inHand = new Map<string, InHand>();
  /** Events whose id is in hand already, from another topic: they come when that is settled. */
  private readonly twins = new Map<string, Held[]>();

  constructor(
    { maxInFlight, ackTimeout }: { maxInFlight: number; ackTimeout: number },
    deliver: (member: Member, delivery: Delivery) => void,
  ) {
    this.maxInFlight = maxInFlight;
    this.ackTimeout = ackTimeout;
    this.deliver = deliver;
  }

  get hasRoom(): boolean {
    return this.outstanding < this.maxInFlight;
  }

  /** A group has leased an event to this member. */
  offer(group: Group, event: StoredEvent, lease: Lease<Member>, now: number): void {
    this.outstanding += 1;
    this.handOut({ group, event, lease }, now);
  }

  /** The topic of the event `id`, if it was handed out here and is not settled. */
  topicOf(id: string): string | undefined {
    return this.inHand.get(id)?.group.log.name;
  }

  ack(id: string, attempt: number | undefined, now: number): void {
    this.settle(id, attempt, now, (held) => held.group.endLease((dispatcher) => dispatcher.ack(held.lease)));
  }

  nack(id: string, attempt: number | undefined, delay: number | undefined, reason: string, now: number): void {
    if (delay !== undefined) checkDelay("delay_ms", delay);
    this.settle(id, attempt, now, (held) =>
      held.group.endLease((dispatcher) => dispatcher.nack(held.lease, delay, reason, now)),
    );
  }

  giveBack(id: string, attempt: number | undefined, delay: number, now: number): void {
    checkDelay("delay_ms", delay);
    this.settle(id, attempt, now, (held) =>
      held.group.endLease((dispatcher) => dispatcher.returnAfter(held.lease, delay, now)),
    );
  }

  /** Puts the deadline off; answers the time left. */
  extend(id: string, attempt: number | undefined, extendMs: number, now: number): number {
    checkDelay("extend_ms", extendMs);
    const { group, lease } = this.find(id, attempt);
    const left = group.extend(lease, extendMs, now);
    if (left === undefined) throw notHeld(id, attempt);
    return left;
  }

  /** Gives everything back that is in hand, but for these: a consumer that was cut off says so what it still works on. */
  keepOnly(ids: ReadonlySet<string>, now: number): void {
    const dropped = [...this.inHand].filter(([id, held]) => !ids.has(id) && held.group.isHeld(held.lease));
    for (const [id, held] of [...this.inHand]) if (!held.group.isHeld(held.lease)) this.inHand.delete(id);
    // Other members get the events in their order.
    dropped.sort(([, a], [, b]) => a.lease.seq - b.lease.seq);
    for (const [id] of dropped) this.giveBack(id, undefined, 0, now);
  }

  private handOut(held: Held, now: number): void {
    const { group, event, lease } = held;
    const twin = this.inHand.get(event.id);
    if (twin && twin.group !== group && twin.group.isHeld(twin.lease)) {
      // Its lease may run out meanwhile: nobody had it in hand, so it just comes again, here or elsewhere.
      const waiting = (this.twins.get(event.id) ?? []).filter((other) => other.group !== group);
      this.twins.set(event.id, [...waiting, held]);
      return;
    }
    if (!group.take(lease, now)) return;
    this.inHand.set(event.id, { group, lease });
    const { maxAttempts } = group.options;
    this.deliver(this, { event, attempt: lease.attempt, maxAttempts, epoch: lease.epoch, leftMs: this.ackTimeout });
  }

  private find(id: string, attempt: number | undefined): InHand {
    const held = this.inHand.get(id);
    if (!held || (attempt !== undefined && attempt !== held.lease.attempt)) throw notHeld(id, attempt);
    return held;
  }

  private settle(id: string, attempt: number | undefined, now: number, end: (held: InHand) => boolean): void {
    const isSettled = end(this.find(id, attempt));
    this.inHand.delete(id);
    const twins = this.twins.get(id) ?? [];
    this.twins.delete(id);
    for (const twin of twins) this.handOut(twin, now);
    if (!isSettled) throw notHeld(id, attempt);
  }
}

function notHeld(id: string, attempt: number | undefined): Refusal {
  const which = attempt === undefined ? "" : ` (attempt ${attempt})`;
  return new Refusal("unknown_id", `event ${id}${which} is not held by this subscription`, { id });
}

/** Refuses what is longer than a lease may last. */
export function checkDelay(name: string, ms: number): void {
  if (ms > MAX_DELAY_MS) throw badRequest(`${name} is ${ms}; it must be at most ${MAX_DELAY_MS} (12 hours)`);
}
