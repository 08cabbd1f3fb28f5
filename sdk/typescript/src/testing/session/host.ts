// What all connections of a hub share. It knows no socket and no timer: it is told of frames and of the time, and says when it is due next.

import type { Durability } from "../../types.ts";
import { type Identity, identify } from "../auth/token.ts";
import { Bus } from "../engine/bus.ts";
import type { NewEvent } from "../../rules/new-event.ts";
import type { HubLimits } from "../engine/hub-limits.ts";
import type { Receipt } from "../engine/log.ts";
import type { Member } from "../engine/member.ts";
import type { Reader } from "../engine/reader.ts";
import { Refusal } from "../../rules/refusal.ts";
import { DetachedMembers } from "./detached.ts";
import type { Failures } from "./failures.ts";
import type { Bucket } from "./rate.ts";
import { type Link, Session } from "./session.ts";
import type { Subscription } from "./subscription.ts";

export interface HostSettings {
  limits: HubLimits;
  secret: string;
  durable: Durability;
  failures: Failures;
  now: () => number;
}

export class Host {
  readonly bus: Bus;
  readonly detached: DetachedMembers;
  readonly settings: HostSettings;
  readonly sessions = new Set<Session>();
  /** The buckets of subjects. */
  readonly subjects = new Map<string, Bucket>();
  private readonly owners = new Map<Member | Reader, { session: Session; subscription: Subscription }>();
  private readonly revoked = new Map<string, number>();

  constructor(settings: HostSettings) {
    this.settings = settings;
    this.bus = new Bus(settings.limits);
    this.detached = new DetachedMembers(this.bus);
  }

  get now(): number {
    return this.settings.now();
  }

  connect(link: Link): Session {
    const session = new Session(this, link);
    this.sessions.add(session);
    return session;
  }

  /** Whom a token speaks for. */
  identify(token: string | undefined): Identity {
    const { secret, limits } = this.settings;
    const identity = identify(token, secret, limits.clockToleranceMs, this.now);
    this.checkRevoked(identity);
    return identity;
  }

  checkRevoked({ subject, issued }: Identity): void {
    const at = subject === undefined ? undefined : this.revoked.get(subject);
    if (at === undefined) return;
    // A token counts in whole seconds.
    const isOlder = issued === undefined || Math.floor(issued / 1000) <= Math.floor(at / 1000);
    if (isOlder) throw new Refusal("token_revoked", "the token was revoked; get a new one");
  }

  /** Takes back all tokens of a subject. */
  revoke(subject: string): void {
    this.revoked.set(subject, this.now);
    for (const session of [...this.sessions]) session.checkRevoked();
  }

  /** Publishes an event that may be published, or fails as the test has asked for. */
  publish(event: NewEvent, subject: string | undefined): Receipt {
    this.bus.checkPublish(event, subject);
    const id = this.bus.idFor(event, this.now);
    const failure = this.settings.failures.take(event.topic);
    if (!failure) return this.bus.publish(event, id, this.now);
    if (failure.stored) this.bus.publish(event, id, this.now);
    throw failure.refusal.withId(id);
  }

  own(feed: Member | Reader, session: Session, subscription: Subscription): void {
    this.owners.set(feed, { session, subscription });
  }

  disown(feed: Member | Reader): void {
    this.owners.delete(feed);
  }

  /** Sends everything that can be delivered. */
  flush(): void {
    const touched = new Map<Subscription, Session>();
    for (const action of this.bus.run(this.now)) {
      const owner = this.owners.get(action.to);
      if (!owner) continue;
      const { session, subscription } = owner;
      touched.set(subscription, session);
      if (action.is === "ended") session.endSubscription(subscription, action.error);
      else if (action.is === "delivery") subscription.queue({ event: action.delivery.event, delivery: action.delivery });
      else if (action.watched.is === "event") subscription.queue({ event: action.watched.event, delivery: undefined });
      else subscription.queue({ of: action.watched.topic, missed: action.watched.missed });
    }
    for (const [subscription, session] of touched) {
      for (const frame of subscription.takeFrames()) session.send(frame);
    }
  }

  /** Does what is due by now. */
  act(): void {
    for (const session of [...this.sessions]) session.act();
    this.detached.act(this.now);
    this.flush();
  }

  nextDue(): number | undefined {
    const dues = [...this.sessions].map((session) => session.nextDue());
    dues.push(this.detached.nextDue(), this.bus.nextDue());
    const known = dues.filter((due) => due !== undefined);
    return known.length === 0 ? undefined : Math.min(...known);
  }
}
