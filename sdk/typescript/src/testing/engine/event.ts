// An event as the log keeps it.

import type { NewEvent } from "../../rules/new-event.ts";

/** An event of a log. */
export interface StoredEvent {
  id: string;
  seq: number;
  ts: number;
  topic: string;
  key: string | undefined;
  headers: ReadonlyMap<string, string>;
  tags: readonly string[];
  payload: string;
  /** When it was stored, by the hub's clock: never less than that of the event before it. */
  committed: number;
  /** The event as frames have it. */
  json: string;
}

/** Gives an event its place in a log. */
export function storedEvent(
  { topic, payload, options }: NewEvent,
  { id, seq, ts, committed }: { id: string; seq: number; ts: number; committed: number },
): StoredEvent {
  const { key, sid, headers = [], causedBy = [], tags = [] } = options;
  const fields: [name: string, json: string][] = [
    ["id", JSON.stringify(id)],
    ["seq", String(seq)],
    ["ts", String(ts)],
    ["topic", JSON.stringify(topic)],
  ];
  if (key !== undefined) fields.push(["key", JSON.stringify(key)]);
  if (sid !== undefined) fields.push(["sid", JSON.stringify(sid)]);
  if (headers.length > 0) {
    const members = headers.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
    fields.push(["headers", `{${members.join(",")}}`]);
  }
  fields.push(["payload", payload]);
  if (causedBy.length > 0) fields.push(["caused_by", JSON.stringify(causedBy)]);
  if (tags.length > 0) fields.push(["tags", JSON.stringify(tags)]);
  const json = `{${fields.map(([name, value]) => `"${name}":${value}`).join(",")}}`;
  return { id, seq, ts, topic, key, headers: new Map(headers), tags, payload, committed, json };
}
