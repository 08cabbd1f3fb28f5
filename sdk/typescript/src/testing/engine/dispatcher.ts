// The dispatcher of a group: who gets which event, and what becomes of it. A plain state machine: it knows sequence numbers, keys, members and
// times that it is told; it has no clock, does no I/O and holds no event. `hub-core/src/group/dispatch.rs` is its model, name by name.
//
// The invariant: `position` is how far the log was looked at. An event up to there is either in `window`, which is unsettled, or settled.

import { DueQueue } from "./due.ts";
import { SortedSeqs } from "./sorted.ts";

/** A lease: a later one of the same event has another attempt, or another epoch. */
export interface Lease<M> {
  member: M;
  seq: number;
  attempt: number;
  epoch: number;
}

/** The options of a group that decide how it dispatches. */
export interface Rules {
  /** Two events of one key are never in flight at once, and go in order. */
  keyOrder: boolean;
  /** An event that a newer one of its key has overtaken is settled without delivery. */
  coalesce: boolean;
  /** Failures after which an event is given up. */
  maxAttempts: number;
  /** Whether what is given up becomes a dead letter; on dead-letter topics it is retried for ever. */
  bury: boolean;
}

/** A lease that ended. */
export interface Released<M> {
  seq: number;
  member: M;
  /** When the consumer got the event in hand; undefined: never, so nothing is counted. */
  taken: number | undefined;
}

/** An event that failed too often. */
export interface Burial {
  seq: number;
  epoch: number;
  attempts: number;
  err: string;
}

type State<M> =
  | { is: "ready" }
  | { is: "backoff"; due: number }
  | { is: "behind" }
  | { is: "leased"; member: M; deadline: number; taken: number | undefined }
  | { is: "dying" };

interface Entry<M> {
  seq: number;
  attempts: number;
  failures: number;
  state: State<M>;
  key: string | undefined;
  err: string | undefined;
}

interface MemberState {
  ackTimeout: number;
  paused: boolean;
}

/** What an unsettled event was before the group's options changed. */
interface Tries {
  attempts: number;
  failures: number;
  err: string | undefined;
}

const READY = { is: "ready" } as const;
/** The first backoff after a nack; it doubles with each failure. */
const FIRST_BACKOFF = 20;
const LONGEST_BACKOFF = 30_000;
const DISCONNECTED = "the consumer disconnected while it held the event";

export class Dispatcher<M> {
  private rules: Rules;
  private currentEpoch = 0;
  private lookedAt: number;
  /** Unsettled events; seqs ascend, as they are only ever added at the end. */
  private readonly window = new Map<number, Entry<M>>();
  /** Of the life before the options changed: what was settled above the floor, and the tries of the rest. */
  private restored: { upto: number; tries: Map<number, Tries> } | undefined;
  private readonly ready = new SortedSeqs();
  private readonly backoff = new DueQueue<number>();
  private readonly deadlines = new DueQueue<{ seq: number; attempt: number }>();
  /** The unsettled events of each key, oldest first. */
  private readonly keys = new Map<string, number[]>();
  private readonly members = new Map<M, MemberState>();
  /** Members believed to have room, next first. */
  private rotation: M[] = [];
  private dying: number[] = [];
  private leasedCount = 0;

  constructor(floor: number, rules: Rules) {
    this.lookedAt = floor;
    this.rules = rules;
  }

  get position(): number {
    return this.lookedAt;
  }

  get epoch(): number {
    return this.currentEpoch;
  }

  /** Everything up to here is settled. */
  get floor(): number {
    const first = this.window.keys().next();
    return first.done === true ? this.lookedAt : first.value - 1;
  }

  get leased(): number {
    return this.leasedCount;
  }

  /** Unsettled events that no member holds. */
  get parked(): number {
    return this.window.size - this.leasedCount;
  }

  get coalesces(): boolean {
    return this.rules.coalesce;
  }

  get hasMembers(): boolean {
    return this.members.size > 0;
  }

  /** Other options, of a group without members: the log is looked at again from the floor. */
  setRules(rules: Rules): void {
    const tries = new Map<number, Tries>();
    for (const { seq, attempts, failures, err } of this.window.values()) tries.set(seq, { attempts, failures, err });
    const upto = this.lookedAt;
    this.lookedAt = this.floor;
    this.restored = { upto, tries };
    this.rules = rules;
    this.forget();
  }

  // ---- members ----

  join(member: M, ackTimeout: number): void {
    this.members.set(member, { ackTimeout, paused: false });
    this.rotation.push(member);
  }

