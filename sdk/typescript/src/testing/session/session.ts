// One connection: who is at its other end, what it may do, and its subscriptions.

import type { Identity } from "../auth/token.ts";
import type { Policy } from "../auth/policy.ts";
import type { NewEvent } from "../../rules/new-event.ts";
import type { Member } from "../engine/member.ts";
import { Refusal, badRequest, bytesOf, refusalOf, shown } from "../../rules/refusal.ts";
import { authenticated, ended, errorFields, failed, ok, receiptFields } from "./answer.ts";
import type { Host } from "./host.ts";
import { Meter, workOf } from "./rate.ts";
import { type Name, type Request, readFrame } from "./request.ts";
import { ackAll, cutReason, extend, returnAll, settleOne } from "./settle.ts";
import { openSubscription } from "./subscribe.ts";
import type { Subscription } from "./subscription.ts";

/** The other end, as a session writes to it. */
export interface Link {
  send(text: string): void;
  /** Closes the connection behind what was sent. */
  close(code: number, reason: string): void;
}

export const POLICY_VIOLATION = 1008;
export const TOO_LARGE = 1009;
export const SERVICE_RESTART = 1012;

const FRAME_BYTES_BEFORE_AUTH = 32 * 1024;
const FRAMES_BEFORE_AUTH = 32;
/** A client that is refused so many times more often than it is served has not understood; a large frame counts for several. */
const STRIKES = 1000;
/** A frame that weighs as much as so many events is a large one: about 64 KiB. */
const LARGE_FRAME_WEIGHT = 16;
/** The longest that nothing is read after a large frame was refused. */
const MAX_READ_PAUSE = 1000;
/** A client has so long to hear that it is to slow down. */
const HEARING = 1000;

/** Who is at the other end. */
interface Who {
  identity: Identity;
  /** The token has run out, and this is when the connection ends unless there is a new one. */
  expired: number | undefined;
}

export class Session {
  readonly host: Host;
  readonly subscriptions: Subscription[] = [];
  readonly meter: Meter;
  private readonly link: Link;
  private readonly opened: number;
  private who: Who | undefined;
  private phase: "open" | "draining" | "closed" = "open";
  private framesBeforeAuth = 0;
  private strikes = 0;
  /** What the frame that is carried out weighs, in events. */
  private weight = 1;
  private limited: { since: number; last: number } | undefined;
  /** A large frame was refused for its rate; the next frame is read then. */
  private readsAt: number | undefined;
  private unread: (string | undefined)[] = [];

  constructor(host: Host, link: Link) {
    this.host = host;
    this.link = link;
    this.opened = host.now;
    const { connectionRate, subjectRate } = host.settings.limits;
    this.meter = new Meter(connectionRate, subjectRate, host.subjects);
  }

  get policy(): Policy | undefined {
    return this.who?.identity.policy;
  }

  /** Whom it counts for what this connection makes: the empty one without a subject. */
  get subject(): string {
    return this.who?.identity.subject ?? "";
  }

  /** The subject as its token says it. */
  get sub(): string | undefined {
    return this.who?.identity.subject;
  }

  get isClosed(): boolean {
    return this.phase === "closed";
  }

  private get isExpired(): boolean {
    return this.who?.expired !== undefined;
  }

  /** Whether a subscription may be sent events at the moment. */
  get delivers(): boolean {
    return this.phase === "open" && !this.isExpired;
  }

  // ---- frames ----

  /** A frame came; undefined is a binary one. */
  hear(text: string | undefined): void {
    if (this.phase === "closed") return;
    if (this.readsAt !== undefined) {
      this.unread.push(text);
      return;
    }
    const { limits } = this.host.settings;
    if (!this.who && ++this.framesBeforeAuth > FRAMES_BEFORE_AUTH) {
      return this.close(POLICY_VIOLATION, "too many frames before AUTH");
    }
    const most = this.who ? limits.frameBytes : Math.min(limits.frameBytes, FRAME_BYTES_BEFORE_AUTH);
    const bytes = text === undefined ? 0 : bytesOf(text);
    if (bytes > most) {
      const before = this.who ? "a" : "before AUTH a";
      return this.close(TOO_LARGE, `${before} frame has at most ${most} bytes`);
    }
    this.carryOut(text, bytes);
  }

