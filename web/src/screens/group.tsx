// One group: why it delivers nothing, its lag with a forecast, its members and failures; seek and delete.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get, post, remove } from "../lib/api.ts";
import { hubTime } from "../lib/clock.ts";
import { useResource } from "../lib/data.ts";
import { forecast, type Point } from "../lib/forecast.ts";
import { command, count, duration, localInput, milliseconds, plural, rate, short } from "../lib/format.ts";
import { object } from "../lib/json.ts";
import { useLive } from "../lib/live.ts";
import { go, route, to } from "../lib/route.ts";
import { refused } from "../lib/session.ts";
import type { Failure, GroupDetail, Member } from "../lib/types.ts";
import { Age, Button, CliCommand, Empty, Fact, Facts, Field, Foreign, Scroll, Shown } from "../ui/basics.tsx";
import { Chart } from "../ui/chart.tsx";
import { Confirm } from "../ui/confirm.tsx";
import { StableList } from "../ui/stable.tsx";
import { adviceNow, ReasonBadge, stuckSince } from "./groups.tsx";

/** Members in the table at most. */
const MOST_MEMBERS = 200;
/** Samples of the lag in the chart. */
const POINTS = 300;

export function GroupScreen() {
  const { topic = "", group = "" } = route.value.params;
  const detail = useResource(`group ${topic} ${group}`, (signal) => get<GroupDetail>("/groups/detail", { topic, group }, signal));
  const points = useSignal<readonly Point[]>([]);
  const seeking = useSignal(false);
  const removing = useSignal(false);
  useEffect(() => {
    points.value = [];
  }, [topic, group]);
  useLive({ view: "group", topic, group }, {
    group: (data: GroupDetail) => detail.change(() => data),
    sample: (sample: { ts: number }) => {
      const now = detail.state.peek().data;
      if (now !== undefined) points.value = [...points.peek().slice(1 - POINTS), { ts: sample.ts, lag: now.lag }];
    },
  });
  const { data, error, at } = detail.state.value;
  const isPush = group.startsWith("push.");
  return (
    <>
      <p class="crumbs"><a href={to("/groups")}>Groups</a> / <a href={to("/topic", { topic })}><Foreign text={topic} most={300} /></a></p>
      <div class="titlebar">
        <h1><Foreign text={group} most={300} /></h1>
        {isPush && <a class="button" href={to("/push")}>Push endpoints</a>}
        <Button onClick={() => { seeking.value = true; }} refused={refused("admin", topic)}>Seek…</Button>
        <Button onClick={() => { removing.value = true; }} refused={refused("admin", topic)}>Delete…</Button>
      </div>
      <Shown error={error} at={at} retry={detail.reload}>{data !== undefined && <Detail data={data} points={points.value} />}</Shown>
      {seeking.value && <Seek topic={topic} group={group} close={() => { seeking.value = false; }} done={detail.reload} />}
      {removing.value && <Delete topic={topic} group={group} close={() => { removing.value = false; }} />}
    </>
  );
}

function Delete({ topic, group, close }: { topic: string; group: string; close: () => void }) {
  const isDone = useSignal(false);
  return (
    <Confirm
      title={`Delete group ${group} of ${topic}`}
      danger
      verb="Delete the group"
      refused={refused("admin", topic)}
      command={command("groups rm", [topic, group])}
      preview={async () => {
        const now = await get<GroupDetail>("/groups/detail", { topic, group });
        const members = now.members === undefined ? "its members" : plural(now.members.length, "member");
        return { says: <p>This ends the subscriptions of {members} and forgets the position of the group. It has not settled {plural(now.lag, "event")}; a new group of this name begins anew.</p> };
      }}
      act={async () => {
        const { deleted } = await remove<{ deleted: number }>("/groups", { topic, group });
        return <p>Deleted {plural(deleted, "group")}.</p>;
      }}
      close={() => {
        close();
        if (isDone.peek()) go("/groups");
      }}
      done={() => { isDone.value = true; }}
    />
  );
}

