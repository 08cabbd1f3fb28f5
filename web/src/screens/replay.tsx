// Replays or discards dead letters: selected ones, or everything that the filter matches.
import { type Signal, useSignal } from "@preact/signals";
import { type ApiError, post } from "../lib/api.ts";
import { asApiError } from "../lib/data.ts";
import { command, count, plural } from "../lib/format.ts";
import { refused } from "../lib/session.ts";
import { ErrorBanner, Field, Foreign } from "../ui/basics.tsx";
import { Confirm, type Progress } from "../ui/confirm.tsx";

/** Which letters: what the hub takes as filter. */
export type Which = Readonly<{ topic?: string; group?: string; err?: string; q?: string; key?: string; replayed?: string }>;
export type Acting = Readonly<{ kind: "replay" | "discard"; topic: string; ids?: readonly string[]; round?: number }>;
export type Outcome = Readonly<{ replayed?: number; skipped?: number; failed?: number; discarded?: number; next?: string; job?: string; total?: number; failures?: readonly { error: string }[] }>;

/** `upto` is the newest letter that was counted. */
export type DryRun = Readonly<{ matched: number; skipped?: number; complete?: boolean; upto?: number }>;
/** What was done. With `error`, a request failed before everything was. */
export type Sum = { replayed: number; skipped: number; failed: number; discarded: number; reason: string | undefined; isStopped: boolean; error: ApiError | undefined };

/** Ids that a command line names one by one; more would not fit into one. */
export const COMMAND_IDS = 200;
/** Ids of one request. */
const REQUEST_IDS = 1_000;

export const FLAGS: Readonly<Record<string, string>> = { group: "--group", err: "--err", q: "--contains", key: "--key" };

/** Undefined if it would have to name too many ids. */
export function commandOf({ kind, topic, ids, round = 1 }: Acting, filter: Which, rate: string): string | undefined {
  if (ids !== undefined && ids.length > COMMAND_IDS) return undefined;
  const chosen = ids === undefined ? Object.fromEntries(Object.entries(filter).map(([name, value]) => [FLAGS[name] ?? `--${name}`, value])) : {};
  if (kind === "replay") return command("dlq replay", [topic], { ...chosen, "--id": ids, "--round": round > 1 ? round : undefined, "--rate": rate });
  return command("dlq rm", [topic, ...(ids ?? [])], { ...chosen, "--all": ids === undefined && Object.keys(chosen).length === 0 ? true : undefined });
}

/** The selected letters as requests name them; one request without ids if all that match are meant. */
export function partsOf(ids: readonly string[] | undefined): readonly { ids?: readonly string[] }[] {
  if (ids === undefined) return [{}];
  return Array.from({ length: Math.ceil(ids.length / REQUEST_IDS) }, (_, n) => ({ ids: ids.slice(n * REQUEST_IDS, (n + 1) * REQUEST_IDS) }));
}

/** What a request about one topic says, beside the ids. */
export function bodyOf({ kind, topic, ids, round }: Acting, which: Which): object {
  const { topic: _, replayed: __, ...filter } = which;
  const isEverything = ids === undefined && Object.keys(filter).length === 0;
  return {
    topic,
    ...(ids === undefined ? filter : {}),
    ...(kind === "discard" && isEverything ? { all: true } : {}),
    ...(kind === "replay" && round !== undefined && round > 1 ? { round } : {}),
  };
}

/** What a dry run says of one topic: how many letters match, how many of them were replayed in this round before, and where the count ended. */
export type Counted = Readonly<{ matched: number; skipped: number; upto: number | undefined; isComplete: boolean }>;

export async function countLetters(path: string, body: object, ids: readonly string[] | undefined): Promise<Counted> {
  let counted: Counted = { matched: 0, skipped: 0, upto: undefined, isComplete: true };
  for (const part of partsOf(ids)) {
    const dry = await post<DryRun>(path, { ...body, ...part, dryRun: true });
    counted = {
      matched: counted.matched + dry.matched,
      skipped: counted.skipped + (dry.skipped ?? 0),
      upto: counted.upto ?? dry.upto,
      isComplete: counted.isComplete && dry.complete !== false,
    };
  }
  return counted;
}

/** The request in parts that the hub takes, one after the other, until they are through or somebody stops them. */
export async function inParts(path: string, body: object, ids: readonly string[] | undefined, total: number, { signal, report }: Progress): Promise<Sum> {
  const sum: Sum = { replayed: 0, skipped: 0, failed: 0, discarded: 0, reason: undefined, isStopped: false, error: undefined };
  const parts = partsOf(ids);
  for (const part of parts) {
    let after: string | undefined;
    do {
      let one: Outcome;
      try {
        one = await post<Outcome>(path, { ...body, ...part, ...(after === undefined ? {} : { after }) });
      } catch (error) {
        return { ...sum, error: asApiError(error) };
      }
      sum.replayed += one.replayed ?? 0;
      sum.skipped += one.skipped ?? 0;
      sum.failed += one.failed ?? 0;
      sum.discarded += one.discarded ?? 0;
      sum.reason ??= one.failures?.[0]?.error;
      report(sum.replayed + sum.skipped + sum.failed + sum.discarded, total);
      after = one.next;
      if (signal.aborted) return { ...sum, isStopped: after !== undefined || part !== parts.at(-1) };
    } while (after !== undefined);
  }
  return sum;
}

