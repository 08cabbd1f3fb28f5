// What passes on a topic: live, with pause and filter, or from a time on.
import { useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { useAnnounced } from "../lib/announce.ts";
import { getText } from "../lib/api.ts";
import { type Page, usePages } from "../lib/data.ts";
import { bytes, command, count, cutAt, localInput, plural, size, time } from "../lib/format.ts";
import { useLive } from "../lib/live.ts";
import { page } from "../lib/record.ts";
import { route, set, to } from "../lib/route.ts";
import { viewerChanges } from "../lib/session.ts";
import { inOrder } from "../lib/sorted.ts";
import type { TailRow, Topic } from "../lib/types.ts";
import { Age, Button, CliCommand, Empty, Foreign, Shown } from "../ui/basics.tsx";
import { FilterBox } from "../ui/filter.tsx";
import { type Column, Table } from "../ui/table.tsx";

/** Rows kept in the tab; the document has those in sight. */
const KEPT_ROWS = 2_000;
/** Events of a page that begins at a time. */
const PAGE_EVENTS = 500;
/** Bytes of a payload that a row has. */
const PREVIEW_BYTES = 2_048;

const columnsOf = (topic: string): readonly Column<TailRow>[] => [
  { id: "seq", title: "Seq", numeric: true, cell: (row) => <a href={to("/event", { topic, seq: row.seq })}>{row.seq}</a> },
  { id: "age", title: "Age", numeric: true, cell: (row) => <Age ts={row.committed ?? row.ts} /> },
  { id: "key", title: "Key", cell: (row) => (row.key === undefined ? <span class="muted">–</span> : <Foreign text={row.key} most={60} />) },
  { id: "payload", title: "Payload", wide: true, cell: (row) => <code class="preview"><Foreign text={row.payload} most={400} />{row.cut && "…"}</code> },
  { id: "bytes", title: "Size", numeric: true, extra: true, cell: (row) => bytes(row.bytes) },
];

const idOf = (row: TailRow) => String(row.seq);

export function Tail({ name, lastCommitted, update }: { name: string; lastCommitted: number | undefined; update: (topic: Topic) => void }) {
  const { q, key, at } = route.value.params;
  return (
    <>
      <div class="toolbar">
        <FilterBox label="Filter by text in key, id or payload" placeholder="Text in key, id or payload" />
        <FilterBox label="Only this key" param="key" placeholder="Key" />
        <label class="inline">From
          <input type="datetime-local" step="1" aria-label="Go to a time" value={at === undefined ? "" : localInput(Number(at))}
            onChange={(event) => {
              const millis = new Date(event.currentTarget.value).getTime();
              set({ at: Number.isFinite(millis) ? millis : undefined, paused: undefined });
            }} />
        </label>
        {at === undefined ? <LiveTools /> : <Button icon="play" onClick={() => set({ at: undefined })}>Back to live</Button>}
      </div>
      {at === undefined
        ? <Live key={placeOf(name, q, key)} name={name} lastCommitted={lastCommitted} update={update} />
        : <Past key={at} name={name} at={Number(at)} />}
    </>
  );
}

function LiveTools() {
  const isPaused = route.value.params["paused"] === "1";
  return (
    <Button icon={isPaused ? "play" : "pause"} pressed={isPaused} pause onClick={() => set({ paused: isPaused ? undefined : "1" })} label={isPaused ? "Resume (Space)" : "Pause (Space)"}>
      {isPaused ? "Resume" : "Pause"}
    </Button>
  );
}

/** A tail that is paused, as it was left. */
type Kept = Readonly<{ rows: readonly TailRow[]; held: readonly TailRow[]; skipped: number; fresh: number; scroll: { top: number } }>;

/** Paused tails that a viewer has gone away from, to look at an event; the last few of them. */
const kept = new Map<string, Kept>();
const MOST_KEPT = 4;
viewerChanges.subscribe(() => kept.clear());

function placeOf(name: string, q: string | undefined, key: string | undefined): string {
  return JSON.stringify([name, q, key]);
}

function keep(place: string, tail: Kept): void {
  kept.delete(place);
  kept.set(place, tail);
  for (const oldest of [...kept.keys()].slice(0, -MOST_KEPT)) kept.delete(oldest);
}

function Live({ name, lastCommitted, update }: { name: string; lastCommitted: number | undefined; update: (topic: Topic) => void }) {
  const { q, key, paused } = route.value.params;
  const isPaused = paused === "1";
  const place = placeOf(name, q, key);
  const before = useMemo(() => (isPaused ? kept.get(place) : undefined), []);
  const rows = useSignal<readonly TailRow[]>(before?.rows ?? []);
  /** What is shown while it is paused. */
  const held = useSignal<readonly TailRow[] | undefined>(before?.held);
  const skipped = useSignal(before?.skipped ?? 0);
  const fresh = useSignal(before?.fresh ?? 0);
  const scroll = useRef(before?.scroll ?? { top: 0 }).current;
  const begun = useSignal(before !== undefined);
  useLive({ view: "topic", topic: name, q, key }, {
    tail: (data: { events: TailRow[]; skipped: number; initial?: boolean }) => {
      const last = rows.peek()[0]?.seq ?? 0;
      // Newest first.
      const sorted = data.events.toSorted((a, b) => b.seq - a.seq);
      const added = sorted.filter((row) => row.seq > last);
      rows.value = data.initial === true ? sorted : [...added, ...rows.peek()].slice(0, KEPT_ROWS);
      const isFirst = !begun.peek();
      begun.value = true;
      if (isFirst) return;
      skipped.value += data.skipped;
      fresh.value += added.length + data.skipped;
    },
    topics: ({ rows }: { rows: Topic[] }) => rows.filter((row) => row.name === name).forEach(update),
  });
  // Before the next message: what is shown as paused stands still.
  useLayoutEffect(() => {
    const isKept = isPaused && held.peek() !== undefined;
    if (isKept) return;
    held.value = isPaused && begun.value ? rows.peek() : undefined;
    fresh.value = 0;
  }, [isPaused, begun.value]);
  const viewer = useMemo(() => viewerChanges.peek(), []);
  // While the next screen is drawn, not after it: who comes back at once finds the tail.
  useLayoutEffect(() => () => {
    if (viewer !== viewerChanges.peek()) return;
    if (held.peek() !== undefined) keep(place, { rows: rows.peek(), held: held.peek() ?? [], skipped: skipped.peek(), fresh: fresh.peek(), scroll });
    else kept.delete(place);
  }, []);
  const shown = isPaused ? (held.value ?? rows.value) : rows.value;
  const listing = useMemo(() => inOrder(shown, idOf), [shown]);
  const columns = useMemo(() => columnsOf(name), [name]);
  useAnnounced(isPaused ? `paused, ${count(fresh.value)} new` : "");
  return (
    <>
      <p class="muted counts">
        <span>{plural(shown.length, "event")}</span>
        {isPaused && <span> <b>paused</b>, {count(fresh.value)} new</span>}
        {skipped.value > 0 && <span> {count(skipped.value)} skipped: they came too fast to be shown; all of them are stored</span>}
      </p>
      {shown.length === 0 ? (
        <Empty title={q !== undefined || key !== undefined ? "Nothing matches yet" : "Nothing here yet"}>
          <p>
            {q !== undefined || key !== undefined ? "The newest events of the topic were looked through. What matches shows up as it is committed. " : "Events show up as they are committed. "}
            {lastCommitted !== undefined && <>The topic's last event came <Age ts={lastCommitted} of=" ago" />: set a time above to look at that.</>}
          </p>
          {q === undefined && key === undefined && <CliCommand text={command("publish", [name, '{"order":17}'], { "--key": "order-17" })} />}
        </Empty>
      ) : (
        <Table label="Events" listing={listing} columns={columns} scroll={scroll} reset={isPaused ? "paused" : ""} leadsTo={(row) => to("/event", { topic: name, seq: row.seq })} />
      )}
    </>
  );
}

async function read(name: string, at: number, afterSeq: string | number | undefined, signal?: AbortSignal): Promise<Page<TailRow>> {
  const place = afterSeq === undefined ? { from: "ts", ts: at } : { from: "afterSeq", afterSeq };
  const { events, rest } = page<{ next?: number }>(await getText("/replay", { topic: name, ...place, limit: PAGE_EVENTS }, signal));
  const rows = events.map(({ record, payload }): TailRow => {
    const length = size(payload);
    return { ...record, bytes: length, payload: cutAt(payload, PREVIEW_BYTES), cut: length > PREVIEW_BYTES };
  });
  return { rows, next: rest.next };
}

/** Events from a time on, the oldest first, as far as they were read. */
function Past({ name, at }: { name: string; at: number }) {
  const { q = "", key } = route.value.params;
  const past = usePages<TailRow>(`at ${name} ${at}`, (after, signal) => read(name, at, after, signal));
  const { data, error, at: readAt } = past.state.value;
  const wanted = q.toLowerCase();
  const matching = useMemo(
    () => (data?.rows ?? []).filter((row) => (key === undefined || row.key === key) && (wanted === "" || `${row.key ?? ""} ${row.id} ${row.payload}`.toLowerCase().includes(wanted))),
    [data, key, wanted],
  );
  const listing = useMemo(() => inOrder(matching, idOf), [matching]);
  const columns = useMemo(() => columnsOf(name), [name]);
  return (
    <Shown error={error} at={readAt} retry={past.reload}>
      <p class="muted counts">
        Events from {time(at)} on: {plural(data?.rows.length ?? 0, "event")} read{matching.length !== (data?.rows.length ?? 0) && `, ${count(matching.length)} match`}.
        {" "}{data?.next !== undefined && <Button busy={past.busy.value} onClick={() => void past.more()}>Read on</Button>}
        {data !== undefined && data.next === undefined && "That is the newest."}
      </p>
      {data !== undefined && matching.length === 0 ? (
        <Empty title={data.rows.length === 0 ? "No events since then" : "None of these matches"}>
          <p>{data.rows.length === 0 ? "The topic has had no event at that time or later, or retention has removed them." : data.next === undefined ? "No event from that time on matches the filter." : "Read on, or take away the filter."}</p>
        </Empty>
      ) : (
        <Table label="Events" listing={listing} columns={columns} reset={String(at)} leadsTo={(row) => to("/event", { topic: name, seq: row.seq })} />
      )}
    </Shown>
  );
}
