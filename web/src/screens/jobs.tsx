// Replays that the hub does at a rate.
import { useSignal } from "@preact/signals";
import { useAnnounced } from "../lib/announce.ts";
import { type ApiError, get, remove } from "../lib/api.ts";
import { asApiError, useResource } from "../lib/data.ts";
import { command, count, plural } from "../lib/format.ts";
import { open } from "../lib/route.ts";
import { refused } from "../lib/session.ts";
import type { Job } from "../lib/types.ts";
import { Age, Badge, Button, CliCommand, Docked, Empty, ErrorBanner, Foreign } from "../ui/basics.tsx";
import { Dialog } from "../ui/dialog.tsx";

const LIST_POLL_MS = 5_000;
const POLL_MS = 1_000;

function doneOf(job: Job): number {
  return job.replayed + job.skipped + job.failed;
}

function progressOf(job: Job): string {
  return `${job.state}: ${count(job.replayed)} of ${job.complete ? "" : "at least "}${count(job.total)} replayed, ${count(job.skipped)} skipped, ${count(job.failed)} failed.`;
}

/** Those that are under way, on one line. */
export function Jobs() {
  const list = useResource("jobs", (signal) => get<{ jobs: Job[] }>("/jobs", {}, signal), LIST_POLL_MS);
  const running = (list.state.value.data?.jobs ?? []).filter((job) => job.state === "running");
  if (running.length === 0) return null;
  const sum = (of: (job: Job) => number) => running.reduce((all, job) => all + of(job), 0);
  const on = running.length === 1 ? running[0]?.topic : plural(running.length, "topic");
  return (
    <Docked>
      <section class="jobs" aria-label="Replays under way">
        <Badge tone="warn">replaying</Badge>
        <span>{count(sum(doneOf))} of {count(sum((job) => job.total))} on {on}, begun <Age ts={Math.min(...running.map((job) => job.started))} of=" ago" /></span>
        <Button onClick={() => open({ job: running.map((job) => job.job).slice(0, MOST_JOBS).join(",") })} label={`Show the replay on ${on}`}>Show</Button>
      </section>
    </Docked>
  );
}

/** Jobs that a link names; a hub runs fewer at a time. */
const MOST_JOBS = 16;

/** Undefined if the hub does not know it any more. */
async function lookUp(id: string, signal: AbortSignal): Promise<Job | undefined> {
  try {
    return await get<Job>(`/jobs/${encodeURIComponent(id)}`, {}, signal);
  } catch (error) {
    if (asApiError(error).status === 404) return undefined;
    throw error;
  }
}

/** One of them, or several that were begun together, with commas between, until all have ended. */
export function JobDialog({ id, close }: { id: string; close: () => void }) {
  const ids = id.split(",").slice(0, MOST_JOBS);
  const failed = useSignal<ApiError | undefined>(undefined);
  const isOver = useSignal(false);
  const found = useResource(`job ${id}`, (signal) => Promise.all(ids.map((one) => lookUp(one, signal))), isOver.value ? undefined : POLL_MS);
  const { data, error } = found.state.value;
  const jobs = data?.filter((job) => job !== undefined);
  const running = jobs?.filter((job) => job.state === "running") ?? [];
  if (jobs !== undefined && running.length === 0 && !isOver.peek()) isOver.value = true;
  useAnnounced(jobs?.map(progressOf).join(" ") ?? "");
  const refusal = running.map((job) => refused("admin", job.topic)).find((one) => one !== undefined);
  const cancel = async () => {
    failed.value = undefined;
    for (const job of running) {
      try {
        await remove(`/jobs/${encodeURIComponent(job.job)}`);
      } catch (problem) {
        failed.value ??= asApiError(problem);
      }
    }
    found.reload();
  };
  return (
    <Dialog title="Replay at a rate" close={close}>
      <ErrorBanner error={failed.value ?? error} />
      {jobs?.length === 0 && <Empty title="No such replay"><p>It ended more than an hour ago, or runs on another hub.</p></Empty>}
      {jobs?.map((job) => (
        <section key={job.job} aria-label={`Replay on ${job.topic}`}>
          {ids.length > 1 && <h3>{job.topic}</h3>}
          <p>
            {progressOf(job)}
            {job.reason !== undefined && <> <Foreign text={job.reason} /></>}
          </p>
          <progress aria-label={`Progress on ${job.topic}`} value={doneOf(job)} max={Math.max(1, job.total)} />
          {job.state !== "running" && <p class="muted">Begun <Age ts={job.started} of=" ago" />. What was replayed is skipped when it is begun again.</p>}
        </section>
      ))}
      {jobs !== undefined && jobs.length > 0 && jobs.length < ids.length && <p class="muted">{plural(ids.length - jobs.length, "replay")} ended more than an hour ago, or runs on another hub.</p>}
      {running.length > 0 && <CliCommand text={command("jobs cancel", running.map((job) => job.job))} />}
      <footer>
        <Button onClick={close} {...(running.length > 0 ? {} : { kind: "primary" as const })}>Close</Button>
        {running.length > 0 && <Button kind="danger" refused={refusal} onClick={() => void cancel()}>{ids.length > 1 ? "Cancel all" : "Cancel the replay"}</Button>}
      </footer>
    </Dialog>
  );
}
