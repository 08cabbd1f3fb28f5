// What a screen has read: kept and greyed while a newer answer fails, read again when the hub is back.
import { type Signal, signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ApiError } from "./api.ts";
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

const NOTHING = { data: undefined, error: undefined, at: undefined, loading: true } as const;

/** Reads something once per `key`, and again on `reload`; with `pollMs` again and again, the next time only after the last answer. */
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
      try {
        const data = await load(cancel.signal);
        if (!cancel.signal.aborted) state.value = { data, error: undefined, at: Date.now(), loading: false };
      } catch (error) {
        if (!cancel.signal.aborted) state.value = { ...state.peek(), error: asApiError(error), loading: false };
      }
      if (pollMs !== undefined && !cancel.signal.aborted) timer = setTimeout(again, pollMs);
    };
    const again = () => {
      // With a token that is over there is nothing to ask for.
      if (document.visibilityState === "visible" && asked.peek() === undefined) void read();
      else timer = setTimeout(again, pollMs);
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
      if (now.data !== undefined) state.value = { ...now, data: edit(now.data), at: Date.now() };
    },
  };
}

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(0, "internal", error instanceof Error ? error.message : String(error));
}
