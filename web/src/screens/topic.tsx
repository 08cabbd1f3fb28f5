// One topic: what passes, the newest record of each key, its groups, and a form to publish a test event.
import { useSignal } from "@preact/signals";
import { type ApiError, post, remove, url } from "../lib/api.ts";
import { follow } from "../lib/clipboard.ts";
import { hubTime } from "../lib/clock.ts";
import { asApiError, useResource } from "../lib/data.ts";
import { bytes, command, count, plural, rate } from "../lib/format.ts";
import { go, open, route, set, to } from "../lib/route.ts";
import { refused } from "../lib/session.ts";
import { findTopic } from "../lib/topics.ts";
import type { Topic } from "../lib/types.ts";
import { Age, Button, CliCommand, Empty, ErrorBanner, Fact, Facts, Field, Foreign, Shown, Tabs } from "../ui/basics.tsx";
import { Confirm } from "../ui/confirm.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { orderOf, Table } from "../ui/table.tsx";
import { groupColumns, useGroups } from "./groups.tsx";
import { PublishForm } from "./publish.tsx";
import { StateTable } from "./state.tsx";
import { Tail } from "./tail.tsx";

/** How often a topic is looked for that does not exist yet: it has no stream. */
const AWAITED_POLL_MS = 1_000;

export function TopicScreen() {
  const { topic: name = "", tab = "tail" } = route.value.params;
  const isAwaited = useSignal(false);
  const info = useResource(
    name === "" ? undefined : `topic ${name}`,
    async (signal) => {
      const topic = await findTopic(name, signal);
      isAwaited.value = topic === undefined;
      return { topic };
    },
    isAwaited.value ? AWAITED_POLL_MS : undefined,
  );
  const removing = useSignal(false);
  const exporting = useSignal(false);
  const { error, data, at, loading } = info.state.value;
  const topic = data?.topic;
  const update = (fresh: Topic) => info.change(({ topic: old }) => ({ topic: old?.settings === undefined ? fresh : { ...fresh, settings: old.settings } }));
  const isMissing = !loading && error === undefined && topic === undefined;
  return (
    <>
      <p class="crumbs"><a href={to("/topics")}>Topics</a></p>
      <div class="titlebar">
        <h1><Foreign text={name} most={300} /></h1>
        <Button onClick={() => open({ tab: "publish", q: undefined, sort: undefined })} icon="push" refused={refused("publish", name)}>Publish</Button>
        <Button onClick={() => { exporting.value = true; }} refused={refused("subscribe", name)}>Export…</Button>
        <Button onClick={() => { removing.value = true; }} refused={refused("admin", name)}>Delete…</Button>
      </div>
      <Shown error={error} at={at} retry={info.reload}>
        {isMissing && tab !== "publish" && <Missing name={name} />}
        {topic !== undefined && (
          <Facts>
            <Fact name="Events">{count(topic.events)}</Fact>
            <Fact name="Seqs">{topic.events === 0 ? "–" : `${count(topic.first)} to ${count(topic.last)}`}</Fact>
            <Fact name="Size">{bytes(topic.bytes)}</Fact>
            <Fact name="Events/s">{rate(topic.rates.second.published)}</Fact>
            <Fact name="Newest"><Age ts={topic.lastCommitted} of=" ago" /></Fact>
            <Fact name="Keeps">{keeps(topic)}</Fact>
            <Fact name="Dead letters"><a href={to("/letters", { topic: name })}>look</a></Fact>
          </Facts>
        )}
        {(!isMissing || tab === "publish") && (
          <>
            <Tabs
              tabs={[["tail", "Tail"], ["state", "Latest by key"], ["groups", "Groups"], ["publish", "Publish"]]}
              active={tab}
              choose={(id) => set({ tab: id === "tail" ? undefined : id, sort: undefined, q: undefined, key: undefined, at: undefined, paused: undefined })}
            />
            {tab === "tail" && <Tail name={name} lastCommitted={topic?.lastCommitted ?? undefined} update={update} />}
            {tab === "state" && <StateTable topic={name} />}
            {tab === "groups" && <TopicGroups name={name} />}
            {tab === "publish" && <PublishForm topic={name} published={info.reload} />}
          </>
        )}
      </Shown>
      {exporting.value && <Export name={name} close={() => { exporting.value = false; }} />}
      {removing.value && <Delete name={name} close={() => { removing.value = false; }} />}
    </>
  );
}

