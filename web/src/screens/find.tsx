// An event by its id, when nobody knows its topic.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { pages } from "../lib/api.ts";
import { useResource } from "../lib/data.ts";
import { command, count } from "../lib/format.ts";
import { useLive } from "../lib/live.ts";
import { instead, route, to } from "../lib/route.ts";
import { CliCommand, Empty, ErrorBanner, Foreign } from "../ui/basics.tsx";

type Page = { topics: { topic: string; seq: number }[]; searched: number; next?: string };

export function Find() {
  const { id = "" } = route.value.params;
  /** How far the search is. */
  const places = useSignal<readonly Page["topics"][number][]>([]);
  const searched = useSignal(0);
  useLive({ view: "overview" }, {});
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
  const isNoId = error?.code === "bad_request";
  useEffect(() => {
    const [only, ...others] = found ?? [];
    if (only !== undefined && others.length === 0) instead("/event", { topic: only.topic, id });
  }, [found]);
  return (
    <>
      <h1>Find an event</h1>
      {isNoId ? (
        <Empty title="That is no id of an event">
          <p><Foreign text={error.message} most={400} />. Where else it may be:</p>
          <ul>
            <li><a href={to("/topics", { q: id })}>topics with this in their name</a></li>
            <li><a href={to("/groups", { q: id })}>groups with this in their name or topic</a></li>
            <li><a href={to("/letters", { key: id, replayed: "all" })}>dead letters with this key</a></li>
            <li><a href={to("/letters", { q: id, replayed: "all" })}>dead letters with this in their error</a></li>
          </ul>
          <p>An event with this in its key or payload: open its topic, and filter the tail.</p>
        </Empty>
      ) : (
        <>
          <p>Id <Foreign text={id} /></p>
          <ErrorBanner error={error} retry={search.reload} />
          <p class="muted">{count(searched.value)} topics searched{found !== undefined || error !== undefined ? "" : "…"}</p>
        </>
      )}
      <ul>{places.value.map(({ topic, seq }) => <li key={topic}><a href={to("/event", { topic, id })}>seq {seq} of {topic}</a></li>)}</ul>
      {found?.length === 0 && <Empty title="No topic has this id"><p>None of the topics that this token may read knows it: it was not published, or was cleaned away and forgotten. A row that still waits in an <a href={to("/outboxes")}>outbox</a> has no topic yet.</p></Empty>}
      {!isNoId && <CliCommand text={command("event show", [id])} />}
    </>
  );
}
