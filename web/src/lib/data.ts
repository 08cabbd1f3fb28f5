// What a screen has read: kept and greyed while a newer answer fails, read again when the hub is back.
import { type Signal, signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ApiError } from "./api.ts";
import { hubTime } from "./clock.ts";
import { asked, token } from "./session.ts";

/** Goes up when everything shown has to be read again: the hub came back, the tab was hidden, or the token is another one. */
export const generation = signal(0);

export type Loaded<T> = Readonly<{
  data: T | undefined;
  error: ApiError | undefined;
  /** When the data came. */
  at: number | undefined;
  loading: boolean;
}>;

export type Resource<T> = Readonly<{ state: Signal<Loaded<T>>; reload: () => void; change: (edit: (data: T) => T) => void }>;

/** What cannot be read for a while is tried again after this time. */
export const RETRY_MS = 3_000;

const NOTHING = { data: undefined, error: undefined, at: undefined, loading: true } as const;

/** Reads something once per `key`, and again on `reload` or after a failure that passes; with `pollMs` again and again, the next time only after the last answer. */
export function useResource<T>(key: string | undefined, load: (signal: AbortSignal) => Promise<T>, pollMs?: number): Resource<T> {
  const state = useSignal<Loaded<T>>(NOTHING);
  const turn = useSignal(0);
  const shownKey = useSignal<string | undefined>(undefined);
  const hasToken = token.value !== undefined;
  useEffect(() => {
    if (key === undefined || !hasToken) return;
    const cancel = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    if (shownKey.peek() !== key) state.value = NOTHING;
    shownKey.value = key;
    const read = async () => {
      if (state.peek().data === undefined && !state.peek().loading) state.value = { ...state.peek(), loading: true };
      let wait = pollMs;
      try {
        const data = await load(cancel.signal);
        if (!cancel.signal.aborted) state.value = { data, error: undefined, at: hubTime(), loading: false };
      } catch (error) {
        const problem = asApiError(error);
        if (!cancel.signal.aborted) state.value = failed(state.peek(), problem);
        // The hub writes each refusal into its audit log; rights that change lead to another reading.
        if (problem.status === 403) return;
        if (problem.isPassing) wait = Math.max(problem.retryAfter ?? 0, pollMs ?? RETRY_MS);
      }
      if (wait !== undefined && !cancel.signal.aborted) timer = setTimeout(again, wait);
    };
    const again = () => {
      // With a token that is over there is nothing to ask for.
      if (document.visibilityState === "visible" && asked.peek() === undefined) void read();
      else timer = setTimeout(again, pollMs ?? RETRY_MS);
    };
    void read();
    return () => {
      cancel.abort();
      clearTimeout(timer);
    };
  }, [key, pollMs, generation.value, turn.value, hasToken]);
  return {
    state,
    reload: () => {
      turn.value += 1;
    },
    change: (edit) => {
      const now = state.peek();
      if (now.data !== undefined) state.value = { ...now, data: edit(now.data), error: undefined, at: hubTime() };
    },
  };
}

/** What was there stays, but for what the viewer may not see any more. */
function failed<T>(before: Loaded<T>, error: ApiError): Loaded<T> {
  return { ...(error.status === 403 ? NOTHING : before), error, loading: false };
}

/** What was read of a list: `count` pages of it. */
export type Pages<T> = Readonly<{ rows: readonly T[]; next: string | number | undefined; count: number }>;
export type Page<T> = Pick<Pages<T>, "rows" | "next">;
export type PagedResource<T> = Resource<Pages<T>> & Readonly<{ busy: Signal<boolean>; more: () => Promise<void> }>;

/** A long list, of which the viewer has the next page read. `reload` reads as many pages as there are. */
export function usePages<T>(key: string, read: (after: string | number | undefined, signal?: AbortSignal) => Promise<Page<T>>): PagedResource<T> {
  const busy = useSignal(false);
  const found: Resource<Pages<T>> = useResource(key, async (signal) => {
    const wanted = found.state.peek().data?.count ?? 1;
    let pages = joined(undefined, await read(undefined, signal));
    while (pages.next !== undefined && pages.count < wanted) pages = joined(pages, await read(pages.next, signal));
    return pages;
  });
  const more = async () => {
    const before = found.state.peek().data;
    if (before?.next === undefined || busy.peek()) return;
    busy.value = true;
    // If another list was read meanwhile, or the same one again, the page belongs to none.
    const isCurrent = () => found.state.peek().data === before;
    try {
      const page = await read(before.next);
      if (isCurrent()) found.change(() => joined(before, page));
    } catch (problem) {
      if (isCurrent()) found.state.value = failed(found.state.peek(), asApiError(problem));
    }
    busy.value = false;
  };
  return { ...found, busy, more };
}

function joined<T>(before: Pages<T> | undefined, page: Page<T>): Pages<T> {
  return { rows: before === undefined ? page.rows : [...before.rows, ...page.rows], next: page.next, count: (before?.count ?? 0) + 1 };
}

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(0, "internal", error instanceof Error ? error.message : String(error));
}
