// ACK, NACK, MODACK and RETURN: what becomes of events in hand.

import { REASON_BYTES } from "../../rules/limits.ts";
import { type Member, checkDelay } from "../engine/member.ts";
import { Refusal, bytesOf, refusalOf } from "../../rules/refusal.ts";
import { failed, ok } from "./answer.ts";
import { workOf } from "./rate.ts";
import type { Name, Request } from "./request.ts";
import type { Session } from "./session.ts";

type Act<T> = (member: Member) => T;

/** Does it to the event where it is held. */
export function settleOne<T>(session: Session, of: Name, id: string, act: Act<T>): T {
  for (const subscription of session.candidates(of)) {
    const member = subscription.holderOf(id, of);
    if (!member) continue;
    session.touched(member);
    return act(member);
  }
  const msg = `event ${id} is not held by this subscription: it is settled, or its time ran out`;
  throw new Refusal("unknown_id", msg, { id });
}

/** Does it to each event; answers the ids of those that are not held. */
function settleAll(session: Session, of: Name, ids: string[], act: (member: Member, id: string) => void): string[] {
  session.candidates(of);
  return ids.filter((id) => {
    try {
      settleOne(session, of, id, (member) => act(member, id));
      return false;
    } catch (error) {
      if (refusalOf(error).code !== "unknown_id") throw error;
      return true;
    }
  });
}

export function ackAll(session: Session, corr: string | undefined, of: Name, ids: string[], attempt: number | undefined): void {
  const { now } = session.host;
  const unknown = settleAll(session, of, ids, (member, id) => member.ack(id, attempt, now));
  // What was delivered is settled for nothing; what was not is as much work as a group.
  session.meter.oweAlone(workOf({ groups: unknown.length }), now);
  if (corr !== undefined) session.send(ok(corr, { acked: ids.length - unknown.length, unknown }));
  else if (unknown.length > 0) session.send(failed(corr, someUnknown(unknown.length, ids.length), { unknown }));
}

export function returnAll(session: Session, corr: string | undefined, request: Extract<Request, { op: "RETURN" }>): void {
  const { of, ids, attempt, delayMs } = request;
  const { now } = session.host;
  checkDelay("delay_ms", delayMs);
  const unknown = settleAll(session, of, ids, (member, id) => member.giveBack(id, attempt, delayMs, now));
  session.meter.oweAlone(workOf({ groups: unknown.length }), now);
  session.send(ok(corr, { returned: ids.length - unknown.length, unknown }));
}

/** Puts deadlines off. The answer has the time left; of several the least. */
export function extend(session: Session, corr: string | undefined, request: Extract<Request, { op: "MODACK" }>): void {
  const { of, ids, attempt, extendMs } = request;
  const { now } = session.host;
  const left: number[] = [];
  const act = (member: Member, id: string): void => {
    left.push(member.extend(id, attempt, extendMs, now));
  };
  if (ids.is === "one") {
    settleOne(session, of, ids.id, (member) => act(member, ids.id));
    if (corr !== undefined) session.send(ok(corr, { ack_deadline_ms: left[0] }));
    return;
  }
  const unknown = settleAll(session, of, ids.ids, act);
  const some = unknown.length > 0 ? { unknown } : {};
  if (corr !== undefined && (left.length > 0 || ids.ids.length === 0)) {
    session.send(ok(corr, { ack_deadline_ms: left.length > 0 ? Math.min(...left) : extendMs, ...some }));
  } else if (unknown.length > 0) {
    session.send(failed(corr, someUnknown(unknown.length, ids.ids.length), { unknown }));
  }
}

function someUnknown(unknown: number, all: number): Refusal {
  return new Refusal("unknown_id", `${unknown} of ${all} events are not held by this subscription`);
}

/** The reason of a NACK, as a dead letter keeps it. */
export function cutReason(reason: string): string {
  let cut = reason.slice(0, REASON_BYTES);
  while (bytesOf(cut) > REASON_BYTES) cut = cut.slice(0, -1);
  return cut;
}