export function RateField({ rate, hint }: { rate: Signal<string>; hint: string }) {
  return (
    <Field label="At most per second" hint={hint}>
      <input inputMode="numeric" value={rate.value} onInput={(event) => { rate.value = event.currentTarget.value.replace(/[^0-9]/g, "").replace(/^0+/, "").slice(0, 5); }} />
    </Field>
  );
}

export function Act({ acting, which, close, done, started }: { acting: Acting; which: Which; close: () => void; done: () => void; started: (job: string) => void }) {
  const rate = useSignal("");
  const total = useSignal(0);
  /** What is given up after the count is not acted on. */
  const upto = useSignal<number | undefined>(undefined);
  const { kind, topic, ids } = acting;
  const isReplay = kind === "replay";
  const { topic: _, replayed: __, ...filter } = which;
  const body = bodyOf(acting, which);
  const counted = () => (upto.peek() === undefined ? body : { ...body, upto: upto.peek() });
  const path = isReplay ? "/dlq/replay" : "/dlq/delete";
  const most = ids !== undefined && ids.length > REQUEST_IDS ? `a job takes at most ${count(REQUEST_IDS)} selected letters; leave the rate empty, or filter instead` : undefined;
  return (
    <Confirm
      title={`${isReplay ? "Replay" : "Discard"} dead letters of ${topic}`}
      verb={isReplay ? "Replay" : "Discard"}
      danger={!isReplay}
      refused={refused("admin", topic) ?? (rate.value === "" ? undefined : most)}
      command={commandOf(acting, filter, rate.value)}
      preview={async () => {
        upto.value = undefined;
        const counts = await countLetters(path, body, ids);
        const { matched, skipped } = counts;
        const more = counts.isComplete ? "" : "At least ";
        upto.value = counts.upto;
        total.value = matched;
        const nothing = matched - skipped > 0 ? undefined : matched === 0 ? "no letter matches any more" : "all of them were replayed before; select them to replay them once more";
        if (!isReplay) {
          return { nothing, says: <p>{more}{plural(matched, "letter")} will be in no list any more, and cannot be replayed.{which.replayed === "0" && ids === undefined && " Letters that match and were replayed are among them."}</p> };
        }
        return {
          nothing,
          says: (
            <p>
              {more}{plural(matched - skipped, "event")} will be appended to {topic} again, each for the one group that gave it up. Other groups do not see {matched - skipped === 1 ? "it" : "them"}.
              {skipped > 0 && <> {plural(skipped, "letter")} {skipped === 1 ? "was" : "were"} replayed before and {skipped === 1 ? "is" : "are"} skipped.</>}
            </p>
          ),
        };
      }}
      act={async (progress) => {
        const perSecond = Number(rate.peek());
        if (isReplay && perSecond > 0) {
          const { job } = await post<Outcome>(path, { ...counted(), ...partsOf(ids)[0], rate: perSecond });
          close();
          if (job !== undefined) started(job);
          return <p>Started.</p>;
        }
        const sum = await inParts(path, counted(), ids, total.peek(), progress);
        // Nothing was done: the dialog stays, to try again.
        if (sum.error !== undefined && sum.replayed + sum.skipped + sum.failed + sum.discarded === 0) throw sum.error;
        const end = <>{sum.isStopped && <p class="note">Stopped before the end.</p>}{sum.error !== undefined && <><p class="note">It ended before everything was done. What the last request did is not known.</p><ErrorBanner error={sum.error} /></>}</>;
        if (!isReplay) return <><p>{plural(sum.discarded, "letter")} discarded.</p>{end}</>;
        return <><p>{plural(sum.replayed, "event")} replayed, {count(sum.skipped)} skipped, {count(sum.failed)} failed.{sum.reason !== undefined && <> First failure: <Foreign text={sum.reason} /></>}</p>{end}</>;
      }}
      close={close}
      done={done}
    >
      {(ids?.length ?? 0) > COMMAND_IDS && <p class="muted">A command line has no room for more than {count(COMMAND_IDS)} ids: to do the same there, choose the letters by a filter.</p>}
      {isReplay && (
        <RateField rate={rate} hint="Empty: at once. With a rate it is a job of the hub: it goes on when this page is closed, and can be cancelled." />
      )}
    </Confirm>
  );
}
