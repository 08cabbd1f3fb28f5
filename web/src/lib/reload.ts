// Reloads lists of dead letters when there are new ones.
import { useEffect, useRef } from "preact/hooks";
import { latest } from "./live.ts";

/** Least time between two reloads: a person works on the list while events go on failing. */
const RELOAD_MS = 10_000;

/** Calls `reload` when the stream reports dead letters, at most once in [`RELOAD_MS`]. */
export function useNewLetters(reload: () => void): void {
  const sample = latest.value;
  const newest = useRef(reload);
  newest.current = reload;
  const lastRead = useRef(performance.now());
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => {
    if (sample === undefined || sample.deadlettered === 0) return;
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      lastRead.current = performance.now();
      newest.current();
    }, Math.max(0, lastRead.current + RELOAD_MS - performance.now()));
  }, [sample]);
  useEffect(() => () => clearTimeout(timer.current), []);
}
