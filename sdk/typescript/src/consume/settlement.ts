import { Retry, Return } from "./outcome.ts";

/** How a delivery ends. */
export type Outcome =
  | { readonly op: "ACK" }
  | { readonly op: "NACK"; readonly delayMs?: number | undefined; readonly reason?: string | undefined }
  | { readonly op: "RETURN"; readonly delayMs?: number | undefined };

/** The hub keeps 4 KiB of a reason. */
const REASON_CHARS = 1024;

export const ACK: Outcome = { op: "ACK" };

/** What a handler meant that has ended. */
export function outcomeOf(value: unknown, hasThrown: boolean): Outcome {
  const delayMs = value instanceof Retry ? value.delayMs : undefined;
  if (value instanceof Return) return { op: "RETURN", delayMs };
  if (!hasThrown && !(value instanceof Retry)) return ACK;
  const reason = value instanceof Error ? value.message : String(value);
  return { op: "NACK", reason: reason.slice(0, REASON_CHARS), delayMs };
}
