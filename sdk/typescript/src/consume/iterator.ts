import { HubError } from "../errors.ts";
import type { EventRecord } from "../types.ts";
import { type Check, checkEvent } from "../validate.ts";
import { createDelivery } from "./delivery.ts";
import { createGroup, type GroupParts, type GroupSubscription } from "./group.ts";
import { join } from "./join.ts";
import type { Lease } from "./lease.ts";
import { outcomeOf } from "./settlement.ts";
import type { Delivery, GroupOptions } from "./types.ts";

const MAX_IN_FLIGHT = 64;

interface Pull {
  resolve(result: IteratorResult<Delivery, undefined>): void;
  reject(error: unknown): void;
}

/** Subscribes when the first delivery is asked for: an iterator that nobody starts costs nothing, and holds nothing back. */
export function createIterator(
  parts: GroupParts,
  topic: string,
  group: string,
  options: GroupOptions,
  check: Check | undefined,
): Required<Pick<AsyncIterator<Delivery, undefined>, "next" | "return">> {
  const done = { done: true, value: undefined } as const;
  const pulls: Pull[] = [];
  /** Have an event that its validator has not accepted yet. */
  const checking = new Set<Pull>();
  const unsettled = new Set<Lease>();
  let subscription: GroupSubscription | undefined;
  let isStarted = false;
  let isOver = false;
  let failure: HubError | undefined;

  function finish(error: HubError | undefined): void {
    isOver = true;
    options.signal?.removeEventListener("abort", onAbort);
    const waiting = [...checking, ...pulls.splice(0)];
    checking.clear();
    // The first who asks is told; or the next one, if nobody does.
    const first = error === undefined ? undefined : waiting.shift();
    if (first === undefined) failure ??= error;
    else first.reject(error);
    for (const pull of waiting) pull.resolve(done);
  }

  /** Until there is a subscription, which unsubscribes by itself. */
  const onAbort = (): void => finish(undefined);

  function work(lease: Lease, own: GroupSubscription): void {
    const pull = pulls.shift();
    const refuse = (error: unknown): void => {
      if (pull !== undefined && checking.delete(pull)) pulls.unshift(pull);
      own.conclude(lease, outcomeOf(error, true));
    };
    const hand = (event: EventRecord): void => {
      // The loop has ended meanwhile.
      if (pull === undefined || !checking.delete(pull)) return own.conclude(lease, { op: "RETURN" });
      pull.resolve({ done: false, value: createDelivery(lease, event, own) });
    };
    if (pull !== undefined) checking.add(pull);
    unsettled.add(lease);
    try {
      const event = checkEvent(check, lease.event);
      if (event instanceof Promise) event.then(hand, refuse);
      else hand(event);
    } catch (error) {
      refuse(error);
    }
  }

  function start(): GroupSubscription {
    // Somebody has ended the loop while it waited for its turn.
    if (isOver) throw new HubError("closed", "the loop is over");
    options.signal?.removeEventListener("abort", onAbort);
    return (subscription = createGroup(parts, {
      topic,
      group,
      options,
      concurrency: Infinity,
      maxInFlight: options.maxInFlight ?? MAX_IN_FLIGHT,
      wants: () => pulls.length > 0,
      work,
      concluded: (lease) => void unsettled.delete(lease),
      stopping: () => finish(undefined),
      ended: finish,
    }));
  }

  return {
    next() {
      if (options.signal?.aborted === true) isOver = true;
      if (isOver) {
        const error = failure;
        failure = undefined;
        return error === undefined ? Promise.resolve(done) : Promise.reject(error);
      }
      return new Promise((resolve, reject) => {
        pulls.push({ resolve, reject });
        subscription?.pump();
        if (isStarted) return;
        isStarted = true;
        options.signal?.addEventListener("abort", onAbort, { once: true });
        join(parts, topic, group, options.signal, start).catch((error: HubError) => finish(isOver ? undefined : error));
      });
    },
    /** What was handed out and is not settled goes back, and has not failed. */
    async return() {
      isOver = true;
      const stopped = subscription?.unsubscribe();
      for (const lease of unsettled) subscription?.conclude(lease, { op: "RETURN" });
      finish(undefined);
      await stopped;
      return done;
    },
  };
}
