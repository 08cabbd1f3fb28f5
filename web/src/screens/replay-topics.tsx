// Replays or discards dead letters of several topics: all that the filter matches, or selected ones. The hub acts on one topic at a time, so each topic has a
// count, a request or a job, and an outcome of its own; a topic that fails stops no other one.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { type ApiError, get, post } from "../lib/api.ts";
import { asApiError } from "../lib/data.ts";
import { command, count, plural } from "../lib/format.ts";
import { refused } from "../lib/session.ts";
import { shares } from "../lib/shares.ts";
import type { Summary } from "../lib/types.ts";
import { Foreign, Scroll } from "../ui/basics.tsx";
import { Confirm } from "../ui/confirm.tsx";
import { type Acting, bodyOf, COMMAND_IDS, commandOf, type Counted, countLetters, FLAGS, inParts, type Outcome, partsOf, RateField, type Sum, type Which } from "./replay.tsx";

/** Without `chosen`, all that the filter matches. */
export type ActingOnTopics = Readonly<{ kind: Acting["kind"]; chosen?: ReadonlyMap<string, readonly string[]>; round?: number }>;

/** One topic: what was counted, or why nothing is done with it. */
type Plan = Readonly<{ topic: string; ids: readonly string[] | undefined; counted: Counted | undefined; problem: string | undefined }>;
type Row = Readonly<{ topic: string; says: ComponentChildren }>;

/** Topics of one action; more than a person looks through. */
const MOST_TOPICS = 100;
/** Jobs that a hub runs at the same time for one subject. */
const MOST_JOBS = 4;
/** Pages of counts that are read for the names of topics. */
const SUMMARY_PAGES = 50;

/** The topics with letters that the filter matches, and whether those are all. */
async function topicsOf(which: Which): Promise<{ topics: readonly string[]; isWhole: boolean }> {
  const topics = new Set<string>();
  let after: string | undefined;
  for (let n = 0; n < SUMMARY_PAGES; n += 1) {
    const page: Summary = await get<Summary>("/dlq/summary", { ...which, after });
    for (const { topic } of page.groups) topics.add(topic);
    if (page.otherGroups > 0) return { topics: [...topics].sort(), isWhole: false };
    after = page.next;
    if (after === undefined) return { topics: [...topics].sort(), isWhole: true };
  }
  return { topics: [...topics].sort(), isWhole: false };
}

function todo({ counted }: Plan): number {
  return counted === undefined ? 0 : counted.matched - counted.skipped;
}

function total(plans: readonly Plan[], of: (plan: Plan) => number = todo): number {
  return plans.reduce((sum, plan) => sum + of(plan), 0);
}

function Topics({ rows, title }: { rows: readonly Row[]; title: string }) {
  return (
    <Scroll label="Topics">
      <table class="plain">
        <thead><tr><th scope="col">Topic</th><th scope="col">{title}</th></tr></thead>
        <tbody>{rows.map(({ topic, says }) => <tr key={topic}><td class="nowrap"><Foreign text={topic} most={80} /></td><td class="wrap">{says}</td></tr>)}</tbody>
      </table>
    </Scroll>
  );
}

function refusalOf(error: ApiError): string {
  return `${error.message} (${error.code})`;
}

