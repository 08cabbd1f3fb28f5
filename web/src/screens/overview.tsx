// The overview: problems with their reasons, then rates, latency and lag.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useAnnounced } from "../lib/announce.ts";
import { get } from "../lib/api.ts";
import { generation, useResource } from "../lib/data.ts";
import { bytes, command, count, curl, duration, milliseconds, plural, rate, short } from "../lib/format.ts";
import { latest, type PastSample, samples, useLive } from "../lib/live.ts";
import { isPattern } from "../lib/patterns.ts";
import { olderLetters, openLetters, unsolved, withoutPushGroups } from "../lib/problems.ts";
import { adviceOf, REASONS, waitsSince } from "../lib/reasons.ts";
import { useNewLetters } from "../lib/reload.ts";
import { route, set, to } from "../lib/route.ts";
import type { Problem, Summary, Topic } from "../lib/types.ts";
import { Age, Badge, Button, CliCommand, Empty, Foreign } from "../ui/basics.tsx";
import { Chart } from "../ui/chart.tsx";
import { Icon } from "../ui/icons.tsx";
import { StableList } from "../ui/stable.tsx";
import { ENDPOINT_STATES } from "./push.tsx";

/** Problems that are shown before somebody asks for all of them; a single one is not worth a button. */
const FIRST_PROBLEMS = 8;
/** How often the dead letters are counted again. */
const LETTERS_POLL_MS = 15_000;

export function Overview() {
  const problems = useSignal<readonly Problem[] | undefined>(undefined);
  const more = useSignal(0);
  /** As this stream has told them; one that came before may have told of topics that are quiet now. */
  const busiest = useSignal<Readonly<{ of: number; rows: ReadonlyMap<string, Topic> }>>({ of: 0, rows: new Map() });
  const letters = useResource("letters", (signal) => get<Summary>("/dlq/summary", { replayed: 0 }, signal), LETTERS_POLL_MS);
  useNewLetters(letters.reload);
  useLive({ view: "overview" }, {
    problems: (data: { problems: Problem[]; more: number }) => {
      problems.value = data.problems;
      more.value = data.more;
    },
    topics: (data: { rows: Topic[]; gone?: string[] }) => {
      const of = generation.peek();
      const rows = new Map(busiest.peek().of === of ? busiest.peek().rows : []);
      for (const row of data.rows) rows.set(row.name, row);
      for (const name of data.gone ?? []) rows.delete(name);
      busiest.value = { of, rows };
    },
  });
  const waiting = letters.state.value.data;
  const found = withoutPushGroups(unsolved(problems.value ?? [], waiting, letters.state.value.at));
  const older = waiting === undefined ? 0 : olderLetters(found, waiting);
  const total = found.length + more.value;
  useAnnounced(problems.value === undefined ? "" : plural(total, "problem"));
  const isAll = route.value.params["all"] === "1" || found.length <= FIRST_PROBLEMS + 1;
  const shown = found.slice(0, isAll ? undefined : FIRST_PROBLEMS);
  const isEmpty = latest.value?.topics === 0;
  return (
    <>
      <h1>Overview</h1>
      {(!isEmpty || total > 0) && <section class="problems" aria-label="Problems">
        {problems.value === undefined && <p class="muted">Looking…</p>}
        {problems.value !== undefined && (
          <>
            {total === 0 ? <AllGood /> : <h2>{plural(total, "problem")}</h2>}
            <StableList rows={shown} id={keyOf}>
              {(rows, isGone) => <ul>{rows.map((problem) => <li key={keyOf(problem)} class={isGone(problem) ? "gone" : undefined}><ProblemRow problem={problem} isGone={isGone(problem)} letters={waiting} /></li>)}</ul>}
            </StableList>
            {shown.length < found.length && <Button onClick={() => set({ all: "1" })}>Show all {count(found.length)}</Button>}
            {isAll && more.value > 0 && <a href={to("/groups", { reason: "stuck" })}>and {count(more.value)} more</a>}
          </>
        )}
        {waiting !== undefined && older > 0 && (
          <p><Badge tone="warn">Dead letters</Badge> <a href={to("/letters")}>{plural(older, "older dead letter")} not replayed{waiting.complete ? "" : ", and more"}</a></p>
        )}
      </section>}
      {isEmpty && <FirstEvent />}
      {!isEmpty && (
        <>
          <Tiles />
          <Charts />
          <Busiest topics={busiest.value.of === generation.value ? [...busiest.value.rows.values()] : []} />
        </>
      )}
    </>
  );
}

function AllGood() {
  const sample = latest.value;
  return <h2 class="allgood"><Icon name="check" /> Nothing is stuck. {plural(sample?.groups ?? 0, "group")}, {plural(sample?.topics ?? 0, "topic")}.</h2>;
}

