import { HubError } from "../errors.ts";
import type { EventOptions, Receipt } from "../types.ts";

/** The options of a publish. */
export interface PublishOptions extends EventOptions {
  /**
   * `"key"`: later publishes of this topic and key that say so, too, are stored after this one, also if the hub refuses it for a
   * while. Without it only what the hub takes at the first attempt keeps its order.
   */
  order?: "key";
  /**
   * `"fsync"`: the promise is kept only if the event survives a power loss (`durable` is `fsync` or `majority`). Else it is
   * rejected with `not_durable` and the receipt: the event is stored, but its topic or its store promises less.
   */
  require?: "fsync";
  /** Gives up waiting. The event may be stored or not if it was sent already. */
  signal?: AbortSignal;
}

/** A publish that is not settled yet. */
export class Entry {
  /** Sent in a frame of its own, because a batch with it was refused. */
  isAlone = false;
  /** Counted in what is pending; the others wait for room. */
  isAdmitted = false;
  isSettled = false;
  /** Its validator has accepted it. */
  isChecked = false;
  /** Of `signal`: gives up. */
  onAbort: (() => void) | undefined;

  constructor(
    /** Rises from publish to publish. */
    readonly number: number,
    readonly id: string,
    readonly topic: string,
    /** The fields of the event as they are sent, each time the same: what the caller does to the payload later changes nothing. */
    readonly text: string,
    /** Under `order: "key"`: the topic and the key. */
    readonly chain: string | undefined,
    readonly deadline: number,
    readonly options: PublishOptions,
    readonly resolve: (receipt: Receipt) => void,
    readonly reject: (error: unknown) => void,
    /** Told when it is over, before anybody else. */
    readonly finish: (entry: Entry) => void,
  ) {}

  settle(result: Receipt | HubError): void {
    const checked = result instanceof HubError || this.options.require === undefined ? result : checkDurability(result);
    if (checked instanceof HubError) this.fail(checked);
    else if (this.end()) this.resolve(checked);
  }

  fail(why: unknown): void {
    if (this.end()) this.reject(why);
  }

  /** False if it was settled before. */
  private end(): boolean {
    if (this.isSettled) return false;
    if (this.onAbort !== undefined) this.options.signal?.removeEventListener("abort", this.onAbort);
    this.finish(this);
    return true;
  }
}

/** Most publishes have the topic of the one before. */
let lastTopic = "";
let lastTopicText = '""';

/** The text of an event in a PUBLISH, without braces. Throws if there is something that JSON does not have. */
export function textOf(topic: string, payload: unknown, id: string, options: EventOptions): string {
  let text: string | undefined;
  try {
    // Of a function or of `undefined` this is undefined, whatever its type says.
    text = JSON.stringify(payload);
  } catch (cause) {
    throw new HubError("bad_request", `the payload cannot be written as JSON: ${String(cause)}`, { id, cause });
  }
  if (text === undefined) {
    throw new HubError("bad_request", `a payload of type ${typeof payload}; JSON is allowed, null to delete a key`, { id });
  }
  if (topic !== lastTopic) {
    lastTopic = topic;
    lastTopicText = JSON.stringify(topic);
  }
  const { ts, key, sid, headers, caused_by, tags } = options;
  const isPlain = (options.id ?? ts ?? key ?? sid ?? headers ?? caused_by ?? tags) === undefined;
  const opts = isPlain ? `{"id":"${id}"}` : JSON.stringify({ id, ts, key, sid, headers, caused_by, tags });
  return `"topic":${lastTopicText},"payload":${text},"opts":${opts}`;
}

/** What `require: "fsync"` makes of a receipt. */
function checkDurability(receipt: Receipt): Receipt | HubError {
  const { id, durable } = receipt;
  if (durable === "fsync" || durable === "majority") return receipt;
  const text = `event ${id} is stored with durability "${durable}", which a power loss may undo`;
  return new HubError("not_durable", text, { id, receipt });
}
