// The newest record of each key with its age, stale ones first; or the state as of a time, compared with another time.
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { useAnnounced } from "../lib/announce.ts";
import { type ApiError, get, pages } from "../lib/api.ts";
import { hubTime, now } from "../lib/clock.ts";
import { asApiError, generation, RETRY_MS, useResource } from "../lib/data.ts";
import { command, count, localInput, plural, time, visible } from "../lib/format.ts";
import { settled, useLive } from "../lib/live.ts";
import { open, route, set, to } from "../lib/route.ts";
import { token } from "../lib/session.ts";
import { type Listing, SortedList } from "../lib/sorted.ts";
import { type Compared, compare, type Difference, hasEnded, LatestByKey, readNow, readPast, statusOf, type Value } from "../lib/states.ts";
import type { Topic } from "../lib/types.ts";
import { Age, Badge, Button, CliCommand, Empty, ErrorBanner, Foreign, Shown } from "../ui/basics.tsx";
import { FilterBox } from "../ui/filter.tsx";
import { type Column, orderOf, Table } from "../ui/table.tsx";
import { History } from "./history.tsx";

/** The topic of the live process page. */
const PROCESSES = "process.state";
/** Age at which the state of a process is stale, unless the address says otherwise. */
const STALE_SECONDS = 60;
/** How long a change is marked. */
const MARK_MS = 3_000;
/** Topics that are looked at for compacted ones. */
const MOST_TOPICS = 10_000;

type Row = Value & Partial<Pick<Compared, "difference" | "then" | "later">> & Readonly<{ changed?: number }>;

/** The compacted topics; the one of processes even if there are too many topics to look at all of them. */
async function compacted(signal: AbortSignal): Promise<string[]> {
  const found = new Set<string>();
  let seen = 0;
  const take = (page: { topics: Topic[] }) => {
    for (const { name, settings } of page.topics) if (settings?.compaction === true && !name.endsWith(".snapshot")) found.add(name);
    seen += page.topics.length;
    return seen >= MOST_TOPICS;
  };
  await pages<{ topics: Topic[]; next?: string }>("/topics", { limit: 2_000 }, signal, take);
  if (seen >= MOST_TOPICS) take(await get<{ topics: Topic[] }>("/topics", { q: PROCESSES, limit: 1_000 }, signal));
  return [...found].sort((a, b) => Number(b === PROCESSES) - Number(a === PROCESSES) || (a < b ? -1 : 1));
}

export function StateScreen() {
  const topics = useResource("compacted", compacted);
  const { data: list, error, at } = topics.state.value;
  const given = route.value.params["topic"];
  const topic = given ?? list?.[0];
  return (
    <>
      <h1>State</h1>
      <ErrorBanner error={error} at={at} retry={topics.reload} isBelow={list !== undefined} />
      {topic !== undefined && (
        <div class="toolbar">
          <label class="inline">Topic
            <select value={topic} onChange={(event) => set({ topic: event.currentTarget.value, at: undefined, with: undefined, history: undefined, q: undefined, sort: undefined, stale: undefined })}>
              {[...new Set([...(list ?? []), topic])].map((name) => <option key={name} value={name}>{visible(name)}</option>)}
            </select>
          </label>
          <a href={to("/topic", { topic })}>Tail of the topic</a>
        </div>
      )}
      {topic !== undefined && <StateTable key={topic} topic={topic} />}
      {list !== undefined && topic === undefined && <NoState />}
    </>
  );
}

function NoState() {
  useLive({ view: "overview" }, {});
  return (
    <Empty title="No compacted topic">
      <p>State is the newest event of each key. Compacted topics keep it: name them in the configuration, for instance</p>
      <pre class="block">{'[[topics]]\npattern = "process.state"\ncompaction = true'}</pre>
      <p>and publish with a key:</p>
      <CliCommand text={command("publish", [PROCESSES, '{"status":"running"}'], { "--key": "host:worker:17" })} />
      <p>Every other topic shows the newest record of each key in its tab <b>Latest by key</b>.</p>
    </Empty>
  );
}

