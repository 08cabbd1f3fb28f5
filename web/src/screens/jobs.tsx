// Replays that the hub does at a rate.
import { useSignal } from "@preact/signals";
import { useAnnounced } from "../lib/announce.ts";
import { type ApiError, get, remove } from "../lib/api.ts";
import { asApiError, useResource } from "../lib/data.ts";
import { count, curl } from "../lib/format.ts";
import { open } from "../lib/route.ts";
import { refused } from "../lib/session.ts";
import type { Job } from "../lib/types.ts";
import { Age, Badge, Button, CliCommand, Empty, ErrorBanner, Foreign } from "../ui/basics.tsx";
import { Dialog } from "../ui/dialog.tsx";

const LIST_POLL_MS = 5_000;
const POLL_MS = 1_000;

function doneOf(job: Job): number {
  return job.replayed + job.skipped + job.failed;
}

function progressOf(job: Job): string {
  return `${job.state}: ${count(job.replayed)} of ${job.complete ? "" : "at least "}${count(job.total)} replayed, ${count(job.skipped)} skipped, ${count(job.failed)} failed.`;
}

/** Those that are under way. */
export function Jobs() {
  const list = useResource("jobs", (signal) => get<{ jobs: Job[] }>("/jobs", {}, signal), LIST_POLL_MS);
  const running = (list.state.value.data?.jobs ?? []).filter((job) => job.state === "running");
  if (running.length === 0) return null;
  return (
    <section class="jobs" aria-label="Replays under way">
      {running.map((job) => (
        <p key={job.job}>
          <Badge tone="warn">replaying</Badge> {count(doneOf(job))} of {count(job.total)} on {job.topic}, begun <Age ts={job.started} of=" ago" />
          {" "}<Button onClick={() => open({ job: job.job })} label={`Show the replay on ${job.topic}`}>Show</Button>
        </p>
      ))}
    </section>
  );
}

/** One of them, until it ends. */
export function JobDialog({ id, close }: { id: string; close: () => void }) {
  const failed = useSignal<ApiError | undefined>(undefined);
  const isOver = useSignal(false);
  const job = useResource(`job ${id}`, (signal) => get<Job>(`/jobs/${encodeURIComponent(id)}`, {}, signal), isOver.value ? undefined : POLL_MS);
  const { data: now, error } = job.state.value;
  if (now !== undefined && now.state !== "running" && !isOver.peek()) isOver.value = true;
  useAnnounced(now === undefined ? "" : progressOf(now));
  const address = `/jobs/${encodeURIComponent(id)}`;
  const cancel = async () => {
    failed.value = undefined;
    try {
      await remove(address);
      job.reload();
    } catch (problem) {
      failed.value = asApiError(problem);
    }
  };
  return (
    <Dialog title="Replay at a rate" close={close}>
      <ErrorBanner error={failed.value ?? error} />
      {now === undefined ? (
        error?.status === 404 && <Empty title="No such replay"><p>It ended more than an hour ago, or runs on another hub.</p></Empty>
      ) : (
        <>
          <p>
            {progressOf(now)}
            {now.reason !== undefined && <> <Foreign text={now.reason} /></>}
          </p>
          <progress aria-label="Progress" value={doneOf(now)} max={Math.max(1, now.total)} />
          {now.state === "running" ? <CliCommand text={curl("DELETE", `${location.origin}${address}`)} /> : <p class="muted">Begun <Age ts={now.started} of=" ago" />. What was replayed is skipped when it is begun again.</p>}
        </>
      )}
      <footer>
        <Button onClick={close} {...(now?.state === "running" ? {} : { kind: "primary" as const })}>Close</Button>
        {now?.state === "running" && <Button kind="danger" refused={refused("admin", now.topic)} onClick={() => void cancel()}>Cancel the replay</Button>}
      </footer>
    </Dialog>
  );
}
