import { HubError } from "../errors.ts";
import { fieldsOf } from "../frames.ts";
import type { EventRecord } from "../types.ts";
import type { GroupParts } from "./group.ts";
import { createLife } from "./life.ts";
import type { Subscriber } from "./registry.ts";
import type { WatchOptions } from "./types.ts";
import { wireOptions } from "./wire.ts";

export type WatchParts = Pick<GroupParts, "registry" | "log"> & {
  lagged: (lagged: { topic: string; missed?: number }) => void;
};

/** A reader without a group: nothing is settled, and nothing is stored. */
export function createWatch(
  parts: WatchParts,
  topic: string,
  options: WatchOptions,
  handle: (event: EventRecord) => unknown,
): Subscriber {
  const { registry } = parts;
  const life = createLife();
  /** A place in the log is one of one topic. */
  const isWide = topic.includes("*") || options.topics !== undefined;
  let lastSeq: number | undefined;
  let isLive = false;
  let wasLive = false;
  let isPaused = false;
  let isEnded = false;

  const stop = (): void => end(undefined);
  options.signal?.addEventListener("abort", stop, { once: true });

  function end(error: HubError | undefined): void {
    if (isEnded) return;
    isEnded = true;
    options.signal?.removeEventListener("abort", stop);
    registry.remove(watch);
    life.refused(error ?? new HubError("closed", "the subscription is over"));
    if (error !== undefined) parts.log("error", "subscription ended", { topic, error });
    life.ended(error);
  }

  function failed(event: EventRecord, error: unknown): void {
    parts.log("error", "watcher failed", { topic: event.topic, id: event.id, error });
  }

  function receive(event: EventRecord): void {
    if (isEnded) return;
    if (!isWide) lastSeq = event.seq;
    try {
      const result = handle(event);
      if (result instanceof Promise) result.catch((error: unknown) => failed(event, error));
    } catch (error) {
      failed(event, error);
    }
  }

  function lagged(of: string, missed?: number): void {
    const what = { topic: of, ...(missed !== undefined && { missed }) };
    options.onLagged?.(what);
    parts.lagged(what);
  }

  const watch: Subscriber = {
    topic,
    group: undefined,
    opened: life.opened,
    closed: life.closed,
    get isStopping() {
      return isEnded;
    },
    get isPaused() {
      return isPaused;
    },
    get wanted() {
      return isEnded ? "absent" : isPaused ? "paused" : "active";
    },
    get isLive() {
      return isLive;
    },
    pause() {
      isPaused = true;
      registry.update(watch);
    },
    resume() {
      isPaused = false;
      registry.update(watch);
    },
    unsubscribe() {
      stop();
      return Promise.resolve();
    },
    close: stop,
    abandon: stop,
    modAck: () => Promise.reject(new HubError("bad_request", "a subscription without a group has no deadlines")),
    request() {
      const from = lastSeq === undefined ? options.from : { afterSeq: lastSeq };
      return fieldsOf({ op: "SUBSCRIBE", topic, opts: { ...wireOptions({ ...options, ...(from && { from }) }), batch: true } });
    },
    subscribed() {
      // All states come anew, or all that is behind the last event.
      const isWhole = lastSeq !== undefined || (options.coalesce === true && options.from === "earliest");
      if (wasLive && !isWhole) lagged(topic);
      isLive = wasLive = true;
      life.accepted();
    },
    unsubscribed: () => undefined,
    down() {
      isLive = false;
    },
    deliver(frame) {
      // Before the OK events are on their way to the watcher of this name that was here before.
      if (!isLive) return;
      if (frame.op === "EVENT") receive(frame.event);
      else if (frame.op === "EVENTS") for (const { event } of frame.events) receive(event);
      else lagged(frame.of ?? topic, frame.missed);
    },
    handBack: () => undefined,
    hidden: () => undefined,
    flush: () => undefined,
    end,
  };
  return watch;
}
