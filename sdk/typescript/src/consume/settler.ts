import type { Clock } from "../clock.ts";
import type { Link } from "../connection/link.ts";
import type { HubError } from "../errors.ts";
import { fieldsOf, refusalOf } from "../frames.ts";
import type { Platform } from "../platform.ts";
import type { Lease } from "./lease.ts";
import type { Outcome } from "./settlement.ts";

const IDS_PER_FRAME = 200;
const RETRY = 200;
/** 12 hours, the hub's limit. */
const LONGEST_DELAY = 43_200_000;

/** Sends outcomes until the hub has confirmed them. */
export interface Settler {
  /** Those of a turn of the loop go out together. */
  add(lease: Lease): void;
  flush(): void;
  /** When the hub has accepted the subscription anew: forgets what is on its way, and sends these instead. */
  restart(leases: Iterable<Lease>): void;
  /** It is over: nothing is sent again. */
  end(): void;
}

export interface SettlerEvents {
  /** Whether the hub has accepted the subscription on this connection: before that it knows none of the events. */
  isLive(): boolean;
  /** The hub has said what came of the outcome: nothing is left to do. `isUnknown`: the event was not held here any more. */
  confirmed(lease: Lease, isUnknown: boolean): void;
  /** The hub does not take such an outcome, for instance a delay over its limit. */
  refused(error: HubError, ids: readonly string[]): void;
}

/** What goes in one frame: the same op, attempt and delay. */
interface Frame {
  readonly outcome: Outcome;
  readonly attempt: number;
  /** The hub may count another attempt: then none is named. */
  readonly isAdopted: boolean;
  readonly leases: Lease[];
}

/** The hub takes whole milliseconds. Of a number that is none it gets nothing, and takes its own delay. */
function delayOf(ms: number | undefined): number | undefined {
  return ms === undefined || Number.isNaN(ms) ? undefined : Math.min(Math.max(Math.ceil(ms), 0), LONGEST_DELAY);
}

export function createSettler(
  platform: Platform,
  clock: Clock,
  link: Link,
  name: { readonly topic: string; readonly group: string },
  events: SettlerEvents,
): Settler {
  let unsent: Lease[] = [];
  let isFlushing = false;
  const retry = clock.alarm(flush);

  function flush(): void {
    if (unsent.length === 0 || !events.isLive() || !link.canSend(0, true)) return;
    const taken = unsent;
    unsent = [];
    const frames = new Map<string, Frame>();
    for (const lease of taken) {
      const { outcome } = lease;
      if (outcome === undefined) continue;
      const { isAdopted } = lease;
      const { attempt } = lease.ctx;
      // A token that has run out may still ack, but not return.
      if (outcome.op === "RETURN" && !link.canSend(0)) {
        unsent.push(lease);
        continue;
      }
      const what = `${isAdopted} ${keyOf(outcome, attempt, lease.event.id)}`;
      let frame = frames.get(what);
      if (frame !== undefined && frame.leases.length >= IDS_PER_FRAME) {
        send(frame);
        frame = undefined;
      }
      if (frame === undefined) frames.set(what, (frame = { outcome, attempt, isAdopted, leases: [] }));
      frame.leases.push(lease);
    }
    for (const frame of frames.values()) send(frame);
  }

  function send(frame: Frame): void {
    if (!link.canSend(0, true)) {
      unsent.push(...frame.leases);
      return;
    }
    const { leases, attempt } = frame;
    const ids = leases.map((lease) => lease.event.id);
    link.ask(fieldsOf(requestOf(frame.outcome, ids)), (answer) => {
      // The next connection starts with all that is not confirmed.
      if (answer === undefined) return;
      const error = refusalOf(answer);
      if (error !== undefined && /^(unavailable|rate_limited|unauthorized|token_expired)$/.test(error.code)) {
        unsent.push(...leases);
        return retry.set(clock.now() + (error.retryAfterMs ?? RETRY));
      }
      if (error !== undefined && error.code !== "unknown_id") events.refused(error, ids);
      const unknown = error === undefined ? new Set(answer.unknown) : new Set(ids);
      for (const lease of leases) {
        // Delivered once more in between: then the outcome was sent again for that delivery.
        if (lease.ctx.attempt === attempt) events.confirmed(lease, unknown.has(lease.event.id));
      }
    });

    function requestOf(outcome: Outcome, ids: readonly string[]): object {
      const common = { op: outcome.op, ...name, ...(frame.isAdopted ? {} : { attempt }) };
      if (outcome.op === "ACK") return { ...common, ids };
      const delay = { delay_ms: delayOf(outcome.delayMs) };
      if (outcome.op === "NACK") return { ...common, ...delay, id: ids[0], reason: outcome.reason };
      // A hub that cannot take an event back without a failure gets it back as failed.
      return link.has("return") ? { ...common, ...delay, ids } : { ...common, ...delay, op: "NACK", id: ids[0] };
    }
  }

  function keyOf(outcome: Outcome, attempt: number, id: string): string {
    if (outcome.op === "ACK") return `${attempt}`;
    return outcome.op === "RETURN" && link.has("return") ? `${attempt} ${outcome.delayMs}` : `${attempt} ${id}`;
  }

  return {
    add(lease) {
      unsent.push(lease);
      if (isFlushing) return;
      isFlushing = true;
      platform.defer(() => {
        isFlushing = false;
        flush();
      });
    },
    flush,
    restart(leases) {
      unsent = [...leases];
    },
    end: () => clock.remove(retry),
  };
}
