import type { Clock } from "../clock.ts";

/** An id is remembered for so long, at least, unless very many follow it. */
const KEEP = 60_000;
const MOST = 65_536;

/** Nothing is remembered for longer. */
export const REMEMBERED_AT_MOST = 2 * KEEP;

/** Ids that were handled a short while ago, and under which epoch. */
export interface Recent {
  /** Whether nothing is remembered any more. */
  isOver(): boolean;
  add(id: string, epoch: number): void;
  has(id: string, epoch: number): boolean;
}

/** Two generations: forgetting the older one costs nothing per id, and needs no timer. */
export function createRecent(clock: Clock): Recent {
  let young = new Map<string, number>();
  let old = new Map<string, number>();
  let began = 0;
  const turn = (): void => {
    const age = clock.now() - began;
    if (age < KEEP && young.size < MOST) return;
    old = age < 2 * KEEP ? young : new Map<string, number>();
    young = new Map();
    began = clock.now();
  };
  return {
    isOver: () => clock.now() - began >= REMEMBERED_AT_MOST,
    add(id, epoch) {
      turn();
      young.set(id, epoch);
    },
    has(id, epoch) {
      turn();
      return (young.get(id) ?? old.get(id) ?? -1) >= epoch;
    },
  };
}

const clients = new WeakMap<object, Map<string, Recent>>();

/** What the subscriptions of a name have handled that are over: a hub that was killed may deliver it to the next one. */
export function recentsOf(client: object): Map<string, Recent> {
  const recents = clients.get(client) ?? new Map<string, Recent>();
  clients.set(client, recents);
  for (const [name, recent] of recents) if (recent.isOver()) recents.delete(name);
  return recents;
}
