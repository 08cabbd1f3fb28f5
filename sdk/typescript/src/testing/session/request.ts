// Reading frames: what a client may ask for.

import type { NewEvent } from "../../rules/new-event.ts";
import { IDS } from "../../rules/limits.ts";
import { Refusal, badRequest, bytesOf, refusalOf, shown } from "../../rules/refusal.ts";
import { type Fields, fieldsOf, flag, id, isObject, millis, optional, required, several, text, whole, wrong } from "./fields.ts";
import { eventOf, eventOfFields } from "./new-event.ts";
import { type SubscribeOptions, subscribeOptions } from "./subscribe-options.ts";

/** A subscription, as a request names it. */
export interface Name {
  topic: string;
  group: string | undefined;
}

/** One id or several. */
export type Ids = { is: "one"; id: string } | { is: "several"; ids: string[] };

export type Request =
  | { op: "AUTH"; token: string | undefined }
  | { op: "PUBLISH"; event: NewEvent }
  | { op: "PUBLISH_ALL"; events: (NewEvent | Refusal)[]; isOrdered: boolean }
  | { op: "SUBSCRIBE"; name: Name; options: SubscribeOptions }
  | { op: "UNSUBSCRIBE" | "PAUSE" | "RESUME"; name: Name }
  | { op: "ACK"; of: Name; ids: Ids; attempt: number | undefined }
  | { op: "NACK"; of: Name; id: string; attempt: number | undefined; reason: string; delayMs: number | undefined }
  | { op: "MODACK"; of: Name; ids: Ids; attempt: number | undefined; extendMs: number }
  | { op: "RETURN"; of: Name; ids: string[]; attempt: number | undefined; delayMs: number }
  | { op: "PING" };

/** A frame that was read: its `corr` and whether it is a publish are known even if the rest cannot be understood. */
export interface ReadFrame {
  corr: string | undefined;
  isPublish: boolean;
  request: Request | Refusal;
}

const OPS = "AUTH, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, ACK, NACK, MODACK, RETURN, PAUSE, RESUME, PING";
const CORR_BYTES = 1024;
/** What hubs say to each other beside the options. */
const OF_HUBS = ["held", "settled", "members", "member", "paused", "for_subject", "own_groups", "client_member", "resumed"];
const FRAME_FIELDS = new Set([
  ...["op", "corr", "topic", "group", "payload", "opts", "events", "ordered", "token", "id", "ids", "attempt", "reason"],
  ...["delay_ms", "extend_ms", "blame", "label", "upto"],
  ...OF_HUBS,
]);

export function readFrame(frame: string, batchEvents: number): ReadFrame {
  let fields: Fields;
  try {
    fields = frameFields(frame);
  } catch (error) {
    return { corr: undefined, isPublish: false, request: refusalOf(error) };
  }
  const isPublish = fields.get("op") === '"PUBLISH"';
  const raw = fields.get("corr");
  if (raw !== undefined && (!raw.startsWith('"') || bytesOf(raw) > CORR_BYTES)) {
    return { corr: undefined, isPublish, request: wrong("corr", raw, "a string of at most 1 KiB") };
  }
  const corr = raw === undefined ? undefined : (JSON.parse(raw) as string);
  try {
    return { corr, isPublish, request: requestOf(fields, batchEvents) };
  } catch (error) {
    return { corr, isPublish, request: refusalOf(error) };
  }
}

function frameFields(frame: string): Fields {
  try {
    JSON.parse(frame);
  } catch (error) {
    throw new Refusal("bad_json", `the frame is not JSON: ${(error as Error).message}`);
  }
  if (!isObject(frame.trim())) throw badRequest("a frame is one JSON object with an op");
  return fieldsOf(frame, FRAME_FIELDS, "the frame");
}

function requestOf(fields: Fields, batchEvents: number): Request {
  const op = text("op", required(fields, "op"));
  switch (op) {
    case "PUBLISH":
      return publishOf(fields, batchEvents);
    case "ACK":
      return { op, of: nameWithGroup(fields), ids: idsOf(fields), attempt: attemptOf(fields) };
    case "NACK":
      return {
        op,
        of: nameWithGroup(fields),
        id: id("id", required(fields, "id")),
        attempt: attemptOf(fields),
        reason: optional(fields, "reason", text) ?? "",
        delayMs: optional(fields, "delay_ms", millis),
      };
    case "MODACK":
      return {
        op,
        of: nameWithGroup(fields),
        ids: idsOf(fields),
        attempt: attemptOf(fields),
        extendMs: millis("extend_ms", required(fields, "extend_ms")),
      };
    case "RETURN": {
      const [of, ids] = [nameWithGroup(fields), idsOf(fields)];
      const delayMs = optional(fields, "delay_ms", millis) ?? 0;
      return { op, of, ids: ids.is === "one" ? [ids.id] : ids.ids, attempt: attemptOf(fields), delayMs };
    }
    case "PING":
      return { op };
    case "SUBSCRIBE": {
      const opts = fields.get("opts");
      const options = subscribeOptions(opts ?? "{}");
      refuseOfHubs(fields);
      return { op, name: nameOf(fields), options };
    }
    case "UNSUBSCRIBE":
    case "PAUSE":
    case "RESUME":
      return { op, name: nameOf(fields) };
    case "AUTH":
      return { op, token: optional(fields, "token", text) };
    default:
      throw new Refusal("unknown_op", `op ${shown(op)} is unknown; there are ${OPS}`);
  }
}

function publishOf(fields: Fields, batchEvents: number): Request {
  const events = fields.get("events");
  if (events === undefined) return { op: "PUBLISH", event: eventOfFields(fields) };
  const isOrdered = optional(fields, "ordered", flag) ?? false;
  const read = several("events", events, "events", batchEvents).map((raw) => {
    try {
      return eventOf(raw);
    } catch (error) {
      return refusalOf(error);
    }
  });
  return { op: "PUBLISH_ALL", events: read, isOrdered };
}

function nameOf(fields: Fields): Name {
  return { topic: text("topic", required(fields, "topic")), group: optional(fields, "group", text) };
}

/** The subscription that an ACK is about: there is nothing to ack without a group. */
function nameWithGroup(fields: Fields): Name {
  required(fields, "group");
  return nameOf(fields);
}

function idsOf(fields: Fields): Ids {
  const [one, list] = [fields.get("id"), fields.get("ids")];
  if (one !== undefined && list !== undefined) throw badRequest("id and ids are both there; use one of them");
  if (one !== undefined) return { is: "one", id: id("id", one) };
  if (list === undefined) throw badRequest("id is missing; name one id, or several as ids");
  return { is: "several", ids: several("ids", list, "ids", IDS).map((raw) => id("ids", raw)) };
}

function attemptOf(fields: Fields): number | undefined {
  return optional(fields, "attempt", (name, raw) => whole(name, raw, "a whole number"));
}

function refuseOfHubs(fields: Fields): void {
  const name = OF_HUBS.find((name) => fields.has(name));
  if (name === undefined) return;
  if (name === "held" || name === "member") {
    throw badRequest(`${name} is beside opts; it is one of the options, write it in opts`);
  }
  throw badRequest(`${name} is for hubs only; leave it out`);
}
