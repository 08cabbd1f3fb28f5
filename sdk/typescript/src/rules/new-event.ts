// An event as a publisher hands it in, and the limits that it has to keep.

import { depthOf } from "./raw-json.ts";
import { CAUSED_BY, HEADERS, HEADERS_BYTES, KEY_BYTES, MAX_TS, NESTING, SID_BYTES, TAGS, TAG_BYTES } from "./limits.ts";
import { checkTopic, derivation, rootOf } from "./names.ts";
import { Refusal, badRequest, bytesOf, shown } from "./refusal.ts";

/** What a publisher says of an event, next to where it goes and what it carries. */
export interface EventOptions {
  id?: string;
  ts?: number;
  key?: string;
  sid?: string;
  headers?: [name: string, value: string][];
  causedBy?: string[];
  tags?: string[];
}

/** An event on its way in. */
export interface NewEvent {
  topic: string;
  /** JSON, as the publisher wrote it. */
  payload: string;
  options: EventOptions;
}

/** Refuses what nobody may publish. */
export function checkNewEvent({ topic, payload, options }: NewEvent, maxPayload: number): void {
  const bytes = bytesOf(payload);
  if (bytes > maxPayload) {
    throw new Refusal("too_large", `payload has ${bytes} bytes; at most ${maxPayload} are allowed`);
  }
  if (derivation(topic)) {
    const msg = `topic ${shown(topic)} is written by the hub alone: it is derived from ${shown(rootOf(topic))}; publish there`;
    throw new Refusal("forbidden", msg);
  }
  checkTopic(topic);
  const { key, ts, sid, headers = [], causedBy = [], tags = [] } = options;
  if (key !== undefined) {
    checkBytes("key", key, KEY_BYTES);
    if (key.includes("\0")) {
      throw badRequest(`key ${shown(key)} has a NUL character; those are reserved for the hub`);
    }
  }
  if (ts !== undefined && ts > MAX_TS) throw badRequest(`ts is ${ts}; at most ${MAX_TS} (the year 9999) is allowed`);
  if (sid !== undefined) checkBytes("sid", sid, SID_BYTES);
  checkHeaders(headers);
  checkCount("caused_by", causedBy.length, CAUSED_BY);
  checkCount("tags", tags.length, TAGS);
  for (const tag of tags) checkBytes("tag", tag, TAG_BYTES);
}

/** Refuses a payload that is nested too deep. */
export function checkDepth(payload: string): void {
  const depth = depthOf(payload);
  if (depth > NESTING) throw badRequest(`payload is nested ${depth} deep; at most ${NESTING} is allowed`);
}

function checkHeaders(headers: [name: string, value: string][]): void {
  checkCount("headers", headers.length, HEADERS);
  const bytes = headers.reduce((sum, [name, value]) => sum + bytesOf(name) + bytesOf(value), 0);
  if (bytes > HEADERS_BYTES) {
    throw badRequest(`headers have ${bytes} bytes in names and values; at most ${HEADERS_BYTES} are allowed`);
  }
  const seen = new Set<string>();
  for (const [name] of headers) {
    if (name === "") throw badRequest(`header "" is empty; a header needs a name`);
    if (name.toLowerCase().startsWith("x-hub-")) {
      throw badRequest(`header ${shown(name)} is reserved: names with x-hub- are the hub's own`);
    }
    if (seen.has(name)) throw badRequest(`header ${shown(name)} is there twice; a name may be used once`);
    seen.add(name);
  }
}

function checkBytes(what: string, value: string, max: number): void {
  const bytes = bytesOf(value);
  if (bytes > max) throw badRequest(`${what} ${shown(value)} has ${bytes} bytes; at most ${max} are allowed`);
}

function checkCount(what: string, count: number, max: number): void {
  if (count > max) throw badRequest(`${what} has ${count} entries; at most ${max} are allowed`);
}
