// The context of one run of a handler that is run again here.

import { followingId } from "../consume/delivery.ts";
import type { Context } from "../consume/types.ts";
import type { PublishOptions } from "../publish/entry.ts";
import type { EventRecord, Receipt } from "../types.ts";

/**
 * The given context, with ids of published events that begin anew: a handler that is run again within one delivery publishes under the same ids.
 */
export function createRunContext<Topics extends object>(given: Context<Topics>, event: EventRecord): Context<Topics> {
  const publishTo = given.publish.bind(given) as (topic: string, payload: unknown, options: PublishOptions) => Promise<Receipt>;
  let published = 0;
  const publish = (topic: string, payload: unknown, options: PublishOptions = {}): Promise<Receipt> =>
    publishTo(topic, payload, { id: followingId(given.group, event, published++), ...options });
  return {
    get signal() {
      return given.signal;
    },
    get attempt() {
      return given.attempt;
    },
    get maxAttempts() {
      return given.maxAttempts;
    },
    get deadline() {
      return given.deadline;
    },
    get ack_deadline_ms() {
      return given.ack_deadline_ms;
    },
    get epoch() {
      return given.epoch;
    },
    group: given.group,
    topic: given.topic,
    extend: (ms) => given.extend(ms),
    publish,
  };
}
