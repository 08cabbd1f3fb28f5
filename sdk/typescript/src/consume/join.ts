import type { EventRecord } from "../types.ts";
import type { Check } from "../validate.ts";
import type { GroupParts } from "./group.ts";
import { createHandled } from "./handler.ts";
import type { Subscriber } from "./registry.ts";
import type { Context, SubscribeOptions } from "./types.ts";

/** Begins a subscription, once an earlier one of its name is over: that one may still have handlers that run. */
export async function join(
  { registry, checkFree, begin }: GroupParts,
  topic: string,
  group: string,
  signal: AbortSignal | undefined,
  create: () => Subscriber,
): Promise<Subscriber> {
  // Nothing is awaited between the check and the beginning.
  const before = registry.get(topic, group);
  if (before?.isStopping === true) await before.closed;
  signal?.throwIfAborted();
  checkFree(topic, group);
  const subscriber = create();
  begin(subscriber);
  return subscriber;
}

/** Handles events by a function; resolves once the hub has accepted the subscription. */
export async function subscribe(
  parts: GroupParts,
  topic: string,
  group: string,
  options: SubscribeOptions,
  check: Check | undefined,
  handle: (event: EventRecord, ctx: Context) => unknown,
): Promise<Subscriber> {
  const create = (): Subscriber => createHandled(parts, topic, group, options, check, handle);
  const subscription = await join(parts, topic, group, options.signal, create);
  await subscription.opened;
  return subscription;
}
