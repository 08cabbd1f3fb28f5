// Payloads as JSON. As `JSON.stringify` writes them, but a `bigint` is written digit by digit, and what JSON cannot say is refused.

import { HubError } from "../errors.ts";

/** The JSON of a value, by the rules of `JSON.stringify`. */
export function jsonOf(payload: unknown): string {
  let text: string | undefined;
  try {
    text = write(payload, "", new Set());
  } catch (error) {
    if (error instanceof HubError) throw error;
    throw refused(`the payload cannot be written as JSON: ${(error as Error).message}`);
  }
  if (text === undefined) throw refused(`the payload is ${typeof payload}, which JSON does not have; write null for nothing`);
  return text;
}

function write(given: unknown, name: string, around: Set<object>): string | undefined {
  const value = hasToJson(given) ? given.toJSON(name) : given;
  switch (typeof value) {
    case "bigint":
      return value.toString();
    case "number":
      if (!Number.isFinite(value)) throw refused(`the payload has the number ${value} at ${shown(name)}, which JSON does not have`);
      return JSON.stringify(value);
    case "object":
      break;
    default:
      // Functions and symbols are nothing to JSON, as undefined is.
      return JSON.stringify(value);
  }
  if (value === null || value instanceof Number || value instanceof String || value instanceof Boolean) return JSON.stringify(value);
  if (around.has(value)) throw refused(`the payload has itself in it, at ${shown(name)}`);
  around.add(value);
  const text = Array.isArray(value)
    ? `[${value.map((part: unknown, at) => write(part, String(at), around) ?? "null").join(",")}]`
    : `{${membersOf(value, around).join(",")}}`;
  around.delete(value);
  return text;
}

function membersOf(value: object, around: Set<object>): string[] {
  return Object.entries(value).flatMap(([name, part]) => {
    const text = write(part, name, around);
    return text === undefined ? [] : [`${JSON.stringify(name)}:${text}`];
  });
}

function hasToJson(value: unknown): value is { toJSON(name: string): unknown } {
  return typeof value === "object" && value !== null && "toJSON" in value && typeof value.toJSON === "function";
}

function shown(name: string): string {
  return name === "" ? "its top" : JSON.stringify(name);
}

function refused(message: string): HubError {
  return new HubError("bad_request", message);
}
