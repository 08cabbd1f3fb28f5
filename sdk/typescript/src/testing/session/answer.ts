// Writing frames.

import type { Durability } from "../../types.ts";
import type { Receipt } from "../engine/log.ts";
import type { Delivery } from "../engine/member.ts";
import type { Refusal } from "../../rules/refusal.ts";
import type { StoredEvent } from "../engine/event.ts";
import type { Name } from "./request.ts";

/** What this hub has and older ones do not. */
const FEATURES = ["ordered", "ping", "return", "member", "coalesce"];

/** Undefined fields are left out. */
type Field = string | number | boolean | readonly unknown[] | undefined;

function frame(op: "OK" | "ERR" | "LAGGED", corr: string | undefined, fields: Record<string, Field>): string {
  return JSON.stringify({ op, corr, ...fields });
}

export function ok(corr: string | undefined, fields: Record<string, Field> = {}): string {
  return frame("OK", corr, fields);
}

export function authenticated(corr: string | undefined, sub: string | undefined, exp: number): string {
  return ok(corr, { sub, exp, features: FEATURES });
}

export function failed(corr: string | undefined, error: Refusal, more: Record<string, Field> = {}): string {
  return frame("ERR", corr, { ...errorFields(error), ...more });
}

/** An ERR that ends a subscription. */
export function ended(name: Name, error: Refusal): string {
  return failed(undefined, error, { topic: name.topic, group: name.group });
}

export function lagged(name: Name, of: string, missed: number): string {
  return frame("LAGGED", undefined, { ...name, of: of === name.topic ? undefined : of, missed });
}

export function errorFields({ code, message, id, retryAfterMs }: Refusal): Record<string, Field> {
  return { code, msg: message, id, retry_after_ms: retryAfterMs };
}

export function receiptFields({ id, seq, ts, duplicate }: Receipt, durable: Durability): Record<string, Field> {
  return { id, seq, ts, durable, duplicate: duplicate ? true : undefined };
}

/** An event with what its consumer has to know; without a lease it is one that is only watched. */
export interface Outgoing {
  event: StoredEvent;
  delivery: Delivery | undefined;
}

export function eventFrame(name: Name, outgoing: Outgoing): string {
  return `${heading("EVENT", name)},${eventMembers(outgoing)}}`;
}

export function eventsFrame(name: Name, all: Outgoing[]): string {
  return `${heading("EVENTS", name)},"events":[${all.map((one) => `{${eventMembers(one)}}`).join(",")}]}`;
}

function heading(op: string, { topic, group }: Name): string {
  return JSON.stringify({ op, topic, group }).slice(0, -1);
}

/** The event is the text of the log, so that no number of its payload changes. */
function eventMembers({ event, delivery }: Outgoing): string {
  if (!delivery) return `"event":${event.json}`;
  const { attempt, maxAttempts, leftMs, epoch } = delivery;
  const ctx = { attempt, maxAttempts, ack_deadline_ms: leftMs, epoch: epoch > 0 ? epoch : undefined };
  return `"event":${event.json},"ctx":${JSON.stringify(ctx)}`;
}
