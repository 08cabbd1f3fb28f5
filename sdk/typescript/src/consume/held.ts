import type { Clock } from "../clock.ts";
import type { Link } from "../connection/link.ts";
import { HubError } from "../errors.ts";
import { fieldsOf, refusalOf } from "../frames.ts";
import { type Lease, leaseLost, lose } from "./lease.ts";

/** The hub keeps the leases of a member whose connection broke for so long. */
const RECONNECT_GRACE = 10_000;
/** Timers of a page that nobody sees run once a minute. */
const HIDDEN_EXTENSION = 300_000;
const IDS_PER_FRAME = 5_000;
/** The ids that a SUBSCRIBE may name. */
const NAMED_AT_MOST = 10_000;
/** Those nearest to their end first. */
const STAGES: readonly Lease["stage"][] = ["settling", "running", "queued"];

/** The leases of a subscription, and their deadlines. */
export interface Held {
  readonly leases: ReadonlyMap<string, Lease>;
  add(lease: Lease): void;
  /** Only if it is still this one that has its id. */
  delete(lease: Lease): boolean;
  /** Puts off the deadline of one. */
  extend(lease: Lease, ms: number): Promise<number>;
  /** The ids for a SUBSCRIBE. Gives up what cannot be named: the hub takes it back. */
  name(): string[];
  /** The connection is gone. Whether these leases are still held is known when the next one is there, or after the grace. */
  orphan(): void;
  /** The hub has said which are still held; the others may come again. */
  adopt(ids: readonly string[]): void;
  /** All are gone: they are given back, or nobody will ask for them any more. */
  loseAll(why: string): void;
  /** While the page is hidden: puts the deadlines off for as long as its timers cannot be trusted. */
  extendHidden(): void;
  end(): void;
}

export interface HeldOptions {
  readonly name: { readonly topic: string; readonly group: string };
  /** How long a lease is extended without being asked; 0: never. */
  readonly upToMs: number;
  /** Asked when extending makes sense. */
  isLive(): boolean;
  /** Gives back what waits, without a failure. */
  giveBack(lease: Lease): void;
  /** A lease has been lost that had not been started, or was settled and cannot be confirmed any more. */
  dropped(): void;
}

function isLost(lease: Lease): lease is Lease & { lost: HubError } {
  return lease.lost !== undefined;
}

