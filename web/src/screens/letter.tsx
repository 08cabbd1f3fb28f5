// One dead letter: what failed, with its payload to edit, and its way back to the group.
import { useSignal } from "@preact/signals";
import { getText, post } from "../lib/api.ts";
import { useResource } from "../lib/data.ts";
import { command, count, plural } from "../lib/format.ts";
import { compact, object, problemOf } from "../lib/json.ts";
import { indented } from "../lib/lines.ts";
import { record, take } from "../lib/record.ts";
import { to } from "../lib/route.ts";
import { refused } from "../lib/session.ts";
import type { Letter } from "../lib/types.ts";
import { Age, Badge, Button, CliCommand, ErrorBanner, Fact, Facts, Field, Foreign } from "../ui/basics.tsx";
import { Confirm } from "../ui/confirm.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { Diff } from "../ui/diff.tsx";
import { Payload } from "../ui/payload.tsx";
import type { Outcome } from "./replay.tsx";

/** A longer payload is edited with one member per line. */
const LINE_CHARS = 100;

/** What the editor begins with. */
function draftOf(payload: string): string {
  return payload.length > LINE_CHARS ? indented(payload) : payload;
}

export function LetterDialog({ topic, id, close, done }: { topic: string; id: string; close: () => void; done: () => void }) {
  const text = useSignal<string | undefined>(undefined);
  const confirming = useSignal(false);
  /** Whether the viewer is asked what becomes of the edit. */
  const isLeaving = useSignal(false);
  const shown = useResource(`letter ${topic} ${id}`, async (signal) => {
    const { taken, rest } = take<Letter>(await getText("/dlq/show", { topic, id }, signal), "original", "payload");
    return { letter: rest, original: record(taken.get("original") ?? "{}") };
  });
  const { data, error } = shown.state.value;
  const payload = data?.original?.payload ?? "null";
  const problem = text.value === undefined ? undefined : problemOf(text.value);
  const edited = text.value !== undefined && problem === undefined && compact(text.value) !== compact(payload);
  const isTouched = text.value !== undefined && text.value !== draftOf(payload);
  if (confirming.value && data !== undefined) {
    return <Redrive letter={data.letter} before={payload} after={edited ? compact(text.value ?? payload) : undefined} back={() => { confirming.value = false; }} close={close} done={done} />;
  }
  return (
    <Dialog title="Dead letter" wide close={() => { if (isTouched) isLeaving.value = true; else close(); }}>
      <ErrorBanner error={error} retry={shown.reload} />
      {data !== undefined && (
        <>
          <p><Badge tone="bad">{data.letter.group}</Badge> <Foreign text={data.letter.err === "" ? "(no error given)" : data.letter.err} most={2_000} /></p>
          <Facts>
            <Fact name="Event"><a href={to("/event", { topic, seq: data.letter.originalSeq })}>seq {data.letter.originalSeq} of {topic}</a></Fact>
            <Fact name="Group"><a href={to("/group", { topic, group: data.letter.group })}>{data.letter.group}</a></Fact>
            <Fact name="Key">{data.letter.key === undefined ? "–" : <Foreign text={data.letter.key} />}</Fact>
            <Fact name="Attempts">{count(data.letter.attempts)}</Fact>
            <Fact name="Given up"><Age ts={data.letter.ts} of=" ago" /></Fact>
            <Fact name="Replayed">{data.letter.replays === 0 ? "never" : `${data.letter.replays}×`}</Fact>
          </Facts>
          {text.value === undefined ? (
            <Payload text={payload} name={`letter-${id}`} />
          ) : (
            <Field label="Payload (JSON)">
              <textarea rows={12} spellcheck={false} value={text.value} aria-invalid={problem !== undefined} onInput={(event) => { text.value = event.currentTarget.value; }} />
            </Field>
          )}
          {problem !== undefined && <p class="problem" role="status">Not JSON: {problem}</p>}
          {isLeaving.value && isTouched && (
            <div class="banner">
              <span role="alert">What you have edited is not replayed, and goes when this closes.</span>
              <Button kind="danger" onClick={close}>Discard the edit</Button>
              <Button onClick={() => { isLeaving.value = false; }}>Go on editing</Button>
            </div>
          )}
          <CliCommand text={command("dlq show", [topic, id])} />
          <footer>
            {text.value === undefined
              ? <Button refused={refused("admin", topic)} onClick={() => { text.value = draftOf(payload); }}>Edit</Button>
              : <Button onClick={() => { text.value = undefined; }}>Undo the edit</Button>}
            <Button kind="primary" refused={refused("admin", topic)} busy={problem !== undefined} onClick={() => { confirming.value = true; }}>{edited ? "Replay edited…" : "Replay…"}</Button>
          </footer>
        </>
      )}
    </Dialog>
  );
}

