// A list that is read in pages and kept up to date by the live stream.
import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type ApiError, pages, type Query } from "./api.ts";
import { hubTime } from "./clock.ts";
import { asApiError, generation, RETRY_MS } from "./data.ts";
import { settled, useLive } from "./live.ts";
import { token } from "./session.ts";
import { SortedList } from "./sorted.ts";

export type LiveList<T> = Readonly<{
  list: SortedList<T>;
  /** Goes up with every change of the list, which is changed in place: it can have 100,000 rows. */
  version: Signal<number>;
  error: Signal<ApiError | undefined>;
  /** When the list was read or changed last. */
  at: Signal<number | undefined>;
  complete: Signal<boolean>;
  reload: () => void;
}>;

type Changes<T> = Readonly<{ rows: readonly T[]; gone?: readonly (string | readonly string[])[]; reset?: boolean }>;

export function useLiveList<T>(of: {
  path: string;
  query: Query;
  /** The name of the rows in a page, and of the message of the stream. */
  name: string;
  id: (row: T) => string;
  live: Query;
  /** What a row of the stream becomes, which has less than one of a page. */
  merge?: (old: T | undefined, row: T) => T;
  changed?: (row: T) => void;
}): LiveList<T> {
  const list = useSignal(new SortedList<T>()).value;
  const version = useSignal(0);
  const error = useSignal<ApiError | undefined>(undefined);
  const at = useSignal<number | undefined>(undefined);
  const complete = useSignal(false);
  const turn = useSignal(0);
  /** What the stream has told since the reading under way began: a page may be older. Undefined is a row that is gone. */
  const streamed = useRef<Map<string, T | undefined> | undefined>(undefined);
  const touched = () => {
    at.value = hubTime();
    version.value += 1;
  };
  const again = () => {
    turn.value += 1;
  };
  useLive(of.live, {
    [of.name]: ({ rows, gone = [], reset = false }: Changes<T>) => {
      for (const row of rows) {
        const id = of.id(row);
        list.put(id, of.merge?.(list.rows.get(id), row) ?? row);
        streamed.current?.set(id, row);
        of.changed?.(row);
      }
      for (const names of gone) {
        const id = typeof names === "string" ? names : names.join(" ");
        list.delete(id);
        streamed.current?.set(id, undefined);
      }
      if (reset) again();
      if (rows.length > 0 || gone.length > 0) touched();
    },
  });
  useEffect(() => {
    if (token.value === undefined) return;
    const cancel = new AbortController();
    let retry: ReturnType<typeof setTimeout> | undefined;
    const seen = new Set<string>();
    const newer = new Map<string, T | undefined>();
    streamed.current = newer;
    const take = (page: Record<string, unknown>) => {
      for (const row of (page[of.name] ?? []) as T[]) {
        const id = of.id(row);
        seen.add(id);
        const newest = newer.get(id);
        if (newest !== undefined) list.put(id, of.merge?.(row, newest) ?? newest);
        else if (!newer.has(id)) list.put(id, row);
      }
      touched();
    };
    settled()
      .then(() => pages<Record<string, unknown> & { next?: string }>(of.path, of.query, cancel.signal, take))
      .then(
        () => {
          for (const id of list.rows.keys()) if (!seen.has(id) && newer.get(id) === undefined) list.delete(id);
          complete.value = true;
          error.value = undefined;
          touched();
        },
        (problem: unknown) => {
          if (cancel.signal.aborted) return;
          error.value = asApiError(problem);
          if (error.value.isPassing) retry = setTimeout(again, Math.max(error.value.retryAfter ?? 0, RETRY_MS));
          if (error.value.status !== 403) return;
          list.replace([]);
          touched();
        },
      )
      .finally(() => {
        if (streamed.current === newer) streamed.current = undefined;
      });
    return () => {
      cancel.abort();
      clearTimeout(retry);
    };
  }, [generation.value, token.value, turn.value]);
  return { list, version, error, at, complete, reload: again };
}