export function createHeld(clock: Clock, link: Link, options: HeldOptions): Held {
  const leases = new Map<string, Lease>();
  const sweep = clock.alarm(extendAll);
  const grace = clock.alarm(loseOrphans);
  /** The time to settle an event, as the hub gives it. */
  let timeToAck = 30_000;
  /** Wait for a connection on which something can be extended. */
  let onLive: (() => void)[] = [];

  function wakeWaiting(): void {
    const woken = onLive;
    onLive = [];
    for (const wake of woken) wake();
  }

  function remove(lease: Lease): boolean {
    const { id } = lease.event;
    return leases.get(id) === lease && leases.delete(id);
  }

  /** What runs goes on, and may be adopted when the event comes again; what waits is dropped. */
  function giveUp(lease: Lease, why: string): void {
    lose(lease, leaseLost(why));
    if (lease.stage === "running") return;
    remove(lease);
    lease.onSettled?.(false);
  }

  function extendAll(): void {
    const now = clock.now();
    const due: Lease[] = [];
    /** Nothing has begun with these, and their time is nearly up: that would count as a failure. */
    const waiting: Lease[] = [];
    let next = Infinity;
    const extension = link.isHidden ? Math.max(timeToAck, HIDDEN_EXTENSION) : timeToAck;
    for (const lease of leases.values()) {
      if (lease.stage === "settling" || lease.lost !== undefined) continue;
      if (lease.deadline <= now) {
        giveUp(lease, "the time to settle the event is up");
        continue;
      }
      const left = lease.deadline - now;
      if (now - lease.since < options.upToMs) {
        if (left <= (extension * 2) / 3) due.push(lease);
        next = Math.min(next, now + timeToAck / 3, lease.deadline);
      } else if (lease.stage === "queued" && left <= timeToAck / 3) {
        waiting.push(lease);
        next = Math.min(next, lease.deadline);
      } else {
        next = Math.min(next, lease.stage === "queued" ? lease.deadline - timeToAck / 3 : lease.deadline);
      }
    }
    if (options.isLive()) {
      if (due.length > 0) modack(due, extension);
      for (const lease of waiting) options.giveBack(lease);
    }
    // A deadline that was just put off is not known yet.
    if (next < Infinity) sweep.set(Math.max(next, now + Math.min(timeToAck / 10, 1_000)));
    options.dropped();
  }

  function modack(due: readonly Lease[], ms: number): void {
    for (let from = 0; from < due.length; from += IDS_PER_FRAME) {
      if (!link.canSend(0, true)) return;
      void ask(due.slice(from, from + IDS_PER_FRAME), ms);
    }
  }

  /** Resolves with what the hub says is left, with its refusal, or with nothing if it does not answer. */
  function ask(some: readonly Lease[], ms: number): Promise<number | HubError | undefined> {
    const sent = clock.now();
    const ids = some.map((lease) => lease.event.id);
    return new Promise((resolve) => {
      link.ask(fieldsOf({ op: "MODACK", ...options.name, ids, extend_ms: Math.ceil(ms) }), (answer) => {
        const error = answer && refusalOf(answer);
        if (answer === undefined || (error !== undefined && error.code !== "unknown_id")) return resolve(error);
        const unknown = new Set(error === undefined ? answer.unknown : ids);
        for (const lease of some) {
          if (unknown.has(lease.event.id)) {
            if (lease.stage !== "settling") giveUp(lease, "the hub does not know the event as held here");
          } else {
            lease.deadline = Math.max(lease.deadline, sent + ms);
          }
        }
        options.dropped();
        resolve(answer.ack_deadline_ms ?? ms);
      });
    });
  }

  function loseOrphans(): void {
    wakeWaiting();
    for (const lease of leases.values()) {
      const isKept = !lease.isOrphan || (lease.stage === "settling" && !options.isLive());
      if (!isKept) giveUp(lease, "the connection was lost, and the event did not come again in time");
    }
    options.dropped();
  }

  return {
    leases,
    add(lease) {
      leases.set(lease.event.id, lease);
      timeToAck = Math.max(lease.ctx.ack_deadline_ms, 1);
      if (sweep.at === Infinity) sweep.set(clock.now() + timeToAck / 3);
    },
    delete: remove,
    async extend(lease, ms) {
      for (;;) {
        if (isLost(lease)) throw lease.lost;
        if (leases.get(lease.event.id) !== lease) throw leaseLost("the event was settled");
        if (options.isLive() && link.canSend(0, true)) {
          const left = await ask([lease], ms);
          if (isLost(lease)) throw lease.lost;
          if (left instanceof HubError) throw left;
          if (left !== undefined) return left;
        } else {
          await new Promise<void>((resolve) => onLive.push(resolve));
        }
      }
    },
    name() {
      let named = [...leases.values()].filter((lease) => lease.lost === undefined);
      if (named.length > NAMED_AT_MOST) {
        named = STAGES.flatMap((stage) => named.filter((lease) => lease.stage === stage));
        for (const lease of named.splice(NAMED_AT_MOST)) giveUp(lease, "the connection was lost, and too many events are held to keep this one");
      }
      return named.map((lease) => lease.event.id);
    },
    orphan() {
      for (const lease of leases.values()) lease.isOrphan = true;
      if (leases.size > 0) grace.set(clock.now() + RECONNECT_GRACE);
    },
    adopt(ids) {
      const held = new Set(ids);
      for (const lease of leases.values()) {
        if (!lease.isOrphan) continue;
        // One that is not held: its outcome has arrived, or the event comes again.
        lease.isOrphan = !held.has(lease.event.id);
        lease.isAdopted = !lease.isOrphan;
        if (lease.isOrphan && lease.stage !== "running") giveUp(lease, "the hub does not know the event as held here");
      }
      grace.set(clock.now() + RECONNECT_GRACE);
      sweep.set(clock.now());
      wakeWaiting();
    },
    loseAll(why) {
      for (const lease of leases.values()) giveUp(lease, why);
      wakeWaiting();
    },
    extendHidden() {
      if (link.isHidden && leases.size > 0) extendAll();
    },
    end() {
      wakeWaiting();
      clock.remove(sweep);
      clock.remove(grace);
    },
  };
}