  /**
   * A member goes; what it held is deliverable at once. With `blame` its oldest event in hand counts a failure: it may be what killed the
   * consumer. Answers how many leases it had.
   */
  leave(member: M, blame: boolean, now: number): number {
    if (!this.members.delete(member)) return 0;
    this.rotation = this.rotation.filter((listed) => listed !== member);
    let isBlaming = blame;
    const held = this.heldBy(member);
    for (const seq of held) {
      const released = this.unlease(seq);
      if (isBlaming && released?.taken !== undefined) {
        isBlaming = false;
        this.fail(seq, now, 0, DISCONNECTED);
      } else {
        this.giveBack(seq, released?.taken !== undefined);
      }
    }
    return held.length;
  }

  leasesOf(member: M): number {
    return this.heldBy(member).length;
  }

  /** When the member got its oldest unsettled event in hand. */
  oldestTaken(member: M): number | undefined {
    for (const { state } of this.window.values()) {
      if (state.is === "leased" && state.member === member && state.taken !== undefined) return state.taken;
    }
    return undefined;
  }

  /** What is queued for the member and not in its hands goes to others; answers how many events that were. */
  setPaused(member: M, paused: boolean): number {
    const state = this.members.get(member);
    if (state) state.paused = paused;
    this.hasRoomAgain(member);
    if (!paused) return 0;
    const queued = this.heldBy(member).filter((seq) => {
      const held = this.window.get(seq)?.state;
      return held?.is === "leased" && held.taken === undefined;
    });
    for (const seq of queued) {
      this.unlease(seq);
      this.giveBack(seq, false);
    }
    return queued.length;
  }

  hasRoomAgain(member: M): void {
    const state = this.members.get(member);
    if (state && !state.paused && !this.rotation.includes(member)) this.rotation.push(member);
  }

  /** The member whose turn it is, of those that have room. */
  pick(hasRoom: (member: M) => boolean): M | undefined {
    for (;;) {
      const member = this.rotation[0];
      if (member === undefined) return undefined;
      if (this.members.get(member)?.paused === false && hasRoom(member)) return member;
      this.rotation.shift();
    }
  }

  // ---- looking at the log ----

  /** The event `seq`, and every hole before it, concerns nobody here. */
  pass(seq: number): void {
    this.lookedAt = seq;
  }

  /** Takes note of the event `seq`. Only one that is deliverable now is to be leased at once, or deferred. */
  admit(seq: number, eventKey: string | undefined): "ready" | "parked" | "settled" {
    this.lookedAt = seq;
    const tries = this.triesBefore(seq);
    if (tries === "settled") return "settled";
    const { attempts, failures, err } = tries;
    const key = this.rules.keyOrder ? eventKey : undefined;
    if (key !== undefined && this.rules.coalesce) this.overtake(key);
    const isAlone = key === undefined || this.enterKey(key, seq);
    const isGivenUp = this.rules.bury && failures >= this.rules.maxAttempts;
    const state: State<M> = isGivenUp ? { is: "dying" } : isAlone ? READY : { is: "behind" };
    this.window.set(seq, { seq, attempts, failures, state, key, err });
    if (isGivenUp) this.dying.push(seq);
    return state.is === "ready" ? "ready" : "parked";
  }

  /** Keeps an admitted event for a member to come. */
  defer(seq: number): void {
    this.ready.add(seq);
  }

  /** A deliverable event turned out to be overtaken, or gone. */
  gone(seq: number): void {
    if (this.window.get(seq)?.state.is === "ready") this.settle(seq);
  }

  /** Places the group anew: leases end, acks above the floor and failures are forgotten. */
  setCursor(seq: number): void {
    this.currentEpoch += 1;
    this.lookedAt = seq;
    this.restored = undefined;
    this.forget();
  }

  // ---- leases ----

  /** The lowest deliverable event above `after`, once what has served its backoff is let in. */
  nextReady(after: number, now: number): number | undefined {
    for (let next = this.backoff.peek(); next && next.at <= now; next = this.backoff.peek()) {
      this.backoff.pop();
      const entry = this.window.get(next.what);
      if (!entry || !this.isBackedOff(next.what, next.at)) continue;
      entry.state = READY;
      this.ready.add(entry.seq);
    }
    return this.ready.above(after);
  }

  /** Leases a deliverable event to the member whose turn it is. */
  lease(seq: number, member: M, now: number): Lease<M> {
    const entry = this.window.get(seq);
    const state = this.members.get(member);
    if (entry?.state.is !== "ready" || !state) throw new Error(`event ${seq} cannot be leased`);
    const deadline = now + state.ackTimeout;
    entry.attempts += 1;
    entry.state = { is: "leased", member, deadline, taken: undefined };
    this.leasedCount += 1;
    this.deadlines.push(deadline, { seq, attempt: entry.attempts });
    this.ready.delete(seq);
    if (this.rotation[0] === member) this.rotation.push(...this.rotation.splice(0, 1));
    return { member, seq, attempt: entry.attempts, epoch: this.currentEpoch };
  }

