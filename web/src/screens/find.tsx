// An event by its id, when nobody knows its topic.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type ApiError, get } from "../lib/api.ts";
import { asApiError } from "../lib/data.ts";
import { command, count } from "../lib/format.ts";
import { useLive } from "../lib/live.ts";
import { instead, route, to } from "../lib/route.ts";
import { CliCommand, Empty, ErrorBanner, Foreign } from "../ui/basics.tsx";

type Page = { topics: { topic: string; seq: number }[]; searched: number; next?: string };

export function Find() {
  const { id = "" } = route.value.params;
  const found = useSignal<readonly { topic: string; seq: number }[]>([]);
  const searched = useSignal(0);
  const done = useSignal(false);
  const error = useSignal<ApiError | undefined>(undefined);
  useLive({ view: "overview" }, {});
  useEffect(() => {
    const cancel = new AbortController();
    found.value = [];
    searched.value = 0;
    done.value = false;
    error.value = undefined;
    if (id === "") return;
    const search = async () => {
      let after: string | undefined;
      do {
        const page: Page = await get<Page>("/event/find", { id, after }, cancel.signal);
        found.value = [...found.peek(), ...page.topics];
        searched.value += page.searched;
        after = page.next;
      } while (after !== undefined);
      done.value = true;
      const [only, ...others] = found.peek();
      if (only !== undefined && others.length === 0) instead("/event", { topic: only.topic, id });
    };
    search().catch((problem: unknown) => {
      if (!cancel.signal.aborted) error.value = asApiError(problem);
    });
    return () => cancel.abort();
  }, [id]);
  return (
    <>
      <h1>Find an event</h1>
      <p>Id <Foreign text={id} /></p>
      <ErrorBanner error={error.value} />
      <p class="muted">{count(searched.value)} topics searched{done.value || error.value !== undefined ? "" : "…"}</p>
      <ul>{found.value.map(({ topic, seq }) => <li key={topic}><a href={to("/event", { topic, id })}>seq {seq} of {topic}</a></li>)}</ul>
      {done.value && found.value.length === 0 && <Empty title="No topic has this id"><p>None of the topics that this token may read knows it: it was not published, or was cleaned away and forgotten. A row that still waits in an <a href={to("/outboxes")}>outbox</a> has no topic yet.</p></Empty>}
      <CliCommand text={command("event show", [id])} />
    </>
  );
}
