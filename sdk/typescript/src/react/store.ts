// What components read: one subscription for all of them that ask for the same, kept for a moment after the last one is gone.

import type { HubClient } from "../client.ts";
import type { Subscription, WatchOptions } from "../consume/types.ts";
import type { HubError } from "../errors.ts";
import type { EventRecord } from "../types.ts";

/** How long a subscription stays without a component: pages that change, and StrictMode, mount again at once. */
const LINGER_MS = 1_000;

/** What all snapshots have. */
export interface Status {
  /** The hub has accepted the subscription. */
  readonly isOpen: boolean;
  /** What ended the subscription. */
  readonly error?: HubError;
}

/** What events become. */
export interface Collector<Seen> {
  /** How many events are kept, where that has a bound. */
  limit: number;
  add(event: EventRecord): void;
  /** A new object, of what was added so far. */
  seen(hasGap: boolean): Seen;
}

export interface Store<Seen> {
  readonly collector: Collector<Seen>;
  snapshot: (Seen & Status) | undefined;
  subscribe(listener: () => void): () => void;
}

/** The stores of each client that have listeners, or had some a moment ago. */
const stores = new WeakMap<object, Map<string, Store<unknown>>>();

export function storesOf(client: HubClient): Map<string, Store<unknown>> {
  let own = stores.get(client);
  if (!own) stores.set(client, (own = new Map<string, Store<unknown>>()));
  return own;
}

/** A store that begins to read with its first listener, and ends with its last one. */
export function createStore<Seen>(
  client: HubClient,
  name: string,
  topic: string,
  options: WatchOptions,
  collector: Collector<Seen>,
): Store<Seen> {
  const own = storesOf(client);
  const listeners = new Set<() => void>();
  const seqs = new Map<string, number>();
  let status: Status = { isOpen: false };
  let hasGap = false;
  let isChanging = false;
  let subscription: Subscription | undefined;
  let timer: ReturnType<typeof setTimeout>;

  /** However many events come at once, components see one change. */
  const change = (next = status): void => {
    status = next;
    if (isChanging) return;
    isChanging = true;
    queueMicrotask(() => {
      isChanging = false;
      store.snapshot = { ...collector.seen(hasGap), ...status };
      listeners.forEach((listener) => listener());
    });
  };
  const failed = (error: HubError | undefined): void => {
    if (error) change({ isOpen: false, error });
  };
  const onLagged = (): void => {
    hasGap = true;
    change();
  };
  const handle = (event: EventRecord): void => {
    // After a reconnect some may come again.
    if ((seqs.get(event.topic) ?? 0) >= event.seq) return;
    seqs.set(event.topic, event.seq);
    collector.add(event);
    change();
  };

  const store: Store<Seen> = {
    collector,
    snapshot: undefined,
    subscribe(listener) {
      clearTimeout(timer);
      listeners.add(listener);
      if (!own.has(name)) {
        own.set(name, store);
        try {
          subscription = watch(client, topic, { ...options, onLagged }, handle);
          subscription.opened.then(() => change({ isOpen: true }), failed);
          void subscription.closed.then(failed);
        } catch (error) {
          failed(error as HubError);
        }
      }
      return () => {
        listeners.delete(listener);
        if (listeners.size) return;
        timer = setTimeout(() => {
          own.delete(name);
          void subscription?.unsubscribe();
        }, LINGER_MS);
      };
    },
  };
  return store;
}

/**
 * A client has one reader of a name; others of the same topic read it under labels. States do so from the start: only a reader of the plain name
 * goes on where it was after a reconnect, which is what lists of events need, and states come anew as a whole.
 */
function watch(client: HubClient, topic: string, options: WatchOptions, handle: (event: EventRecord) => void): Subscription {
  const isPattern = topic.includes("*");
  for (let count = options.coalesce && !isPattern ? 1 : 0; ; count += 1) {
    try {
      return count ? client.watch(`${topic}.reader-${count}`, handle, { ...options, topics: [topic] }) : client.watch(topic, handle, options);
    } catch (error) {
      if ((error as HubError).code !== "already_subscribed" || isPattern) throw error;
    }
  }
}
