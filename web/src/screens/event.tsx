// What became of an event: outbox row, commit, each group, dead letter, replays; and what belongs to it.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get, getText } from "../lib/api.ts";
import { relationsOf } from "../lib/relations.ts";
import { useResource } from "../lib/data.ts";
import { bytes, command, duration, plural, time, visible } from "../lib/format.ts";
import { useLive } from "../lib/live.ts";
import { advice } from "../lib/reasons.ts";
import { record, type Shown as Shown_, take } from "../lib/record.ts";
import { route, to } from "../lib/route.ts";
import { refused } from "../lib/session.ts";
import { findTopic } from "../lib/topics.ts";
import { Age, Badge, Button, CliCommand, CopyButton, Empty, Fact, Facts, Foreign, Scroll, Shown } from "../ui/basics.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { Payload } from "../ui/payload.tsx";
import { PublishForm } from "./publish.tsx";
import { Related } from "./related.tsx";

type Replay = Readonly<{ id: string; round: number; seq: number }>;
type GroupState = Readonly<{
  group: string;
  state: string;
  attempts?: number;
  failures?: number;
  member?: number | string;
  leftMs?: number;
  inHand?: boolean;
  behindKey?: boolean;
  reason?: string;
  saved?: boolean;
  letter?: Readonly<{ id: string; seq: number; ts: number; err: string; attempts: number; replays: readonly Replay[] }>;
}>;
type Journey = Readonly<{
  topic: string;
  seq?: number | null;
  committed?: number;
  cleaned?: boolean;
  replayOf?: string;
  replayFor?: string;
  letter?: string;
  outbox?: Readonly<{ outbox: string; id: string; status: string; ts: number; attempts: number; error?: string }>;
  groups?: readonly GroupState[];
  next?: string | undefined;
}>;
type Followed = Readonly<{ journey: Journey; shown: Shown_ | undefined }>;

/** States in which the group is not done with the event. */
const OPEN_STATES = ["pending", "leased", "parked", "dead_lettering"];
/** How often an event is looked at again that a group is not done with. */
const POLL_MS = 2_000;

/** The event, with a number of pages of the groups of its topic. */
async function follow(topic: string, which: { id: string } | { seq: string }, pages: number, signal: AbortSignal): Promise<Followed> {
  const { taken, rest } = take<Journey>(await getText("/event", { topic, ...which }, signal), "event");
  const event = taken.get("event");
  let [groups, next] = [rest.groups, rest.next];
  for (let n = 1; n < pages && next !== undefined; n += 1) {
    const page: Journey = await get<Journey>("/event", { topic, seq: rest.seq ?? undefined, after: next }, signal);
    groups = [...(groups ?? []), ...(page.groups ?? [])];
    next = page.next;
  }
  return { journey: { ...rest, ...(groups && { groups }), next }, shown: event === undefined || event === "null" ? undefined : record(event) };
}

/** The command shows an event by its id, or by its seq where nobody knows the id any more. */
function commandOf(topic: string, id: string | undefined, seq: number | undefined): string {
  return id === undefined ? command("event show", [], { "--topic": topic, "--seq": seq }) : command("event show", [id], { "--topic": topic });
}

