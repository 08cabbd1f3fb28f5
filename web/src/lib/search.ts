// What a text in the search field means.
import { traceOf } from "./relations.ts";

export type Search =
  | Readonly<{ kind: "place"; topic: string; seq: string }>
  | Readonly<{ kind: "id"; id: string }>
  | Readonly<{ kind: "trace"; id: string }>
  | Readonly<{ kind: "correlation"; id: string }>;

const PLACE = /^([A-Za-z0-9_.-]+)[\s/:#]+(\d+)$/;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
/** An id of an event may be written without hyphens, too; a trace id never has any. */
const TRACE_ID = /^(?!0{32}$)[0-9a-f]{32}$/;

/** A topic with a seq, an id, a trace id, a whole `traceparent`, which may stand behind the name of the header; anything else may be a correlation id. */
export function searchOf(text: string): Search | undefined {
  const given = text.trim();
  if (given === "") return undefined;
  const place = PLACE.exec(given);
  if (place?.[1] !== undefined && place[2] !== undefined) return { kind: "place", topic: place[1], seq: place[2] };
  if (UUID.test(given)) return { kind: "id", id: given };
  const trace = TRACE_ID.test(given) ? given : traceOf(given.replace(/^(?:ce-)?traceparent\s*[:=]?\s*/i, ""));
  if (trace !== undefined) return { kind: "trace", id: trace };
  return { kind: "correlation", id: given };
}

/** Times that a search by headers goes back, by the word in the address; undefined is everything. */
export const SINCE: readonly (readonly [word: string, title: string, millis: number | undefined])[] = [
  ["1h", "the last hour", 3_600_000],
  ["1d", "the last day", 86_400_000],
  ["7d", "the last 7 days", 7 * 86_400_000],
  ["all", "everything that is stored", undefined],
];

/** What is searched if nobody says anything else. */
export const DEFAULT_SINCE = "1d";