export function ActOnTopics({ acting, which, close, done, started }: { acting: ActingOnTopics; which: Which; close: () => void; done: () => void; started: (jobs: string) => void }) {
  const rate = useSignal("");
  const plans = useSignal<readonly Plan[]>([]);
  const { kind, chosen, round } = acting;
  const isReplay = kind === "replay";
  const path = isReplay ? "/dlq/replay" : "/dlq/delete";
  const { topic: _, replayed: __, ...filter } = which;
  const of = (topic: string, ids: readonly string[] | undefined): Acting => ({ kind, topic, ...(ids && { ids }), ...(round !== undefined && { round }) });
  const body = ({ topic, ids, counted }: Plan) => ({ ...bodyOf(of(topic, ids), which), ...(counted?.upto === undefined ? {} : { upto: counted.upto }) });

  /** Counts one topic. A topic that cannot be counted is shown with the reason, and left alone. */
  const plan = async (topic: string): Promise<Plan> => {
    const ids = chosen?.get(topic);
    const refusal = refused("admin", topic);
    if (refusal !== undefined) return { topic, ids, counted: undefined, problem: `left alone: ${refusal}` };
    try {
      return { topic, ids, counted: await countLetters(path, bodyOf(of(topic, ids), which), ids), problem: undefined };
    } catch (error) {
      const problem = asApiError(error);
      if (problem.isPassing || problem.status === 401) throw problem;
      return { topic, ids, counted: undefined, problem: `left alone: ${refusalOf(problem)}` };
    }
  };
  const preview = async () => {
    plans.value = [];
    const { topics, isWhole } = chosen === undefined ? await topicsOf(which) : { topics: [...chosen.keys()].sort(), isWhole: true };
    if (topics.length > MOST_TOPICS) return { says: <p>Letters of {count(topics.length)} topics match.</p>, nothing: `at most ${MOST_TOPICS} topics at once; choose a topic, a group or an error above, or use the command` };
    const counted: Plan[] = [];
    for (const topic of topics) counted.push(await plan(topic));
    plans.value = counted;
    const [sum, skipped] = [total(counted), total(counted, (one) => one.counted?.skipped ?? 0)];
    const more = isWhole && counted.every((one) => one.counted?.isComplete !== false) ? "" : "At least ";
    const acted = counted.filter((one) => todo(one) > 0).length;
    const reasons = counted.filter(({ problem }) => problem !== undefined);
    const nothing = sum > 0 ? undefined : reasons[0]?.problem !== undefined ? `${plural(reasons.length, "topic")} ${reasons[0].problem}` : skipped > 0 ? "all of them were replayed before; select them to replay them once more" : "no letter matches any more";
    return {
      nothing,
      says: (
        <>
          {isReplay ? (
            <p>{more}{plural(sum, "event")} will be appended to {plural(acted, "topic")} again, each for the one group that gave it up.{skipped > 0 && <> {plural(skipped, "letter")} {skipped === 1 ? "was" : "were"} replayed before and {skipped === 1 ? "is" : "are"} skipped.</>}</p>
          ) : (
            <p>{more}{plural(sum, "letter")} of {plural(acted, "topic")} will be in no list any more, and cannot be replayed.{which.replayed === "0" && chosen === undefined && " Letters that match and were replayed are among them."}</p>
          )}
          {!isWhole && <p class="note">There are more groups with letters than the hub counts apart. Do it again afterwards, or use the command.</p>}
          <Topics title={isReplay ? "Events" : "Letters"} rows={counted.map((one) => ({ topic: one.topic, says: one.problem ?? `${one.counted?.isComplete === false ? "at least " : ""}${count(todo(one))}` }))} />
        </>
      ),
    };
  };

  const meant = plans.value.filter((one) => todo(one) > 0);
  const perSecond = Number(rate.value);
  const rates = shares(perSecond, meant.length);
  const tooMany = meant.length > MOST_JOBS ? `a rate makes a job for each topic, and a hub runs ${MOST_JOBS} jobs of one subject at the same time; choose fewer topics, leave the rate empty, or use the command, which takes one topic after the other` : undefined;
  const tooSlow = rates === undefined ? `each of the ${count(meant.length)} topics needs one per second at least` : undefined;
  const tooLong = meant.some(({ ids }) => partsOf(ids).length > 1) ? "a job takes at most 1,000 selected letters; leave the rate empty, or filter instead" : undefined;

  const start = async () => {
    const rows: Row[] = [];
    const jobs: string[] = [];
    for (const [n, one] of meant.entries()) {
      try {
        const { job } = await post<Outcome>(path, { ...body(one), ...partsOf(one.ids)[0], rate: rates?.[n] });
        if (job !== undefined) jobs.push(job);
        rows.push({ topic: one.topic, says: `begun, at most ${count(rates?.[n])} per second` });
      } catch (error) {
        rows.push({ topic: one.topic, says: <span class="problem">not begun: <Foreign text={refusalOf(asApiError(error))} most={400} /></span> });
      }
    }
    if (jobs.length === meant.length) {
      close();
      started(jobs.join(","));
    }
    return <><p>{count(jobs.length)} of {plural(meant.length, "replay")} begun.</p><Topics title="Outcome" rows={rows} /></>;
  };
  return (
    <Confirm
      title={`${isReplay ? "Replay" : "Discard"} dead letters of several topics`}
      verb={isReplay ? "Replay" : "Discard"}
      danger={!isReplay}
      refused={isReplay && rate.value !== "" ? tooMany ?? tooSlow ?? tooLong : undefined}
      command={commandsOf(acting, filter, rate.value)}
      preview={preview}
      act={async (progress) => {
        if (isReplay && perSecond > 0) return start();
        const sums: (readonly [Plan, Sum | undefined])[] = [];
        let before = 0;
        const all = total(meant, (one) => one.counted?.matched ?? 0);
        for (const one of meant) {
          const report = (part: number) => progress.report(before + part, all);
          sums.push([one, progress.signal.aborted ? undefined : await inParts(path, body(one), one.ids, one.counted?.matched ?? 0, { signal: progress.signal, report })]);
          before += one.counted?.matched ?? 0;
          progress.report(before, all);
        }
        return <Outcomes kind={kind} sums={sums} />;
      }}
      close={close}
      done={done}
    >
      {isReplay && <RateField rate={rate} hint="Empty: at once. A rate is shared by the topics, each of which is a job of the hub: jobs go on when this page is closed, and can be cancelled." />}
    </Confirm>
  );
}

