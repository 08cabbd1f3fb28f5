// A dialog for actions that are hard to undo: the hub counts what would happen, then the viewer confirms.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { ApiError } from "../lib/api.ts";
import { asApiError } from "../lib/data.ts";
import { count } from "../lib/format.ts";
import { Button, CliCommand, ErrorBanner } from "./basics.tsx";
import { Dialog } from "./dialog.tsx";

export type Progress = Readonly<{ signal: AbortSignal; report: (done: number, total: number) => void }>;

/** What a preview says, and why it is not to be done if there is nothing to do. */
export type Preview = Readonly<{ says: ComponentChildren; nothing?: string | undefined }>;

export type ConfirmProps = {
  title: string;
  /** Says what would happen, by a dry run where the hub has one. */
  preview: () => Promise<Preview>;
  /** When the preview is to be made again. */
  previewKey?: string;
  /** Does it; a long one says how far it is, and stops between two requests when it is cancelled. What was done until then is an outcome as well. */
  act: (progress: Progress) => Promise<ComponentChildren>;
  verb: string;
  danger?: boolean;
  refused?: string | undefined;
  command?: string | undefined;
  close: () => void;
  /** When it is done; `close` follows when the outcome was read. */
  done?: () => void;
  children?: ComponentChildren;
};

type Phase =
  | { at: "counting" }
  | { at: "ready"; preview: Preview }
  | { at: "acting"; preview: Preview; isStopped?: boolean }
  | { at: "done"; says: ComponentChildren };

export function Confirm(props: ConfirmProps) {
  const phase = useSignal<Phase>({ at: "counting" });
  const error = useSignal<ApiError | undefined>(undefined);
  const progress = useSignal<{ done: number; total: number } | undefined>(undefined);
  const turn = useSignal(0);
  const cancel = useRef(new AbortController());
  useEffect(() => {
    let stale = false;
    phase.value = { at: "counting" };
    error.value = undefined;
    props.preview().then(
      (preview) => {
        if (!stale) phase.value = { at: "ready", preview };
      },
      (problem: unknown) => {
        if (!stale) error.value = asApiError(problem);
      },
    );
    return () => {
      stale = true;
    };
  }, [props.previewKey, turn.value]);
  useEffect(() => () => cancel.current.abort(), []);
  const act = () => {
    const now = phase.peek();
    if (now.at !== "ready") return;
    phase.value = { at: "acting", preview: now.preview };
    error.value = undefined;
    cancel.current = new AbortController();
    const report = (done: number, total: number) => {
      progress.value = { done, total };
    };
    props.act({ signal: cancel.current.signal, report }).then(
      (says) => {
        phase.value = { at: "done", says };
        props.done?.();
      },
      (problem: unknown) => {
        phase.value = { at: "ready", preview: now.preview };
        error.value = asApiError(problem);
      },
    );
  };
  const now = phase.value;
  // The first click stops the action, and the dialog shows what was done; a second one closes it without waiting for that.
  const leave = () => {
    if (now.at !== "acting" || now.isStopped === true) return props.close();
    cancel.current.abort();
    phase.value = { ...now, isStopped: true };
  };
  const nothing = now.at === "ready" ? now.preview.nothing : undefined;
  return (
    <Dialog title={props.title} close={leave}>
      {now.at !== "done" && props.children}
      <div class="outcome" role="status">
        {now.at === "counting" ? (error.value === undefined ? "Counting…" : "") : now.at === "done" ? now.says : now.preview.says}
      </div>
      {now.at === "acting" && progress.value !== undefined && (
        <>
          <progress aria-label="Progress" value={progress.value.done} max={Math.max(1, progress.value.total)} />
          <p class="muted">{count(progress.value.done)} of {count(progress.value.total)}. {now.isStopped === true ? "Stopping…" : "Stop ends it behind the request that is under way."}</p>
        </>
      )}
      <ErrorBanner error={error.value} {...(now.at === "counting" ? { retry: () => { turn.value += 1; } } : {})} />
      {props.command !== undefined && <CliCommand text={props.command} />}
      <footer>
        {now.at === "done" ? (
          <Button kind="primary" onClick={props.close}>Close</Button>
        ) : (
          <>
            <Button onClick={leave}>{now.at !== "acting" ? "Cancel" : now.isStopped === true ? "Close" : "Stop"}</Button>
            <Button
              kind={props.danger === true ? "danger" : "primary"}
              refused={props.refused ?? nothing}
              busy={now.at !== "ready"}
              onClick={act}
            >
              {props.verb}
            </Button>
          </>
        )}
      </footer>
    </Dialog>
  );
}
