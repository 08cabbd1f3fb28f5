import type { Clock } from "../clock.ts";
import type { Link } from "../connection/link.ts";
import { HubError } from "../errors.ts";
import type { Platform } from "../platform.ts";
import type { Receipt } from "../types.ts";
import { uuid7 } from "../uuid.ts";
import { Entry, type PublishOptions, textOf } from "./entry.ts";
import { createSender } from "./sender.ts";

export interface PendingLimits {
  /** Publishes that are not answered yet, at most. */
  readonly events: number;
  /** The length of their texts, at most. */
  readonly bytes: number;
  /** What happens to one more: it waits for room, or is rejected with `queue_full`. */
  readonly whenFull: "wait" | "reject";
}

export interface PublisherOptions {
  readonly pending: PendingLimits;
  readonly timeoutMs: number;
}

/** Keeps publishes until they are answered. */
export interface Publisher {
  publish(topic: string, payload: unknown, options: PublishOptions): Promise<Receipt>;
  /** Sends what may be sent. */
  flush(): void;
  /** Before the connection is given up: the hub refused to read a frame because of its size. */
  tooLarge(): void;
  /** How many are not answered yet. */
  readonly pending: number;
  /** Rejects all of them. */
  end(why: HubError): void;
}

/** `onEmpty` is called whenever nothing is pending any more. */
export function createPublisher(
  platform: Platform,
  clock: Clock,
  link: Link,
  options: PublisherOptions,
  onEmpty: () => void,
): Publisher {
  const { events: mostEvents, bytes: mostChars, whenFull } = options.pending;
  const sender = createSender(platform, clock, link);
  /** All that is not settled, oldest first, from `oldest` on; some of it is settled by now. */
  let unsettled: Entry[] = [];
  let oldest = 0;
  /** What waits for room. */
  let overflow: Entry[] = [];
  let numbers = 0;
  let count = 0;
  let chars = 0;
  const timeouts = clock.alarm(timeOut);

  const hasRoom = (text: string): boolean => count === 0 || (count < mostEvents && chars + text.length <= mostChars);

  function publish(topic: string, payload: unknown, opts: PublishOptions): Promise<Receipt> {
    // What this throws rejects the promise.
    return new Promise((resolve, reject) => {
      const { signal } = opts;
      signal?.throwIfAborted();
      const id = opts.id ?? uuid7(platform.wall());
      const text = textOf(topic, payload, id, opts);
      const isAdmitted = overflow.length === 0 && hasRoom(text);
      if (!isAdmitted && whenFull === "reject") {
        const message = `${count} publishes with ${chars} bytes wait for answers; at most ${mostEvents} with ${mostChars} bytes may`;
        throw new HubError("queue_full", message, { id });
      }
      const chain = opts.order === "key" ? `${topic}\0${opts.key ?? ""}` : undefined;
      const deadline = clock.now() + options.timeoutMs;
      const entry = new Entry(++numbers, id, topic, text, chain, deadline, opts, resolve, reject, finish);
      if (signal !== undefined) {
        entry.onAbort = () => {
          finish(entry);
          reject(signal.reason as Error);
        };
        signal.addEventListener("abort", entry.onAbort, { once: true });
      }
      unsettled.push(entry);
      if (unsettled.length - oldest === 1) timeouts.set(entry.deadline);
      if (isAdmitted) admit(entry);
      else overflow.push(entry);
    });
  }

  function admit(entry: Entry): void {
    entry.isAdmitted = true;
    count++;
    chars += entry.text.length;
    sender.add(entry);
  }

  function finish(entry: Entry): void {
    entry.isSettled = true;
    while (unsettled[oldest]?.isSettled === true) oldest++;
    if (oldest === unsettled.length || oldest > 512) {
      unsettled = unsettled.slice(oldest);
      oldest = 0;
    }
    if (!entry.isAdmitted) {
      overflow = overflow.filter((other) => other !== entry);
      return;
    }
    count--;
    chars -= entry.text.length;
    for (let next = overflow[0]; next !== undefined && hasRoom(next.text); next = overflow[0]) {
      overflow.shift();
      admit(next);
    }
    if (count === 0) onEmpty();
  }

  function timeOut(): void {
    const now = clock.now();
    for (let entry = unsettled[oldest]; entry !== undefined; entry = unsettled[oldest]) {
      if (entry.deadline > now) return timeouts.set(entry.deadline);
      const text = `no answer within ${options.timeoutMs} ms; the event may be stored or not, and it is safe to publish its id again`;
      entry.settle(new HubError("unavailable", text, { id: entry.id }));
    }
  }

  return {
    publish,
    flush: () => sender.flush(),
    tooLarge: () => sender.tooLarge(),
    get pending() {
      return unsettled.length - oldest;
    },
    end(why) {
      const code = why.code === "closed" ? "unavailable" : why.code;
      for (const entry of unsettled.slice(oldest)) {
        entry.settle(new HubError(code, `${why.message}; the event was not confirmed`, { id: entry.id, cause: why }));
      }
    },
  };
}
