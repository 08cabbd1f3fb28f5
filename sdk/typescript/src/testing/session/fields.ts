// Reading the fields of a frame. Every field stays text until its operation is known, so a field that does not fit is named, and fields that an
// operation does not have are passed over, whatever is in them.

import { parseId } from "../../rules/ids.ts";
import { Refusal, badRequest, shown } from "../../rules/refusal.ts";
import { elementsOf, membersOf } from "../../rules/raw-json.ts";

/** Fields by name, as they are written. In what a client sends, null counts as absent. */
export type Fields = ReadonlyMap<string, string>;

/** The fields of an object; `known` names must not be there twice. */
export function fieldsOf(object: string, known: ReadonlySet<string>, what: string): Fields {
  const fields = new Map<string, string>();
  for (const [name, value] of membersOf(object)) {
    if (!known.has(name)) continue;
    if (fields.has(name)) throw badRequest(`${what}: duplicate field \`${name}\``);
    fields.set(name, value);
  }
  for (const [name, value] of [...fields]) {
    // A payload may be null.
    if (value === "null" && name !== "payload") fields.delete(name);
  }
  return fields;
}

export function wrong(name: string, raw: string, expected: string): Refusal {
  // What stands where a token should be may be one.
  if (name === "token") return badRequest(`token is not ${expected}`);
  return badRequest(`${name} is ${shown(raw)}; it must be ${expected}`);
}

export function required(fields: Fields, name: string): string {
  const raw = fields.get(name);
  if (raw === undefined) throw badRequest(`${name} is missing`);
  return raw;
}

/** Reads a field if it is there. */
export function optional<T>(fields: Fields, name: string, read: (name: string, raw: string) => T): T | undefined {
  const raw = fields.get(name);
  return raw === undefined ? undefined : read(name, raw);
}

export function isObject(raw: string): boolean {
  return raw.startsWith("{");
}

export function text(name: string, raw: string, expected = "a string"): string {
  if (!raw.startsWith('"')) throw wrong(name, raw, expected);
  return JSON.parse(raw) as string;
}

export function flag(name: string, raw: string): boolean {
  if (raw !== "true" && raw !== "false") throw wrong(name, raw, "true or false");
  return raw === "true";
}

export function id(name: string, raw: string): string {
  const parsed = raw.startsWith('"') ? parseId(JSON.parse(raw) as string) : undefined;
  if (parsed === undefined) throw wrong(name, raw, "a UUID");
  return parsed;
}

const U64 = 2n ** 64n;

export function whole(name: string, raw: string, expected: string): number {
  if (!/^\d+$/.test(raw) || BigInt(raw) >= U64) throw wrong(name, raw, expected);
  return Number(raw);
}

export function millis(name: string, raw: string): number {
  return whole(name, raw, "milliseconds, a whole number");
}

/** The parts of an array, at most `max` of them. */
export function several(name: string, raw: string, what: string, max: number): string[] {
  if (!raw.startsWith("[")) throw wrong(name, raw, `an array of ${what}`);
  const parts = elementsOf(raw);
  if (parts.length > max) {
    throw new Refusal("too_large", `${name} has more than ${max} ${what}; send several frames`);
  }
  return parts;
}