  /** The consumer gets a leased event in hand: the time to ack runs from now. False if the lease is over. */
  take(lease: Lease<M>, now: number): boolean {
    const held = this.find(lease);
    const state = this.members.get(lease.member);
    if (!held || !state || held.taken !== undefined) return false;
    held.deadline = Math.max(held.deadline, now + state.ackTimeout);
    held.taken = now;
    return true;
  }

  isHeld(lease: Lease<M>): boolean {
    return this.find(lease) !== undefined;
  }

  /** Settles an event; undefined if the lease is over. */
  ack(lease: Lease<M>): Released<M> | undefined {
    if (!this.find(lease)) return undefined;
    const released = this.unlease(lease.seq);
    this.settle(lease.seq);
    return released;
  }

  /** Hands an event back as failed; it returns after `delay`, or after its backoff. */
  nack(lease: Lease<M>, delay: number | undefined, reason: string, now: number): Released<M> | undefined {
    if (!this.find(lease)) return undefined;
    const released = this.unlease(lease.seq);
    const failures = this.window.get(lease.seq)?.failures ?? 0;
    const backoff = Math.min(FIRST_BACKOFF * 2 ** Math.min(failures, 16), LONGEST_BACKOFF);
    this.fail(lease.seq, now, delay ?? backoff, reason);
    return released;
  }

  /** Gives an event back that did nothing wrong; it returns after `delay`. */
  returnAfter(lease: Lease<M>, delay: number, now: number): Released<M> | undefined {
    if (!this.find(lease)) return undefined;
    const released = this.unlease(lease.seq);
    this.giveBack(lease.seq, released?.taken !== undefined);
    // One that was overtaken is settled by now.
    if (delay > 0 && this.ready.delete(lease.seq)) this.backOff(lease.seq, now + delay);
    return released;
  }

  /** Puts a lease's end off until `now + extend`, never closer. Answers the time left. */
  extend(lease: Lease<M>, extend: number, now: number): number | undefined {
    const held = this.find(lease);
    if (!held) return undefined;
    held.deadline = Math.max(held.deadline, now + extend);
    return held.deadline - now;
  }

  /** Ends the leases that ran out. */
  expire(now: number): Released<M>[] {
    const ended: Released<M>[] = [];
    for (let next = this.deadlines.peek(); next && next.at <= now; next = this.deadlines.peek()) {
      this.deadlines.pop();
      const { seq, attempt } = next.what;
      const entry = this.window.get(seq);
      if (entry?.state.is !== "leased" || entry.attempts !== attempt) continue;
      if (entry.state.deadline > now) {
        this.deadlines.push(entry.state.deadline, { seq, attempt });
        continue;
      }
      const released = this.unlease(seq);
      if (!released) continue;
      if (released.taken === undefined) this.giveBack(seq, false);
      else this.fail(seq, now, 0, "no ack before the deadline");
      ended.push(released);
    }
    return ended;
  }

  /** When to call `expire` and `nextReady` next, if nothing happens before. */
  nextDeadline(): number | undefined {
    if (this.members.size === 0) return undefined;
    // What was settled meanwhile is not due any more.
    for (let next = this.deadlines.peek(); next && !this.isLeased(next.what); next = this.deadlines.peek()) this.deadlines.pop();
    for (let next = this.backoff.peek(); next && !this.isBackedOff(next.what, next.at); next = this.backoff.peek()) this.backoff.pop();
    const dues = [this.deadlines.peek()?.at, this.backoff.peek()?.at].filter((at) => at !== undefined);
    return dues.length === 0 ? undefined : Math.min(...dues);
  }

  // ---- dead letters ----

  /** Events that are to be written to the dead-letter topic, oldest failure first. */
  burials(): Burial[] {
    return this.dying.flatMap((seq) => {
      const entry = this.window.get(seq);
      return entry ? [{ seq, epoch: this.currentEpoch, attempts: entry.attempts, err: entry.err ?? "" }] : [];
    });
  }

  /** The dead letter is written: the event is settled. */
  buried(seq: number): void {
    if (this.window.get(seq)?.state.is !== "dying") return;
    this.dying = this.dying.filter((dying) => dying !== seq);
    this.settle(seq);
  }

  // ---- inside ----

