// A row of an outbox: what is to be published, checked before it is written.

import { HubError } from "../errors.ts";
import { PAYLOAD_BYTES } from "../rules/limits.ts";
import { IdGenerator, parseId } from "../rules/ids.ts";
import { checkDepth, checkNewEvent } from "../rules/new-event.ts";
import { Refusal } from "../rules/refusal.ts";
import { jsonOf } from "./json.ts";

/** What is to be published once the caller's transaction is committed. */
export interface OutboxRow {
  topic: string;
  /** Anything that JSON has. A `bigint` stays exact. */
  payload: unknown;
  /** The entity that it is about: rows of one key are published in their order. */
  key?: string;
  headers?: Readonly<Record<string, string>>;
  /** The event's id, a UUID. Left out, a new one is made: later ones of this process are greater. */
  id?: string;
  /** The row's number among those of its key, an integer: for example the version of the entity. Without it rows go by time. */
  ord?: number | bigint;
}

/** A row as it is written. */
export interface CheckedRow {
  id: string;
  topic: string;
  /** JSON. */
  payload: string;
  key: string | undefined;
  headers: [name: string, value: string][];
  ord: bigint | undefined;
}

/** What {@link OutboxRow}s are checked against. */
export interface RowLimits {
  /** Bytes of a payload that the hub takes: its `limits.max_payload`, 1 MiB unless given. */
  maxPayload?: number;
}

const ids = new IdGenerator();
const SMALLEST_ORD = -(2n ** 63n);
const GREATEST_ORD = 2n ** 63n - 1n;

/** Refuses a row that no hub would publish: a drainer would park it, and nobody would hear of that. */
export function checkedRow(row: OutboxRow, { maxPayload = PAYLOAD_BYTES }: RowLimits): CheckedRow {
  const { topic, key, headers = {}, id } = row;
  refuseOtherTypes(row);
  const parsed = id === undefined ? ids.next(Date.now()) : parseId(id);
  if (parsed === undefined) throw wrong(`id is ${JSON.stringify(id)}; it must be a UUID, or left out`);
  const payload = jsonOf(row.payload);
  const pairs = Object.entries(headers);
  try {
    checkDepth(payload);
    checkNewEvent({ topic, payload, options: { headers: pairs, ...(key === undefined ? {} : { key }) } }, maxPayload);
  } catch (error) {
    if (error instanceof Refusal) throw new HubError(error.code, error.message);
    throw error;
  }
  return { id: parsed, topic, payload, key, headers: pairs, ord: ordOf(row.ord) };
}

/** Callers may write JavaScript. */
function refuseOtherTypes({ topic, key, headers, id }: Partial<Record<keyof OutboxRow, unknown>>): void {
  if (typeof topic !== "string") throw wrong(`topic is ${typeof topic}; it must be a string`);
  if (key !== undefined && typeof key !== "string") throw wrong(`key is ${typeof key}; it must be a string, or left out`);
  if (id !== undefined && typeof id !== "string") throw wrong(`id is ${typeof id}; it must be a UUID as a string, or left out`);
  if (headers === undefined) return;
  if (typeof headers !== "object" || headers === null) throw wrong("headers are no object of strings");
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value !== "string") throw wrong(`header ${JSON.stringify(name)} is ${typeof value}; it must be a string`);
    if (name.includes("\0")) throw wrong(`header ${JSON.stringify(name)} has a NUL character in its name, which documents cannot have`);
  }
}

function ordOf(ord: number | bigint | undefined): bigint | undefined {
  if (ord === undefined) return undefined;
  const isWhole = typeof ord === "bigint" || Number.isSafeInteger(ord);
  const value = isWhole ? BigInt(ord) : undefined;
  if (value !== undefined && value >= SMALLEST_ORD && value <= GREATEST_ORD) return value;
  throw wrong(`ord is ${String(ord)}; it must be an integer that a number carries exactly, or a bigint of 64 bits`);
}

export function wrong(message: string): HubError {
  return new HubError("bad_request", message);
}
