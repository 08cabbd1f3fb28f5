// The live stream of this tab: one, whatever the screen shows, closed while the tab is hidden. Server-sent events read by `fetch`, so that the
// token travels in a header.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ApiError, get, type Query, send, url } from "./api.ts";
import { setHubTime } from "./clock.ts";
import { asApiError, generation } from "./data.ts";
import { asked, token, viewerChanges } from "./session.ts";
import { EventReader, type Message } from "./sse.ts";
import { isFirst } from "./windows.ts";
import type { Spread } from "./types.ts";

export type Connection =
  /** There is no token. */
  | Readonly<{ state: "closed" }>
  | Readonly<{ state: "connecting" }>
  | Readonly<{ state: "live" }>
  | Readonly<{ state: "waiting"; error: ApiError }>
  | Readonly<{ state: "hidden" }>
  /** Other windows have the streams. */
  | Readonly<{ state: "inactive" }>
  | Readonly<{ state: "stopped"; error: ApiError }>;

export type Sample = Readonly<{
  ts: number;
  published: number;
  bytes: number;
  delivered: number;
  acked: number;
  nacked: number;
  redelivered: number;
  deadlettered: number;
  latencyMs?: Spread;
  handlerMs?: Spread;
  topics: number;
  groups: number;
  lag: number;
  inflight: number;
  stalled: number;
}>;

/** A sample of before the page was opened: the hub remembers rates only. */
export type PastSample = Pick<Sample, "ts" | "published" | "bytes" | "delivered" | "acked" | "nacked" | "redelivered" | "deadlettered"> & Partial<Sample>;

export type Handlers = Readonly<Record<string, (data: never) => void>>;

/** Samples kept for the charts: a quarter of an hour. */
const KEPT_SAMPLES = 900;
/** A stream without a message for this time is dead: the hub sends a sample a second. */
const SILENCE_MS = 10_000;
/** How often a window without a stream reads again what it shows. */
const INACTIVE_POLL_MS = 15_000;
const BACKOFF_MS = { least: 300, most: 10_000 };

export const connection = signal<Connection>({ state: "connecting" });
export const samples = signal<readonly PastSample[]>([]);
export const latest = signal<Sample | undefined>(undefined);

type Want = { readonly query: Query; handlers: Handlers };

/** The view that is read while the screen asks for none. */
const NOTHING_SPECIAL: Want = { query: { view: "overview" }, handlers: {} };

let wanted: Want = NOTHING_SPECIAL;
let running: Want | undefined;
let current: AbortController | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;
let failures = 0;
/** Whether something may have been missed since the stream was open last. */
let missed = false;
let opening = Promise.withResolvers<void>();

/** Takes what a screen wants to see for as long as it is shown. */
export function useLive(query: Query, handlers: Handlers): void {
  const mine = useRef<Want | undefined>(undefined);
  const key = JSON.stringify(query);
  // The handlers of the newest rendering are called.
  if (mine.current !== undefined) mine.current.handlers = handlers;
  useEffect(() => {
    const want = { query, handlers };
    mine.current = want;
    wanted = want;
    restartSoon();
    return () => {
      if (wanted !== want) return;
      wanted = NOTHING_SPECIAL;
      restartSoon();
    };
  }, [key]);
}

/** When the stream is open, or is not going to be soon. What is read from then on is not older than what the stream brings. */
export function settled(): Promise<void> {
  return opening.promise;
}

export function start(): void {
  document.addEventListener("visibilitychange", restart);
  addEventListener("online", retry);
  // A page that comes back from the browser's cache has a dead stream.
  addEventListener("pageshow", (event) => {
    if (event.persisted) restart();
  });
  let was = isFirst.peek();
  isFirst.subscribe((is) => {
    if (is !== was) restart();
    was = is;
  });
  viewerChanges.subscribe(() => {
    samples.value = [];
    latest.value = undefined;
  });
  let before = token.peek();
  token.subscribe((held) => {
    failures = 0;
    // Another token may see other things.
    if (before !== undefined && held !== undefined) missed = true;
    before = held;
    restart();
  });
}

/** Tries again at once. */
export function retry(): void {
  failures = 0;
  restart();
}

function close(): void {
  current?.abort();
  current = undefined;
  running = undefined;
  clearTimeout(timer);
}

let isScheduled = false;

