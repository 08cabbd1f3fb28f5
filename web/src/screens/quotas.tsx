// What subjects use, and how much they may.
import { useMemo } from "preact/hooks";
import { get } from "../lib/api.ts";
import { useResource } from "../lib/data.ts";
import { bytes, count } from "../lib/format.ts";
import { useLive } from "../lib/live.ts";
import { route, to } from "../lib/route.ts";
import { who } from "../lib/session.ts";
import { SortedList } from "../lib/sorted.ts";
import { Badge, Foreign, Shown } from "../ui/basics.tsx";
import { FilterBox } from "../ui/filter.tsx";
import { type Column, orderOf, Table } from "../ui/table.tsx";

type Use = Readonly<{ used?: number; max?: number; maxPerSecond?: number }>;
type Subject = Readonly<Record<string, Use | string>>;

const POLL_MS = 5_000;
const QUOTAS: readonly (readonly [string, string])[] = [["topics", "Topics"], ["groups", "Groups"], ["storedBytes", "Stored"], ["connections", "Connections"], ["subscriptions", "Subscriptions"], ["bytesIn", "Bytes in"], ["bytesOut", "Bytes out"]];

function Cell({ use, id }: { use: Use | string | undefined; id: string }) {
  if (use === undefined || typeof use === "string") return <>–</>;
  if (use.maxPerSecond !== undefined) return <>at most {bytes(use.maxPerSecond)}/s</>;
  const shown = id === "storedBytes" ? bytes : count;
  const isFull = use.max !== undefined && (use.used ?? 0) >= use.max;
  return <>{shown(use.used)}{use.max !== undefined && <> of {shown(use.max)}</>} {isFull && <Badge tone="bad">used up</Badge>}</>;
}

function isPattern(subject: Subject): boolean {
  return !("subject" in subject);
}

function nameOf(subject: Subject): string {
  return String(subject["subject"] ?? subject["pattern"] ?? "");
}

/** How much is used; of a rate, how much may be. */
function amountOf(use: Use | string | undefined): number {
  return typeof use === "object" ? (use.used ?? use.maxPerSecond ?? -1) : -1;
}

const COLUMNS: readonly Column<Subject>[] = [
  { id: "subject", title: "Subject or topics", cell: (one) => <Name of={one} />, sort: nameOf },
  ...QUOTAS.map(([id, title]): Column<Subject> => ({ id, title, numeric: true, cell: (one) => <Cell use={one[id]} id={id} />, sort: (one) => amountOf(one[id]) })),
];

/** A subject, or the pattern of the topics that have a quota of their own. */
function Name({ of }: { of: Subject }) {
  const name = nameOf(of);
  if (isPattern(of)) return <>topics <Foreign text={name} most={60} /></>;
  return name === "" ? <span class="muted">without a subject</span> : <a href={to("/connections", { q: name })}><Foreign text={name} most={60} /></a>;
}

export function Quotas() {
  useLive({ view: "overview" }, {});
  const q = (route.value.params["q"] ?? "").toLowerCase();
  const all = who.value?.administrates === true;
  const found = useResource(who.value === undefined ? undefined : `quotas ${all}`, (signal) => get<{ subjects: Subject[]; patterns?: Subject[]; next?: string }>("/quotas", all ? { all: 1, limit: 1_000 } : {}, signal), POLL_MS);
  const { data, error, at } = found.state.value;
  const list = useMemo(() => {
    const fresh = new SortedList<Subject>();
    for (const one of [...(data?.subjects ?? []), ...(data?.patterns ?? [])]) fresh.put(`${isPattern(one) ? "pattern" : "subject"} ${nameOf(one)}`, one);
    return fresh;
  }, [data]);
  const order = orderOf(COLUMNS, "subject");
  const listing = list.listing(order, { name: q, matches: (one) => nameOf(one).toLowerCase().includes(q) });
  return (
    <>
      <h1>Quotas</h1>
      <div class="toolbar"><FilterBox label="Filter subjects and patterns" placeholder="Subject or pattern" /></div>
      <Shown error={error} at={at} retry={found.reload}>
        {data !== undefined && <Table label="Quotas" listing={listing} columns={COLUMNS} order={order} reset={q} />}
        {data?.next !== undefined && <p class="muted">There are more subjects than are shown.</p>}
        <p class="muted">
          {all ? "Limits are set in the configuration, under [[quota]]." : "These are your own. Those of other subjects need an admin right."}
        </p>
      </Shown>
    </>
  );
}
