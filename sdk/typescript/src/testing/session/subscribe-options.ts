// Reading the options of a SUBSCRIBE. Every one may be null.

import { HEADERS_BYTES, IDS, LISTED_TOPICS } from "../../rules/limits.ts";
import type { Position } from "../engine/log.ts";
import type { Filter, GroupRequest } from "../engine/options.ts";
import { badRequest, bytesOf, shown } from "../../rules/refusal.ts";
import { elementsOf, membersOf } from "../../rules/raw-json.ts";
import { type Fields, fieldsOf, flag, id, isObject, millis, optional, several, text, whole, wrong } from "./fields.ts";

export interface SubscribeOptions {
  topics: string[] | undefined;
  from: Position;
  group: GroupRequest;
  /** An option that only a group has. */
  forGroup: string | undefined;
  batch: boolean;
  batchSize: number | undefined;
  maxInFlight: number | undefined;
  ackTimeout: number | undefined;
  /** The member, as its client calls it: it can come back after a lost connection. */
  member: string | undefined;
  /** What the client still works on. */
  held: string[] | undefined;
}

const OPTION_FIELDS = new Set([
  ...["from", "ts", "afterId", "afterSeq", "topics", "filter", "ordering", "coalesce", "maxAttempts", "batch"],
  ...["batchSize", "maxInFlight", "ackTimeoutMs", "member", "held"],
]);
const FOR_GROUP = ["ordering", "maxAttempts", "member", "held"];
const FROM_1 = "a whole number from 1 on";
const FROM =
  '"latest", "earliest", "ts" (with ts), "afterId" (with afterId) or "afterSeq" (with afterSeq)';

export function subscribeOptions(raw: string): SubscribeOptions {
  if (!isObject(raw)) throw wrong("opts", raw, "an object in which no name is there twice");
  const fields = fieldsOf(raw, OPTION_FIELDS, "opts");
  const held = optional(fields, "held", (name, list) => several(name, list, name, IDS).map((one) => id(name, one)));
  if (held && !fields.has("member")) {
    throw badRequest("held is there without member; name the member that holds these events");
  }
  const topics = optional(fields, "topics", (name, list) =>
    several(name, list, name, LISTED_TOPICS).map((one) => text(name, one)),
  );
  const from1 = (name: string, value: string): number => whole(name, value, FROM_1);
  return {
    topics,
    from: positionOf(fields),
    group: groupOf(fields),
    forGroup: FOR_GROUP.find((name) => fields.has(name)),
    batch: optional(fields, "batch", flag) ?? false,
    batchSize: optional(fields, "batchSize", from1),
    maxInFlight: optional(fields, "maxInFlight", from1),
    ackTimeout: optional(fields, "ackTimeoutMs", millis),
    member: optional(fields, "member", id),
    held,
  };
}

function groupOf(fields: Fields): GroupRequest {
  const filter = optional(fields, "filter", filterOf);
  const ordering = optional(fields, "ordering", orderingOf);
  const coalesce = optional(fields, "coalesce", flag);
  const maxAttempts = optional(fields, "maxAttempts", (name, raw) => whole(name, raw, FROM_1));
  return {
    ...(filter === undefined ? {} : { filter }),
    ...(ordering === undefined ? {} : { ordering }),
    ...(coalesce === undefined ? {} : { coalesce }),
    ...(maxAttempts === undefined ? {} : { maxAttempts }),
  };
}

function orderingOf(name: string, raw: string): "none" | "key" {
  if (raw === '"none"') return "none";
  if (raw === '"key"') return "key";
  throw wrong(name, raw, '"none" or "key"');
}

function positionOf(fields: Fields): Position {
  const from = optional(fields, "from", (name, raw) => text(name, raw, FROM)) ?? "latest";
  const needed = (name: string): string => {
    const raw = fields.get(name);
    if (raw === undefined) throw badRequest(`from is "${name}", but ${name} is missing`);
    return raw;
  };
  switch (from) {
    case "latest":
    case "earliest":
      return { from };
    case "ts":
      return { from, ts: whole("ts", needed("ts"), "milliseconds since 1970, a whole number") };
    case "afterId":
      return { from, id: id("afterId", needed("afterId")) };
    case "afterSeq":
      return { from, seq: whole("afterSeq", needed("afterSeq"), "a whole number") };
    default:
      throw wrong("from", JSON.stringify(from), FROM);
  }
}

const FILTER_FIELDS = ["tags", "key", "headers"];
const FILTER = "{tags?: [string], key?: string, headers?: {string: string}}, each name there once";

/** What is misspelt would let everything pass, so unknown names are refused. */
function filterOf(name: string, raw: string): Filter {
  if (bytesOf(raw) > 4 * HEADERS_BYTES) throw badRequest("filter is too long; it has the limits of what it filters");
  if (!isObject(raw)) throw wrong(name, raw, "an object {tags?, key?, headers?}");
  const members = membersOf(raw);
  const unknown = members.find(([field]) => !FILTER_FIELDS.includes(field));
  if (unknown) throw badRequest(`filter has no ${shown(unknown[0])}; it has tags, key, headers`);
  if (new Set(members.map(([field]) => field)).size < members.length) throw wrong(name, raw, FILTER);
  const filter: Filter = {};
  const isString = (value: string): boolean => value.startsWith('"');
  for (const [field, value] of members.filter(([, value]) => value !== "null")) {
    if (field === "key" && isString(value)) filter.key = JSON.parse(value) as string;
    else if (field === "tags" && value.startsWith("[") && elementsOf(value).every(isString)) {
      filter.tags = JSON.parse(value) as string[];
    } else if (field === "headers" && isObject(value) && membersOf(value).every(([, header]) => isString(header))) {
      filter.headers = JSON.parse(value) as Record<string, string>;
    } else throw wrong(name, raw, FILTER);
  }
  return filter;
}
