/**
 * Events and states of a hub in React, from version 18 on.
 *
 * @module
 */

import { createContext, createElement, type ReactElement, type ReactNode, useContext, useMemo, useSyncExternalStore } from "react";
import type { HubClient } from "../client.ts";
import type { Filter, From } from "../consume/types.ts";
import type { HubState } from "../state.ts";
import type { EventRecord } from "../types.ts";
import { type Collector, createStore, type Status, type Store, storesOf } from "./store.ts";

export { type Status } from "./store.ts";

const HubContext = createContext<unknown>(undefined);

/** Provides a client to the components below. The program that made the client closes the client. */
export function HubProvider(props: { client: unknown; children?: ReactNode }): ReactElement {
  return createElement(HubContext.Provider, { value: props.client }, props.children);
}

/** The client of the nearest {@link HubProvider}. */
export function useHub<Client = HubClient>(): Client {
  const client = useContext(HubContext);
  if (!client) throw new Error("no HubProvider around this component: put one around your program");
  return client as Client;
}

const IDLE: HubState = { is: "idle" };

/** Where the client's connection stands. */
export function useHubState(): HubState {
  const client = useHub();
  const subscribe = useMemo(() => (listener: () => void) => client.onState(listener), [client]);
  return useSyncExternalStore(subscribe, () => client.state, () => IDLE);
}

/** The newest event of each key. */
export interface Latest<Payload = unknown> extends Status {
  /**
   * By key; of a pattern by `topic/key`. Events without a key are no state, and a key whose newest payload is `null` is deleted. The same object
   * until something changes.
   */
  readonly values: ReadonlyMap<string, EventRecord<Payload>>;
}

export interface LatestOptions {
  filter?: Filter;
}

/** The newest events. */
export interface Events<Payload = unknown> extends Status {
  /** Oldest first. The same array until something changes. */
  readonly events: readonly EventRecord<Payload>[];
  /** Events were missed: the page, or its connection, could not keep up. */
  readonly hasGap: boolean;
}

export interface EventsOptions extends LatestOptions {
  /** Where to begin; `"latest"` unless given. */
  from?: From;
  /** How many events are kept; 100 unless given. */
  limit?: number;
}

// Servers render these, and browsers before the first event: one object each, so that nothing renders again for nothing.
const NO_VALUES: Latest = { values: new Map(), isOpen: false };
const NO_EVENTS: Events = { events: [], hasGap: false, isOpen: false };

/** The state of a topic or a pattern: the newest event of each key, and then live. */
export function useLatest<Payload = unknown>(topic: string, { filter }: LatestOptions = {}): Latest<Payload> {
  return useStore(topic, { filter, from: "earliest", coalesce: true }, 0, NO_VALUES, () => {
    const values = new Map<string, EventRecord>();
    return {
      limit: 0,
      add(event) {
        if (event.key === undefined) return;
        const name = topic.includes("*") ? `${event.topic}/${event.key}` : event.key;
        if (event.payload === null) values.delete(name);
        else values.set(name, event);
      },
      seen: () => ({ values: new Map(values) }),
    };
  }) as Latest<Payload>;
}

/** The newest events of a topic or a pattern. */
export function useEvents<Payload = unknown>(topic: string, { filter, from, limit = 100 }: EventsOptions = {}): Events<Payload> {
  const all = useStore(topic, { filter, from }, limit, NO_EVENTS, () => {
    let events: EventRecord[] = [];
    return {
      limit,
      add(event) {
        events = [...events, event].slice(-this.limit);
      },
      seen: (hasGap) => ({ events, hasGap }),
    };
  });
  // Others may have asked for more.
  return useMemo(() => ({ ...all, events: all.events.slice(-limit) }), [all, limit]) as Events<Payload>;
}

interface Wanted {
  filter: Filter | undefined;
  from: From | undefined;
  coalesce?: true;
}

/** Nothing is subscribed while a component renders: React does that once the component is there. */
function useStore<Seen extends Status>(
  topic: string,
  wanted: Wanted,
  limit: number,
  empty: Seen,
  collect: () => Collector<Omit<Seen, keyof Status>>,
): Seen {
  const client = useHub();
  const options = JSON.stringify(wanted);
  const [subscribe, snapshot] = useMemo(() => {
    const name = topic + options;
    const find = () => storesOf(client).get(name) as Store<Omit<Seen, keyof Status>> | undefined;
    return [
      (listener: () => void) => {
        const store = find() ?? createStore(client, name, topic, JSON.parse(options) as object, collect());
        store.collector.limit = Math.max(store.collector.limit, limit);
        return store.subscribe(listener);
      },
      () => (find()?.snapshot ?? empty) as Seen,
    ];
    // What is collected depends on these alone.
  }, [client, topic, options, limit]);
  return useSyncExternalStore(subscribe, snapshot, () => empty);
}
