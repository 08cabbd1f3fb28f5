// Members whose client can come back: each is found by the id that its client made, its subject, and the subscription's name. While the connection
// is lost the member waits here, paused, with its leases.

import type { Bus } from "../engine/bus.ts";
import type { Member } from "../engine/member.ts";

/** The most members that wait at once; more leave their groups at once. */
const MAX_DETACHED = 10_000;
const MAX_DETACHED_OF_SUBJECT = 2_000;

interface Known {
  member: Member;
  subject: string;
  /** What was asked for: a member that comes back with other terms begins anew. */
  terms: string;
  graceMs: number;
  /** A session serves it, and can be told that it does no longer; or it waits until then. */
  state: { is: "attached"; release: () => void } | { is: "detached"; until: number };
}

export class DetachedMembers {
  private readonly bus: Bus;
  private readonly known = new Map<string, Known>();

  constructor(bus: Bus) {
    this.bus = bus;
  }

  /** The member that was here before under this key, on the same terms. The session that served it is told that it is over there. */
  take(key: string, terms: string, now: number): Member | undefined {
    const before = this.known.get(key);
    if (!before) return undefined;
    this.known.delete(key);
    if (before.state.is === "attached") {
      before.state.release();
      this.bus.setPaused(before.member, true);
    }
    if (before.terms === terms) return before.member;
    this.bus.leave(before.member, false, now);
    return undefined;
  }

  attach(key: string, attached: Omit<Known, "state"> & { release: () => void }): void {
    const { member, subject, terms, graceMs, release } = attached;
    this.known.set(key, { member, subject, terms, graceMs, state: { is: "attached", release } });
  }

  /** The member has left. */
  forget(key: string): void {
    this.known.delete(key);
  }

  /** The connection was lost: the member waits for its client. */
  detach(key: string, now: number): void {
    const known = this.known.get(key);
    if (!known) return;
    this.bus.setPaused(known.member, true);
    if (known.graceMs > 0 && this.hasRoom(known.subject)) {
      known.state = { is: "detached", until: now + known.graceMs };
    } else this.vanish(key, known, now);
  }

  /** Members that were not called for in time have vanished. */
  act(now: number): void {
    for (const [key, known] of [...this.known]) {
      if (known.state.is === "detached" && known.state.until <= now) this.vanish(key, known, now);
    }
  }

  /** The hub stops: nobody waits any longer, and nobody is to blame. */
  releaseAll(now: number): void {
    for (const known of this.known.values()) {
      if (known.state.is === "detached") this.bus.leave(known.member, false, now);
    }
    this.known.clear();
  }

  nextDue(): number | undefined {
    const dues = [...this.known.values()].flatMap(({ state }) => (state.is === "detached" ? [state.until] : []));
    return dues.length === 0 ? undefined : Math.min(...dues);
  }

  private vanish(key: string, known: Known, now: number): void {
    this.known.delete(key);
    this.bus.leave(known.member, true, now);
  }

  private hasRoom(subject: string): boolean {
    const waiting = [...this.known.values()].filter(({ state }) => state.is === "detached");
    const ofSubject = waiting.filter((known) => known.subject === subject);
    return waiting.length < MAX_DETACHED && ofSubject.length < MAX_DETACHED_OF_SUBJECT;
  }
}
