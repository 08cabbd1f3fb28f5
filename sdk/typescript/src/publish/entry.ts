import { HubError } from "../errors.ts";
import type { Durability, EventOptions, Receipt } from "../types.ts";

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
export interface Entry {
  /** Rises from publish to publish. */
  readonly number: number;
  readonly id: string;
  /** The fields of the event as they are sent, each time the same: what the caller does to the payload later changes nothing. */
  readonly text: string;
  readonly topic: string;
  /** Under `order: "key"`: the topic and the key. */
  readonly chain: string | undefined;
  readonly deadline: number;
  /** Sent in a frame of its own, because a batch with it was refused. */
  isAlone: boolean;
  /** Counted in what is pending; the others wait for room. */
  isAdmitted: boolean;
  isSettled: boolean;
  settle(result: Receipt | HubError): void;
}

/** The text of an event in a PUBLISH, without braces. Throws if there is something that JSON does not have. */
export function textOf(topic: string, payload: unknown, id: string, options: EventOptions): string {
  const { ts, key, sid, headers, caused_by, tags } = options;
  const opts = JSON.stringify({ id, ts, key, sid, headers, caused_by, tags });
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
  return `"topic":${JSON.stringify(topic)},"payload":${text},"opts":${opts}`;
}

/** What `require` makes of a receipt. */
export function checkDurability(receipt: Receipt, required: "fsync" | undefined): Receipt | HubError {
  const safe: readonly Durability[] = ["fsync", "majority"];
  if (required === undefined || safe.includes(receipt.durable)) return receipt;
  const text = `event ${receipt.id} is stored with durability "${receipt.durable}", which a power loss may undo`;
  return new HubError("not_durable", text, { id: receipt.id, receipt });
}
