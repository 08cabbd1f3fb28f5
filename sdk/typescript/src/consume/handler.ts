import { type Check, checkEvent } from "../validate.ts";
import type { EventRecord } from "../types.ts";
import { createContext } from "./delivery.ts";
import { createGroup, type GroupParts, type GroupSubscription } from "./group.ts";
import type { Lease } from "./lease.ts";
import { Retry } from "./outcome.ts";
import { outcomeOf } from "./settlement.ts";
import type { Context, SubscribeOptions } from "./types.ts";

const CONCURRENCY = 16;
/** So that the next deliveries are here when handlers end, and other members of the group still get theirs. */
const IN_FLIGHT_PER_HANDLER = 4;
/** The hub's limit. */
const MOST_IN_FLIGHT = 100_000;

/** A subscription whose deliveries are handled by a function. */
export function createHandled(
  parts: GroupParts,
  topic: string,
  group: string,
  options: SubscribeOptions,
  check: Check | undefined,
  handle: (event: EventRecord, ctx: Context) => unknown,
): GroupSubscription {
  const concurrency = options.concurrency ?? CONCURRENCY;
  if (!(concurrency >= 1)) throw new TypeError(`concurrency ${concurrency}: a number from 1 is allowed`);

  function work(lease: Lease, own: GroupSubscription): void {
    const ended = (value: unknown, hasThrown: boolean): void => {
      const outcome = outcomeOf(value, hasThrown);
      // A handler that stops because it was told to has not failed.
      const wasTold = hasThrown && lease.controller?.signal.aborted === true && !(value instanceof Retry);
      if (wasTold) return own.conclude(lease, { op: "RETURN" });
      if (outcome.op === "ACK") parts.metric?.("handled", 1);
      if (outcome.op === "NACK") {
        parts.metric?.("failed", 1);
        const { id } = lease.event;
        // A Retry is meant.
        const level = value instanceof Retry ? "debug" : "warn";
        parts.log(level, "handler failed", { topic: lease.event.topic, group, id, attempt: lease.ctx.attempt, error: value });
      }
      own.conclude(lease, outcome);
    };
    let result: unknown;
    try {
      const event = checkEvent(check, lease.event);
      const ctx = createContext(lease, own);
      result = event instanceof Promise ? event.then((checked) => handle(checked, ctx)) : handle(event, ctx);
    } catch (error) {
      return ended(error, true);
    }
    if (!isThenable(result)) return ended(result, false);
    result.then(
      (value) => ended(value, false),
      (error) => ended(error, true),
    );
  }

  return createGroup(parts, {
    topic,
    group,
    options,
    concurrency,
    maxInFlight: options.maxInFlight ?? Math.min(concurrency * IN_FLIGHT_PER_HANDLER, MOST_IN_FLIGHT),
    wants: () => true,
    work,
  });
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}
