import type { Clock } from "../clock.ts";
import type { Link } from "../connection/link.ts";
import { HubError } from "../errors.ts";
import { type Answer, type DeliveryContext, fieldsOf, type Incoming } from "../frames.ts";
import type { Platform } from "../platform.ts";
import type { PublishOptions } from "../publish/entry.ts";
import type { EventRecord, Receipt } from "../types.ts";
import { uuid4 } from "../uuid.ts";
import type { Holder } from "./delivery.ts";
import { createHeld } from "./held.ts";
import { epochOf, type Lease, lose } from "./lease.ts";
import { createLife } from "./life.ts";
import { ACK, type Outcome } from "./settlement.ts";
import { createRecent, recentsOf } from "./recent.ts";
import type { Registry, Subscriber } from "./registry.ts";
import { createRunner } from "./runner.ts";
import { createSettler } from "./settler.ts";
import type { GroupOptions } from "./types.ts";
import { wireOptions } from "./wire.ts";

const BATCH_SIZE = 100;
const EXTEND_UP_TO = 600_000;

/** What a subscription is made of. */
export interface GroupParts {
  readonly platform: Platform;
  readonly clock: Clock;
  readonly link: Link;
  readonly registry: Registry;
  /** Throws if there is a subscription of this name, or the client is over. */
  readonly checkFree: (topic: string, group: string) => void;
  /** Adds a subscription, and connects. */
  readonly begin: (subscriber: Subscriber) => void;
  readonly publish: (topic: string, payload: unknown, options: PublishOptions) => Promise<Receipt>;
  /** Logs what no promise and no callback tells the program. */
  readonly log: (level: "debug" | "warn" | "error", message: string, fields: Readonly<Record<string, unknown>>) => void;
  readonly metric: ((name: string, value: number) => void) | undefined;
}

export interface GroupSpec {
  readonly topic: string;
  readonly group: string;
  readonly options: GroupOptions;
  /** Deliveries that are started and have not ended, at most. */
  readonly concurrency: number;
  readonly maxInFlight: number;
  /** Whether one more is wanted now. */
  wants(): boolean;
  /** Works on a delivery, and says what came of it by `conclude`. */
  work(lease: Lease, subscription: GroupSubscription): void;
  /** A delivery that was started has ended. */
  concluded?(lease: Lease): void;
  /** No more deliveries will be started. */
  stopping?(): void;
  ended?(error: HubError | undefined): void;
}

/** A member of a group, over however many connections. */
export interface GroupSubscription extends Subscriber, Holder {
  readonly group: string;
  conclude(lease: Lease, outcome: Outcome): void;
  /** Starts what may be started: something is wanted now. */
  pump(): void;
}