/** What was done, in all and by topic. */
function Outcomes({ kind, sums }: { kind: Acting["kind"]; sums: readonly (readonly [Plan, Sum | undefined])[] }) {
  const sum = (of: (one: Sum) => number) => sums.reduce((all, [, one]) => all + (one === undefined ? 0 : of(one)), 0);
  const says = (one: Sum) => (kind === "replay" ? `${count(one.replayed)} replayed, ${count(one.skipped)} skipped, ${count(one.failed)} failed` : `${count(one.discarded)} discarded`);
  const failed = sums.filter(([, one]) => one?.error !== undefined).length;
  const isStopped = sums.some(([, one]) => one === undefined || one.isStopped);
  return (
    <>
      {kind === "replay"
        ? <p>{plural(sum((one) => one.replayed), "event")} replayed, {count(sum((one) => one.skipped))} skipped, {count(sum((one) => one.failed))} failed.</p>
        : <p>{plural(sum((one) => one.discarded), "letter")} discarded.</p>}
      {failed > 0 && <p class="note">{plural(failed, "topic")} ended before everything was done. What the last request of each did is not known.</p>}
      {isStopped && <p class="note">Stopped before the end.</p>}
      <Topics
        title="Outcome"
        rows={sums.map(([{ topic }, one]) => ({
          topic,
          says: one === undefined ? "not begun" : (
            <>
              {says(one)}{one.isStopped && ", stopped before the end"}
              {one.reason !== undefined && <>; first failure: <Foreign text={one.reason} most={300} /></>}
              {one.error !== undefined && <span class="problem">; then it failed: <Foreign text={refusalOf(one.error)} most={400} /></span>}
            </>
          ),
        }))}
      />
    </>
  );
}

/** One command for what the filter matches; for selected letters one for each topic. Undefined if it would have to name too many ids. */
function commandsOf({ kind, chosen, round }: ActingOnTopics, filter: Which, rate: string): string | undefined {
  if (chosen === undefined) {
    const flags = Object.fromEntries(Object.entries(filter).map(([name, value]) => [FLAGS[name] ?? `--${name}`, value]));
    if (kind === "replay") return command("dlq replay", [], { "--all-topics": true, ...flags, "--rate": rate });
    return command("dlq rm", [], { "--all-topics": true, ...flags, "--all": Object.keys(flags).length === 0 ? true : undefined });
  }
  if ([...chosen.values()].reduce((sum, ids) => sum + ids.length, 0) > COMMAND_IDS) return undefined;
  return [...chosen].map(([topic, ids]) => commandOf({ kind, topic, ids, ...(round !== undefined && { round }) }, filter, rate)).join("; ");
}