/** The keys of a topic as they are now, kept up to date. */
function useNow(topic: string) {
  const latest = useRef(new LatestByKey<Row>()).current;
  const version = useSignal(0);
  const error = useSignal<ApiError | undefined>(undefined);
  const complete = useSignal(false);
  const turn = useSignal(0);
  const isReading = useRef(false);
  /** The stream has left out values since the reading under way began. */
  const hasMissed = useRef(false);
  const again = () => {
    turn.value += 1;
  };
  useLive({ view: "state", topic }, {
    state: (data: { rows?: Row[]; reset?: boolean }) => {
      // A reading that is cut short by the next one would never end on a topic that changes faster than it is read.
      if (data.reset === true && isReading.current) hasMissed.current = true;
      else if (data.reset === true) again();
      const changed = hubTime();
      latest.takeStreamed((data.rows ?? []).map((row) => ({ ...row, changed })));
      version.value += 1;
    },
  });
  useEffect(() => {
    if (token.value === undefined) return;
    const cancel = new AbortController();
    const take = (values: Value[]) => {
      latest.takePage(values);
      version.value += 1;
    };
    let retry: ReturnType<typeof setTimeout> | undefined;
    latest.beginRead();
    isReading.current = true;
    hasMissed.current = false;
    settled().then(() => readNow(topic, cancel.signal, take)).then(
      (isWhole) => {
        latest.endRead(isWhole);
        isReading.current = false;
        complete.value = true;
        error.value = undefined;
        version.value += 1;
        if (hasMissed.current) retry = setTimeout(again, RETRY_MS);
      },
      (problem: unknown) => {
        if (cancel.signal.aborted) return;
        latest.abandonRead();
        isReading.current = false;
        error.value = asApiError(problem);
        if (error.value.isPassing) retry = setTimeout(again, Math.max(error.value.retryAfter ?? 0, RETRY_MS));
        if (error.value.status !== 403) return;
        latest.list.replace([]);
        version.value += 1;
      },
    );
    return () => {
      cancel.abort();
      clearTimeout(retry);
    };
  }, [topic, generation.value, token.value, turn.value]);
  return { latest, version, error, complete, reload: again };
}

const DIFFERENCES: Readonly<Record<Difference, string>> = { same: "the same", changed: "changed", gone: "gone", new: "not there then", unread: "not read" };
/** Where values of that time may be lost, a key without one may have had one. */
const UNKNOWN = "no value known";

function seconds(text: string | undefined, topic: string): number {
  const given = Number(text ?? (topic === PROCESSES ? STALE_SECONDS : 0));
  return Number.isFinite(given) && given > 0 ? given : 0;
}

function textFilter(q: string, isDiff: boolean): { name: string; matches: (row: Row) => boolean } {
  const wanted = q.toLowerCase();
  return {
    name: `${isDiff} ${wanted}`,
    matches: (row) => !(isDiff && row.difference === "same") && (wanted === "" || row.key.toLowerCase().includes(wanted) || row.payload.toLowerCase().includes(wanted)),
  };
}

