// Marks in memory: they end with the process.

import { BoundedMap } from "./bounded.ts";
import { type InboxStore, type Mark, purgeRange } from "./store.ts";

const MOST_MARKS = 100_000;

export interface MemoryInboxOptions {
  /** Marks that are kept: the one that was used least recently makes room; 100,000 unless given. */
  limit?: number;
}

/** An inbox in memory. It knows deliveries that come again while the process lives, and no others. */
export function memoryInbox({ limit = MOST_MARKS }: MemoryInboxOptions = {}): InboxStore {
  if (!(Number.isSafeInteger(limit) && limit >= 1)) throw new TypeError(`limit ${String(limit)}: an integer from 1 is allowed`);
  const marks = new BoundedMap<Mark & { readonly at: number }>(limit);
  return {
    has: (mark) => Promise.resolve(marks.get(keyOf(mark)) !== undefined),
    add(mark) {
      if (marks.get(keyOf(mark)) === undefined) marks.set(keyOf(mark), { ...mark, at: Date.now() });
      return Promise.resolve();
    },
    async purge(options) {
      const { consumer, topic, below, before } = purgeRange(options);
      let removed = 0;
      for (const [key, mark] of [...marks.entries()]) {
        if (mark.consumer === consumer && mark.topic === topic && mark.seq < below && mark.at <= before && marks.delete(key)) removed++;
      }
      return Promise.resolve(removed);
    },
  };
}

/** None of the three has a NUL. */
export function keyOf({ consumer, topic, id }: Mark): string {
  return [consumer, topic, id].join("\0");
}
