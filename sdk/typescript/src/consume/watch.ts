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

/** What changes of a watcher; others only read it. */
interface Mutable {
  isStopping: boolean;
  isPaused: boolean;
  isLive: boolean;
}

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
  /** Came and were not handled: during a pause, until the hub has heard of it. */
  const queue: EventRecord[] = [];
  let wasLive = false;

  const stop = (): void => end(undefined);
  options.signal?.addEventListener("abort", stop, { once: true });

  function end(error: HubError | undefined): void {
    if (watch.isStopping) return;
    watch.isStopping = true;
    options.signal?.removeEventListener("abort", stop);
    registry.remove(watch);
    life.refused(error ?? new HubError("closed", "the subscription is over"));
    if (error !== undefined) parts.log("error", "subscription ended", { topic, error });
    life.ended(error);
  }

  function pump(): void {
    // The handler may pause or unsubscribe.
    while (!watch.isPaused && !watch.isStopping) {
      const event = queue.shift();
      if (event === undefined) return;
      const failed = (error: unknown): void => parts.log("error", "watcher failed", { topic: event.topic, id: event.id, error });
      try {
        const result = handle(event);
        if (result instanceof Promise) result.catch(failed);
      } catch (error) {
        failed(error);
      }
    }
  }

  const watch: Subscriber & Mutable = {
    topic,
    group: undefined,
    opened: life.opened,
    closed: life.closed,
    isStopping: false,
    isPaused: false,
    isLive: false,
    get wanted() {
      return watch.isStopping ? undefined : watch.isPaused ? "paused" : "active";
    },
    pause() {
      watch.isPaused = true;
      registry.update(watch);
    },
    resume() {
      watch.isPaused = false;
      registry.update(watch);
      pump();
    },
    unsubscribe() {
      stop();
      return Promise.resolve();
    },
    close: stop,
    abandon: stop,
    request() {
      const from = lastSeq === undefined ? options.from : { afterSeq: lastSeq };
      return fieldsOf({ op: "SUBSCRIBE", topic, opts: { ...wireOptions({ ...options, ...(from && { from }) }), batch: true } });
    },
    subscribed() {
      // All states come anew, or all that is behind the last event.
      const isWhole = lastSeq !== undefined || (options.coalesce === true && options.from === "earliest");
      if (wasLive && !isWhole) parts.lagged({ topic });
      watch.isLive = wasLive = true;
      life.accepted();
    },
    down() {
      watch.isLive = false;
    },
    deliver(frame) {
      // Before the OK events are on their way to the watcher of this name that was here before.
      if (!watch.isLive) return;
      if (frame.op === "LAGGED") return parts.lagged({ topic: frame.of ?? topic, missed: frame.missed });
      for (const { event } of frame.op === "EVENT" ? [frame] : frame.events) {
        if (!isWide) lastSeq = event.seq;
        queue.push(event);
      }
      pump();
    },
    end,
  };
  return watch;
}
