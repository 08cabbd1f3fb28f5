// An event by its id, when nobody knows its topic; and the events of a trace or a correlation id, in every topic.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { pages } from "../lib/api.ts";
import { hubTime } from "../lib/clock.ts";
import { useResource } from "../lib/data.ts";
import { command, count, plural, time } from "../lib/format.ts";
import { useLive } from "../lib/live.ts";
import { instead, route, set, to } from "../lib/route.ts";
import { DEFAULT_SINCE, SINCE } from "../lib/search.ts";
import { CliCommand, Empty, ErrorBanner, Foreign, Scroll } from "../ui/basics.tsx";

type Page = { topics: { topic: string; seq: number }[]; searched: number; next?: string };

export function Find() {
  const { id = "", trace, correlation } = route.value.params;
  useLive({ view: "overview" }, {});
  if (trace !== undefined) return <FindByHeaders key={`trace ${trace}`} wanted={{ traceId: trace }} option="--trace-id" id={trace} name="trace" />;
  if (correlation !== undefined) return <FindByHeaders key={`correlation ${correlation}`} wanted={{ correlationId: correlation }} option="--correlation-id" id={correlation} name="correlation id" />;
  return <FindById key={id} id={id} />;
}

function FindById({ id }: { id: string }) {
  /** How far the search is. */
  const places = useSignal<readonly Page["topics"][number][]>([]);
  const searched = useSignal(0);
  const search = useResource(id === "" ? undefined : `find ${id}`, async (signal) => {
    places.value = [];
    searched.value = 0;
    await pages<Page>("/event/find", { id }, signal, (page) => {
      places.value = [...places.peek(), ...page.topics];
      searched.value += page.searched;
    });
    return places.peek();
  });
  const { data: found, error } = search.state.value;
  useEffect(() => {
    const [only, ...others] = found ?? [];
    if (only !== undefined && others.length === 0) instead("/event", { topic: only.topic, id });
    // A link with another text: it may be a correlation id.
    if (error?.code === "bad_request") instead("/find", { correlation: id });
  }, [found, error]);
  return (
    <>
      <h1>Find an event</h1>
      <p>Id <Foreign text={id} /></p>
      <ErrorBanner error={error} retry={search.reload} />
      <p class="muted">{count(searched.value)} topics searched{found !== undefined || error !== undefined ? "" : "…"}</p>
      <ul>{places.value.map(({ topic, seq }) => <li key={topic}><a href={to("/event", { topic, id })}>seq {seq} of {topic}</a></li>)}</ul>
      {found?.length === 0 && (
        <Empty title="No topic has this id">
          <p>None of the topics that this token may read knows it: it was not published, or was cleaned away and forgotten. A row that still waits in an <a href={to("/outboxes")}>outbox</a> has no topic yet.</p>
          <p>It may be the id of something else: <a href={to("/find", { correlation: id })}>events with this correlation id</a>.</p>
        </Empty>
      )}
      <CliCommand text={command("event show", [id])} />
    </>
  );
}

type Match = Readonly<{ topic: string; seq: number; id: string; committed: number; key?: string }>;
type Matches = { events: readonly Match[]; searched: number; lookedAt: number; next?: string };

/** Events that are shown: more belong to no one thing. */
const MOST_SHOWN = 1_000;
const CLOCK_MARGIN_MS = 5_000;

function FindByHeaders({ wanted, option, id, name }: { wanted: Readonly<Record<string, string>>; option: string; id: string; name: string }) {
  const { since = DEFAULT_SINCE } = route.value.params;
  const [, , millis] = SINCE.find(([word]) => word === since) ?? [];
  const events = useSignal<readonly Match[]>([]);
  const progress = useSignal({ topics: 0, events: 0 });
  const search = useResource(`search ${JSON.stringify(wanted)} ${since}`, async (signal) => {
    events.value = [];
    progress.value = { topics: 0, events: 0 };
    // What is committed while the search goes on would keep it going. The page knows the time of the hub to about a second.
    const toTs = hubTime() + CLOCK_MARGIN_MS;
    let isWhole = true;
    await pages<Matches>("/event/search", { ...wanted, fromTs: millis === undefined ? undefined : hubTime() - millis, toTs }, signal, (page) => {
      events.value = [...events.peek(), ...page.events].slice(0, MOST_SHOWN);
      progress.value = { topics: progress.peek().topics + page.searched, events: progress.peek().events + page.lookedAt };
      isWhole = page.next === undefined;
      return events.peek().length >= MOST_SHOWN;
    });
    return isWhole;
  });
  const { data: isWhole, error } = search.state.value;
  const isRunning = isWhole === undefined && error === undefined;
  const found = [...events.value].sort((a, b) => a.committed - b.committed);
  return (
    <>
      <h1>Find events</h1>
      <p>With the {name} <Foreign text={id} most={400} />, by their headers, in every topic that this token may read.</p>
      <div class="toolbar">
        <label class="inline">Committed in <select value={since} onChange={(event) => set({ since: event.currentTarget.value === DEFAULT_SINCE ? undefined : event.currentTarget.value })}>{SINCE.map(([word, title]) => <option key={word} value={word}>{title}</option>)}</select></label>
        <span class="muted" role="status">{isRunning ? "Searching: " : ""}{plural(progress.value.events, "event")} looked at, {plural(progress.value.topics, "topic")} searched{isRunning ? "…" : "."}</span>
      </div>
      <ErrorBanner error={error} retry={search.reload} isBelow={found.length > 0} />
      {found.length > 0 && (
        <Scroll label={`Events with this ${name}`}>
          <table class="plain">
            <thead><tr><th scope="col">Committed</th><th scope="col">Topic</th><th scope="col" class="numeric">Seq</th><th scope="col">Key</th></tr></thead>
            <tbody>
              {found.map(({ topic, seq, committed, key }) => (
                <tr key={`${topic} ${seq}`}>
                  <td class="nowrap">{time(committed)}</td>
                  <td><a href={to("/topic", { topic })}>{topic}</a></td>
                  <td class="numeric"><a href={to("/event", { topic, seq })}>{seq}</a></td>
                  <td>{key === undefined ? "–" : <Foreign text={key} most={80} />}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {isWhole === false && <p class="muted">There are more; the command below shows all of them.</p>}
      {isWhole === true && found.length === 0 && <Elsewhere text={id} name={name} />}
      <CliCommand text={command("event find", [], { [option]: id, "--from-ts": millis === undefined ? undefined : `ago:${since}` })} />
    </>
  );
}

/** Where else a text may be that is in no header. */
function Elsewhere({ text, name }: { text: string; name: string }) {
  return (
    <Empty title={`No event with this ${name}`}>
      <p>None that was committed in this time and that this token may read. Where else it may be:</p>
      <ul>
        {name === "trace" && <li><a href={to("/find", { id: text })}>the event with this id</a></li>}
        <li><a href={to("/topics", { q: text })}>topics with this in their name</a></li>
        <li><a href={to("/groups", { q: text })}>groups with this in their name or topic</a></li>
        <li><a href={to("/letters", { key: text, replayed: "all" })}>dead letters with this key</a></li>
        <li><a href={to("/letters", { q: text, replayed: "all" })}>dead letters with this in their error</a></li>
      </ul>
      <p>An event with this in its key or payload: open its topic, and filter the tail.</p>
    </Empty>
  );
}
