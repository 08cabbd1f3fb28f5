// Push endpoints: groups that the hub delivers by HTTP POST.
import { useSignal } from "@preact/signals";
import { pages, post, remove } from "../lib/api.ts";
import { useResource } from "../lib/data.ts";
import { command, count } from "../lib/format.ts";
import { useLive } from "../lib/live.ts";
import { isPattern } from "../lib/patterns.ts";
import { REASONS } from "../lib/reasons.ts";
import { to } from "../lib/route.ts";
import { refused } from "../lib/session.ts";
import { Age, Badge, Button, CliCommand, Empty, Fact, Facts, Foreign, Shown } from "../ui/basics.tsx";
import { Confirm } from "../ui/confirm.tsx";
import { FilterBox, matcher } from "../ui/filter.tsx";

type Failure = Readonly<{ at: number; status?: number; error?: string }>;
type Endpoint = Readonly<{ name: string; topic: string; group: string; url: string; mode: string; state: string; reason?: string; inflight: number; delivered: number; concurrency: number; owner?: string; lastFailure?: Failure | null; origin: string }>;
type Acting = Readonly<{ kind: "resume" | "delete"; endpoint: Endpoint }>;

const POLL_MS = 3_000;
const GOOD = ["active", "starting"];

/** What a state means, and what to do. */
export const ENDPOINT_STATES: Readonly<Record<string, string>> = {
  paused: "The endpoint has said that it is gone (410), so nothing is sent. Resume it when it is back.",
  deferred: "The endpoint asked for a pause (429 or 503). The hub goes on by itself; Resume tries at once.",
  failing: "Five requests in a row failed. The hub tries with one event at a time, ever more seldom; Resume tries at once.",
  elsewhere: "Another hub delivers.",
  trouble: "The hub cannot deliver at all.",
};

function why({ kind, endpoint }: Acting): string | undefined {
  const right = refused("admin", endpoint.topic);
  if (right !== undefined) return right;
  if (kind === "delete" && endpoint.origin === "file") return "the endpoint is in the configuration file; remove it there";
  if (kind === "resume" && GOOD.includes(endpoint.state)) return "it is delivering";
  return undefined;
}

export function Push() {
  useLive({ view: "overview" }, {});
  const list = useResource("push", async (signal) => {
    const endpoints: Endpoint[] = [];
    await pages<{ endpoints: Endpoint[]; next?: string }>("/push", { limit: 1_000 }, signal, (page) => { endpoints.push(...page.endpoints); });
    return { endpoints };
  }, POLL_MS);
  const acting = useSignal<Acting | undefined>(undefined);
  const { data, error, at } = list.state.value;
  const shown = (data?.endpoints ?? []).filter(matcher(({ name, topic, group, url, state }) => [name, topic, group, url, state]));
  return (
    <>
      <h1>Push endpoints</h1>
      <div class="toolbar"><FilterBox label="Filter endpoints by name, topic, group, address or state" placeholder="Name, topic or address" /></div>
      <Shown error={error} at={at} retry={list.reload}>
        {data?.endpoints.length === 0 && (
          <Empty title="No push endpoint that this token may administrate">
            <p>The hub can deliver a group by HTTP POST, signed as a Standard Webhook:</p>
            <pre class="block">{'{"topic": "orders.*", "url": "…", "secrets": ["whsec_…"]}'}</pre>
            <CliCommand text={command("push put", ["crm", "crm.json"])} />
          </Empty>
        )}
        {data !== undefined && data.endpoints.length > 0 && shown.length === 0 && <Empty title="No endpoint matches"><p>Take away the filter to see all of them.</p></Empty>}
        {shown.map((endpoint) => <EndpointCard key={endpoint.name} endpoint={endpoint} ask={(kind) => { acting.value = { kind, endpoint }; }} />)}
      </Shown>
      {acting.value !== undefined && <Act acting={acting.value} close={() => { acting.value = undefined; }} done={list.reload} />}
    </>
  );
}

function EndpointCard({ endpoint, ask }: { endpoint: Endpoint; ask: (kind: Acting["kind"]) => void }) {
  const { name, state, topic, group } = endpoint;
  const failure = endpoint.lastFailure ?? undefined;
  // What the state says already.
  const reason = endpoint.reason !== undefined && REASONS[endpoint.reason] === undefined ? endpoint.reason : undefined;
  return (
    <section class="card" aria-label={name}>
      <div class="titlebar">
        <h2>{name} <Badge tone={GOOD.includes(state) ? "good" : state === "elsewhere" ? "plain" : "bad"}>{state}</Badge></h2>
        <Button refused={why({ kind: "resume", endpoint })} onClick={() => ask("resume")}>Resume…</Button>
        <Button refused={why({ kind: "delete", endpoint })} onClick={() => ask("delete")}>Delete…</Button>
      </div>
      <p><Foreign text={endpoint.url} most={300} /></p>
      {(reason !== undefined || ENDPOINT_STATES[state] !== undefined) && <p class="note">{ENDPOINT_STATES[state]} {reason !== undefined && <Foreign text={reason} most={400} />}</p>}
      {failure !== undefined && <p>Last failure, <Age ts={failure.at} of=" ago" />: {failure.status !== undefined && <b>{failure.status} </b>}<Foreign text={failure.error ?? ""} most={400} /></p>}
      <Facts>
        <Fact name="Group"><GroupLink topic={topic} group={group} /></Fact>
        <Fact name="Topic">{isPattern(topic) ? topic : <a href={to("/topic", { topic })}>{topic}</a>}</Fact>
        <Fact name="Delivered">{count(endpoint.delivered)}</Fact>
        <Fact name="In flight">{count(endpoint.inflight)} of {count(endpoint.concurrency)}</Fact>
        <Fact name="From">{endpoint.origin === "file" ? "the configuration" : "the API"}</Fact>
        {endpoint.owner !== undefined && <Fact name="Delivered by"><a href={to("/hubs", { q: endpoint.owner })}><Foreign text={endpoint.owner} /></a></Fact>}
      </Facts>
    </section>
  );
}

function Act({ acting, close, done }: { acting: Acting; close: () => void; done: () => void }) {
  const { kind, endpoint } = acting;
  const path = `/push/${encodeURIComponent(endpoint.name)}`;
  const isResume = kind === "resume";
  return (
    <Confirm
      title={`${isResume ? "Resume" : "Delete"} ${endpoint.name}`}
      verb={isResume ? "Resume" : "Delete"}
      danger={!isResume}
      refused={why(acting)}
      command={command(isResume ? "push resume" : "push rm", [endpoint.name])}
      preview={async () => ({
        says: isResume
          ? <p>The hub sends to the endpoint again at once.</p>
          : <p>Nothing more is sent to the endpoint. Its group {endpoint.group} stays until it expires; delete it on its own page.</p>,
      })}
      act={async () => {
        if (isResume) await post(`${path}/resume`, "");
        else await remove(path);
        return <p>{isResume ? "The hub tries it now." : "Deleted."}</p>;
      }}
      close={close}
      done={done}
    />
  );
}

/** To the group of an endpoint, or to those of a pattern. */
function GroupLink({ topic, group }: { topic: string; group: string }) {
  if (isPattern(topic)) return <a href={to("/groups", { q: group })}>{group}</a>;
  return <a href={to("/group", { topic, group })}>{group}</a>;
}