/** Hands the event to the group again, as it was or edited. */
function Redrive({ letter, before, after, back, close, done }: { letter: Letter; before: string; after: string | undefined; back: () => void; close: () => void; done: () => void }) {
  const { topic, id, group } = letter;
  const isDone = useSignal(false);
  const replayed = useSignal<{ id: string; seq: number } | undefined>(undefined);
  // A letter that was replayed is replayed again in the next round.
  const round = letter.replays + 1;
  const body = (dryRun: boolean) => object([
    ["topic", JSON.stringify(topic)],
    ["ids", JSON.stringify([id])],
    ["round", String(round)],
    ["payload", after],
    ["dryRun", dryRun ? "true" : undefined],
  ]);
  return (
    <Confirm
      title={after === undefined ? "Replay the event" : "Replay the edited event"}
      verb="Replay"
      refused={refused("admin", topic)}
      command={command("dlq replay", [topic], { "--id": id, "--round": round > 1 ? round : undefined, "--edit": after === undefined ? undefined : "payload.json" })}
      preview={async () => {
        const dry = await post<{ matched: number; skipped: number }>("/dlq/replay", body(true));
        return {
          nothing: dry.matched === 0 ? "the letter is not there any more" : dry.skipped > 0 ? "it was replayed meanwhile; look at it again" : undefined,
          says: (
            <>
              <p>It goes to group {group} alone, {after === undefined ? "as it was published" : "with a new id and the changes below"}.{letter.replays > 0 && ` It was replayed ${letter.replays === 1 ? "once" : `${letter.replays} times`} before.`}</p>
              {after !== undefined && <Diff before={before} after={after} />}
            </>
          ),
        };
      }}
      act={async () => {
        const outcome = await post<Outcome>("/dlq/replay", body(false));
        replayed.value = await newest(letter).catch(() => undefined);
        return (
          <>
            <p>{plural(outcome.replayed ?? 0, "event")} replayed, {count(outcome.skipped ?? 0)} skipped, {count(outcome.failed ?? 0)} failed.{outcome.failures?.[0] !== undefined && <> <Foreign text={outcome.failures[0].error} /></>}</p>
            {replayed.value !== undefined && <p><a href={to("/event", { topic, seq: replayed.value.seq })}>See what becomes of it: seq {replayed.value.seq}</a></p>}
          </>
        );
      }}
      close={() => (isDone.peek() ? close() : back())}
      done={() => {
        isDone.value = true;
        done();
      }}
    />
  );
}

/** The event that the newest replay of a letter has appended. */
async function newest(letter: Letter): Promise<{ id: string; seq: number } | undefined> {
  type Place = Readonly<{ groups: readonly { group: string; letter?: { replays: readonly { id: string; seq: number; round: number }[] } }[] }>;
  const { rest } = take<Place>(await getText("/event", { topic: letter.topic, seq: letter.originalSeq, limit: 1_000 }), "event");
  const replays = rest.groups.find(({ group }) => group === letter.group)?.letter?.replays ?? [];
  return [...replays].sort((a, b) => b.round - a.round)[0];
}
