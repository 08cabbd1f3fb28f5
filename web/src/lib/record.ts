// Records out of an answer, with their payloads left as text.
import { items, members, object } from "./json.ts";
import type { Record_ } from "./types.ts";

export type Shown = Readonly<{ record: Record_; payload: string }>;

/** A JSON object without some of its members, which come as text. */
export function take<T>(text: string, ...names: string[]): { taken: Map<string, string>; rest: T } {
  const parts = members(text);
  const taken = new Map<string, string>();
  for (const name of names) {
    const value = parts.get(name);
    if (value !== undefined) taken.set(name, value);
    parts.delete(name);
  }
  return { taken, rest: JSON.parse(object(parts)) as T };
}

/** A record: everything but the payload is parsed. */
export function record(text: string): Shown | undefined {
  const { taken, rest } = take<Record_>(text, "payload");
  const payload = taken.get("payload");
  return payload === undefined ? undefined : { record: rest, payload };
}

/** The records of a page, and what else it says. */
export function page<T>(text: string): { events: Shown[]; rest: T } {
  const { taken, rest } = take<T>(text, "events");
  return { events: items(taken.get("events") ?? "[]").flatMap((one) => record(one) ?? []), rest };
}