/** One screen goes and the next one comes: that is one stream. */
function restartSoon(): void {
  if (isScheduled) return;
  isScheduled = true;
  opening.resolve();
  opening = Promise.withResolvers();
  queueMicrotask(() => {
    isScheduled = false;
    const isSame = running !== undefined && wanted === NOTHING_SPECIAL && running.query["view"] === NOTHING_SPECIAL.query["view"];
    if (isSame) {
      running = wanted;
      opening.resolve();
    } else restart();
  });
}

function restart(): void {
  close();
  opening.resolve();
  if (token.peek() === undefined) {
    connection.value = { state: "closed" };
    return;
  }
  if (document.visibilityState === "hidden") {
    missed = true;
    connection.value = { state: "hidden" };
    return;
  }
  if (!isFirst.peek()) {
    missed = true;
    connection.value = { state: "inactive" };
    timer = setTimeout(pollInactive, INACTIVE_POLL_MS);
    return;
  }
  opening = Promise.withResolvers();
  const mine = new AbortController();
  current = mine;
  running = wanted;
  if (connection.peek().state !== "live" && failures === 0) connection.value = { state: "connecting" };
  run(wanted.query, mine).catch((error: unknown) => {
    if (current === mine) lost(asApiError(error));
  });
}

function pollInactive(): void {
  generation.value += 1;
  timer = setTimeout(pollInactive, INACTIVE_POLL_MS);
}

function lost(error: ApiError): void {
  close();
  missed = true;
  opening.resolve();
  if (error.status === 401 || error.code === "token_expired" || error.code === "token_revoked") {
    asked.value = error.message;
    connection.value = { state: "stopped", error };
    return;
  }
  if (error.status === 400 || error.status === 403 || error.status === 404 || error.code === "forbidden") {
    connection.value = { state: "stopped", error };
    return;
  }
  failures += 1;
  const ceiling = Math.min(BACKOFF_MS.most, BACKOFF_MS.least * 2 ** failures);
  const wait = Math.max(error.retryAfter ?? 0, BACKOFF_MS.least + Math.random() * ceiling);
  connection.value = { state: "waiting", error };
  timer = setTimeout(restart, wait);
}

async function run(query: Query, mine: AbortController): Promise<void> {
  const answer = await send(url("/live", query), { signal: mine.signal, headers: { accept: "text/event-stream" } });
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (reader === undefined) throw new ApiError(0, "unreachable", "the hub sent no stream");
  failures = 0;
  connection.value = { state: "live" };
  opening.resolve();
  if (missed) {
    missed = false;
    generation.value += 1;
  }
  if (samples.peek().length === 0) void readPast();
  const events = new EventReader();
  const silent = () => {
    if (current === mine) lost(new ApiError(0, "unreachable", `the hub has been silent for ${SILENCE_MS / 1_000} s`));
  };
  let silence = setTimeout(silent, SILENCE_MS);
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(() => {
        throw new ApiError(0, "unreachable", "the connection to the hub broke off");
      });
      if (done) throw new ApiError(0, "unreachable", "the hub closed the stream");
      clearTimeout(silence);
      silence = setTimeout(silent, SILENCE_MS);
      for (const message of events.push(value)) if (current === mine) take(message);
    }
  } finally {
    clearTimeout(silence);
  }
}

function take({ event, data }: Message): void {
  const value = JSON.parse(data) as never;
  if (event === "sample") addSample(value);
  if (event === "end") {
    const { code, error } = value as { code: string; error: string };
    throw new ApiError(0, code, error);
  }
  running?.handlers[event]?.(value);
}

function addSample(sample: Sample): void {
  setHubTime(sample.ts);
  latest.value = sample;
  const kept = samples.peek();
  if ((kept.at(-1)?.ts ?? 0) >= sample.ts) return;
  samples.value = [...kept.slice(kept.length >= KEPT_SAMPLES ? 1 : 0), sample];
}

/** The minute before the page was opened, so that charts do not begin empty. */
async function readPast(): Promise<void> {
  const viewer = viewerChanges.peek();
  try {
    const { samples: past } = await get<{ samples: PastSample[] }>("/stats", { range: "1m" });
    // They are sums over what somebody else may see.
    if (viewer !== viewerChanges.peek()) return;
    const first = samples.peek()[0]?.ts ?? Number.POSITIVE_INFINITY;
    samples.value = [...past.filter(({ ts }) => ts < first - 500), ...samples.peek()];
  } catch {
    // The charts begin with now.
  }
}
