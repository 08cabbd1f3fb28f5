// The newest value of each key, now and as of a time, and what lies between the two.
import { getText } from "./api.ts";
import { cutAt, size } from "./format.ts";
import { members } from "./json.ts";
import { page } from "./record.ts";
import { SortedList } from "./sorted.ts";
import type { Record_, StateRow } from "./types.ts";

/** Records of one request, and requests for one list at most: 20,000 keys. */
const PAGE = 1_000;
const MOST_PAGES = 20;
/** Keys of the newest values that are kept. */
export const MOST_KEYS = PAGE * MOST_PAGES;
const PREVIEW_BYTES = 2_048;

/** `full` is the whole payload, where that was read. */
export type Value = StateRow & Readonly<{ full?: string }>;

export function valueOf(record: Record_, payload: string): Value {
  const bytes = size(payload);
  return {
    key: record.key ?? "",
    seq: record.seq,
    ts: record.ts,
    id: record.id,
    bytes,
    payload: cutAt(payload, PREVIEW_BYTES),
    cut: bytes > PREVIEW_BYTES,
    deleted: payload === "null",
    full: payload,
  };
}

/** There are up to 20,000 keys. */
function withoutFull({ full: _, ...value }: Value): Value {
  return value;
}

/** All keys as they are now, page by page. False if there are more than are read. */
export async function readNow(topic: string, signal: AbortSignal, take: (values: Value[]) => void): Promise<boolean> {
  let after: string | undefined;
  for (let n = 0; n < MOST_PAGES; n += 1) {
    const { events, rest } = page<{ next?: string }>(await getText("/latest-by-key", { topic, after, limit: PAGE }, signal));
    take(events.map(({ record, payload }) => withoutFull(valueOf(record, payload))));
    after = rest.next;
    if (after === undefined) return true;
  }
  return false;
}

/** The newest value of each key of a topic: what pages and the stream bring, in whatever order they come. `changed` is when the stream brought a value. */
export class LatestByKey<T extends Value & Readonly<{ changed?: number }> = Value & Readonly<{ changed?: number }>> {
  readonly list = new SortedList<T>();
  /** False if the topic has keys that are not here. */
  isWhole = true;
  /** The seqs that the stream has brought since the reading under way began, those of deletions among them: what a page has may be older. */
  #streamed: Map<string, number> | undefined;
  #seen = new Set<string>();

  constructor(readonly mostKeys = MOST_KEYS) {}

  /** Takes rows of the stream. */
  takeStreamed(rows: readonly T[]): void {
    for (const row of rows) {
      if (row.deleted) {
        this.list.delete(row.key);
      } else if (this.list.rows.has(row.key) || this.list.rows.size < this.mostKeys) {
        this.list.put(row.key, row);
      } else {
        // A tab that is open for days must not grow with every key that there ever was.
        this.isWhole = false;
        continue;
      }
      this.#streamed?.set(row.key, row.seq);
    }
  }

  /** Before the first page. */
  beginRead(): void {
    this.#streamed = new Map();
    this.#seen = new Set();
  }

  /** Takes a page. */
  takePage(values: readonly T[]): void {
    for (const value of values) {
      this.#seen.add(value.key);
      const newest = Math.max(this.list.rows.get(value.key)?.seq ?? 0, this.#streamed?.get(value.key) ?? 0);
      if (newest < value.seq) this.list.put(value.key, value);
    }
  }

  /** If the reading has failed. */
  abandonRead(): void {
    this.#streamed = undefined;
    this.#seen = new Set();
  }

  /** After the last page; `isWhole` if it was the last one of the topic. What neither a page nor the stream has brought is gone, or not read any more. */
  endRead(isWhole: boolean): void {
    for (const key of this.list.rows.keys()) if (!this.#seen.has(key) && this.#streamed?.has(key) !== true) this.list.delete(key);
    this.isWhole = isWhole && this.list.rows.size <= this.mostKeys;
    this.abandonRead();
  }
}

export type HistoryPage = Readonly<{ next?: number; first: number; compacted: boolean; retained: boolean }>;

/** What a log can have lost, in words. */
export function lossesOf({ compacted, retained, first }: HistoryPage): string[] {
  return [
    ...(compacted ? ["the topic is compacted, so values that were overwritten may be gone: a key may be missing, and what is there is right"] : []),
    ...(retained ? [`retention or a deletion has removed what is older than seq ${first}`] : []),
  ];
}

/** `isWhole` if the whole log was read: then a key that is missing was not there. */
export type Past = Readonly<{ values: ReadonlyMap<string, Value>; losses: readonly string[]; isWhole: boolean }>;

/** All keys as they were at a time: the log backwards from there, the first of each key. */
export async function readPast(topic: string, toTs: number, signal: AbortSignal): Promise<Past> {
  const values = new Map<string, Value>();
  let losses: string[] = [];
  let before: number | undefined;
  for (let n = 0; n < MOST_PAGES; n += 1) {
    const { events, rest } = page<HistoryPage>(await getText("/history", { topic, toTs: before === undefined ? toTs : undefined, before, limit: PAGE }, signal));
    for (const { record, payload } of events) {
      if (record.key !== undefined && !values.has(record.key)) values.set(record.key, valueOf(record, payload));
    }
    losses = lossesOf(rest);
    before = rest.next;
    if (before === undefined) break;
  }
  if (before !== undefined) losses.push(`only the log from seq ${before} on was read: keys that did not change since are missing`);
  for (const [key, value] of values) if (value.deleted) values.delete(key);
  return { values, losses, isWhole: before === undefined };
}

export type Difference = "same" | "changed" | "gone" | "new" | "unread";
export type Compared = Value & Readonly<{ difference: Difference; then?: Value; later?: Value }>;

/** Both states key by key: what the keys had then, and what became of it. Where the later one is not whole, nobody knows that a key is gone. */
export function compare(then: ReadonlyMap<string, Value>, later: ReadonlyMap<string, Value>, isWhole: boolean): Compared[] {
  const found: Compared[] = [];
  for (const [key, value] of then) {
    const other = later.get(key);
    const difference = other === undefined ? (isWhole ? "gone" : "unread") : other.seq === value.seq ? "same" : "changed";
    found.push({ ...value, difference, then: value, ...(other === undefined ? {} : { later: other }) });
  }
  for (const [key, value] of later) if (!then.has(key)) found.push({ ...value, difference: "new", later: value });
  return found;
}

/** A text of the payload's member `status` or `state`, if it has one. The payload may be cut. */
export function statusOf(payload: string): string | undefined {
  if (payload[0] !== "{") return undefined;
  const parts = members(payload);
  const text = parts.get("status") ?? parts.get("state");
  if (text === undefined || text[0] !== '"' || text.length > 60) return undefined;
  try {
    return JSON.parse(text) as string;
  } catch {
    return undefined;
  }
}

const ENDED = new Set(["stopped", "exited", "ended", "terminated", "finished", "completed", "done", "shutdown"]);

/** Whether the last status of a process says that it has ended: then it is not stale. */
export function hasEnded(payload: string): boolean {
  return ENDED.has(statusOf(payload)?.toLowerCase() ?? "");
}
