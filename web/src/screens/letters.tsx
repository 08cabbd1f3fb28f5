// The workbench for dead letters: what fails and whether it is one cause; edit; replay one, selected ones or all that match, to the group that failed.
import { type Signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { useAnnounced } from "../lib/announce.ts";
import { get } from "../lib/api.ts";
import { usePages, useResource } from "../lib/data.ts";
import { count, plural, visible } from "../lib/format.ts";
import { useNewLetters } from "../lib/reload.ts";
import { useLive } from "../lib/live.ts";
import { open, route, set, to } from "../lib/route.ts";
import { refused, who } from "../lib/session.ts";
import { SortedList } from "../lib/sorted.ts";
import type { ErrorCount, Letter, Summary } from "../lib/types.ts";
import { Age, Button, Empty, ErrorBanner, Foreign, notice, Shown } from "../ui/basics.tsx";
import { FilterBox } from "../ui/filter.tsx";
import { StableList } from "../ui/stable.tsx";
import { type Column, orderOf, Table } from "../ui/table.tsx";
import { JobDialog, Jobs } from "./jobs.tsx";
import { LetterDialog } from "./letter.tsx";
import { Act, type Acting, type Which } from "./replay.tsx";
import { ActOnTopics, type ActingOnTopics } from "./replay-topics.tsx";

const PAGE = 1_000;
/** Errors that are shown apart. */
const CAUSES = 20;

const COLUMNS: readonly Column<Letter>[] = [
  { id: "err", title: "Error", wide: true, cell: (one) => <Foreign text={one.err === "" ? "(no error given)" : one.err} most={160} />, sort: (one) => one.err },
  { id: "topic", title: "Topic", extra: true, cell: (one) => <a href={to("/topic", { topic: one.topic })}>{one.topic}</a>, sort: (one) => one.topic },
  { id: "group", title: "Group", cell: (one) => <a href={to("/group", { topic: one.topic, group: one.group })}>{one.group}</a>, sort: (one) => one.group },
  { id: "key", title: "Key", cell: (one) => (one.key === undefined ? <span class="muted">–</span> : <Foreign text={one.key} most={40} />), sort: (one) => one.key ?? "" },
  { id: "event", title: "Event", numeric: true, extra: true, cell: (one) => <a href={to("/event", { topic: one.topic, seq: one.originalSeq })}>{one.originalSeq}</a>, sort: (one) => one.originalSeq },
  { id: "attempts", title: "Attempts", numeric: true, extra: true, cell: (one) => count(one.attempts), sort: (one) => one.attempts },
  { id: "ts", title: "Given up", numeric: true, cell: (one) => <Age ts={one.ts} of=" ago" />, sort: (one) => one.ts },
  { id: "replays", title: "Replayed", numeric: true, extra: true, cell: (one) => (one.replays === 0 ? <span class="muted">no</span> : `${one.replays}×`), sort: (one) => one.replays },
];

/** The letters that the filter picks, page by page. */
function useLetters(which: Which) {
  return usePages<Letter>(`letters ${JSON.stringify(which)}`, async (after, signal) => {
    const { letters: rows, next } = await get<{ letters: readonly Letter[]; next?: string }>("/dlq", { ...which, limit: PAGE, after }, signal);
    return { rows, next };
  });
}

export function Letters() {
  const { topic, group, err, q, key, letter, job, replayed = "0" } = route.value.params;
  const which: Which = { ...(topic && { topic }), ...(group && { group }), ...(err && { err }), ...(q && { q }), ...(key && { key }), ...(replayed !== "all" && { replayed }) };
  const name = JSON.stringify(which);
  const letters = useLetters(which);
  const summary = useResource(`summary ${name}`, (signal) => get<Summary>("/dlq/summary", { ...which, err: undefined }, signal));
  /** What there is to choose from. */
  const all = useResource("every letter", (signal) => get<Summary>("/dlq/summary", {}, signal));
  /** By their ids, as they were when they were chosen: a list that is read again may have them no more. */
  const chosen = useSignal<ReadonlyMap<string, Letter>>(new Map());
  const acting = useSignal<Acting | ActingOnTopics | undefined>(undefined);
  useLive({ view: "overview" }, {});
  useEffect(() => {
    chosen.value = new Map();
  }, [name]);
  const reload = () => {
    for (const one of [letters, summary, all]) one.reload();
  };
  useNewLetters(reload);
  const { data, error, at, loading } = letters.state.value;
  const list = useMemo(() => {
    const fresh = new SortedList<Letter>();
    for (const one of data?.rows ?? []) fresh.put(one.id, one);
    return fresh;
  }, [data]);
  const order = orderOf(COLUMNS, "-ts");
  const listing = list.listing(order, undefined);
  const picked = [...chosen.value.values()];
  const total = summary.state.value.data;
  const matching = err === undefined ? total?.letters : total?.errors.find((one) => one.err === err)?.count;
  useAnnounced(data === undefined ? "" : plural(listing.ids.length, "dead letter"));
  const toggle = (one: Letter) => {
    const next = new Map(chosen.peek());
    if (!next.delete(one.id)) next.set(one.id, one);
    chosen.value = next;
  };
  const of = {
    which,
    started: (id: string) => set({ job: id }),
    close: () => { acting.value = undefined; },
    done: () => {
      chosen.value = new Map();
      reload();
    },
  };
  return (
    <>
      <h1>Dead letters</h1>
      <Filters all={all.state.value.data} />
      <Jobs />
      <ErrorBanner error={error === undefined ? summary.state.value.error : undefined} retry={summary.reload} isBelow />
      {total !== undefined && <Causes total={total} err={err} />}
      <Shown error={error} at={at} retry={letters.reload}>
        {listing.ids.length === 0 ? (
          !loading && error === undefined && <NoLetters which={which} all={all.state.value.data} />
        ) : (
          <>
            <Actions which={which} letters={data?.rows ?? []} picked={picked} matching={matching} isWhole={data?.next === undefined} groups={total?.complete === true && total.otherGroups === 0 ? total.groups : undefined} acting={acting} chosen={chosen}>
              <span class="muted">{plural(listing.ids.length, "letter")}{data?.next === undefined ? "" : ", and more"}</span>
              {data?.next !== undefined && <Button busy={letters.busy.value} onClick={() => void letters.more()}>Read on</Button>}
            </Actions>
            <Table
              label="Dead letters"
              listing={listing}
              columns={COLUMNS}
              order={order}
              reset={name}
              open={(one) => open({ letter: one.id, of: one.topic })}
              selected={{ has: (id) => chosen.value.has(id), toggle }}
            />
          </>
        )}
      </Shown>
      {letter !== undefined && <LetterDialog topic={route.value.params["of"] ?? topic ?? ""} id={letter} close={() => set({ letter: undefined, of: undefined })} done={reload} />}
      {acting.value !== undefined && ("topic" in acting.value ? <Act acting={acting.value} {...of} /> : <ActOnTopics acting={acting.value} {...of} />)}
      {job !== undefined && <JobDialog id={job} close={() => { set({ job: undefined }); reload(); }} />}
    </>
  );
}

function Filters({ all }: { all: Summary | undefined }) {
  const { topic = "", group = "", replayed = "0" } = route.value.params;
  const groups = all?.groups ?? [];
  const options = (values: readonly string[], now: string) => [...new Set([...values, ...(now === "" ? [] : [now])])].sort().map((one) => <option key={one} value={one}>{visible(one)}</option>);
  return (
    <div class="toolbar">
      <FilterBox label="Filter by text in the error" placeholder="Text in the error" />
      <select aria-label="Topic" value={topic} onChange={(event) => set({ topic: event.currentTarget.value, group: undefined, err: undefined })}>
        <option value="">every topic</option>
        {options(groups.map((one) => one.topic), topic)}
      </select>
      <select aria-label="Group" value={group} onChange={(event) => set({ group: event.currentTarget.value, err: undefined })}>
        <option value="">every group</option>
        {options(groups.filter((one) => topic === "" || one.topic === topic).map((one) => one.group), group)}
      </select>
      <FilterBox label="Key" param="key" placeholder="Key" />
      <select aria-label="Replayed" value={replayed} onChange={(event) => set({ replayed: event.currentTarget.value === "0" ? undefined : event.currentTarget.value })}>
        <option value="0">not replayed</option>
        <option value="1">replayed</option>
        <option value="all">all</option>
      </select>
    </div>
  );
}

/** Why a cause cannot be chosen. */
const NO_TEXT = "letters without an error text cannot be told from others by it; select them in the table";

/** What fails, by cause. */
function Causes({ total, err }: { total: Summary; err: string | undefined }) {
  if (total.errors.length === 0) return null;
  const others = total.errors.slice(CAUSES).reduce((sum, one) => sum + one.count, total.otherErrors);
  return (
    <section aria-label="Errors">
      <StableList rows={total.errors.slice(0, CAUSES)} id={(one) => one.err}>
        {(rows) => (
          <ul class="causes">
            {err !== undefined && <li><button type="button" onClick={() => set({ err: undefined })}>Every error</button></li>}
            {rows.map((one) => <li key={one.err}><Cause one={one} isChosen={err === one.err} /></li>)}
          </ul>
        )}
      </StableList>
      {others > 0 && <p class="muted">{plural(others, "letter")} with other errors.</p>}
      {!total.complete && <p class="muted">There are more letters than one request counts.</p>}
    </section>
  );
}

function Cause({ one, isChosen }: { one: ErrorCount; isChosen: boolean }) {
  const isNameless = one.err === "";
  const choose = () => {
    if (isNameless) notice.value = `Not possible: ${NO_TEXT}.`;
    else set({ err: isChosen ? undefined : one.err });
  };
  return (
    <button type="button" aria-pressed={isChosen} aria-disabled={isNameless ? true : undefined} title={isNameless ? `Not possible: ${NO_TEXT}` : undefined} onClick={choose}>
      <b>{count(one.count)}</b> <Foreign text={isNameless ? "(no error given)" : one.err} most={90} /> <small>last <Age ts={one.lastTs} of=" ago" /></small>
    </button>
  );
}

function Actions(props: {
  which: Which;
  letters: readonly Letter[];
  picked: readonly Letter[];
  matching: number | undefined;
  /** Whether `letters` are all that match. */
  isWhole: boolean;
  /** The groups that have letters, if all of them are known. */
  groups: Summary["groups"] | undefined;
  acting: Signal<Acting | ActingOnTopics | undefined>;
  chosen: Signal<ReadonlyMap<string, Letter>>;
  children: ComponentChildren;
}) {
  const { which, letters, picked, acting, chosen } = props;
  // One topic: that of the filter, or of what is selected. Else the action says of each topic what would be done.
  const topics = new Set((picked.length > 0 ? picked : props.isWhole ? letters : props.groups ?? []).map((one) => one.topic));
  const topic = which.topic ?? (topics.size === 1 ? [...topics][0] : undefined);
  const refusals = topic === undefined ? [...topics].map((one) => refused("admin", one)) : [refused("admin", topic)];
  const refusal = refusals.length > 0 && refusals.every((one) => one !== undefined) ? refusals[0] : undefined;
  const again = "all of these were replayed; select those that are to be replayed again";
  const selective = "letters that match and were not replayed would go, too; select those that are to be discarded";
  const ask = (kind: Acting["kind"]) => {
    const round = 1 + Math.max(0, ...picked.map((one) => one.replays));
    if (topic !== undefined) acting.value = picked.length > 0 ? { kind, topic, ids: picked.map((one) => one.id), round } : { kind, topic };
    else acting.value = picked.length > 0 ? { kind, chosen: byTopic(picked), round } : { kind };
  };
  const isAll = letters.length > 0 && letters.every((one) => chosen.value.has(one.id));
  return (
    <div class="toolbar" role="group" aria-label="Actions">
      <Button kind="primary" refused={refusal ?? (picked.length === 0 && which.replayed === "1" ? again : undefined)} onClick={() => ask("replay")}>
        {picked.length > 0 ? `Replay ${count(picked.length)} selected…` : `Replay all ${count(props.matching ?? letters.length)}…`}
      </Button>
      <Button refused={refusal ?? (picked.length === 0 && which.replayed === "1" ? selective : undefined)} onClick={() => ask("discard")}>{picked.length > 0 ? `Discard ${count(picked.length)} selected…` : "Discard all…"}</Button>
      <Button kind="quiet" onClick={() => { chosen.value = new Map(isAll ? [] : letters.map((one) => [one.id, one])); }}>{isAll ? "Select none" : "Select all shown"}</Button>
      {props.children}
    </div>
  );
}

/** The ids of letters, by topic. */
function byTopic(letters: readonly Letter[]): ReadonlyMap<string, readonly string[]> {
  const ids = new Map<string, string[]>();
  for (const { topic, id } of letters) ids.set(topic, [...(ids.get(topic) ?? []), id]);
  return ids;
}

function NoLetters({ which, all }: { which: Which; all: Summary | undefined }) {
  const isFiltered = Object.keys(which).some((name) => name !== "replayed");
  const last = Math.max(0, ...(all?.errors ?? []).map((one) => one.lastTs));
  return (
    <Empty title="No dead letters">
      <p>
        {isFiltered ? <>None matches these filters. <a href={to("/letters")}>Show every letter</a></> : "Nothing that this token may see has failed for good, or all of it was replayed."}
      </p>
      {who.value?.admin === false && <p>To see the letters of a topic, a token needs the right <code>subscribe</code> on the topic and on <code>dlq.</code> and its name, or <code>admin</code>.</p>}
      {all !== undefined && last > 0 && (
        <p>The last event was given up <Age ts={last} of=" ago" />. {all.replayed > 0 && which.replayed === "0" && <a href={to("/letters", { replayed: "1" })}>{plural(all.replayed, "letter")} {all.replayed === 1 ? "was" : "were"} replayed</a>}</p>
      )}
    </Empty>
  );
}
