// What flows where.
import { useRef } from "preact/hooks";
import { useAnnounced } from "../lib/announce.ts";
import { bytes, command, count, plural, rate, visible } from "../lib/format.ts";
import { useLiveList } from "../lib/list.ts";
import { route, set, to } from "../lib/route.ts";
import type { Topic } from "../lib/types.ts";
import { Age, CliCommand, Empty, Shown } from "../ui/basics.tsx";
import { Sparkline } from "../ui/chart.tsx";
import { FilterBox } from "../ui/filter.tsx";
import { type Column, orderOf, Table } from "../ui/table.tsx";

const PAGE = 2_000;
/** Seconds of a sparkline. */
const SPARK_SECONDS = 60;

/** The newest rates of topics, by the second. A topic that is not in a message has the rate that it had. */
class Sparks {
  readonly #changes = new Map<string, { second: number; rate: number }[]>();

  add(topic: Topic): void {
    const second = Math.floor(Date.now() / 1_000);
    const kept = (this.#changes.get(topic.name) ?? []).filter((change) => change.second > second - SPARK_SECONDS && change.second !== second);
    this.#changes.set(topic.name, [...kept, { second, rate: topic.rates.second.published }]);
  }

  of(topic: Topic): (number | undefined)[] {
    const changes = this.#changes.get(topic.name) ?? [];
    const now = Math.floor(Date.now() / 1_000);
    let next = 0;
    // A topic without a change since the page was opened has had its rate all the time.
    let rate = changes.length === 0 ? topic.rates.second.published : undefined;
    return Array.from({ length: SPARK_SECONDS }, (_, at) => {
      for (let one = changes[next]; one !== undefined && one.second <= now - SPARK_SECONDS + 1 + at; one = changes[next]) {
        rate = one.rate;
        next += 1;
      }
      return rate;
    });
  }
}

export function isDerived(name: string): boolean {
  return name.startsWith("dlq.") || name.endsWith(".snapshot");
}

export function Topics() {
  const sparks = useRef(new Sparks()).current;
  const { list, version, error, at, complete, reload } = useLiveList<Topic>({
    path: "/topics",
    query: { limit: PAGE },
    name: "topics",
    id: (topic) => topic.name,
    live: { view: "topics" },
    // Settings are in pages only.
    merge: (old, row) => (old?.settings === undefined || row.settings !== undefined ? row : { ...row, settings: old.settings }),
    changed: (topic) => sparks.add(topic),
  });
  version.value;
  const { q = "", derived = "" } = route.value.params;
  const wanted = q.toLowerCase();
  const columns: readonly Column<Topic>[] = [
    { id: "name", title: "Topic", wide: true, cell: (topic) => <a href={to("/topic", { topic: topic.name })}>{topic.name}</a>, sort: (topic) => topic.name },
    { id: "rate", title: "Events/s", numeric: true, cell: (topic) => rate(topic.rates.second.published), sort: (topic) => topic.rates.second.published },
    { id: "spark", title: "Last minute", extra: true, cell: (topic) => <Sparkline values={sparks.of(topic)} /> },
    { id: "minute", title: "Per s, 1 min", numeric: true, extra: true, cell: (topic) => rate(topic.rates.minute.published), sort: (topic) => topic.rates.minute.published },
    { id: "events", title: "Events", numeric: true, extra: true, cell: (topic) => count(topic.events), sort: (topic) => topic.events },
    { id: "bytes", title: "Size", numeric: true, extra: true, cell: (topic) => bytes(topic.bytes), sort: (topic) => topic.bytes },
    { id: "groups", title: "Groups", numeric: true, extra: true, cell: (topic) => count(topic.groups), sort: (topic) => topic.groups },
    { id: "newest", title: "Newest", numeric: true, cell: (topic) => <Age ts={topic.lastCommitted} of=" ago" />, sort: (topic) => topic.lastCommitted ?? 0 },
  ];
  const order = orderOf(columns, "name");
  const filter = { name: `${derived} ${wanted}`, matches: ({ name }: Topic) => (derived === "1" || !isDerived(name)) && (wanted === "" || name.toLowerCase().includes(wanted)) };
  const listing = list.listing(order, filter);
  useAnnounced(complete.value ? plural(listing.ids.length, "topic") : "");
  return (
    <>
      <h1>Topics</h1>
      <div class="toolbar">
        <FilterBox label="Filter topics" />
        <label class="check"><input type="checkbox" checked={derived === "1"} onChange={(event) => set({ derived: event.currentTarget.checked ? "1" : undefined })} /> with dead letters and snapshots</label>
        <span class="muted">{plural(listing.ids.length, "topic")}{complete.value ? "" : ", reading…"}</span>
      </div>
      <Shown error={error.value} at={at.value} retry={reload}>
        {complete.value && listing.ids.length === 0 ? (
          q === "" ? (
            <Empty title="No topics">
              <p>There is none yet, or this token may see none. A publish makes one:</p>
              <CliCommand text={command("publish", ["orders.created", '{"order":17}'])} />
            </Empty>
          ) : (
            <Empty title={`No topic has “${visible(q)}” in its name`}><p>Small and capital letters count as the same.</p></Empty>
          )
        ) : (
          <Table
            label="Topics"
            listing={listing}
            columns={columns}
            order={order}
            reset={filter.name}
            filling={!complete.value}
            leadsTo={(topic) => to("/topic", { topic: topic.name })}
          />
        )}
      </Shown>
    </>
  );
}
