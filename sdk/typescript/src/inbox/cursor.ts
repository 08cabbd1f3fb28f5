// The cursor of a group, below which marks may be purged.

import { HubError } from "../errors.ts";

export interface GroupCursorOptions {
  /** The hub's HTTP address: `http://127.0.0.1:8082`. */
  url: string;
  /** A token that may subscribe to the topic with the group. */
  token: string;
  topic: string;
  group: string;
  signal?: AbortSignal;
}

/**
 * The cursor of a group in a topic, by the hub's HTTP API: every event up to it is settled. It is what `purge` takes as `below`.
 *
 * @throws HubError with the hub's code; `bad_request` if there is no such group.
 */
export async function groupCursor({ url, token, topic, group, signal }: GroupCursorOptions): Promise<number> {
  const address = new URL("cursors", url.endsWith("/") ? url : `${url}/`);
  address.search = new URLSearchParams({ topic, group }).toString();
  const response = await fetch(address, { headers: { authorization: `Bearer ${token}` }, ...(signal && { signal }) }).catch((cause: unknown) => {
    signal?.throwIfAborted();
    throw new HubError("connect_failed", `${address.host} cannot be reached`, { cause });
  });
  const answer: Answer = await response.json().then(
    (json: unknown) => (typeof json === "object" && json !== null ? json : {}),
    () => ({}),
  );
  if (!response.ok) throw new HubError(answer.code ?? "unavailable", answer.error ?? `the hub has answered with status ${response.status}`);
  const cursor = answer.cursors?.find((one) => one.group === group);
  if (cursor === undefined) throw new HubError("bad_request", `the topic ${topic} has no group ${group}`);
  return cursor.seq;
}

interface Answer {
  code?: string;
  error?: string;
  cursors?: { group: string; seq: number }[];
}
