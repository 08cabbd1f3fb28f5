// Reading an event that is to be published: `{topic, payload, opts?}`.

import { type EventOptions, type NewEvent, checkDepth } from "../../rules/new-event.ts";
import { parseId } from "../../rules/ids.ts";
import { checkTopic, derivation } from "../../rules/names.ts";
import { type Refusal, badRequest, shown } from "../../rules/refusal.ts";
import { elementsOf, membersOf } from "../../rules/raw-json.ts";
import { type Fields, fieldsOf, isObject } from "./fields.ts";

const EVENT_FIELDS = new Set(["topic", "payload", "opts"]);
const OPTION_FIELDS = new Set(["id", "ts", "key", "sid", "headers", "caused_by", "tags"]);

/** An event of a batch. */
export function eventOf(raw: string): NewEvent {
  if (!isObject(raw)) throw badRequest("publish: it must be an object {topic, payload, opts?}");
  return eventOfFields(fieldsOf(raw, EVENT_FIELDS, "publish"));
}

/** An event whose fields are those of a frame. */
export function eventOfFields(fields: Fields): NewEvent {
  const [topic, payload] = ["topic", "payload"].map((name) => {
    const raw = fields.get(name);
    if (raw === undefined) throw badRequest(`publish: ${name} is missing`);
    return raw;
  }) as [string, string];
  const name = stringOf("topic", topic, "a string");
  const opts = fields.get("opts");
  if (opts !== undefined && !isObject(opts)) throw wrong("opts", opts, "an object");
  const options = opts === undefined ? {} : optionsOf(fieldsOf(opts, OPTION_FIELDS, "publish: opts"));
  checkDepth(payload);
  // That nobody may publish to a derived topic is said later, with the source's name.
  if (!derivation(name)) checkTopic(name);
  return { topic: name, payload, options };
}

function optionsOf(fields: Fields): EventOptions {
  const options: EventOptions = {};
  for (const [name, raw] of fields) {
    switch (name) {
      case "id":
        options.id = idOf(name, raw, "a UUID");
        break;
      case "ts":
        if (!/^\d+$/.test(raw)) throw wrong(name, raw, "milliseconds since 1970, a whole number");
        options.ts = Number(raw);
        break;
      case "key":
        options.key = stringOf(name, raw, "a string");
        break;
      case "sid":
        options.sid = stringOf(name, raw, "a string");
        break;
      case "tags":
        options.tags = listOf(name, raw, "an array of strings", stringOf);
        break;
      case "caused_by":
        options.causedBy = listOf(name, raw, "an array of UUIDs", idOf);
        break;
      case "headers":
        options.headers = headersOf(raw);
        break;
    }
  }
  return options;
}

function headersOf(raw: string): [name: string, value: string][] {
  if (!isObject(raw)) throw wrong("headers", raw, "an object of strings");
  return membersOf(raw).map(([name, value]) => [name, stringOf(name, value, "a string, as header values are")]);
}

function stringOf(name: string, raw: string, expected: string): string {
  if (!raw.startsWith('"')) throw wrong(name, raw, expected);
  return JSON.parse(raw) as string;
}

function idOf(name: string, raw: string, expected: string): string {
  const parsed = parseId(stringOf(name, raw, expected));
  if (parsed === undefined) throw wrong(name, raw, expected);
  return parsed;
}

type Read = (name: string, raw: string, expected: string) => string;

/** What is wrong with one part is shown with the whole list. */
function listOf(name: string, raw: string, expected: string, read: Read): string[] {
  if (!raw.startsWith("[")) throw wrong(name, raw, expected);
  return elementsOf(raw).map((part) => {
    try {
      return read(name, part, expected);
    } catch {
      throw wrong(name, raw, expected);
    }
  });
}

function wrong(name: string, raw: string, expected: string): Refusal {
  return badRequest(`publish: ${shown(name)} is ${shown(raw)}; it must be ${expected}`);
}
