import { Retry, Return } from "./outcome.ts";

/** How a delivery ends. */
export type Outcome =
  | { readonly op: "ACK" }
  | { readonly op: "NACK"; readonly delayMs?: number | undefined; readonly reason?: string | undefined }
  | { readonly op: "RETURN"; readonly delayMs?: number | undefined };

/** The hub keeps 4 KiB of a reason, and takes no halves of characters. */
const REASON_CHARS = 1024;

export const ACK: Outcome = { op: "ACK" };

/** What a handler meant that has ended. */
export function outcomeOf(value: unknown, hasThrown: boolean): Outcome {
  const delayMs = value instanceof Retry ? value.delayMs : undefined;
  if (value instanceof Return) return { op: "RETURN", delayMs };
  if (!hasThrown && !(value instanceof Retry)) return ACK;
  return { op: "NACK", reason: reasonOf(value).slice(0, REASON_CHARS).replace(/\p{Surrogate}/gu, "\ufffd"), delayMs };
}

/** Programs throw all kinds of things. */
function reasonOf(value: unknown): string {
  try {
    return String(value instanceof Error ? value.message : value);
  } catch {
    return "something was thrown that has no text";
  }
}
