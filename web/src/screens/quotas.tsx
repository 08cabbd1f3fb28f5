// What subjects use, and how much they may.
import { get } from "../lib/api.ts";
import { useResource } from "../lib/data.ts";
import { bytes, count } from "../lib/format.ts";
import { useLive } from "../lib/live.ts";
import { to } from "../lib/route.ts";
import { who } from "../lib/session.ts";
import { Badge, Foreign, Scroll, Shown } from "../ui/basics.tsx";

type Use = Readonly<{ used?: number; max?: number; maxPerSecond?: number }>;
type Subject = Readonly<Record<string, Use | string>>;

const POLL_MS = 5_000;
const QUOTAS: readonly (readonly [string, string])[] = [["topics", "Topics"], ["groups", "Groups"], ["storedBytes", "Stored"], ["connections", "Connections"], ["subscriptions", "Subscriptions"], ["bytesIn", "In"], ["bytesOut", "Out"]];

function Cell({ use, id }: { use: Use | string | undefined; id: string }) {
  if (use === undefined || typeof use === "string") return <>–</>;
  if (use.maxPerSecond !== undefined) return <>at most {bytes(use.maxPerSecond)}/s</>;
  const shown = id === "storedBytes" ? bytes : count;
  const isFull = use.max !== undefined && (use.used ?? 0) >= use.max;
  return <>{shown(use.used)}{use.max !== undefined && <> of {shown(use.max)}</>} {isFull && <Badge tone="bad">used up</Badge>}</>;
}

export function Quotas() {
  useLive({ view: "overview" }, {});
  const all = who.value?.administrates === true;
  const list = useResource(who.value === undefined ? undefined : `quotas ${all}`, (signal) => get<{ subjects: Subject[]; next?: string }>("/quotas", all ? { all: 1, limit: 1_000 } : {}, signal), POLL_MS);
  const { data, error, at } = list.state.value;
  return (
    <>
      <h1>Quotas</h1>
      <Shown error={error} at={at} retry={list.reload}>
        {data !== undefined && (
          <Scroll label="Quotas">
            <table class="plain">
              <thead><tr><th scope="col">Subject</th>{QUOTAS.map(([id, title]) => <th key={id} scope="col" class="numeric">{title}</th>)}</tr></thead>
              <tbody>{data.subjects.map((subject) => <Row key={String(subject["subject"] ?? subject["pattern"])} subject={subject} />)}</tbody>
            </table>
          </Scroll>
        )}
        {data?.next !== undefined && <p class="muted">There are more subjects than are shown.</p>}
        <p class="muted">
          {all ? "Limits are set in the configuration, under [[quota]]." : "These are your own. Those of other subjects need an admin right."}
        </p>
      </Shown>
    </>
  );
}

function Row({ subject }: { subject: Subject }) {
  const name = String(subject["subject"] ?? subject["pattern"] ?? "");
  return (
    <tr>
      <td>{name === "" ? <span class="muted">without a subject</span> : <a href={to("/connections", { q: name })}><Foreign text={name} most={60} /></a>}</td>
      {QUOTAS.map(([id]) => <td key={id} class="numeric"><Cell use={subject[id]} id={id} /></td>)}
    </tr>
  );
}