  private carryOut(text: string | undefined, bytes: number): void {
    const { now } = this.host;
    this.weight = 1 + Math.min(workOf({ bytes }), STRIKES);
    let corr: string | undefined;
    try {
      if (text === undefined) {
        this.meter.take(1, now);
        throw badRequest("a binary frame; frames are JSON, as text");
      }
      const frame = readFrame(text, this.host.settings.limits.batchEvents);
      corr = frame.corr;
      const { request } = frame;
      if (request instanceof Refusal) {
        // Whatever it is, it costs something before it is looked at.
        this.meter.take(1, now);
        this.meter.oweAlone(workOf({ bytes }), now);
        throw request;
      }
      if (!isFree(request)) this.meter.take(request.op === "PUBLISH_ALL" ? request.events.length : 1, now);
      if (!settles(request)) this.meter.owe(workOf({ bytes }), now);
      this.mayAsk(request);
      this.handle(corr, request);
    } catch (error) {
      this.refuse(corr, refusalOf(error));
    }
  }

  send(text: string): void {
    if (this.phase !== "closed") this.link.send(text);
  }

  /** Answers with an error. Whoever is told to slow down, and does not, loses the connection. */
  private refuse(corr: string | undefined, error: Refusal): void {
    this.send(failed(corr, error));
    if (error.code !== "rate_limited") return;
    const { now } = this.host;
    if (this.weight >= LARGE_FRAME_WEIGHT) this.readsAt = now + Math.min(error.retryAfterMs ?? 0, MAX_READ_PAUSE);
    const isStill = this.limited !== undefined && now < this.limited.last + 5 * HEARING;
    this.limited = { since: isStill && this.limited ? this.limited.since : now, last: now };
    if (now < this.limited.since + HEARING) return;
    this.strikes += this.weight;
    if (this.strikes >= STRIKES) this.close(POLICY_VIOLATION, "too many requests in spite of rate_limited");
  }

  // ---- requests ----

  private mayAsk(request: Request): void {
    if (request.op === "AUTH") return;
    if (!this.who) throw new Refusal("unauthorized", 'say who you are first: {"op":"AUTH","token":…}');
    if (this.isExpired && !isFree(request)) {
      throw new Refusal("token_expired", "the token has expired; send AUTH with a new one");
    }
    const ends = request.op === "UNSUBSCRIBE" || request.op === "PAUSE";
    if (this.phase === "draining" && !ends && !isFree(request)) {
      throw new Refusal("unavailable", "the hub is stopping; come back in a moment");
    }
  }

  private handle(corr: string | undefined, request: Request): void {
    switch (request.op) {
      case "AUTH":
        return this.authenticate(corr, request.token);
      case "PUBLISH":
        return this.answerPublish(corr, request.event);
      case "PUBLISH_ALL":
        return this.answerBatch(corr, request.events, request.isOrdered);
      case "SUBSCRIBE": {
        const { subscription, held } = openSubscription(this, request.name, request.options);
        this.subscriptions.push(subscription);
        this.rest(subscription);
        return this.send(ok(corr, { held }));
      }
      case "UNSUBSCRIBE": {
        const subscription = this.named(request.name);
        this.meter.owe(workOf({ groups: subscription.topics }), this.host.now);
        this.take(subscription);
        this.leave(subscription, false);
        return this.send(ok(corr));
      }
      case "PAUSE":
      case "RESUME": {
        const subscription = this.named(request.name);
        subscription.isPaused = request.op === "PAUSE";
        this.rest(subscription);
        return this.send(ok(corr));
      }
      case "ACK": {
        const { of, ids, attempt } = request;
        if (ids.is === "several") return ackAll(this, corr, of, ids.ids, attempt);
        settleOne(this, of, ids.id, (member) => member.ack(ids.id, attempt, this.host.now));
        return this.sendIfAsked(corr, { id: ids.id });
      }
      case "NACK": {
        const { of, id, attempt, delayMs, reason } = request;
        settleOne(this, of, id, (member) => member.nack(id, attempt, delayMs, cutReason(reason), this.host.now));
        return this.sendIfAsked(corr, { id });
      }
      case "MODACK":
        return extend(this, corr, request);
      case "RETURN":
        return returnAll(this, corr, request);
      case "PING":
        return this.send(ok(corr, { ts: this.host.now }));
    }
  }