function Missing({ name }: { name: string }) {
  const why = refused("subscribe", name);
  return (
    <Empty title="No such topic">
      {why === undefined ? <p>It does not exist. A publish makes it:</p> : <p>It does not exist, or your token may not see it: {why}.</p>}
      <CliCommand text={why === undefined ? command("publish", [name, '{"order":17}']) : command("token", [], { "--scope": `subscribe:${name}` })} />
    </Empty>
  );
}

function keeps(topic: Topic): string {
  const settings = topic.settings;
  if (settings === undefined) return "–";
  const limits = [
    settings.compaction ? "the newest of each key" : "",
    settings.retentionDays === null ? "" : `for ${plural(settings.retentionDays, "day")}`,
    settings.retentionBytes === null ? "" : `up to ${bytes(settings.retentionBytes)}`,
  ].filter((text) => text !== "");
  return limits.length === 0 ? "everything" : limits.join(", ");
}

function TopicGroups({ name }: { name: string }) {
  const { list, version, error, at, complete, reload } = useGroups(name);
  version.value;
  const columns = groupColumns(false);
  const order = orderOf(columns, "-urgency");
  const listing = list.listing(order, undefined);
  return (
    <Shown error={error.value} at={at.value} retry={reload}>
      {complete.value && listing.ids.length === 0 ? (
        <Empty title="No group reads this topic">
          <p>The first consumer that joins a group makes it, here from the command line:</p>
          <CliCommand text={command("subscribe", [name], { "--group": "billing" })} />
        </Empty>
      ) : (
        <Table label="Groups" listing={listing} columns={columns} order={order} filling={!complete.value} leadsTo={(group) => to("/group", { topic: group.topic, group: group.group })} />
      )}
    </Shown>
  );
}

/** A file of all records. The token does not fit into the address of a download: a ticket does, once. */
function Export({ name, close }: { name: string; close: () => void }) {
  const hours = useSignal("");
  const failed = useSignal<ApiError | undefined>(undefined);
  const started = useSignal(false);
  const start = async () => {
    failed.value = undefined;
    const span = Number(hours.peek()) * 3_600_000;
    try {
      const { ticket } = await post<{ ticket: string }>("/ticket", { topic: name });
      follow(url("/export", { topic: name, ticket, fromTs: span > 0 ? hubTime() - span : undefined }), `${name}.ndjson`);
      started.value = true;
    } catch (error) {
      failed.value = asApiError(error);
    }
  };
  return (
    <Dialog title={`Export ${name}`} close={close}>
      <p>All records as they are stored, one JSON document per line, up to the newest of now. The browser downloads them as a file.</p>
      <Field label="Only the last hours" hint="Empty: everything that is kept.">
        <input inputMode="numeric" value={hours.value} onInput={(event) => { hours.value = event.currentTarget.value.replace(/[^0-9]/g, ""); }} />
      </Field>
      <ErrorBanner error={failed.value} />
      <CliCommand text={command("export", [name], { "-o": `${name}.ndjson`, "--from-ts": hours.value === "" ? undefined : `ago:${hours.value}h` })} />
      {started.value && <p role="status">The download has begun.</p>}
      <footer>
        <Button onClick={close}>Close</Button>
        <Button kind="primary" refused={refused("subscribe", name)} onClick={() => void start()}>Download</Button>
      </footer>
    </Dialog>
  );
}

function Delete({ name, close }: { name: string; close: () => void }) {
  const deleted = useSignal(false);
  return (
    <Confirm
      title={`Delete ${name}`}
      danger
      verb="Delete the topic"
      refused={refused("admin", name)}
      command={command("topics rm", [name])}
      preview={async () => {
        const found = await Promise.all([name, `dlq.${name}`, `${name}.snapshot`].map((one) => findTopic(one)));
        const hit = found.flatMap((one) => one ?? []);
        const own = hit.find((one) => one.name === name);
        const events = hit.reduce((sum, one) => sum + one.events, 0);
        return {
          says: <p>This deletes {plural(hit.length, "topic")} ({hit.map((one) => one.name).join(", ")}) with {plural(events, "event")} and {plural(own?.groups ?? 0, "group")}. It cannot be undone. Publishers that go on make the topic again.</p>,
          nothing: own === undefined ? "there is no such topic any more" : undefined,
        };
      }}
      act={async () => {
        const { deleted } = await remove<{ deleted: { topics: number; groups: number; events: number } }>("/topics", { topic: name });
        return <p>Deleted: {plural(deleted.topics, "topic")}, {plural(deleted.groups, "group")}, {plural(deleted.events, "event")}.</p>;
      }}
      close={() => {
        close();
        if (deleted.peek()) go("/topics");
      }}
      done={() => { deleted.value = true; }}
    />
  );
}