export function EventScreen() {
  const { topic = "", id, seq = "" } = route.value.params;
  useLive({ view: "overview" }, {});
  const republish = useSignal(false);
  const isOpen = useSignal(false);
  const which = id === undefined ? { seq } : { id };
  const name = `event ${topic} ${JSON.stringify(which)}`;
  const pages = useSignal({ of: name, count: 1 });
  const count = () => (pages.peek().of === name ? pages.peek().count : 1);
  const found = useResource(name, (signal) => follow(topic, which, count(), signal), isOpen.value ? POLL_MS : undefined);
  const { data, error, at } = found.state.value;
  const shown = data?.shown;
  const isUnknown = error?.code === "unknown_id" && data === undefined;
  useEffect(() => {
    isOpen.value = data === undefined ? false : data.journey.seq === null || (data.journey.groups ?? []).some(({ state }) => OPEN_STATES.includes(state));
  }, [data]);
  return (
    <>
      <p class="crumbs"><a href={to("/topics")}>Topics</a> / <a href={to("/topic", { topic })}><Foreign text={topic} most={300} /></a></p>
      <div class="titlebar">
        <h1>Event <Foreign text={String(shown?.record.seq ?? data?.journey.seq ?? seq)} /></h1>
        <Button onClick={found.reload}>Look again</Button>
        <Button onClick={() => { republish.value = true; }} refused={shown === undefined ? "there is no record to publish" : refused("publish", topic)}>Publish again…</Button>
      </div>
      {isUnknown && (
        <Empty title="The topic does not have it">
          <p>It was never published here, or it was cleaned away so long ago that its id is forgotten.</p>
          {id !== undefined && <p><a href={to("/find", { id })}>Look for the id in every topic</a></p>}
        </Empty>
      )}
      <Shown error={isUnknown ? undefined : error} at={at} retry={found.reload}>
        {data !== undefined && (
          <>
            <JourneyList journey={data.journey} topic={topic} more={() => { pages.value = { of: name, count: count() + 1 }; found.reload(); }} />
            {shown === undefined ? <NoRecord journey={data.journey} topic={topic} /> : <Whole shown={shown} topic={topic} />}
            <CliCommand text={commandOf(topic, shown?.record.id ?? id, data.journey.seq ?? undefined)} />
          </>
        )}
      </Shown>
      {republish.value && shown !== undefined && (
        <Dialog title={`Publish to ${topic} again`} wide close={() => { republish.value = false; }}>
          <p>A new event with an id of its own. Every group gets it; to hand a failed event to the one group that failed, replay its <a href={to("/letters", { topic })}>dead letter</a>.</p>
          <PublishForm topic={topic} payload={shown.payload} eventKey={shown.record.key ?? ""} headers={shown.record.headers ?? {}} />
        </Dialog>
      )}
    </>
  );
}

/** Why there is a journey and no record. */
function NoRecord({ journey, topic }: { journey: Journey; topic: string }) {
  const settings = useResource(journey.cleaned === true ? `settings ${topic}` : undefined, async (signal) => (await findTopic(topic, signal))?.settings);
  if (journey.cleaned !== true) return <Empty title="Not published yet"><p>Its row waits in the outbox. <a href={to("/outboxes")}>Outboxes</a></p></Empty>;
  const kept = settings.state.value.data;
  const rules = [
    kept?.compaction === true ? "compaction: a newer event of its key has replaced it" : "",
    kept?.retentionDays == null ? "" : `retention_days = ${kept.retentionDays}`,
    kept?.retentionBytes == null ? "" : `retention_bytes = ${bytes(kept.retentionBytes)}`,
  ].filter((rule) => rule !== "");
  return (
    <Empty title="The record was cleaned away">
      <p>{rules.length === 0 ? "The topic keeps everything now; an earlier setting, or a deletion of the topic, has removed it." : `The topic's rule: ${rules.join(", or ")}.`}</p>
      <p>Its id is remembered, so it cannot be published twice.</p>
    </Empty>
  );
}

function Whole({ shown, topic }: { shown: Shown_; topic: string }) {
  const { record, payload } = shown;
  return (
    <>
      <Facts>
        <Fact name="Id"><code>{record.id}</code> <CopyButton text={record.id} label="Copy the id" /></Fact>
        <Fact name="Key">
          {record.key === undefined ? "–" : <><Foreign text={record.key} /> <CopyButton text={record.key} label="Copy the key" /> <a href={to("/topic", { topic, key: record.key })}>events</a> · <a href={to("/state", { topic, history: record.key })}>history</a></>}
        </Fact>
        <Fact name="Time">{time(record.ts)} <span class="muted">(<Age ts={record.ts} of=" ago" />)</span></Fact>
        {record.sid !== undefined && <Fact name="Session"><Foreign text={record.sid} /></Fact>}
        {record.tags !== undefined && record.tags.length > 0 && <Fact name="Tags">{record.tags.map((tag) => <Badge key={tag} tone="plain"><Foreign text={tag} most={80} /></Badge>)}</Fact>}
        {record.caused_by !== undefined && record.caused_by.length > 0 && (
          <Fact name="Caused by">{record.caused_by.map((cause) => <a key={cause} href={to("/find", { id: cause })}><code>{cause}</code></a>)}</Fact>
        )}
      </Facts>
      {record.headers !== undefined && Object.keys(record.headers).length > 0 && (
        <Scroll label="Headers">
          <table class="plain">
            <thead><tr><th scope="col">Header</th><th scope="col">Value</th></tr></thead>
            <tbody>{Object.entries(record.headers).map(([name, value]) => <tr key={name}><td><Foreign text={name} /></td><td><Foreign text={value} most={1_000} /> <CopyButton text={value} label={`Copy the header ${visible(name)}`} /></td></tr>)}</tbody>
          </table>
        </Scroll>
      )}
      <Payload text={payload} name={`${topic}-${record.seq}`} />
      {relationsOf(record.headers).map((relation) => <Related key={`${relation.parameter} ${relation.id}`} topic={topic} relation={relation} seq={record.seq} />)}
    </>
  );
}