  /** ACK and NACK are answered only if that is asked for. */
  private sendIfAsked(corr: string | undefined, fields: { id: string }): void {
    if (corr !== undefined) this.send(ok(corr, fields));
  }

  // ---- AUTH ----

  private authenticate(corr: string | undefined, token: string | undefined): void {
    const identity = this.host.identify(token);
    if (this.who && this.who.identity.subject !== identity.subject) {
      throw new Refusal(
        "jwt_invalid",
        "this token is somebody else's (its sub differs); open another connection for it",
      );
    }
    this.who = { identity, expired: undefined };
    this.meter.identify(this.subject);
    this.send(authenticated(corr, identity.subject, identity.exp));
    for (const subscription of this.subscriptions.filter((one) => !one.isAllowed(identity.policy))) {
      this.endSubscription(
        subscription,
        new Refusal("forbidden", "the right to read this was taken back; nothing was settled"),
      );
    }
    this.subscriptions.forEach((subscription) => this.rest(subscription));
  }

  /** Ends the connection if its token was taken back. Its leases go to other members, and count no failure. */
  checkRevoked(): void {
    if (!this.who || this.phase !== "open") return;
    try {
      this.host.checkRevoked(this.who.identity);
    } catch (error) {
      this.refuse(undefined, refusalOf(error));
      this.close(POLICY_VIOLATION, "the token was revoked");
    }
  }

  // ---- PUBLISH ----

  private answerPublish(corr: string | undefined, event: NewEvent): void {
    const receipt = this.publish(event);
    this.strikes = Math.max(this.strikes - 1, 0);
    this.send(ok(corr, receiptFields(receipt, this.host.settings.durable)));
  }

  private publish(event: NewEvent): ReturnType<Host["publish"]> {
    if (this.policy?.allows("publish", event.topic) !== true) throw forbidden("publish", event.topic, undefined);
    return this.host.publish(event, this.subject);
  }

  private answerBatch(corr: string | undefined, events: (NewEvent | Refusal)[], isOrdered: boolean): void {
    let isStopped = false;
    const results = events.map((event) => {
      if (isStopped) {
        return errorFields(
          new Refusal("unavailable", "not published: an event before it in an ordered batch was refused"),
        );
      }
      try {
        if (event instanceof Refusal) throw event;
        return receiptFields(this.publish(event), this.host.settings.durable);
      } catch (error) {
        isStopped = isOrdered;
        return errorFields(refusalOf(error));
      }
    });
    this.strikes = Math.max(this.strikes - 1, 0);
    this.send(ok(corr, { results, ordered: isOrdered ? true : undefined }));
  }

  // ---- subscriptions ----

  named(name: Name): Subscription {
    const found = this.subscriptions.find((subscription) => subscription.isNamed(name));
    if (!found) throw notSubscribed(name);
    return found;
  }

  /** Holds the subscription's deliveries up, or lets them go on, as things are now. */
  private rest(subscription: Subscription): void {
    const rests = subscription.isPaused || !this.delivers;
    const { feed } = subscription;
    if (feed.is === "group") this.host.bus.setPaused(feed.member, rests);
    else feed.reader.isResting = rests;
  }

  /** Ends a subscription that cannot go on. Nothing is settled by that, and nothing counts as failed. */
  endSubscription(subscription: Subscription, error: Refusal): void {
    this.release(subscription, error);
    this.leave(subscription, false);
  }

  /** The subscription is over here; its member is not. */
  release(subscription: Subscription, error: Refusal): void {
    for (const frame of subscription.takeFrames()) this.send(frame);
    this.take(subscription);
    this.send(ended(subscription.name, error));
  }

  private take(subscription: Subscription): void {
    const at = this.subscriptions.indexOf(subscription);
    if (at >= 0) this.subscriptions.splice(at, 1);
    const { feed } = subscription;
    this.host.disown(feed.is === "group" ? feed.member : feed.reader);
  }

  /** The subscription's member leaves its group. `blame`: its consumer has vanished. */
  private leave({ feed }: Subscription, blame: boolean): void {
    if (feed.is === "watch") return this.host.bus.unwatch(feed.reader);
    if (feed.key !== undefined) this.host.detached.forget(feed.key);
    this.host.bus.leave(feed.member, blame, this.host.now);
  }

