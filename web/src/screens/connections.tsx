// The connections of this hub, those with the most queued bytes first.
import { useMemo } from "preact/hooks";
import { useAnnounced } from "../lib/announce.ts";
import { get } from "../lib/api.ts";
import { now } from "../lib/clock.ts";
import { useResource } from "../lib/data.ts";
import { bytes, count, duration, plural } from "../lib/format.ts";
import { useLive } from "../lib/live.ts";
import { route } from "../lib/route.ts";
import { who } from "../lib/session.ts";
import { SortedList } from "../lib/sorted.ts";
import { Age, Empty, Foreign, Shown } from "../ui/basics.tsx";
import { FilterBox } from "../ui/filter.tsx";
import { type Column, orderOf, Table } from "../ui/table.tsx";

type Connection = Readonly<{ id: string | number; subject?: string; address?: string; kind: string; since: number; expires?: number; subscriptions: number; inflight: number; queuedBytes: number; sentBytes?: number }>;

const POLL_MS = 2_000;

const COLUMNS: readonly Column<Connection>[] = [
  { id: "subject", title: "Subject", wide: true, cell: (one) => (one.subject === undefined ? <span class="muted">–</span> : <Foreign text={one.subject} most={60} />), sort: (one) => one.subject ?? "" },
  { id: "kind", title: "Kind", cell: (one) => one.kind, sort: (one) => one.kind },
  { id: "address", title: "Address", extra: true, cell: (one) => one.address ?? "–", sort: (one) => one.address ?? "" },
  { id: "queued", title: "Queued", numeric: true, cell: (one) => bytes(one.queuedBytes), sort: (one) => one.queuedBytes },
  { id: "inflight", title: "In flight", numeric: true, cell: (one) => count(one.inflight), sort: (one) => one.inflight },
  { id: "subscriptions", title: "Subscriptions", numeric: true, extra: true, cell: (one) => count(one.subscriptions), sort: (one) => one.subscriptions },
  { id: "sent", title: "Sent", numeric: true, extra: true, cell: (one) => bytes(one.sentBytes), sort: (one) => one.sentBytes ?? 0 },
  { id: "since", title: "Connected for", numeric: true, cell: (one) => <Age ts={one.since} />, sort: (one) => -one.since },
  { id: "expires", title: "Token valid for", numeric: true, extra: true, cell: (one) => <Left until={one.expires} />, sort: (one) => one.expires ?? Number.POSITIVE_INFINITY },
];

function Left({ until }: { until: number | undefined }) {
  return <>{until === undefined ? "–" : duration(until - now.value)}</>;
}

export function Connections() {
  const q = route.value.params["q"] ?? "";
  useLive({ view: "overview" }, {});
  const found = useResource(`connections ${q}`, (signal) => get<{ connections: Connection[]; next?: string }>("/connections", { q, limit: 1_000 }, signal), POLL_MS);
  const { data, error, at } = found.state.value;
  const list = useMemo(() => {
    const fresh = new SortedList<Connection>();
    for (const one of data?.connections ?? []) fresh.put(String(one.id), one);
    return fresh;
  }, [data]);
  const order = orderOf(COLUMNS, "-queued");
  const listing = list.listing(order, undefined);
  const isOwn = who.value?.admin === false;
  useAnnounced(data === undefined ? "" : plural(listing.ids.length, "connection"));
  return (
    <>
      <h1>Connections</h1>
      <div class="toolbar">
        <FilterBox label="Filter connections by subject" placeholder="Subject" />
        {data !== undefined && <span class="muted">{plural(listing.ids.length, "connection")} to this hub{data?.next === undefined ? "" : ", and more"}{isOwn ? " of your own subject; those of others need the right admin on **" : ""}</span>}
      </div>
      <Shown error={error} at={at} retry={found.reload}>
        {data === undefined ? null : listing.ids.length === 0 ? (
          <Empty title={q === "" ? "No connections" : "No connection matches"}><p>Consumers, publishers by WebSocket and live readers show up here while they are connected.</p></Empty>
        ) : (
          <Table label="Connections" listing={listing} columns={COLUMNS} order={order} reset={q} />
        )}
      </Shown>
    </>
  );
}
