// A group on one topic: the dispatcher, the log that it reads, and the members whose windows it fills.

import { type Burial, Dispatcher, type Lease, type Released, type Rules } from "./dispatcher.ts";
import type { TopicLog } from "./log.ts";
import type { Member } from "./member.ts";
import { type GroupOptions, matches } from "./options.ts";
import { derivation } from "../../rules/names.ts";

export class Group {
  readonly log: TopicLog;
  readonly name: string;
  /** The subject that made it: the empty one for tokens without one, undefined for the test itself. */
  readonly maker: string | undefined;
  /** The end of the dead-letter topic when the group was made: part of the ids of its letters. */
  readonly born: number;
  /** A subscription to several topics has made it. */
  isDriven: boolean;
  options: GroupOptions;
  readonly members = new Set<Member>();
  private readonly dispatcher: Dispatcher<Member>;
  private readonly maxParked: number;

  constructor(made: {
    log: TopicLog;
    name: string;
    maker: string | undefined;
    born: number;
    isDriven: boolean;
    options: GroupOptions;
    start: number;
    maxParked: number;
  }) {
    this.log = made.log;
    this.name = made.name;
    this.maker = made.maker;
    this.born = made.born;
    this.isDriven = made.isDriven;
    this.options = made.options;
    this.maxParked = made.maxParked;
    this.dispatcher = new Dispatcher(made.start, rulesOf(made.log, made.options));
  }

  get epoch(): number {
    return this.dispatcher.epoch;
  }

  /** Everything up to here is settled. */
  get floor(): number {
    return this.dispatcher.floor;
  }

  /** Events that members have. */
  get leased(): number {
    return this.dispatcher.leased;
  }

  /** Events that were looked at and wait: for their time, or for an older one of their key. */
  get parked(): number {
    return this.dispatcher.parked;
  }

  /** Events that are not settled, those included that were not looked at yet. */
  get unsettled(): number {
    return this.log.last - this.dispatcher.position + this.dispatcher.leased + this.dispatcher.parked;
  }

  setOptions(options: GroupOptions): void {
    if (JSON.stringify(options) === JSON.stringify(this.options)) return;
    this.options = options;
    this.dispatcher.setRules(rulesOf(this.log, options));
  }

  setCursor(seq: number): void {
    for (const member of this.members) this.released(member, this.dispatcher.leasesOf(member));
    this.dispatcher.setCursor(seq);
  }

  join(member: Member, ackTimeout: number): void {
    this.members.add(member);
    member.groups.add(this);
    this.dispatcher.join(member, ackTimeout);
    if (member.isPaused) this.dispatcher.setPaused(member, true);
  }

  leave(member: Member, blame: boolean, now: number): void {
    // A lease that ran out has failed, although its timer has not fired yet.
    this.expire(now);
    this.dispatcher.leave(member, blame, now);
    this.members.delete(member);
    member.groups.delete(this);
  }

  oldestTaken(member: Member): number | undefined {
    return this.dispatcher.oldestTaken(member);
  }

  setPaused(member: Member, paused: boolean): void {
    this.released(member, this.dispatcher.setPaused(member, paused));
  }

  hasRoomAgain(member: Member): void {
    this.dispatcher.hasRoomAgain(member);
  }

  isHeld(lease: Lease<Member>): boolean {
    return this.dispatcher.isHeld(lease);
  }

  take(lease: Lease<Member>, now: number): boolean {
    return this.dispatcher.take(lease, now);
  }

  /** Ends a lease as `end` says; false if it was over. */
  endLease(end: (dispatcher: Dispatcher<Member>) => Released<Member> | undefined): boolean {
    const released = end(this.dispatcher);
    if (released) this.released(released.member, 1);
    return released !== undefined;
  }

  extend(lease: Lease<Member>, extendMs: number, now: number): number | undefined {
    return this.dispatcher.extend(lease, extendMs, now);
  }

  burials(): Burial[] {
    return this.dispatcher.burials();
  }

  buried(seq: number): void {
    this.dispatcher.buried(seq);
  }

  nextDeadline(): number | undefined {
    return this.dispatcher.nextDeadline();
  }

  /** Delivers what can be delivered now. */
  pump(now: number): void {
    this.expire(now);
    this.redeliver(now);
    this.deliverNew(now);
  }

  private expire(now: number): void {
    for (const { member } of this.dispatcher.expire(now)) this.released(member, 1);
  }

  private redeliver(now: number): void {
    let after = 0;
    for (let seq = this.dispatcher.nextReady(after, now); seq !== undefined; seq = this.dispatcher.nextReady(after, now)) {
      after = seq;
      const event = this.log.at(seq);
      if (!event || (this.dispatcher.coalesces && this.log.isOvertaken(event))) {
        this.dispatcher.gone(seq);
        continue;
      }
      const member = this.pick();
      if (!member) return;
      member.offer(this, event, this.dispatcher.lease(seq, member, now), now);
    }
  }

  private deliverNew(now: number): void {
    const { dispatcher } = this;
    while (dispatcher.parked < this.maxParked) {
      const member = this.pick();
      const event = this.log.at(dispatcher.position + 1);
      if (!member || !event) return;
      const isSkipped = dispatcher.coalesces && this.log.isOvertaken(event);
      if (isSkipped || !matches(this.options.filter, event)) {
        dispatcher.pass(event.seq);
        continue;
      }
      if (dispatcher.admit(event.seq, event.key) !== "ready") continue;
      member.offer(this, event, dispatcher.lease(event.seq, member, now), now);
    }
  }

  private pick(): Member | undefined {
    return this.dispatcher.pick((member) => member.hasRoom);
  }

  /** Leases of a member ended: all its groups may have events for the room that this made. */
  private released(member: Member, leases: number): void {
    if (leases === 0) return;
    member.outstanding -= leases;
    member.hasFreedRoom = true;
  }
}

function rulesOf(log: TopicLog, options: GroupOptions): Rules {
  return {
    keyOrder: options.coalesce || options.ordering === "key",
    coalesce: options.coalesce,
    maxAttempts: options.maxAttempts,
    bury: derivation(log.name)?.how !== "dead-letter",
  };
}