  private forget(): void {
    this.window.clear();
    this.ready.clear();
    this.backoff.clear();
    this.deadlines.clear();
    this.keys.clear();
    this.dying = [];
    this.leasedCount = 0;
  }

  private heldBy(member: M): number[] {
    const held = [];
    for (const { seq, state } of this.window.values()) {
      if (state.is === "leased" && state.member === member) held.push(seq);
    }
    return held;
  }

  private triesBefore(seq: number): Tries | "settled" {
    const { restored } = this;
    if (restored === undefined || seq > restored.upto) return { attempts: 0, failures: 0, err: undefined };
    return restored.tries.get(seq) ?? "settled";
  }

  /** The lease in the window, if it is in force. */
  private find(lease: Lease<M>): Extract<State<M>, { is: "leased" }> | undefined {
    const entry = this.window.get(lease.seq);
    if (lease.epoch !== this.currentEpoch || entry?.state.is !== "leased") return undefined;
    return entry.state.member === lease.member && entry.attempts === lease.attempt ? entry.state : undefined;
  }

  private isLeased({ seq, attempt }: { seq: number; attempt: number }): boolean {
    const entry = this.window.get(seq);
    return entry?.state.is === "leased" && entry.attempts === attempt;
  }

  private isBackedOff(seq: number, due: number): boolean {
    const state = this.window.get(seq)?.state;
    return state?.is === "backoff" && state.due === due;
  }

  /** Ends a lease; the caller decides at once what becomes of the event, which is `ready` and unlisted meanwhile. */
  private unlease(seq: number): Released<M> | undefined {
    const entry = this.window.get(seq);
    if (entry?.state.is !== "leased") return undefined;
    const { member, taken } = entry.state;
    entry.state = READY;
    this.leasedCount -= 1;
    return { seq, member, taken };
  }

  private settle(seq: number): void {
    const key = this.window.get(seq)?.key;
    this.window.delete(seq);
    this.ready.delete(seq);
    if (key === undefined) return;
    const line = this.keys.get(key);
    if (!line) return;
    const wasHead = line[0] === seq;
    const at = line.indexOf(seq);
    if (at >= 0) line.splice(at, 1);
    if (line.length === 0) this.keys.delete(key);
    const next = wasHead && line[0] !== undefined ? this.window.get(line[0]) : undefined;
    if (next?.state.is === "behind") {
      next.state = READY;
      this.ready.add(next.seq);
    }
  }

  private backOff(seq: number, due: number): void {
    const entry = this.window.get(seq);
    if (!entry) return;
    entry.state = { is: "backoff", due };
    this.backoff.push(due, seq);
  }

  /** Counts a failure and decides between another try after `delay` and the dead letters. */
  private fail(seq: number, now: number, delay: number, err: string): void {
    const entry = this.window.get(seq);
    if (!entry) return;
    entry.failures += 1;
    if (this.isOvertaken(entry)) return this.settle(seq);
    entry.err = err;
    if (entry.failures >= this.rules.maxAttempts) {
      if (!this.rules.bury) return this.backOff(seq, now + LONGEST_BACKOFF);
      entry.state = { is: "dying" };
      this.dying.push(seq);
    } else if (delay === 0) this.ready.add(seq);
    else this.backOff(seq, now + delay);
  }

  /** Returns an event that did nothing wrong. One that nobody had in hand was not delivered. */
  private giveBack(seq: number, wasTaken: boolean): void {
    const entry = this.window.get(seq);
    if (!entry) return;
    if (!wasTaken) entry.attempts -= 1;
    if (this.isOvertaken(entry)) this.settle(seq);
    else this.ready.add(seq);
  }

  /** Whether a newer event of the same key is known to a group that coalesces. */
  private isOvertaken({ seq, key }: Entry<M>): boolean {
    if (!this.rules.coalesce || key === undefined) return false;
    return (this.keys.get(key)?.at(-1) ?? 0) > seq;
  }

  /** A newer event of a key is there: settles what waits. */
  private overtake(key: string): void {
    const waiting = (this.keys.get(key) ?? []).filter((seq) => {
      const is = this.window.get(seq)?.state.is;
      return is === "ready" || is === "backoff" || is === "behind";
    });
    // Newest first, so that none of them becomes deliverable on the way.
    for (const seq of waiting.reverse()) this.settle(seq);
  }

  /** Puts an event at the end of its key's line; true if it stands alone there. */
  private enterKey(key: string, seq: number): boolean {
    const line = this.keys.get(key);
    if (line) {
      line.push(seq);
      return false;
    }
    this.keys.set(key, [seq]);
    return true;
  }
}
