import { HubError } from "../errors.ts";
import type { DeliveryContext } from "../frames.ts";
import type { EventRecord } from "../types.ts";
import type { Outcome } from "./settlement.ts";

/** An event in the hands of this client. */
export interface Lease {
  readonly event: EventRecord;
  /** Of the last delivery: the same event may come again while its handler still runs. */
  ctx: DeliveryContext;
  /** When it came first, and when the time to settle it is up: by the client's clock. */
  readonly since: number;
  deadline: number;
  stage: "queued" | "running" | "settling";
  /** Came over an earlier connection, and the hub has not said since that it is still held here. */
  isOrphan: boolean;
  /** Held since an earlier connection: the hub may have delivered it once more, over the one that was lost. */
  isAdopted: boolean;
  /** Why it is not held here any more. */
  lost: HubError | undefined;
  /** Set while the client closes: the event is still held, but its handler is asked to stop. */
  closing: HubError | undefined;
  /** Made when somebody asks for the signal. */
  controller: AbortController | undefined;
  /** In the stage `settling`. */
  outcome: Outcome | undefined;
  /** Told whether the hub has confirmed the outcome. */
  onSettled: ((isConfirmed: boolean) => void) | undefined;
  /** How many events its handler has published. */
  published: number;
}

/** It is in nobody's hands here any more; its handler is told. */
export function lose(lease: Lease, error: HubError): void {
  lease.lost ??= error;
  lease.controller?.abort(error);
}

export function leaseLost(why: string): HubError {
  return new HubError("lease_lost", why);
}

export function epochOf(ctx: DeliveryContext): number {
  return ctx.epoch ?? 0;
}