function Tiles() {
  const sample = latest.value;
  return (
    <section class="tiles" aria-label="Now">
      <Tile name="Published" value={`${rate(sample?.published)}/s`} note={`${bytes(sample?.bytes)}/s`} href={to("/topics", { sort: "-rate" })} />
      <Tile name="Delivered" value={`${rate(sample?.delivered)}/s`} note={`${rate(sample?.acked)}/s acked`} href={to("/groups", { sort: "-acked" })} />
      <Tile name="Latency p99" value={milliseconds(sample?.latencyMs?.p99)} note={`p50 ${milliseconds(sample?.latencyMs?.p50)}, from commit to delivery`} href={to("/groups", { sort: "-latency" })} />
      <Tile name="Lag" value={short(sample?.lag ?? 0)} note={`${count(sample?.inflight)} in flight`} href={to("/groups", { sort: "-lag" })} />
      <Tile name="Failing" value={`${rate(sample?.nacked)}/s`} note={`${rate(sample?.deadlettered)}/s dead letters`} href={to("/groups", { sort: "-failed" })} />
    </section>
  );
}

function Busiest({ topics }: { topics: readonly Topic[] }) {
  const shown = [...topics].sort((a, b) => b.rates.minute.published - a.rates.minute.published || (a.name < b.name ? -1 : 1)).slice(0, 10);
  return (
    <section aria-label="Busiest topics">
      <h2>Busiest topics</h2>
      <StableList rows={shown} id={(topic) => topic.name}>
        {(rows) => (
          <table class="plain">
            <thead><tr><th scope="col" class="rest">Topic</th><th scope="col" class="numeric">Events/s</th><th scope="col" class="numeric extra">Per s, 1 min</th><th scope="col" class="numeric extra">Bytes/s</th><th scope="col" class="numeric">Newest</th></tr></thead>
            <tbody>
              {rows.map((topic) => (
                <tr key={topic.name}>
                  <td><a href={to("/topic", { topic: topic.name })}>{topic.name}</a></td>
                  <td class="numeric">{rate(topic.rates.second.published)}</td>
                  <td class="numeric extra">{rate(topic.rates.minute.published)}</td>
                  <td class="numeric extra">{bytes(topic.rates.second.bytes)}</td>
                  <td class="numeric nowrap"><Age ts={topic.lastCommitted} of=" ago" /></td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </StableList>
      <p><a href={to("/topics")}>All topics</a></p>
    </section>
  );
}

const RANGES = [["", "last 2 minutes", 120_000], ["15m", "last 15 minutes", 900_000], ["24h", "last 24 hours", 86_400_000]] as const;
/** How often longer ranges are read again. */
const RANGE_POLL_MS = 15_000;

function Charts() {
  const wanted = route.value.params["range"] ?? "";
  const [range, , span] = RANGES.find(([id]) => id === wanted) ?? RANGES[0];
  const past = useResource(
    range === "" ? undefined : `stats ${range}`,
    async (signal) => (await get<{ samples: PastSample[] }>("/stats", { range }, signal)).samples,
    RANGE_POLL_MS,
  );
  const kept = range === "" ? samples.value.slice(-120) : (past.state.value.data ?? []);
  const times = kept.map((sample) => sample.ts);
  return (
    <section aria-label="Charts">
      <div class="titlebar">
        <h2>Flow</h2>
        <select aria-label="Time that the charts show" value={range} onChange={(event) => set({ range: event.currentTarget.value })}>
          {RANGES.map(([id, title]) => <option key={id} value={id}>{title}</option>)}
        </select>
      </div>
      <div class="charts">
        <Chart title="Events per second" times={times} span={span} shown={rate} lines={[
          { name: "published", color: "--chart-1", values: kept.map((sample) => sample.published) },
          { name: "delivered", color: "--chart-2", values: kept.map((sample) => sample.delivered), dash: true },
        ]} />
        <Chart title="Failures per second" times={times} span={span} shown={rate} lines={[
          { name: "failed", color: "--chart-3", values: kept.map((sample) => sample.nacked) },
          { name: "dead letters", color: "--chart-4", values: kept.map((sample) => sample.deadlettered), dash: true },
        ]} />
        {range === "" && (
          <>
            <Chart title="Latency" times={times} span={span} shown={milliseconds} lines={[
              { name: "p99", color: "--chart-3", values: kept.map((sample) => sample.latencyMs?.p99) },
              { name: "p50", color: "--chart-1", values: kept.map((sample) => sample.latencyMs?.p50), dash: true },
            ]} />
            <Chart title="Lag" times={times} span={span} shown={short} isWhole lines={[{ name: "events behind", color: "--chart-4", values: kept.map((sample) => sample.lag) }]} />
          </>
        )}
      </div>
    </section>
  );
}

function Tile({ name, value, note, href }: { name: string; value: string; note: string; href?: string }) {
  const inside = <><span class="name">{name}</span><strong>{value}</strong><small>{note}</small></>;
  return href === undefined ? <div class="tile">{inside}</div> : <a class="tile" href={link(href)}>{inside}</a>;
}

/** Links made by `to`, handed on. */
function link(made: string): string {
  return made.startsWith("#/") ? made : "#/";
}

function keyOf(problem: Problem): string {
  switch (problem.kind) {
    case "group": return `group ${problem.topic} ${problem.group}`;
    case "letters": return `letters ${problem.topic} ${problem.group}`;
    case "outbox": return `outbox ${problem.outbox}`;
    case "push": return `push ${problem.name}`;
    case "store": return `store ${problem.reason ?? problem.warning ?? ""}`;
  }
}

function pushText(state: string): string {
  return ENDPOINT_STATES[state] ?? `It is ${state}.`;
}

/** The object of a button, for screen readers. */
function Of({ children }: { children: ComponentChildren }) {
  return <span class="offscreen"> {children}</span>;
}

function ProblemRow({ problem, isGone, letters }: { problem: Problem; isGone: boolean; letters: Summary | undefined }) {
  const kind = (tone: "bad" | "warn", title: string) => (isGone ? <Badge tone="good">Solved</Badge> : <Badge tone={tone}>{title}</Badge>);
  switch (problem.kind) {
    case "group": {
      const judged = { reason: problem.reason, since: problem.since ?? null, isFailing: problem.failing === true };
      const { title, means, fix, rank } = adviceOf(judged);
      const since = waitsSince(judged);
      const at = to("/group", { topic: problem.topic, group: problem.group });
      return (
        <>
          {kind(rank >= 5 ? "bad" : "warn", title)}
          <a href={link(at)}><b>{problem.group}</b> of {problem.topic}</a>
          <span>{plural(problem.lag, "event")} behind{since !== undefined && <>, for <Age ts={since} /></>}. {means} <span class="muted">{fix}</span></span>
          <a class="button" href={link(at)}>See why<Of>{problem.group} of {problem.topic} is stuck</Of> <Icon name="arrow" /></a>
        </>
      );
    }
    case "letters": {
      const at = to("/letters", { topic: problem.topic, group: problem.group });
      const open = openLetters(problem, letters);
      return (
        <>
          {kind("warn", "Dead letters")}
          <a href={link(at)}><b>{problem.group}</b> of {problem.topic}</a>
          <span>
            {plural(problem.count, "event")} given up in the last hour, the newest <Age ts={problem.lastTs} of=" ago" />.
            {open !== undefined && <span class="muted"> {open === 1 ? "1 dead letter is" : `${count(open)} dead letters are`} not replayed.</span>}
          </span>
          <a class="button" href={link(at)}>Replay…<Of>dead letters of {problem.group} of {problem.topic}</Of> <Icon name="arrow" /></a>
        </>
      );
    }
    case "outbox":
      return (
        <>
          {kind("bad", "Outbox")}
          <a href={to("/outboxes")}><b><Foreign text={problem.outbox} /></b></a>
          <span>
            {problem.connected ? <>{plural(problem.parked ?? 0, "row")} parked after an error.{(problem.pending ?? 0) > 0 && <> {plural(problem.pending ?? 0, "row")} pending, the oldest for {duration(problem.oldestAgeMs)}.</>}</> : <>Not connected: <Foreign text={problem.reason ?? "no reason given"} /></>}
          </span>
          <a class="button" href={to("/outboxes")}>{problem.connected ? "Retry…" : "Look"}<Of>outbox <Foreign text={problem.outbox} /></Of> <Icon name="arrow" /></a>
        </>
      );
    case "push":
      return (
        <>
          {kind("bad", "Push endpoint")}
          <a href={to("/push")}><b>{problem.name}</b></a>
          <span>
            {pushText(problem.state)} {problem.reason !== undefined && REASONS[problem.reason] === undefined && <Foreign text={problem.reason} />}{" "}
            {problem.lag === undefined ? "Events wait" : <>{plural(problem.lag, "event")} {problem.lag === 1 ? "waits" : "wait"}</>} in group{" "}
            {isPattern(problem.topic) ? <a href={to("/groups", { q: problem.group })}>{problem.group}</a> : <a href={to("/group", { topic: problem.topic, group: problem.group })}>{problem.group}</a>}.
          </span>
          <a class="button" href={to("/push")}>Resume…<Of>push endpoint {problem.name}</Of> <Icon name="arrow" /></a>
        </>
      );
    case "store":
      return <>{kind("bad", "Store")}<span>{problem.reason === undefined ? "a warning" : "takes no events"}</span><Foreign text={problem.reason ?? problem.warning ?? ""} most={400} /><a class="button" href={to("/hubs")}>Hubs <Icon name="arrow" /></a></>;
  }
}

function FirstEvent() {
  return (
    <Empty title="No events yet">
      <p>There is no topic that this token may see. Publish a first event:</p>
      <CliCommand text={command("publish", ["orders.created", '{"order":17}'], { "--key": "order-17" })} />
      <p>or by HTTP, with the token that <code>event-hub serve</code> printed:</p>
      <CliCommand text={curl("POST", `${location.origin}/publish/orders.created`, '{"order":17}')} />
      <p>It shows up here within a second. Or <a href={to("/topic", { topic: "orders.created", tab: "publish" })}>publish it from this page</a>.</p>
    </Empty>
  );
}
