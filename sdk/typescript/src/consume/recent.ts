import type { Clock } from "../clock.ts";

/** An id is remembered for so long, at least, unless very many follow it. */
const KEEP = 60_000;
const MOST = 65_536;

/** Ids of events that were handled a short while ago. */
export interface Recent {
  /** Whether nothing is remembered any more. */
  isOver(): boolean;
  /** `since`: when the event came. */
  add(id: string, epoch: number, since: number): void;
  /** Whether the event was handled, under this epoch or a later one, and came before that time. */
  has(id: string, epoch: number, before: number): boolean;
}

interface Handled {
  readonly epoch: number;
  readonly since: number;
}

/** Two generations: forgetting the older one costs nothing per id, and needs no timer. */
export function createRecent(clock: Clock): Recent {
  let young = new Map<string, Handled>();
  let old = new Map<string, Handled>();
  let began = 0;
  const turn = (): void => {
    const age = clock.now() - began;
    if (age < KEEP && young.size < MOST) return;
    old = age < 2 * KEEP ? young : new Map<string, Handled>();
    young = new Map();
    began = clock.now();
  };
  return {
    isOver: () => clock.now() - began >= 2 * KEEP,
    add(id, epoch, since) {
      turn();
      young.set(id, { epoch, since });
    },
    has(id, epoch, before) {
      turn();
      const handled = young.get(id) ?? old.get(id);
      return handled !== undefined && handled.epoch >= epoch && handled.since < before;
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
