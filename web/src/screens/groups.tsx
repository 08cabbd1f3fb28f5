// The list of groups with their lag and its reason, the worst first.
import { useAnnounced } from "../lib/announce.ts";
import { command, count, duration, milliseconds, plural, rate } from "../lib/format.ts";
import { type LiveList, useLiveList } from "../lib/list.ts";
import { type Advice, adviceOf, isFailing, REASONS, waitsSince } from "../lib/reasons.ts";
import { route, set, to } from "../lib/route.ts";
import type { Group } from "../lib/types.ts";
import { Age, Badge, Button, CliCommand, Empty, Foreign, Shown } from "../ui/basics.tsx";
import { FilterBox } from "../ui/filter.tsx";
import { type Column, orderOf, Table } from "../ui/table.tsx";

const PAGE = 2_000;

/** The order of the list: the rank of the reason, then the lag; a group that is caught up comes last. */
function urgency(group: Group): number {
  const { rank } = adviceNow(group);
  return group.lag === 0 ? 0 : rank * 1e12 + Math.min(group.lag, 1e11);
}

type Judged = Pick<Group, "lag" | "reason" | "rates">;

export function adviceNow(group: Judged): Advice {
  return adviceOf({ reason: group.reason, isFailing: isFailing(group) });
}

export function isStuck(group: Judged): boolean {
  return group.lag > 0 && adviceNow(group).rank > 1;
}

/** When a group that is stuck has delivered something last. */
export function stuckSince(group: Judged & Pick<Group, "since">): number | undefined {
  return isStuck(group) ? waitsSince({ ...group, isFailing: isFailing(group) }) : undefined;
}

export function ReasonBadge({ group }: { group: Judged }) {
  const { title, rank, means } = adviceNow(group);
  const tone = rank === 0 && group.reason === null ? "good" : group.lag === 0 || rank <= 1 ? "plain" : rank >= 5 ? "bad" : "warn";
  return <span title={means}><Badge tone={tone}>{title}</Badge></span>;
}

/** From commit to delivery, in the last minute. */
function latency(group: Group): number | undefined {
  return group.rates?.minute.latencyMs?.p99;
}

export function groupColumns(withTopic: boolean): readonly Column<Group>[] {
  const topic: Column<Group> = { id: "topic", title: "Topic", extra: true, cell: (group) => <a href={to("/topic", { topic: group.topic })}>{group.topic}</a>, sort: (group) => group.topic };
  return [
    { id: "group", title: "Group", wide: true, cell: (group) => <><a href={to("/group", { topic: group.topic, group: group.group })}>{group.group}</a>{withTopic && <small class="narrow"> {group.topic}</small>}</>, sort: (group) => group.group },
    ...(withTopic ? [topic] : []),
    { id: "urgency", title: "Reason", cell: (group) => <ReasonBadge group={group} />, sort: urgency },
    { id: "since", title: "For", numeric: true, extra: true, cell: (group) => <Age ts={stuckSince(group)} />, sort: (group) => -(stuckSince(group) ?? Number.POSITIVE_INFINITY) },
    { id: "lag", title: "Lag", numeric: true, cell: (group) => count(group.lag), sort: (group) => group.lag },
    { id: "inflight", title: "In flight", numeric: true, extra: true, cell: (group) => count(group.inflight), sort: (group) => group.inflight },
    { id: "parked", title: "Parked", numeric: true, extra: true, spare: true, cell: (group) => count(group.parked), sort: (group) => group.parked },
    { id: "members", title: "Members", numeric: true, extra: true, cell: (group) => count(group.members), sort: (group) => group.members },
    { id: "latency", title: "Latency p99", numeric: true, extra: true, spare: true, cell: (group) => milliseconds(latency(group)), sort: (group) => latency(group) ?? -1 },
    { id: "acked", title: "Acked/s", numeric: true, extra: true, cell: (group) => rate(group.rates?.second.acked), sort: (group) => group.rates?.second.acked ?? 0 },
    { id: "failed", title: "Failed/s", numeric: true, extra: true, spare: true, cell: (group) => rate(group.rates?.second.nacked), sort: (group) => group.rates?.minute.nacked ?? 0 },
    {
      id: "oldest",
      title: "Oldest unsettled",
      numeric: true,
      extra: true,
      cell: (group) => {
        const oldest = group.oldestUnsettled;
        if (oldest === undefined || oldest === null) return <span class="muted">–</span>;
        return <a href={to("/event", { topic: group.topic, seq: oldest.seq })}>{oldest.ageMs === undefined ? `seq ${oldest.seq}` : duration(oldest.ageMs)}</a>;
      },
      sort: (group) => group.oldestUnsettled?.ageMs ?? 0,
    },
  ];
}

