// SUBSCRIBE: checks what is asked for, and opens it.

import { type Target, targetOf } from "../engine/cover.ts";
import { BATCH_EVENTS } from "../../rules/limits.ts";
import type { Member } from "../engine/member.ts";
import { checkGroup } from "../../rules/names.ts";
import { Refusal, badRequest, shown } from "../../rules/refusal.ts";
import { workOf } from "./rate.ts";
import type { Name } from "./request.ts";
import { type Session, described, forbidden } from "./session.ts";
import type { SubscribeOptions } from "./subscribe-options.ts";
import { Subscription, isAllowed, isWide, namesGroup } from "./subscription.ts";

/** Subscriptions of one connection to patterns and lists with the same group. */
const WIDE = 32;
const DEFAULT_ACK_TIMEOUT = 30_000;
const DEFAULT_IN_FLIGHT = 1000;
const DEFAULT_BATCH = 100;

/** Opens a subscription; answers also what of `held` the member really holds. */
export function openSubscription(
  session: Session,
  name: Name,
  options: SubscribeOptions,
): { subscription: Subscription; held: string[] | undefined } {
  const { host } = session;
  const max = host.settings.limits.subscriptions;
  if (session.subscriptions.some((subscription) => subscription.isNamed(name))) {
    throw new Refusal("already_subscribed", `this connection has a subscription to ${described(name)}`);
  }
  if (session.subscriptions.length >= max) {
    throw badRequest(
      `this connection has ${max} subscriptions, which is the limit; use a pattern or another connection`,
    );
  }
  if (options.topics?.length === 0) throw badRequest("topics is empty; name at least one");
  // Rights are asked for the topics, so those come before the label.
  const reads = targetOf(name.topic, options.topics);
  if (name.group !== undefined) {
    checkGroup(name.group);
    const wide = session.subscriptions.filter((one) => one.isWide && one.name.group === name.group);
    if (isWide(reads) && wide.length >= WIDE) {
      throw badRequest(
        `this connection has ${WIDE} subscriptions to patterns and lists with group ${shown(name.group)}, which is the limit`,
      );
    }
  }
  if (!session.policy || !isAllowed(session.policy, reads, name.group)) {
    throw forbidden("subscribe", name.topic, name.group);
  }
  const batchSize = options.batchSize ?? DEFAULT_BATCH;
  if (batchSize < 1 || batchSize > BATCH_EVENTS) {
    throw badRequest(`batchSize is ${batchSize}; it must be 1 to ${BATCH_EVENTS}`);
  }
  const batch = options.batch ? batchSize : undefined;
  const ackTimeout = options.ackTimeout ?? DEFAULT_ACK_TIMEOUT;
  if (name.group === undefined) {
    return { subscription: watch(session, name, reads, options, batch, ackTimeout), held: undefined };
  }
  return join(session, { ...name, group: name.group }, reads, options, batch, ackTimeout);
}

function watch(
  session: Session,
  name: Name,
  reads: Target,
  options: SubscribeOptions,
  batch: number | undefined,
  ackTimeout: number,
): Subscription {
  if (options.forGroup !== undefined) {
    throw badRequest(`${options.forGroup} is an option of groups; name a group, or leave it out`);
  }
  const { host } = session;
  const { filter = {}, coalesce = false } = options.group;
  const reader = host.bus.watch(reads, options.from, { filter, coalesce });
  const { topics } = reader;
  session.meter.owe(workOf({ topics, groups: topics }), host.now);
  const subscription = new Subscription({ name, feed: { is: "watch", reader }, reads, batch, ackTimeout, topics });
  host.own(reader, session, subscription);
  return subscription;
}

function join(
  session: Session,
  name: Name & { group: string },
  reads: Target,
  options: SubscribeOptions,
  batch: number | undefined,
  ackTimeout: number,
): { subscription: Subscription; held: string[] | undefined } {
  const { host, policy, subject } = session;
  const { bus, detached, now } = host;
  mayReplace(session, name, options.topics);
  const maxInFlight = options.maxInFlight ?? DEFAULT_IN_FLIGHT;
  const ownGroups = !policy || !namesGroup(policy, reads, name.group);
  // The subject is part of it, so nobody goes on with another subject's member.
  const key = options.member === undefined ? undefined : JSON.stringify([options.member, subject, name.topic, name.group]);
  const terms = JSON.stringify([maxInFlight, ackTimeout, ownGroups, options.topics, options.group]);
  const before = key === undefined ? undefined : detached.take(key, terms, now);
  let member: Member;
  let topics: number;
  if (before) {
    // Of a client that says nothing of what it holds, nothing is known to have arrived.
    before.keepOnly(new Set(options.held), now);
    bus.setPaused(before, false);
    [member, topics] = [before, before.groups.size];
  } else {
    const { from, group: request } = options;
    const asked = { target: reads, group: name.group, from, options: request, maxInFlight, ackTimeout, subject, ownGroups };
    ({ member, topics } = bus.join(asked));
  }
  session.meter.owe(workOf({ topics, groups: topics }), now);
  const feed = { is: "group", member, key } as const;
  const subscription = new Subscription({ name, feed, reads, batch, ackTimeout, topics });
  host.own(member, session, subscription);
  if (key !== undefined) {
    const graceMs = Math.min(host.settings.limits.reconnectGraceMs, ackTimeout);
    const release = (): void =>
      session.release(
        subscription,
        new Refusal(
          "already_subscribed",
          "the member of this subscription has connected anew, and goes on there; nothing was settled",
        ),
      );
    detached.attach(key, { member, subject, terms, graceMs, release });
  }
  return { subscription, held: options.held?.filter((id) => member.topicOf(id) !== undefined) };
}

/** A list that is there with other topics becomes this one: that takes something from whoever reads those. */
function mayReplace(session: Session, { topic, group }: Name & { group: string }, topics: string[] | undefined): void {
  if (!topics) return;
  const stored = session.host.bus.listedTopics(topic, group);
  if (stored.every((name) => session.policy?.allows("subscribe", name, group) === true)) return;
  throw new Refusal(
    "forbidden",
    `the list ${shown(topic)} with group ${shown(group)} has other topics, which the token does not allow to subscribe; use another label`,
  );
}
