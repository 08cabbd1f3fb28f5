// The options of a group: stored with it, shared by all its members.

import type { StoredEvent } from "./event.ts";
import { HEADERS, HEADERS_BYTES, KEY_BYTES, TAGS, TAG_BYTES } from "../../rules/limits.ts";
import { badRequest, bytesOf } from "../../rules/refusal.ts";

/** Which events a group wants; everything that is given must match. */
export interface Filter {
  tags?: string[];
  key?: string;
  headers?: Record<string, string>;
}

export interface GroupOptions {
  filter: Filter;
  ordering: "none" | "key";
  coalesce: boolean;
  maxAttempts: number;
}

/** What a subscriber says about its group; what it leaves out takes the stored value. */
export interface GroupRequest {
  filter?: Filter;
  ordering?: "none" | "key";
  coalesce?: boolean;
  maxAttempts?: number;
}

export const DEFAULT_OPTIONS: GroupOptions = { filter: {}, ordering: "none", coalesce: false, maxAttempts: 5 };

export function matches(filter: Filter, event: StoredEvent): boolean {
  return (
    (filter.key === undefined || filter.key === event.key) &&
    (filter.tags ?? []).every((tag) => event.tags.includes(tag)) &&
    Object.entries(filter.headers ?? {}).every(([name, value]) => event.headers.get(name) === value)
  );
}

/** Refuses what no group can have. */
export function checkRequest({ filter, maxAttempts, coalesce, ordering }: GroupRequest): void {
  if (filter) checkFilter(filter);
  if (maxAttempts === 0) throw badRequest("maxAttempts is 0; it must be at least 1");
  if (coalesce === true && ordering === "none") {
    throw badRequest('coalesce implies ordering "key"; leave ordering out or set it to "key"');
  }
}

function checkFilter({ tags = [], key, headers = {} }: Filter): void {
  const pairs = Object.entries(headers);
  for (const [name, count, max] of [["tags", tags.length, TAGS], ["headers", pairs.length, HEADERS]] as const) {
    if (count > max) throw badRequest(`filter has ${count} ${name}; at most ${max} are allowed`);
  }
  const sizes: [name: string, bytes: number, max: number][] = [
    ...(key === undefined ? [] : [["key", bytesOf(key), KEY_BYTES] as [string, number, number]]),
    ...tags.map((tag): [string, number, number] => ["tag", bytesOf(tag), TAG_BYTES]),
    ...pairs.map(([name, value]): [string, number, number] => ["header", bytesOf(name) + bytesOf(value), HEADERS_BYTES]),
  ];
  for (const [name, bytes, max] of sizes) {
    if (bytes > max) throw badRequest(`filter: a ${name} has ${bytes} bytes; at most ${max} are allowed`);
  }
}

/** The options that result from what is stored and what is asked for. */
export function merged(request: GroupRequest, stored: GroupOptions): GroupOptions {
  const coalesce = request.coalesce ?? (stored.coalesce && request.ordering !== "none");
  return {
    filter: request.filter ? inOrder(request.filter) : stored.filter,
    ordering: coalesce ? "key" : (request.ordering ?? stored.ordering),
    coalesce,
    maxAttempts: request.maxAttempts ?? stored.maxAttempts,
  };
}

/** The options that are asked for and differ from what is stored, in words. */
export function conflicts(request: GroupRequest, stored: GroupOptions): string[] {
  const wanted = merged(request, stored);
  const names = ["filter", "ordering", "coalesce", "maxAttempts"] as const;
  return names.flatMap((name) => {
    const [has, wants] = [JSON.stringify(stored[name]), JSON.stringify(wanted[name])];
    return has === wants ? [] : [`${name} is ${has}, not ${wants}`];
  });
}

/** The same filter in the one form in which it is compared. */
function inOrder({ tags = [], key, headers = {} }: Filter): Filter {
  const pairs = Object.entries(headers).sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    ...(tags.length > 0 ? { tags: [...new Set(tags)].sort() } : {}),
    ...(key === undefined ? {} : { key }),
    ...(pairs.length > 0 ? { headers: Object.fromEntries(pairs) } : {}),
  };
}
