// Outboxes: whether rows get out, and what keeps those that do not.
import { useSignal } from "@preact/signals";
import { get, post } from "../lib/api.ts";
import { useResource } from "../lib/data.ts";
import { command, count, duration, plural } from "../lib/format.ts";
import { useLive } from "../lib/live.ts";
import { to } from "../lib/route.ts";
import { refusedForAll, who } from "../lib/session.ts";
import type { Outbox, OutboxRow } from "../lib/types.ts";
import { Age, Badge, Button, Empty, Fact, Facts, Foreign, Scroll, Shown } from "../ui/basics.tsx";
import { Confirm } from "../ui/confirm.tsx";
import { FilterBox, matcher } from "../ui/filter.tsx";
import { StableList } from "../ui/stable.tsx";

const POLL_MS = 3_000;
/** What a topic is called. The topic of a parked row may be none: that can be why it is parked. */
const TOPIC = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;

/** Which rows are to be tried again: one, or all that are parked. */
type Retry = Readonly<{ outbox: string; row?: OutboxRow }>;

export function Outboxes() {
  useLive({ view: "overview" }, {});
  const list = useResource("outboxes", (signal) => get<{ outboxes: Outbox[] }>("/outbox", {}, signal), POLL_MS);
  const retrying = useSignal<Retry | undefined>(undefined);
  const { data, error, at } = list.state.value;
  const shown = (data?.outboxes ?? []).filter(matcher(({ name, reason = "", rows }) => [name, reason, ...rows.flatMap((row) => [row.topic, row.key ?? "", row.error ?? "", row.id])]));
  return (
    <>
      <h1>Outboxes</h1>
      <div class="toolbar"><FilterBox label="Filter outboxes by name, topic, key or error" placeholder="Name, topic, key or error" /></div>
      <Shown error={error} at={at} retry={list.reload}>
        {who.value?.admin === false && <p class="muted">An outbox has rows of any topic. How outboxes are doing is shown to tokens with the right <code>admin</code> for all topics; this one sees the parked rows of topics that it may read or administrate.</p>}
        {data?.outboxes.length === 0 && who.value?.admin === false && <Empty title="No parked row"><p>No row of a topic that this token may read or administrate is parked.</p></Empty>}
        {data?.outboxes.length === 0 && who.value?.admin !== false && (
          <Empty title="This hub drains no outbox">
            <p>An outbox publishes rows that your services write in their own transactions. Name one in the configuration:</p>
            <pre class="block">{'[[outbox]]\nname = "shop"\nurl = "postgres://hub@db/shop"'}</pre>
          </Empty>
        )}
        {data !== undefined && data.outboxes.length > 0 && shown.length === 0 && <Empty title="No outbox matches"><p>Take away the filter to see all of them.</p></Empty>}
        {shown.map((outbox) => <OutboxCard key={outbox.name} outbox={outbox} ask={(retry) => { retrying.value = retry; }} />)}
      </Shown>
      {retrying.value !== undefined && <Act retry={retrying.value} close={() => { retrying.value = undefined; }} done={list.reload} />}
    </>
  );
}

function OutboxCard({ outbox, ask }: { outbox: Outbox; ask: (retry: Retry) => void }) {
  return (
    <section class="card" aria-label={outbox.name}>
      <div class="titlebar">
        <h2><Foreign text={outbox.name} /> <Badge tone={outbox.connected ? "good" : "bad"}>{outbox.connected ? "connected" : "not connected"}</Badge></h2>
        {(outbox.parked ?? 0) > 0 && <Button refused={refusedForAll()} onClick={() => ask({ outbox: outbox.name })}>Retry all parked…</Button>}
      </div>
      {outbox.reason !== undefined && <p><Foreign text={outbox.reason} most={500} /></p>}
      {who.value?.admin !== false && (
        <Facts>
          <Fact name="Pending">{count(outbox.pending)}</Fact>
          <Fact name="Oldest pending">{duration(outbox.oldestAgeMs)}</Fact>
          <Fact name="Parked">{count(outbox.parked)}</Fact>
          <Fact name="Sent by this hub">{count(outbox.sent)}</Fact>
          <Fact name="Retries">{count(outbox.retries)}</Fact>
        </Facts>
      )}
      {outbox.connected && outbox.rows.length === 0 && <p class="muted">No row is parked.</p>}
      {outbox.rows.length > 0 && (
        <Scroll label={`Parked rows of ${outbox.name}`}>
          <StableList rows={outbox.rows} id={(row) => row.id}>{(rows) => <table class="plain">
            <thead>
              <tr>
                <th scope="col">Topic</th>
                <th scope="col" class="extra">Key</th>
                <th scope="col">Error</th>
                <th scope="col" class="numeric extra">Attempts</th>
                <th scope="col" class="numeric">Age</th>
                <th scope="col" class="extra">Row</th>
                <th scope="col"><span class="offscreen">Action</span></th>
              </tr>
            </thead>
            <tbody>{rows.map((row) => <ParkedRow key={row.id} row={row} ask={() => ask({ outbox: outbox.name, row })} />)}</tbody>
          </table>}</StableList>
        </Scroll>
      )}
    </section>
  );
}

function ParkedRow({ row, ask }: { row: OutboxRow; ask: () => void }) {
  return (
    <tr>
      <td class="nowrap">{TOPIC.test(row.topic) ? <a href={to("/event", { topic: row.topic, id: row.id })}>{row.topic}</a> : <Foreign text={row.topic} most={60} />}</td>
      <td class="extra nowrap">{row.key === undefined ? "–" : <Foreign text={row.key} most={40} />}</td>
      <td class="wrap"><Foreign text={row.error ?? ""} most={400} /></td>
      <td class="numeric extra">{count(row.attempts)}</td>
      <td class="numeric nowrap"><Age ts={row.ts} /></td>
      <td class="extra nowrap"><code><Foreign text={row.id} most={40} /></code></td>
      <td><Button refused={refusedForAll()} onClick={ask}>Retry…<span class="offscreen"> row <Foreign text={row.id} /></span></Button></td>
    </tr>
  );
}

function Act({ retry: { outbox, row }, close, done }: { retry: Retry; close: () => void; done: () => void }) {
  const body = { outbox, ...(row === undefined ? {} : { ids: [row.id] }) };
  return (
    <Confirm
      title={`Retry parked rows of ${outbox}`}
      verb="Retry"
      refused={refusedForAll()}
      command={command("outbox retry", row === undefined ? [] : [row.id], { "--through-hub": true, "--outbox": outbox })}
      preview={async () => {
        const { outboxes } = await get<{ outboxes: Outbox[] }>("/outbox", { outbox });
        const parked = outboxes[0]?.parked ?? 0;
        return {
          says: (
            <p>
              {row === undefined ? <>{plural(parked, "parked row")} will be tried again.</> : <>The row <code><Foreign text={row.id} most={60} /></code> for <Foreign text={row.topic} most={60} /> will be tried again.</>}
              {" "}A row that fails again is parked again.
            </p>
          ),
          nothing: parked === 0 ? "no row is parked any more" : undefined,
        };
      }}
      act={async () => {
        const { retried } = await post<{ retried: number }>("/outbox/retry", body);
        return <p>{plural(retried, "row")} will be tried again.</p>;
      }}
      close={close}
      done={done}
    />
  );
}
