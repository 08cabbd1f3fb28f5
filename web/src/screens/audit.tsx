// The audit log: refusals and admin actions.
import { useMemo } from "preact/hooks";
import { useAnnounced } from "../lib/announce.ts";
import { get } from "../lib/api.ts";
import { useResource } from "../lib/data.ts";
import { count, plural, time } from "../lib/format.ts";
import { useLive } from "../lib/live.ts";
import { route } from "../lib/route.ts";
import { inOrder } from "../lib/sorted.ts";
import { Badge, Empty, Foreign, Shown } from "../ui/basics.tsx";
import { FilterBox } from "../ui/filter.tsx";
import { type Column, Table } from "../ui/table.tsx";

/** A line of the audit log; one that counts what was left out has a `count`. */
type Entry = Readonly<{ n: number; ts: number; event: string; outcome?: string; via?: string; peer?: string; sub?: string; jti?: string; op?: string; action?: string; topic?: string; group?: string; target?: string; code?: string; reason?: string; count?: number }>;

const POLL_MS = 3_000;
const ENTRIES = 1_000;

const COLUMNS: readonly Column<Entry>[] = [
  { id: "ts", title: "Time", cell: ({ ts }) => time(ts) },
  { id: "sub", title: "Subject", cell: ({ sub }) => (sub === undefined ? <span class="muted">–</span> : <Foreign text={sub} most={60} />) },
  { id: "op", title: "Request", cell: ({ op, event, count: left }) => (left === undefined ? <Foreign text={op ?? event} most={80} /> : `${count(left)} entries were left out: too many at once`) },
  { id: "about", title: "About", cell: ({ topic, target, group }) => <Foreign text={[topic ?? target, group].filter((part) => part !== undefined).join(" ") || "–"} most={100} /> },
  { id: "outcome", title: "Outcome", cell: ({ outcome, code }) => (outcome === undefined ? "–" : outcome === "allowed" ? <Badge tone="good">allowed</Badge> : <Badge tone="bad"><Foreign text={code ?? outcome} /></Badge>) },
  { id: "reason", title: "Reason", wide: true, extra: true, cell: ({ reason }) => <Foreign text={reason ?? ""} most={300} /> },
  { id: "from", title: "From", extra: true, cell: ({ peer, via }) => <Foreign text={[peer, via].filter((part) => part !== undefined).join(" ")} /> },
];

export function Audit() {
  useLive({ view: "overview" }, {});
  const list = useResource("audit", (signal) => get<{ entries: Entry[] }>("/audit", { limit: ENTRIES }, signal), POLL_MS);
  const { data, error, at } = list.state.value;
  const q = (route.value.params["q"] ?? "").toLowerCase();
  const rows = useMemo(() => (data?.entries ?? []).filter((entry) => q === "" || JSON.stringify(entry).toLowerCase().includes(q)), [data, q]);
  const listing = useMemo(() => inOrder(rows, (entry) => String(entry.n)), [rows]);
  useAnnounced(data === undefined ? "" : plural(rows.length, "entry", "entries"));
  return (
    <>
      <h1>Audit</h1>
      <div class="toolbar">
        <FilterBox label="Filter the audit log" placeholder="Text in an entry" />
        {data !== undefined && <span class="muted">{plural(rows.length, "entry", "entries")}, the newest first</span>}
      </div>
      <Shown error={error} at={at} retry={list.reload}>
        {data === undefined ? null : rows.length === 0 ? (
          <Empty title={q === "" ? "No entries" : "No entry matches"}>
            <p>Refusals and admin actions show up here: the newest {count(ENTRIES)} since this hub started. To keep all of them, name a file in the configuration:</p>
            <pre class="block">{'[audit]\nlog = "/var/log/event-hub/audit.log"'}</pre>
          </Empty>
        ) : (
          <Table label="Audit log" listing={listing} columns={COLUMNS} reset={q} />
        )}
      </Shown>
    </>
  );
}
