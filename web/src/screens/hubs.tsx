// The hubs over this store, and how many groups each of them serves.
import { get, pages } from "../lib/api.ts";
import { useResource } from "../lib/data.ts";
import { count } from "../lib/format.ts";
import { useLive } from "../lib/live.ts";
import { route, to } from "../lib/route.ts";
import { who } from "../lib/session.ts";
import type { Group } from "../lib/types.ts";
import { Age, Badge, CliCommand, Empty, ErrorBanner, Fact, Facts, Foreign, Scroll, Shown } from "../ui/basics.tsx";
import { THIS_HUB } from "./groups.tsx";

type Hub = Readonly<{ id: string; address: string; version: string; started: number; this: boolean }>;
type Ready = Readonly<{ ready: boolean; draining: boolean; store: Readonly<{ available: boolean; reason?: string; warnings?: readonly string[]; damaged?: number }> }>;

type Served = Readonly<{ counts: ReadonlyMap<string, number>; isWhole: boolean }>;

const POLL_MS = 5_000;
const GROUPS_POLL_MS = 15_000;
/** Groups that are counted. */
const MOST_GROUPS = 20_000;

export function Hubs() {
  useLive({ view: "overview" }, {});
  const list = useResource("hubs", (signal) => get<{ hubs: Hub[] }>("/hubs", {}, signal), POLL_MS);
  const ready = useResource("ready", (signal) => get<Ready>("/readyz", {}, signal), POLL_MS);
  const { data, error, at } = list.state.value;
  return (
    <>
      <h1>Hubs</h1>
      <ThisHub ready={ready.state.value.data} />
      <Shown error={error} at={at} retry={list.reload}>
        {data?.hubs.length === 0 && (
          <Empty title="One hub">
            <p>It is alone on its store. Several hubs share a MongoDB replica set: start each of them with the same address.</p>
            <CliCommand text="MONGO_URL=mongodb://db1,db2,db3/hub event-hub serve" />
          </Empty>
        )}
        {data !== undefined && data.hubs.length > 0 && <Members hubs={data.hubs} />}
      </Shown>
    </>
  );
}

function ThisHub({ ready }: { ready: Ready | undefined }) {
  const me = who.value?.hub;
  if (me === undefined) return null;
  return (
    <section class="card" aria-label="This hub">
      <Facts>
        <Fact name="This hub">event-hub {me.version}</Fact>
        <Fact name="Store">{me.store} {ready !== undefined && <Badge tone={ready.store.available ? "good" : "bad"}>{ready.store.available ? "available" : "takes no events"}</Badge>}</Fact>
        <Fact name="Running for"><Age ts={me.started} /></Fact>
      </Facts>
      {ready?.store.reason !== undefined && <p class="problem"><Foreign text={ready.store.reason} most={400} /></p>}
      {ready?.store.warnings?.map((warning) => <p key={warning} class="note"><Foreign text={warning} most={400} /></p>)}
    </section>
  );
}

/** How many groups each hub serves, by its address. Those that this hub knows nothing newer of are served by it, or by nobody. */
async function groupsByHub(signal: AbortSignal): Promise<Served> {
  const counts = new Map<string, number>();
  let seen = 0;
  await pages<{ groups: Group[]; next?: string }>("/groups", { limit: 2_000 }, signal, (page) => {
    for (const { owner, reason } of page.groups) {
      const hub = owner ?? (reason === "elsewhere" ? undefined : THIS_HUB);
      if (hub !== undefined) counts.set(hub, (counts.get(hub) ?? 0) + 1);
    }
    seen += page.groups.length;
    return seen >= MOST_GROUPS;
  });
  return { counts, isWhole: seen < MOST_GROUPS };
}

function Members({ hubs }: { hubs: readonly Hub[] }) {
  const wanted = route.value.params["q"];
  const served = useResource("groups by hub", groupsByHub, GROUPS_POLL_MS);
  const { data, error } = served.state.value;
  return (
    <>
      <ErrorBanner error={error} retry={served.reload} isBelow />
      <Scroll label="Hubs">
        <table class="plain">
          <thead><tr><th scope="col">Hub</th><th scope="col">Address</th><th scope="col" class="numeric">Groups</th><th scope="col">Version</th><th scope="col" class="numeric">Running for</th></tr></thead>
          <tbody>
            {hubs.map((hub) => {
              const place = hub.this ? THIS_HUB : hub.address;
              return (
                <tr key={hub.id} class={wanted !== undefined && (hub.address === wanted || hub.id === wanted) ? "changed" : undefined}>
                  <td><code>{hub.id}</code> {hub.this && <Badge tone="good">this one</Badge>}</td>
                  <td>{hub.address}</td>
                  <td class="numeric">{data === undefined ? "–" : <a href={to("/groups", { hub: place })}>{data.isWhole ? "" : "at least "}{count(data.counts.get(place) ?? 0)}</a>}</td>
                  <td>{hub.version}</td>
                  <td class="numeric"><Age ts={hub.started} /></td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Scroll>
      <p class="muted">Groups that your token may see. The command reads the store: run it where the hubs run, with their configuration or <code>MONGO_URL</code>.</p>
      <CliCommand text="event-hub cluster ls" />
    </>
  );
}
