// A test event, typed by hand. The payload goes out as the text in the field.
import { useSignal } from "@preact/signals";
import type { ApiError } from "../lib/api.ts";
import { send, url } from "../lib/api.ts";
import { asApiError } from "../lib/data.ts";
import { bytes, command, size } from "../lib/format.ts";
import { problemOf } from "../lib/json.ts";
import { to } from "../lib/route.ts";
import { refused, who } from "../lib/session.ts";
import { Button, CliCommand, ErrorBanner, Field, Foreign } from "../ui/basics.tsx";

/** A longer payload is read from a file by the command that is shown. */
const COMMAND_CHARS = 300;

type Headers_ = Readonly<Record<string, string>>;

/** Headers that a publisher may set by HTTP. */
function ownHeaders(headers: Headers_): readonly (readonly [string, string])[] {
  return Object.entries(headers).filter(([name, value]) => (/^x-(?!hub-)/.test(name) || name === "traceparent" || name === "tracestate") && /^[\x20-\x7e]*$/.test(value));
}

function publishCommand(topic: string, payload: string, key: string, headers: readonly (readonly [string, string])[]): string {
  const options = { "--key": key, "--header": headers.map(([name, value]) => `${name}=${value}`) };
  return payload.length > COMMAND_CHARS ? `${command("publish", [topic, "-"], options)} < payload.json` : command("publish", [topic, payload], options);
}

export function PublishForm({ topic, payload = '{"test": true}', eventKey = "", headers = {}, published }: { topic: string; payload?: string; eventKey?: string; headers?: Headers_; published?: () => void }) {
  const text = useSignal(payload);
  const key = useSignal(eventKey);
  const withHeaders = useSignal(true);
  const error = useSignal<ApiError | undefined>(undefined);
  const receipt = useSignal<{ seq: number; durable: string } | undefined>(undefined);
  const busy = useSignal(false);
  const taken = withHeaders.value ? ownHeaders(headers) : [];
  const most = who.value?.limits.payloadBytes;
  const length = size(text.value);
  const problem = problemOf(text.value) ?? (most !== undefined && length > most ? `it has ${bytes(length)}; at most ${bytes(most)} are allowed` : undefined);
  const publish = async () => {
    busy.value = true;
    error.value = undefined;
    receipt.value = undefined;
    try {
      const path = url(`/publish/${encodeURIComponent(topic)}`, { key: key.peek() });
      const answer = await send(path, { method: "POST", body: text.peek(), headers: { ...Object.fromEntries(taken), "content-type": "application/json" } });
      receipt.value = (await answer.json()) as { seq: number; durable: string };
      published?.();
    } catch (failed) {
      error.value = asApiError(failed);
    }
    busy.value = false;
  };
  return (
    <form class="form" onSubmit={(event) => { event.preventDefault(); if (problem === undefined && refused("publish", topic) === undefined) void publish(); }}>
      <Field label="Key" hint="Optional: what the event is about. Groups that keep the order of keys handle events of one key one by one.">
        <input value={key.value} autocomplete="off" spellcheck={false} onInput={(event) => { key.value = event.currentTarget.value; }} />
      </Field>
      <Field label="Payload (JSON)">
        <textarea rows={8} spellcheck={false} value={text.value} onInput={(event) => { text.value = event.currentTarget.value; }} aria-invalid={problem !== undefined} />
      </Field>
      {ownHeaders(headers).length > 0 && (
        <label class="check"><input type="checkbox" checked={withHeaders.value} onChange={(event) => { withHeaders.value = event.currentTarget.checked; }} /> with its headers {ownHeaders(headers).map(([name]) => name).join(", ")}</label>
      )}
      {problem !== undefined && <p class="problem" role="status">{problemOf(text.value) === undefined ? "Too large" : "Not JSON"}: {problem}</p>}
      <ErrorBanner error={error.value} />
      {receipt.value !== undefined && (
        <p role="status">Published as <a href={to("/event", { topic, seq: receipt.value.seq })}>seq {receipt.value.seq}</a> ({receipt.value.durable}).</p>
      )}
      <div><Button kind="primary" busy={busy.value || problem !== undefined} refused={refused("publish", topic)} onClick={() => void publish()}>Publish to <Foreign text={topic} /></Button></div>
      <CliCommand text={publishCommand(topic, text.value, key.value, taken)} />
    </form>
  );
}