export function createGroup(parts: GroupParts, spec: GroupSpec): GroupSubscription {
  const { platform, clock, link, registry } = parts;
  const { topic, group, options } = spec;
  const name = { topic, group };
  const member = uuid4();
  const key = `${topic}\0${group}`;
  const recent = recentsOf(registry).get(key) ?? createRecent(clock);
  /** The hub has accepted the subscription on this connection. */
  let isLive = false;
  let isPaused = false;
  let isStopping = false;
  /** Nothing runs and everything is confirmed: only the UNSUBSCRIBE is left. */
  let isDrained = false;
  let isEnded = false;
  const life = createLife();
  /** Resolves when no more deliveries will be started. */
  let stopped: Promise<void> | undefined;
  let leave = (): void => undefined;

  const autoExtend = options.autoExtend ?? { upToMs: EXTEND_UP_TO };
  const held = createHeld(clock, link, {
    name,
    upToMs: autoExtend === false ? 0 : autoExtend.upToMs,
    isLive: () => isLive,
    giveBack(lease) {
      if (link.has("return")) settle(lease, { op: "RETURN" });
    },
    dropped: checkDrained,
  });
  const settler = createSettler(platform, clock, link, name, {
    isLive: () => isLive,
    confirmed(lease, isUnknown) {
      if (!held.delete(lease)) return;
      lease.onSettled?.(!isUnknown);
      checkDrained();
    },
    refused(error, ids) {
      // Events that came behind the UNSUBSCRIBE have gone back with it.
      if (error.code !== "not_subscribed") parts.log("warn", "outcome refused", { ...name, ids, error });
    },
  });
  const runner = createRunner(
    spec.concurrency,
    options.ordering === "key",
    () => !isPaused && !isStopping && spec.wants(),
    (lease) => {
      if (lease.stage !== "queued" || lease.lost !== undefined) return false;
      if (lease.deadline <= clock.now()) {
        // Somebody else may have it by now.
        held.delete(lease);
        return false;
      }
      lease.stage = "running";
      spec.work(lease, subscription);
      return true;
    },
  );

  const onAbort = (): void => void stop();
  const { signal } = options;
  platform.heed?.(signal);
  signal?.addEventListener("abort", onAbort, { once: true });

  function receive(event: EventRecord, ctx: DeliveryContext): void {
    const now = clock.now();
    const earlier = held.leases.get(event.id);
    const isSame = earlier !== undefined && earlier.event.topic === event.topic;
    if (isSame && earlier.stage !== "settling") {
      earlier.ctx = ctx;
      earlier.deadline = now + ctx.ack_deadline_ms;
      earlier.isOrphan = false;
      earlier.isAdopted = false;
      earlier.lost = undefined;
      return;
    }
    const lease: Lease = {
      event,
      ctx,
      since: now,
      deadline: now + ctx.ack_deadline_ms,
      stage: "queued",
      isOrphan: false,
      isAdopted: false,
      lost: undefined,
      closing: undefined,
      controller: undefined,
      outcome: undefined,
      onSettled: undefined,
      published: 0,
    };
    if (isSame) {
      lease.onSettled = earlier.onSettled;
      earlier.onSettled = undefined;
    }
    held.add(lease);
    // Over one connection an event comes again under a higher attempt only, unless the group was deleted. A hub that was restarted counts anew.
    const before = ctx.attempt > 1 ? Infinity : link.state.began;
    if (recent.has(recentKey(event), epochOf(ctx), before)) return settle(lease, ACK);
    // It has come back: what was said of it has arrived.
    lease.onSettled?.(true);
    lease.onSettled = undefined;
    if (!giveBack(lease)) runner.add(lease);
  }

  /** What will not be started soon goes to others, without a failure. Returns whether it does. */
  function giveBack(lease: Lease): boolean {
    if ((!isStopping && !isPaused) || lease.stage !== "queued") return false;
    if (isLive && link.has("return")) {
      settle(lease, { op: "RETURN" });
    } else if (isStopping || !isLive) {
      // It goes back with the UNSUBSCRIBE, or because the next SUBSCRIBE does not name it.
      lease.stage = "settling";
      held.delete(lease);
    } else {
      return false;
    }
    return true;
  }

  /** Ids are unique in their topic, and a pattern covers several. */
  function recentKey(event: EventRecord): string {
    return event.topic === topic ? event.id : `${event.id} ${event.topic}`;
  }

  function settle(lease: Lease, outcome: Outcome): void {
    lease.stage = "settling";
    lease.outcome = outcome;
    if (outcome.op === "ACK") recent.add(recentKey(lease.event), epochOf(lease.ctx), lease.since);
    settler.add(lease);
  }

  function conclude(lease: Lease, outcome: Outcome): void {
    if (lease.stage !== "running") return;
    spec.concluded?.(lease);
    const isHeld = held.leases.get(lease.event.id) === lease;
    if (isEnded || !isHeld || (lease.lost !== undefined && outcome.op !== "ACK")) {
      held.delete(lease);
      lease.stage = "settling";
      lease.onSettled?.(false);
    } else {
      settle(lease, outcome);
    }
    runner.finish(lease);
    checkDrained();
  }

  function stop(): Promise<void> {
    if (stopped !== undefined) return stopped;
    isStopping = true;
    signal?.removeEventListener("abort", onAbort);
    spec.stopping?.();
    for (const lease of held.leases.values()) giveBack(lease);
    // A handler may wait for this; and without a connection the hub cannot be told.
    const isOver = new Promise<void>((resolve) => {
      leave = resolve;
      void life.closed.then(() => resolve());
    });
    stopped = runner.running > 0 || !isLive ? Promise.resolve() : isOver;
    checkDrained();
    // Unless that was all, no more events are wanted until it is.
    registry.update(subscription);
    return stopped;
  }

  /** Once nothing runs and everything is confirmed, the hub is told that it is over. */
  function checkDrained(): void {
    if (!isStopping || isEnded || isDrained || runner.running > 0) return;
    // Without a connection nothing can be confirmed; it is what the hub still holds that matters.
    if (held.leases.size > 0) return;
    isDrained = true;
    if (!registry.update(subscription)) end(undefined);
  }

  function end(error: HubError | undefined): void {
    if (isEnded) return;
    isEnded = isStopping = true;
    isLive = false;
    signal?.removeEventListener("abort", onAbort);
    // After an error the group may be made again, and then all its events are wanted.
    if (error === undefined) recentsOf(registry).set(key, recent);
    else recentsOf(registry).delete(key);
    registry.remove(subscription);
    const why = error ?? new HubError("closed", "the subscription is over");
    for (const lease of held.leases.values()) {
      lose(lease, why);
      if (lease.stage === "settling") lease.onSettled?.(false);
    }
    held.end();
    settler.end();
    life.refused(why);
    if (error !== undefined) parts.log("error", "subscription ended", { ...name, error });
    spec.ended?.(error);
    life.ended(error);
  }

  const subscription: GroupSubscription = {
    topic,
    group,
    opened: life.opened,
    closed: life.closed,
    get isStopping() {
      return isStopping;
    },
    get isPaused() {
      return isPaused;
    },
    get wanted() {
      if (isEnded || isDrained) return undefined;
      return isPaused || isStopping ? "paused" : "active";
    },
    get isLive() {
      return isLive;
    },
    pause() {
      isPaused = true;
      registry.update(subscription);
      for (const lease of held.leases.values()) giveBack(lease);
    },
    resume() {
      isPaused = false;
      registry.update(subscription);
      runner.pump();
    },
    unsubscribe: stop,
    conclude,
    pump: () => runner.pump(),
    close() {
      const why = new HubError("closed", "the client is closing");
      void stop();
      for (const lease of held.leases.values()) {
        if (lease.stage !== "running") continue;
        lease.closing = why;
        lease.controller?.abort(why);
      }
    },
    abandon() {
      if (isEnded) return;
      settler.flush();
      end(undefined);
    },
    extend: (lease, ms) => held.extend(lease, ms),
    settle(lease, outcome) {
      if (lease.stage !== "running") return Promise.resolve(false);
      return new Promise((resolve) => {
        lease.onSettled = resolve;
        conclude(lease, outcome);
      });
    },
    publish: parts.publish,
    async modAck(ids, ms) {
      const leases = ids.map((id) => {
        const lease = held.leases.get(id);
        if (lease === undefined) throw new HubError("unknown_id", `event ${id} is not held by this subscription`, { id });
        return lease;
      });
      return Math.min(...(await Promise.all(leases.map((lease) => held.extend(lease, ms)))));
    },

    request() {
      const wire: Record<string, unknown> = {
        ...wireOptions(options),
        batch: true,
        batchSize: Math.min(BATCH_SIZE, spec.maxInFlight),
        maxInFlight: spec.maxInFlight,
        ackTimeoutMs: options.ackTimeoutMs,
        member,
      };
      const ids = held.name();
      if (ids.length > 0) wire["held"] = ids;
      return fieldsOf({ op: "SUBSCRIBE", ...name, opts: wire });
    },
    subscribed(answer: Answer) {
      isLive = true;
      held.adopt(answer.held ?? []);
      settler.restart([...held.leases.values()].filter((lease) => lease.stage === "settling"));
      settler.flush();
      life.accepted();
      checkDrained();
    },
    unsubscribed: () => end(undefined),
    down() {
      // An attempt that failed is not the loss that the grace is counted from.
      if (isLive) held.orphan();
      isLive = false;
      leave();
      // There is nothing left to unsubscribe.
      if (isDrained) end(undefined);
      else checkDrained();
    },
    deliver(frame: Exclude<Incoming, Answer>) {
      if (frame.op === "EVENT" && frame.ctx !== undefined) {
        receive(frame.event, frame.ctx);
      } else if (frame.op === "EVENTS") {
        for (const { event, ctx } of frame.events) if (ctx !== undefined) receive(event, ctx);
      }
      runner.pump();
      held.extendHidden();
    },
    handBack() {
      settler.flush();
      // The subscription stays wanted: it is for the next connection.
      if (isLive) link.ask(fieldsOf({ op: "UNSUBSCRIBE", ...name }), () => undefined);
      held.loseAll("the page was frozen");
    },
    hidden: () => held.extendHidden(),
    flush: () => settler.flush(),
    end,
  };
  return subscription;
}
