// Events of the topic that belong together; on demand, because the hub reads the log for it.
import { useSignal } from "@preact/signals";
import { getText } from "../lib/api.ts";
import type { Relation } from "../lib/relations.ts";
import { useResource } from "../lib/data.ts";
import { command, time } from "../lib/format.ts";
import { page, type Shown } from "../lib/record.ts";
import { to } from "../lib/route.ts";
import { Button, CliCommand, ErrorBanner, Foreign, Scroll } from "../ui/basics.tsx";

/** Requests of one search at most, and events. */
const MOST_PAGES = 20;
const PAGE = 100;

export function Related({ topic, relation, seq }: { topic: string; relation: Relation; seq: number }) {
  const asked = useSignal(false);
  const related = useResource(asked.value ? `related ${topic} ${relation.parameter} ${relation.id}` : undefined, async (signal) => {
    const events: Shown[] = [];
    let afterSeq: number | undefined;
    for (let n = 0; n < MOST_PAGES; n += 1) {
      const found = page<{ next?: number }>(await getText("/replay", { topic, [relation.parameter]: relation.id, afterSeq, limit: PAGE }, signal));
      events.push(...found.events);
      afterSeq = found.rest.next;
      if (afterSeq === undefined) break;
    }
    return { events, isWhole: afterSeq === undefined };
  });
  const { data, error } = related.state.value;
  if (!asked.value) return <p><Button onClick={() => { asked.value = true; }}>Find events with the same {relation.name}</Button></p>;
  return (
    <section aria-label={`Same ${relation.name}`}>
      <h2>Same {relation.name} <small><Foreign text={relation.id} most={80} /></small></h2>
      <ErrorBanner error={error} retry={related.reload} isBelow={data !== undefined} />
      {data === undefined ? error === undefined && <p class="muted">Reading the topic…</p> : (
        <>
          <Scroll label={`Events with the same ${relation.name}`}>
            <table class="plain">
              <thead><tr><th scope="col" class="numeric">Seq</th><th scope="col">Key</th><th scope="col" class="numeric">Time</th></tr></thead>
              <tbody>
                {data.events.map(({ record }) => (
                  <tr key={record.seq}>
                    <td class="numeric">{record.seq === seq ? `${seq} (this one)` : <a href={to("/event", { topic, seq: record.seq })}>{record.seq}</a>}</td>
                    <td>{record.key === undefined ? "–" : <Foreign text={record.key} />}</td>
                    <td class="numeric">{time(record.ts)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
          {!data.isWhole && <p class="muted">Only a part of the topic was read.</p>}
        </>
      )}
      <p><a href={to("/find", relation.parameter === "traceId" ? { trace: relation.id } : { correlation: relation.id })}>Find them in every topic</a></p>
      <CliCommand text={command("replay", [topic], { [relation.option]: relation.id })} />
    </section>
  );
}
