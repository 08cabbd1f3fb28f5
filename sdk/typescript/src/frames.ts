import { HubError } from "./errors.ts";
import type { Durability, EventRecord } from "./types.ts";

/** What the hub says of a delivery. */
export interface DeliveryContext {
  readonly attempt: number;
  readonly maxAttempts: number;
  /** The time left, in milliseconds. */
  readonly ack_deadline_ms: number;
  readonly epoch?: number;
}

/** One result of a publish. */
export interface PublishResult extends Partial<Refusal> {
  readonly id?: string;
  readonly seq?: number;
  readonly ts?: number;
  readonly durable?: Durability;
  readonly duplicate?: true;
}

export interface Refusal {
  readonly code: string;
  readonly msg: string;
  readonly id?: string;
  readonly retry_after_ms?: number;
}

/** An OK, or an ERR: the one with a `code`. All that an answer can carry, because the request says what it does. */
export interface Answer extends PublishResult {
  readonly op: "OK" | "ERR";
  readonly corr?: string;
  readonly topic?: string;
  readonly group?: string;
  readonly sub?: string;
  readonly exp?: number;
  readonly features?: readonly string[];
  readonly results?: readonly PublishResult[];
  readonly held?: readonly string[];
  readonly unknown?: readonly string[];
  readonly ack_deadline_ms?: number;
}

interface One {
  readonly event: EventRecord;
  readonly ctx?: DeliveryContext;
}

/** A frame of the hub. Ops that this client does not know are ignored. */
export type Incoming =
  | Answer
  | ({ readonly op: "EVENT"; readonly topic: string; readonly group?: string } & One)
  | { readonly op: "EVENTS"; readonly topic: string; readonly group?: string; readonly events: readonly One[] }
  | { readonly op: "LAGGED"; readonly topic: string; readonly group?: undefined; readonly missed: number; readonly of?: string };

/** The error that an ERR stands for. */
export function refusalOf(answer: Partial<Refusal>): HubError | undefined {
  const { code, msg, id, retry_after_ms: retryAfterMs } = answer;
  if (code === undefined) return undefined;
  return new HubError(code, msg ?? "", { id, retryAfterMs });
}

/** The fields of a frame without its braces, so that others can be put before them. */
export function fieldsOf(frame: object): string {
  return JSON.stringify(frame).slice(1, -1);
}