function Detail({ data, points }: { data: GroupDetail; points: readonly Point[] }) {
  const { means, fix } = adviceNow(data);
  const since = stuckSince(data);
  return (
    <>
      <section class="verdict" aria-label="State">
        <ReasonBadge group={data} />
        <p>
          {means} {data.lag > 0 && <b>{fix}</b>}
          {since !== undefined && <> Nothing was delivered for <Age ts={since} />.</>}
          {data.owner !== undefined && <> It is served by <a href={to("/hubs", { q: data.owner })}><Foreign text={data.owner} /></a>.</>}
        </p>
      </section>
      {data.blocking !== undefined && data.blocking !== null && (
        <section class="verdict" aria-label="What blocks the key">
          <p>
            <a href={to("/event", { topic: data.topic, seq: data.blocking.seq })}>Event {data.blocking.seq}</a>
            {isText(data.blocking.key) && <> of key <Foreign text={data.blocking.key} /></>} comes first. <Block blocking={data.blocking} members={data.members} />
          </p>
          <a class="button" href={to("/event", { topic: data.topic, seq: data.blocking.seq })}>Open the event</a>
          {isText(data.blocking.key) && <a class="button" href={to("/topic", { topic: data.topic, key: data.blocking.key })}>Events of the key</a>}
        </section>
      )}
      <Facts>
        <Fact name="Lag">{count(data.lag)} ({forecast(points)})</Fact>
        <Fact name="Settled up to">{count(data.floor)} of {count(data.last)}</Fact>
        <Fact name="In flight">{count(data.inflight)}</Fact>
        <Fact name="Parked">{count(data.parked)}</Fact>
        <Fact name="Oldest unsettled">
          {data.oldestUnsettled === undefined || data.oldestUnsettled === null ? "–" : (
            <><a href={to("/event", { topic: data.topic, seq: data.oldestUnsettled.seq })}>seq {data.oldestUnsettled.seq}</a>{data.oldestUnsettled.ageMs !== undefined && <>, {duration(data.oldestUnsettled.ageMs)} old</>}</>
          )}
        </Fact>
        <Fact name="Acked/s">{rate(data.rates?.second.acked)}</Fact>
        <Fact name="Failed/s">{rate(data.rates?.second.nacked)}</Fact>
        <Fact name="Handler p99">{milliseconds(data.rates?.minute.handlerMs?.p99)}</Fact>
        <Fact name="Epoch">{count(data.epoch)}</Fact>
        <Fact name="Next deadline">{data.nextDeadlineMs === undefined || data.nextDeadlineMs === null ? "–" : `in ${duration(data.nextDeadlineMs)}`}</Fact>
      </Facts>
      <div class="charts">
        <Chart title="Lag" times={points.map((point) => point.ts)} shown={short} isWhole lines={[{ name: "events behind", color: "--chart-4", values: points.map((point) => point.lag) }]} />
      </div>
      {data.members === undefined ? (
        <p class="note">Another hub on this store serves the group: its members and its last failures are known there.</p>
      ) : (
        <Members topic={data.topic} group={data.group} members={data.members} />
      )}
      {data.failures !== undefined && <Failures topic={data.topic} failures={data.failures} />}
      <p><a href={to("/letters", { topic: data.topic, group: data.group })}>Dead letters of this group</a></p>
    </>
  );
}

/** What becomes of the event that blocks a key. */
function Block({ blocking: { state, member, leftMs }, members }: { blocking: NonNullable<GroupDetail["blocking"]>; members: readonly Member[] | undefined }) {
  const left = leftMs === undefined ? undefined : duration(leftMs);
  if (member !== undefined) return <>It is held by <Holder member={member} members={members} />{left !== undefined && <>, who has {left} left to ack it</>}.</>;
  switch (state) {
    case "parked": return <>It has failed, and is tried again{left === undefined ? " later" : ` in ${left}`}.</>;
    case "dead_lettering": return <>It is being given up.</>;
    case "pending": return <>It is still to be delivered.</>;
    default: return <>It is not settled.</>;
  }
}

/** The member that holds an event: its subject, if the token may see it, and its number in the table of members. */
function Holder({ member, members }: { member: number | string; members: readonly Member[] | undefined }) {
  const subject = members?.find((one) => one.member === member)?.subject;
  return subject === undefined ? <>member {member}</> : <><Foreign text={subject} most={80} /> (member {member})</>;
}

function isText(value: string | null | undefined): value is string {
  return typeof value === "string";
}

