/** How a delivery ends. */
export type Outcome =
  | { readonly op: "ACK" }
  | { readonly op: "NACK"; readonly delayMs?: number; readonly reason?: string }
  | { readonly op: "RETURN"; readonly delayMs?: number };

/** The hub keeps 4 KiB of a reason. */
const REASON_CHARS = 1024;

export const ACK: Outcome = { op: "ACK" };

/** A handler throws or returns it: the event has failed, and comes again after `delayMs`. */
export class Retry extends Error {
  readonly delayMs: number | undefined;

  constructor(options: { delayMs?: number; reason?: string } = {}) {
    super(options.reason ?? "retry");
    this.delayMs = options.delayMs;
  }
}

/** A handler throws or returns it: the event comes again after `delayMs`, and has not failed. A dependency is down, for instance. */
export class Return extends Error {
  readonly delayMs: number | undefined;

  constructor(options: { delayMs?: number } = {}) {
    super("return");
    this.delayMs = options.delayMs;
  }
}

/** What a handler meant that has ended. */
export function outcomeOf(value: unknown, hasThrown: boolean): Outcome {
  if (value instanceof Return) return { op: "RETURN", ...delayOf(value.delayMs) };
  if (!hasThrown && !(value instanceof Retry)) return ACK;
  const reason = value instanceof Error ? value.message : String(value);
  return { op: "NACK", reason: reason.slice(0, REASON_CHARS), ...(value instanceof Retry && delayOf(value.delayMs)) };
}

export function delayOf(delayMs: number | undefined): { delayMs?: number } {
  return delayMs === undefined ? {} : { delayMs };
}