export function StateTable({ topic }: { topic: string }) {
  const { at, with: other, history, q = "", diff } = route.value.params;
  const staleMs = seconds(route.value.params["stale"], topic) * 1_000;
  const { latest, version, error, complete, reload } = useNow(topic);
  const past = useResource(at === undefined ? undefined : `past ${topic} ${at}`, (signal) => readPast(topic, Number(at), signal));
  const later = useResource(at === undefined || other === undefined ? undefined : `past ${topic} ${other}`, (signal) => readPast(topic, Number(other), signal));
  version.value;
  const isPast = at !== undefined;
  const then = past.state.value.data;
  const isWithNow = isPast && other === undefined;
  const afterwards = other === undefined ? undefined : later.state.value.data;
  const isReading = !isPast ? !complete.value : then === undefined || (isWithNow ? !complete.value : afterwards === undefined);
  // What is compared with now changes with it.
  const compared = useMemo(() => {
    const fresh = new SortedList<Row>();
    if (then !== undefined && !isReading) {
      for (const row of compare(then.values, afterwards?.values ?? latest.list.rows, afterwards?.isWhole ?? latest.isWhole)) fresh.put(row.key, row);
    }
    return fresh;
  }, [then, afterwards, isReading, isWithNow ? version.value : 0]);

  const unread = isWithNow && !isReading && !latest.isWhole ? ["the topic has more keys now than are read"] : [];
  const losses = [...new Set([...(then?.losses ?? []), ...(afterwards?.losses ?? []), ...unread])];
  const columns = useMemo(() => columnsOf(topic, isPast, staleMs, losses.length > 0), [topic, isPast, staleMs, losses.length > 0]);
  const order = orderOf(columns, isPast ? "key" : staleMs > 0 ? "-status" : "key");
  const filter = textFilter(q, isPast && diff === "1");
  const listing = (isPast ? compared : latest.list).listing(order, filter);
  const failed = isPast ? (past.state.value.error ?? (isWithNow ? error.value : later.state.value.error)) : error.value;
  return (
    <>
      <Tools topic={topic} />
      <Counts listing={listing} staleMs={isPast ? 0 : staleMs} isReading={isReading && failed === undefined} />
      {isPast && (
        <p class="note">
          As it was at {time(Number(at))}, compared with {other === undefined ? "now" : time(Number(other))}.
          {losses.length > 0 && ` Not everything is known: ${losses.join("; ")}.`}
        </p>
      )}
      {!isPast && !latest.isWhole && <p class="note">The topic has more keys than are read: {count(latest.list.rows.size)} are shown.</p>}
      <Shown error={failed} hasData={listing.ids.length > 0} retry={() => [past, later, { reload }].forEach((one) => one.reload())}>
        {!isReading && listing.ids.length === 0 ? (
          <NoKeys topic={topic} isFiltered={q !== "" || (isPast && diff === "1")} isPast={isPast} />
        ) : (
          <Table
            label="Keys"
            listing={listing}
            columns={columns}
            order={order}
            reset={`${filter.name} ${at}`}
            filling={isReading}
            open={(row) => open({ history: row.key })}
            mark={(row) => (row.changed !== undefined && now.value - row.changed < MARK_MS ? "changed" : undefined)}
          />
        )}
      </Shown>
      {history !== undefined && <History topic={topic} name={history} compared={isPast ? compared.rows.get(history) : undefined} close={() => set({ history: undefined })} />}
    </>
  );
}

/** Whether a value is older than it should be. Read where it is shown, because it changes by itself. */
function isStale(row: Row, staleMs: number): boolean {
  return staleMs > 0 && now.value - (row.committed ?? row.ts) > staleMs && !hasEnded(row.payload);
}

function columnsOf(topic: string, isPast: boolean, staleMs: number, isLossy: boolean): readonly Column<Row>[] {
  const written = (row: Row) => row.committed ?? row.ts;
  const status: Column<Row> = {
    id: "status",
    title: "State",
    cell: (row) => <Status row={row} staleMs={staleMs} />,
    // The oldest first, which are those that are stale; processes that have ended last.
    sort: (row) => (hasEnded(row.payload) ? -1e15 : 0) - written(row),
  };
  const difference: Column<Row> = {
    id: "difference",
    title: "Since then",
    cell: ({ difference = "same" }) => (difference === "same" ? <span class="muted">{DIFFERENCES.same}</span> : <Badge tone={difference === "gone" ? "bad" : difference === "unread" ? "plain" : "warn"}>{difference === "new" && isLossy ? UNKNOWN : DIFFERENCES[difference]}</Badge>),
    sort: ({ difference = "same" }) => difference,
  };
  return [
    { id: "key", title: "Key", cell: (row) => <Foreign text={row.key} most={80} />, sort: (row) => row.key },
    { id: "age", title: "Age", numeric: true, cell: (row) => <Age ts={written(row)} />, sort: (row) => -written(row) },
    isPast ? difference : status,
    { id: "payload", title: "Payload", wide: true, cell: (row) => <code class="preview"><Foreign text={row.payload} most={300} />{row.cut && "…"}</code> },
    { id: "seq", title: "Seq", numeric: true, extra: true, cell: (row) => <a href={to("/event", { topic, seq: row.seq })}>{row.seq}</a>, sort: (row) => row.seq },
  ];
}