function Members({ topic, group, members }: { topic: string; group: string; members: readonly Member[] }) {
  return (
    <section aria-label="Members">
      <h2>{plural(members.length, "member")}</h2>
      {members.length === 0 ? (
        <Empty title="Nobody is connected"><p>Start a consumer, or take its events on the command line (what is printed counts as handled):</p><CliCommand text={command("subscribe", [topic], { "--group": group })} /></Empty>
      ) : (
        <Scroll label="Table of members">
          <table class="plain">
            <thead><tr><th scope="col">Member</th><th scope="col" class="rest">Subject</th><th scope="col" class="numeric">In flight</th><th scope="col" class="numeric">Holds its oldest for</th><th scope="col" class="numeric extra">Time to ack</th><th scope="col">State</th></tr></thead>
            <tbody>
              {members.slice(0, MOST_MEMBERS).map((member, index) => (
                <tr key={member.member ?? index}>
                  <td>{member.member ?? "–"}</td>
                  <td>{member.subject === undefined ? <span class="muted">–</span> : <a href={to("/connections", { q: member.subject })}><Foreign text={member.subject} most={80} /></a>}</td>
                  <td class="numeric">{count(member.inflight)}</td>
                  <td class="numeric">{duration(member.oldestHeldMs)}</td>
                  <td class="numeric extra">{duration(member.ackTimeoutMs)}</td>
                  <td class="nowrap">{member.paused ? "paused" : member.hasRoom ? "has room" : "full"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {members.length > MOST_MEMBERS && <p class="muted">{count(members.length - MOST_MEMBERS)} further members are not shown.</p>}
    </section>
  );
}

function Failures({ topic, failures }: { topic: string; failures: readonly Failure[] }) {
  return (
    <section aria-label="Last failures">
      <h2>Last failures</h2>
      {failures.length === 0 ? <p class="muted">None since the hub started.</p> : (
        <Scroll label="Table of failures">
          <StableList rows={failures} id={(failure) => `${failure.seq} ${failure.attempt} ${failure.ts}`}>{(rows) => <table class="plain">
            <thead><tr><th scope="col" class="numeric">Event</th><th scope="col" class="numeric">Attempt</th><th scope="col" class="numeric">When</th><th scope="col" class="rest">Reason</th></tr></thead>
            <tbody>
              {rows.map((failure) => (
                <tr key={`${failure.seq} ${failure.attempt} ${failure.ts}`}>
                  <td class="numeric"><a href={to("/event", { topic, seq: failure.seq })}>{failure.seq}</a></td>
                  <td class="numeric">{failure.attempt}</td>
                  <td class="numeric nowrap"><Age ts={failure.ts} of=" ago" /></td>
                  <td><Foreign text={failure.reason ?? "no reason given"} /></td>
                </tr>
              ))}
            </tbody>
          </table>}</StableList>
        </Scroll>
      )}
    </section>
  );
}

/** Digits of the largest seq. */
const SEQ_DIGITS = 20;

function Seek({ topic, group, close, done }: { topic: string; group: string; close: () => void; done: () => void }) {
  const kind = useSignal("earliest");
  const seq = useSignal("0");
  const ts = useSignal(hubTime() - 3_600_000);
  /** As JSON text: a number would round a large seq. */
  const target = () => {
    switch (kind.value) {
      case "ts": return `{"ts":${ts.value}}`;
      case "afterSeq": return `{"afterSeq":${seq.value}}`;
      default: return JSON.stringify(kind.value);
    }
  };
  const body = (dryRun: boolean) => object([["topic", JSON.stringify(topic)], ["group", JSON.stringify(group)], ["to", target()], ["dryRun", dryRun ? "true" : undefined]]);
  const word = () => (kind.value === "ts" ? `ts:${ts.value}` : kind.value === "afterSeq" ? `after-seq:${seq.value}` : kind.value);
  return (
    <Confirm
      title={`Seek group ${group} of ${topic}`}
      verb="Seek"
      danger
      refused={refused("admin", topic)}
      previewKey={word()}
      command={command("groups seek", [topic, group], { "--to": word() })}
      preview={async () => {
        const dry = await post<{ from: number; to: number; events: number }>("/groups/seek", body(true));
        if (dry.to < dry.from) return { says: <p>The group goes back from seq {count(dry.from)} to {count(dry.to)}: up to <b>{plural(dry.events, "settled event")}</b> come again.</p> };
        if (dry.to > dry.from) return { says: <p>The group goes on from seq {count(dry.from)} to {count(dry.to)}: up to <b>{plural(dry.events, "event")} are skipped</b>.</p> };
        return { says: <p>The group stays at seq {count(dry.from)}. Its leases end, and its failures are forgotten.</p> };
      }}
      act={async () => {
        const placed = await post<{ seq: number }>("/groups/seek", body(false));
        return <p>The group is at seq {count(placed.seq)} now.</p>;
      }}
      close={close}
      done={done}
    >
      <Field label="To">
        <select value={kind.value} onChange={(event) => { kind.value = event.currentTarget.value; }}>
          <option value="earliest">the earliest event that is kept</option>
          <option value="latest">the latest event</option>
          <option value="ts">a time</option>
          <option value="afterSeq">behind a seq</option>
        </select>
      </Field>
      {kind.value === "ts" && (
        <Field label="Time of the commit">
          <input type="datetime-local" step="1" value={localInput(ts.value)} onChange={(event) => { ts.value = new Date(event.currentTarget.value).getTime() || ts.peek(); }} />
        </Field>
      )}
      {kind.value === "afterSeq" && (
        <Field label="Seq"><input inputMode="numeric" pattern="[0-9]+" value={seq.value} onInput={(event) => { seq.value = event.currentTarget.value.replace(/[^0-9]/g, "").replace(/^0+(?=.)/, "").slice(0, SEQ_DIGITS) || "0"; }} /></Field>
      )}
    </Confirm>
  );
}
