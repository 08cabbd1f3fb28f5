import type { Clock } from "../clock.ts";
import type { Link } from "../connection/link.ts";
import { HubError } from "../errors.ts";
import type { ClientEvents } from "../options.ts";
import type { Platform } from "../platform.ts";
import type { Receipt } from "../types.ts";
import { uuid7 } from "../uuid.ts";
import { Entry, type PublishOptions, textOf } from "./entry.ts";
import { createSender } from "./sender.ts";

export interface PendingLimits {
  /** Publishes that are not answered yet, at most. */
  readonly events: number;
  /** The length of their JSON texts, at most: one for each character, two for each beyond U+FFFF. Text that is not ASCII takes more bytes than that. */
  readonly bytes: number;
  /** What happens to one more: it waits for room, or is rejected with `queue_full`. */
  readonly whenFull: "wait" | "reject";
}

export interface PublisherOptions {
  readonly pending: PendingLimits;
  readonly timeoutMs: number;
  readonly metric: ClientEvents["metric"];
  /** Called whenever nothing is pending any more. */
  onEmpty(): void;
}

/** Keeps publishes until they are answered. */
export interface Publisher {
  /** If `checked` is a promise, the event is sent once it resolves. Publishes keep the order of their calls, however long that takes. */
  publish(topic: string, payload: unknown, options: PublishOptions, checked: unknown): Promise<Receipt>;
  /** Sends what may be sent. */
  flush(): void;
  /** Before the connection is given up: the hub refused to read a frame because of its size. */
  tooLarge(): void;
  /** How many are not answered yet. */
  readonly pending: number;
  /** Rejects all of them. */
  end(why: HubError): void;
}

export function createPublisher(platform: Platform, clock: Clock, link: Link, options: PublisherOptions): Publisher {
  const { metric } = options;
  const { events: mostEvents, bytes: mostChars, whenFull } = options.pending;
  const sender = createSender(platform, clock, link);
  /** All that is not settled, oldest first. */
  const unsettled = new Set<Entry>();
  /** What waits for its validator, or for that of an earlier one. */
  const unchecked: Entry[] = [];
  /** What waits for room. */
  let overflow: Entry[] = [];
  let numbers = 0;
  let count = 0;
  let chars = 0;
  const timeouts = clock.alarm(timeOut);

  const hasRoom = (text: string): boolean => count === 0 || (count < mostEvents && chars + text.length <= mostChars);

  function publish(topic: string, payload: unknown, opts: PublishOptions, checked: unknown): Promise<Receipt> {
    // What this throws rejects the promise.
    return new Promise((resolve, reject) => {
      const { signal } = opts;
      signal?.throwIfAborted();
      const id = opts.id ?? uuid7(platform.wall());
      const text = textOf(topic, payload, id, opts);
      const mustWait = checked instanceof Promise || unchecked.length > 0;
      if (!mustWait) checkRoom(id, text);
      const chain = opts.order === "key" ? `${topic}\0${opts.key ?? ""}` : undefined;
      const now = clock.now();
      const stored = metric === undefined ? resolve : (receipt: Receipt) => (metric("publish_ms", clock.now() - now), resolve(receipt));
      const entry = new Entry(++numbers, id, topic, text, chain, now + options.timeoutMs, opts, stored, reject, finish);
      if (signal !== undefined) {
        platform.heed?.(signal);
        entry.onAbort = () => giveUp(entry, signal.reason);
        signal.addEventListener("abort", entry.onAbort, { once: true });
      }
      unsettled.add(entry);
      if (unsettled.size === 1) timeouts.set(entry.deadline);
      if (!mustWait) return enter(entry);
      unchecked.push(entry);
      Promise.resolve(checked).then(
        () => {
          entry.isChecked = true;
          enterChecked();
        },
        (error) => giveUp(entry, error),
      );
    });
  }

  /** Those whose validators are done, up to the first whose is not. */
  function enterChecked(): void {
    for (let next = unchecked[0]; next !== undefined && (next.isChecked || next.isSettled); next = unchecked[0]) {
      unchecked.shift();
      if (next.isSettled) continue;
      try {
        checkRoom(next.id, next.text);
        enter(next);
      } catch (error) {
        giveUp(next, error);
      }
    }
  }

  function checkRoom(id: string, text: string): void {
    if (whenFull === "wait" || (overflow.length === 0 && hasRoom(text))) return;
    const message = `${count} publishes with ${chars} bytes wait for answers; at most ${mostEvents} with ${mostChars} bytes may`;
    throw new HubError("queue_full", message, { id });
  }

  function enter(entry: Entry): void {
    if (overflow.length === 0 && hasRoom(entry.text)) admit(entry);
    else overflow.push(entry);
  }

  function admit(entry: Entry): void {
    entry.isAdmitted = true;
    count++;
    chars += entry.text.length;
    sender.add(entry);
  }

  function finish(entry: Entry): void {
    entry.isSettled = true;
    unsettled.delete(entry);
    if (entry.isAdmitted) {
      count--;
      chars -= entry.text.length;
      for (let next = overflow[0]; next !== undefined && hasRoom(next.text); next = overflow[0]) {
        overflow.shift();
        admit(next);
      }
    } else {
      overflow = overflow.filter((other) => other !== entry);
      enterChecked();
    }
    if (unsettled.size === 0) options.onEmpty();
  }

  /** It is not waited for any more: then it is not sent, unless it was, and its text is not kept. */
  function giveUp(entry: Entry, why: unknown): void {
    if (entry.isSettled) return;
    sender.remove(entry);
    entry.fail(why);
  }

  function timeOut(): void {
    const now = clock.now();
    for (const entry of unsettled) {
      if (entry.deadline > now) return timeouts.set(entry.deadline);
      const text = `no answer within ${options.timeoutMs} ms; the event may be stored or not, and it is safe to publish its id again`;
      giveUp(entry, new HubError("unavailable", text, { id: entry.id }));
    }
  }

  return {
    publish,
    flush: () => sender.flush(),
    tooLarge: () => sender.tooLarge(),
    get pending() {
      return unsettled.size;
    },
    end(why) {
      const code = why.code === "closed" ? "unavailable" : why.code;
      for (const entry of unsettled) {
        giveUp(entry, new HubError(code, `${why.message}; the event was not confirmed`, { id: entry.id, cause: why }));
      }
    },
  };
}