/** The groups of all topics, or of one. */
export function useGroups(topic?: string): LiveList<Group> {
  return useLiveList<Group>({
    path: "/groups",
    query: { topic, limit: PAGE },
    name: "groups",
    id: (group) => `${group.topic} ${group.group}`,
    live: { view: "groups", topic },
    // Which hub serves a group is in pages only.
    merge: (old, row) => (old?.owner === undefined || row.reason !== "elsewhere" ? row : { ...row, owner: old.owner }),
  });
}

/** In the address: the groups of the hub that the page comes from. */
export const THIS_HUB = "this";

function matcher(q: string, reason: string, hub: string): (group: Group) => boolean {
  const wanted = q.toLowerCase();
  return (group) => {
    if (hub !== "" && (group.owner ?? (group.reason === "elsewhere" ? undefined : THIS_HUB)) !== hub) return false;
    if (reason === "stuck" ? !isStuck(group) : reason !== "" && (group.reason ?? "delivering") !== reason) return false;
    return wanted === "" || group.group.toLowerCase().includes(wanted) || group.topic.toLowerCase().includes(wanted);
  };
}

export function Groups() {
  const { list, version, error, at, complete, reload } = useGroups();
  version.value;
  const { q = "", reason = "", hub = "" } = route.value.params;
  const columns = groupColumns(true);
  const order = orderOf(columns, "-urgency");
  const filter = { name: `${reason} ${hub} ${q}`, matches: matcher(q, reason, hub) };
  const listing = list.listing(order, filter);
  useAnnounced(complete.value ? plural(listing.ids.length, "group") : "");
  return (
    <>
      <h1>Groups</h1>
      <div class="toolbar">
        <FilterBox label="Filter groups by name or topic" />
        <select aria-label="Reason" value={reason} onChange={(event) => set({ reason: event.currentTarget.value })}>
          <option value="">every reason</option>
          <option value="stuck">stuck: a lag and no delivery</option>
          <option value="delivering">Delivering</option>
          {Object.entries(REASONS).map(([id, { title }]) => <option key={id} value={id}>{title}</option>)}
        </select>
        {hub !== "" && <Button icon="close" label="Show the groups of every hub" onClick={() => set({ hub: undefined })}>{hub === THIS_HUB ? "of this hub" : <>of hub <Foreign text={hub} most={60} /></>}</Button>}
        <span class="muted">{plural(listing.ids.length, "group")}{complete.value ? "" : ", reading…"}</span>
      </div>
      <Shown error={error.value} at={at.value} retry={reload}>
        {complete.value && listing.ids.length === 0 ? (
          q === "" && reason === "" && hub === "" ? (
            <Empty title="No groups">
              <p>A group is made by the first consumer that joins it:</p>
              <CliCommand text={command("subscribe", ["orders.created"], { "--group": "billing" })} />
            </Empty>
          ) : (
            <Empty title={reason === "stuck" && q === "" && hub === "" ? "No group is stuck" : "No group matches"}>
              <p>{plural(list.rows.size, "group")} in all. <a href={to("/groups")}>Show every group</a></p>
            </Empty>
          )
        ) : (
          <Table
            label="Groups"
            listing={listing}
            columns={columns}
            order={order}
            reset={filter.name}
            filling={!complete.value}
            leadsTo={(group) => to("/group", { topic: group.topic, group: group.group })}
          />
        )}
      </Shown>
    </>
  );
}