function Status({ row, staleMs }: { row: Row; staleMs: number }) {
  const status = useMemo(() => statusOf(row.payload), [row.payload]);
  const stale = staleMs > 0 && isStale(row, staleMs);
  return <>{stale && <Badge tone="bad">stale</Badge>} {status !== undefined && <Badge tone="plain"><Foreign text={status} most={30} /></Badge>}</>;
}

/** How many keys there are, and how many of them are stale at the moment. */
function Counts({ listing, staleMs, isReading }: { listing: Listing<Row>; staleMs: number; isReading: boolean }) {
  const shown = useSignal(listing);
  shown.value = listing;
  const stale = useComputed(() => (staleMs === 0 ? 0 : shown.value.ids.reduce((sum, id) => {
    const row = shown.value.get(id);
    return sum + (row !== undefined && isStale(row, staleMs) ? 1 : 0);
  }, 0)));
  const text = `${plural(listing.ids.length, "key")}${stale.value > 0 ? `, ${count(stale.value)} stale` : ""}${isReading ? ", reading…" : ""}`;
  useAnnounced(isReading ? "" : text);
  return <p class="muted counts">{text}</p>;
}

function Tools({ topic }: { topic: string }) {
  const { at, with: other, diff } = route.value.params;
  const millis = (text: string) => {
    const value = new Date(text).getTime();
    return Number.isFinite(value) ? value : undefined;
  };
  return (
    <div class="toolbar">
      <FilterBox label="Filter by text in key or payload" placeholder="Text in key or payload" />
      <label class="inline">As of
        <input type="datetime-local" step="1" aria-label="State as of a time" value={at === undefined ? "" : localInput(Number(at))}
          onChange={(event) => set({ at: millis(event.currentTarget.value), with: undefined, sort: undefined })} />
      </label>
      {at !== undefined && (
        <>
          <label class="inline">compared with
            <input type="datetime-local" step="1" aria-label="Compared with a time; now if empty" value={other === undefined ? "" : localInput(Number(other))}
              onChange={(event) => set({ with: millis(event.currentTarget.value) })} />
          </label>
          <label class="check"><input type="checkbox" checked={diff === "1"} onChange={(event) => set({ diff: event.currentTarget.checked ? "1" : undefined })} /> only what differs</label>
          <Button onClick={() => set({ at: undefined, with: undefined, diff: undefined, sort: undefined })}>Back to now</Button>
        </>
      )}
      {at === undefined && (
        <label class="inline">Stale after
          <input class="short" inputMode="numeric" aria-label="Stale after seconds" value={String(seconds(route.value.params["stale"], topic))} onChange={(event) => set({ stale: event.currentTarget.value.replace(/[^0-9]/g, "") || "0" })} /> s
        </label>
      )}
    </div>
  );
}

function NoKeys({ topic, isFiltered, isPast }: { topic: string; isFiltered: boolean; isPast: boolean }) {
  return (
    <Empty title="No keys">
      <p>{isFiltered ? "No key matches." : isPast ? "Nothing is known of that time." : "No event of this topic has a key. Publish one with a key:"}</p>
      {!isFiltered && !isPast && <CliCommand text={command("publish", [topic, '{"status":"running"}'], { "--key": "host:worker:17" })} />}
    </Empty>
  );
}