  /** The subscriptions that an ACK may mean: the one of that name, and those of its group that have the topic among others. */
  candidates(of: Name): Subscription[] {
    const named = this.subscriptions.filter((subscription) => subscription.isNamed(of));
    const covering = this.subscriptions.filter((subscription) => !subscription.isNamed(of) && subscription.covers(of));
    const found = [...named, ...covering];
    if (found.length === 0) throw notSubscribed(of);
    return found;
  }

  /** Something of a member was settled: others may have room. */
  touched(member: Member): void {
    this.host.bus.touched(member);
  }

  // ---- time, and the end ----

  nextDue(): number | undefined {
    if (this.phase === "closed") return undefined;
    const due = this.who ? (this.who.expired ?? this.who.identity.expires) : this.opened + this.host.settings.limits.authTimeoutMs;
    return this.readsAt === undefined ? due : Math.min(due, this.readsAt);
  }

  /** Does what is due by now. */
  act(): void {
    const { now } = this.host;
    if (this.readsAt !== undefined && now >= this.readsAt) {
      this.readsAt = undefined;
      const unread = this.unread;
      this.unread = [];
      for (const text of unread) this.hear(text);
    }
    if (this.phase === "closed") return;
    const { limits } = this.host.settings;
    if (!this.who) {
      if (now < this.opened + limits.authTimeoutMs) return;
      this.refuse(undefined, new Refusal("unauthorized", "no AUTH came in time"));
      return this.close(POLICY_VIOLATION, "no AUTH came in time");
    }
    if (this.who.expired === undefined && now >= this.who.identity.expires) {
      this.who.expired = now + limits.expiryGraceMs;
      this.refuse(undefined, new Refusal("token_expired", "the token has expired; send AUTH with a new one"));
      this.subscriptions.forEach((subscription) => this.rest(subscription));
    } else if (this.who.expired !== undefined && now >= this.who.expired) {
      this.close(POLICY_VIOLATION, "the token has expired");
    }
  }

  /** The hub stops: what is on its way is answered, nothing new begins. */
  drain(): void {
    if (this.phase === "open") this.phase = "draining";
    this.subscriptions.forEach((subscription) => this.rest(subscription));
  }

  /** The hub ends the connection; nobody is to blame. */
  close(code: number, reason: string): void {
    if (this.phase === "closed") return;
    this.link.close(code, reason);
    this.leaveAll(false);
  }

  /** The other end is gone: what it had in hand may be what killed it, unless its deliveries had been stopped. */
  gone(): void {
    if (this.phase === "closed") return;
    const isToBlame = this.phase === "open" && !this.isExpired;
    if (isToBlame) {
      for (const subscription of [...this.subscriptions]) {
        const { feed } = subscription;
        if (feed.is !== "group" || feed.key === undefined) continue;
        this.take(subscription);
        this.host.detached.detach(feed.key, this.host.now);
      }
    }
    this.leaveAll(isToBlame);
  }

  private leaveAll(blame: boolean): void {
    this.phase = "closed";
    this.host.sessions.delete(this);
    for (const subscription of [...this.subscriptions]) {
      this.take(subscription);
      this.leave(subscription, blame);
    }
  }
}

/** Whether it settles or extends what was delivered. */
function settles({ op }: Request): boolean {
  return op === "ACK" || op === "NACK" || op === "MODACK" || op === "RETURN";
}

/** Whether no rate applies to it, and an expired token allows it. */
function isFree(request: Request): boolean {
  return settles(request) || request.op === "PING";
}

export function forbidden(action: "publish" | "subscribe", topic: string, group: string | undefined): Refusal {
  const withGroup = group === undefined ? "" : ` with group ${shown(group)}`;
  return new Refusal(
    "forbidden",
    `the token does not allow to ${action} ${shown(topic)}${withGroup}; it needs the scope ${action}:${topic.slice(0, 213)}`,
  );
}

export function notSubscribed(name: Name): Refusal {
  return new Refusal("not_subscribed", `this connection has no subscription to ${described(name)}`);
}

export function described({ topic, group }: Name): string {
  return `${shown(topic)} ${group === undefined ? "without a group" : `with group ${shown(group)}`}`;
}
