// A list that is read in pages and kept up to date by the live stream.
import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type ApiError, pages, type Query } from "./api.ts";
import { hubTime } from "./clock.ts";
import { asApiError, generation } from "./data.ts";
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

type Changes<T> = Readonly<{ rows: readonly T[]; gone?: readonly (string | readonly string[])[] }>;

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
  const touched = () => {
    at.value = hubTime();
    version.value += 1;
  };
  useLive(of.live, {
    [of.name]: ({ rows, gone = [] }: Changes<T>) => {
      for (const row of rows) {
        const id = of.id(row);
        list.put(id, of.merge?.(list.rows.get(id), row) ?? row);
        of.changed?.(row);
      }
      for (const id of gone) list.delete(typeof id === "string" ? id : id.join(" "));
      if (rows.length > 0 || gone.length > 0) touched();
    },
  });
  useEffect(() => {
    if (token.value === undefined) return;
    const cancel = new AbortController();
    const seen = new Set<string>();
    const take = (page: Record<string, unknown>) => {
      for (const row of (page[of.name] ?? []) as T[]) {
        const id = of.id(row);
        seen.add(id);
        list.put(id, row);
      }
      touched();
    };
    settled()
      .then(() => pages<Record<string, unknown> & { next?: string }>(of.path, of.query, cancel.signal, take))
      .then(
        () => {
          for (const id of list.rows.keys()) if (!seen.has(id)) list.delete(id);
          complete.value = true;
          error.value = undefined;
          touched();
        },
        (problem: unknown) => {
          if (cancel.signal.aborted) return;
          error.value = asApiError(problem);
          if (error.value.status !== 403) return;
          list.replace([]);
          touched();
        },
      );
    return () => cancel.abort();
  }, [generation.value, token.value, turn.value]);
  return { list, version, error, at, complete, reload: () => { turn.value += 1; } };
}
