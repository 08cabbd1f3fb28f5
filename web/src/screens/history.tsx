// The values that a key had, the newest first, and what each of them changed.
import { useSignal } from "@preact/signals";
import { getText } from "../lib/api.ts";
import { useResource } from "../lib/data.ts";
import { duration, time } from "../lib/format.ts";
import { page } from "../lib/record.ts";
import { to } from "../lib/route.ts";
import { type Compared, type HistoryPage, lossesOf, type Value, valueOf } from "../lib/states.ts";
import { Button, ErrorBanner, Foreign, Scroll } from "../ui/basics.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { Diff } from "../ui/diff.tsx";

const VALUES = 100;

export function History({ topic, name, compared, close }: { topic: string; name: string; compared: Partial<Compared> | undefined; close: () => void }) {
  const open = useSignal<number | undefined>(undefined);
  const history = useResource(`history ${topic} ${name}`, async (signal) => {
    const { events, rest } = page<HistoryPage>(await getText("/history", { topic, key: name, limit: VALUES }, signal));
    return { values: events.map(({ record, payload }) => valueOf(record, payload)), rest };
  });
  const { data, error } = history.state.value;
  const losses = data === undefined ? [] : lossesOf(data.rest);
  return (
    <Dialog title="History of a key" wide close={close}>
      <p><Foreign text={name} /> of <a href={to("/topic", { topic, key: name })}>{topic}</a></p>
      <ErrorBanner error={error} retry={history.reload} />
      {compared?.difference === "changed" && compared.then !== undefined && compared.later !== undefined && (
        <section aria-label="What has changed">
          <h3>Seq {compared.then.seq} → {compared.later.seq}</h3>
          <Between before={compared.then} after={compared.later} values={data?.values ?? []} />
        </section>
      )}
      {data !== undefined && (
        <>
          <Scroll label="Values">
            <table class="plain">
              <thead><tr><th scope="col" class="numeric">Seq</th><th scope="col" class="numeric">Time</th><th scope="col" class="numeric extra">Lasted</th><th scope="col">Payload</th><th scope="col"><span class="offscreen">Changes</span></th></tr></thead>
              <tbody>
                {data.values.map((value, index) => {
                  const older = data.values[index + 1];
                  return [
                    <tr key={value.seq}>
                      <td class="numeric"><a href={to("/event", { topic, seq: value.seq })}>{value.seq}</a></td>
                      <td class="numeric">{time(value.ts)}</td>
                      <td class="numeric extra">{index === 0 ? "until now" : duration((data.values[index - 1]?.ts ?? value.ts) - value.ts)}</td>
                      <td class="cut"><code class="preview"><Foreign text={value.deleted ? "deleted" : value.payload} most={200} /></code></td>
                      <td>
                        {older !== undefined && (
                          <Button kind="quiet" pressed={open.value === value.seq} label={`Diff: what seq ${value.seq} changed`} onClick={() => { open.value = open.peek() === value.seq ? undefined : value.seq; }}>Diff</Button>
                        )}
                      </td>
                    </tr>,
                    open.value === value.seq && older !== undefined && (
                      <tr key={`diff ${value.seq}`}><td colSpan={5}><Diff before={older.full ?? ""} after={value.full ?? ""} /></td></tr>
                    ),
                  ];
                })}
              </tbody>
            </table>
          </Scroll>
          <p class="muted">
            {data.rest.next !== undefined && `There are older values than these ${VALUES}, or the log goes on further back than one request reads. `}
            {losses.length > 0 && `Not everything is known: ${losses.join("; ")}.`}
          </p>
        </>
      )}
    </Dialog>
  );
}

/** Two values of the key, with their whole payloads where the history has them. */
function Between({ before, after, values }: { before: Value; after: Value; values: readonly Value[] }) {
  const whole = (value: Value) => value.full ?? values.find(({ seq }) => seq === value.seq)?.full ?? value.payload;
  return <Diff before={whole(before)} after={whole(after)} />;
}