const STATES: Readonly<Record<string, readonly ["good" | "bad" | "warn" | "plain", string]>> = {
  pending: ["warn", "to be delivered"],
  leased: ["warn", "with a member"],
  parked: ["warn", "waiting"],
  dead_lettering: ["bad", "being given up"],
  dead_lettered: ["bad", "given up"],
  filtered: ["plain", "passed over"],
  settled: ["good", "settled"],
};

function JourneyList({ journey, topic, more }: { journey: Journey; topic: string; more: () => void }) {
  const isCommitted = journey.seq !== undefined && journey.seq !== null;
  const groups = journey.groups ?? [];
  return (
    <section aria-label="Journey">
      <h2>Journey</h2>
      <ol class="journey">
        {journey.outbox !== undefined && (
          <li>
            <Badge tone={journey.outbox.status === "error" ? "bad" : journey.outbox.status === "sent" ? "good" : "warn"}>outbox {journey.outbox.status}</Badge>
            <span>row of <a href={to("/outboxes")}>{journey.outbox.outbox}</a>, written <Age ts={journey.outbox.ts} of=" ago" />{journey.outbox.attempts > 0 && `, ${plural(journey.outbox.attempts, "attempt")}`}{journey.outbox.error !== undefined && <>: <Foreign text={journey.outbox.error} /></>}</span>
          </li>
        )}
        {journey.replayOf !== undefined && (
          <li><Badge tone="plain">replay</Badge><span>of <a href={to("/event", { topic, id: journey.replayOf })}>the event that was published first</a>{journey.replayFor !== undefined && <>, for group {journey.replayFor} alone</>}</span></li>
        )}
        {isCommitted && (
          <li><Badge tone="good">committed</Badge><span>seq {journey.seq} of <Foreign text={topic} most={300} />{journey.committed !== undefined && <>, {time(journey.committed)} (<Age ts={journey.committed} of=" ago" />)</>}</span></li>
        )}
        {groups.map((state) => <GroupStep key={state.group} state={state} topic={topic} />)}
      </ol>
      {isCommitted && groups.length === 0 && <p class="muted">No group that this token may see reads the topic.</p>}
      {journey.next !== undefined && <Button onClick={more}>Further groups</Button>}
    </section>
  );
}

function times(value: number): string {
  return value === 1 ? "once" : plural(value, "time");
}

function GroupStep({ state, topic }: { state: GroupState; topic: string }) {
  const [tone, word] = STATES[state.state] ?? ["plain", state.state];
  return (
    <li>
      <Badge tone={tone}>{word}</Badge>
      <span>
        <a href={to("/group", { topic, group: state.group })}>{state.group}</a>
        {state.reason !== undefined && <>: {advice(state.reason).title.toLowerCase()}. <span class="muted">{advice(state.reason).means}</span></>}
        {state.member !== undefined && <> has it (member {state.member})</>}
        {state.leftMs !== undefined && <>, {duration(state.leftMs)} left</>}
        {state.behindKey === true && <>, behind an older event of its key: the group names it</>}
        {state.attempts !== undefined && <>, delivered {times(state.attempts)}</>}
        {state.failures !== undefined && state.failures > 0 && <>, failed {times(state.failures)}</>}
        {state.saved === true && <> <span class="muted">(as another hub saved it)</span></>}
        {state.letter !== undefined && (
          <>
            : <Foreign text={state.letter.err} /> after {plural(state.letter.attempts, "attempt")}, <Age ts={state.letter.ts} of=" ago" />
            {state.letter.replays.map((replay) => <> → <a key={replay.id} href={to("/event", { topic, id: replay.id })}>replayed as seq {replay.seq}</a></>)}
          </>
        )}
      </span>
      {state.letter !== undefined && <a class="button" href={to("/letters", { topic, group: state.group, letter: state.letter.id })}>Dead letter</a>}
    </li>
  );
}
