import type { PublishOptions } from "../publish/entry.ts";
import type { HubError } from "../errors.ts";
import type { AnyTopics, PayloadOf, TopicOf, Untyped } from "../topics.ts";
import type { EventRecord, Receipt } from "../types.ts";

/** The publishes of a client, of a handler, or of a test. */
export interface Publish<Topics extends object = AnyTopics> {
  <const Topic extends TopicOf<Topics>>(
    topic: Topic,
    payload: PayloadOf<Topics, Topic>,
    options?: PublishOptions,
  ): Promise<Receipt>;
  <Payload>(topic: Untyped<Topics>, payload: Payload, options?: PublishOptions): Promise<Receipt>;
}

/** What a handler knows of its delivery. */
export interface Context<Topics extends object = AnyTopics> {
  /** Aborted when the event is no longer held for this handler, and when the client begins to close. */
  readonly signal: AbortSignal;
  /** Counts deliveries, from 1. It rises if the event is delivered again while this handler still runs. */
  readonly attempt: number;
  /** After so many failures the event becomes a dead letter. */
  readonly maxAttempts: number;
  /** When the time to settle the event is up, in milliseconds since 1970. It is put off by itself: see `autoExtend`. */
  readonly deadline: number;
  /** The time to settle the event when it came, in milliseconds. */
  readonly ack_deadline_ms: number;
  /** Raised when somebody places the group anew: then an event that was handled before is wanted again. */
  readonly epoch: number;
  readonly group: string;
  /** The subscription's, which may be a pattern; the event's own is `event.topic`. */
  readonly topic: string;
  /**
   * Puts the deadline off: it is `ms` from now, if that is later. Resolves with the time left. Without a connection it waits for the next one.
   * Rejects with `lease_lost` if the event is no longer held, and with the hub's refusal, for instance of more than 12 hours.
   */
  extend(ms: number): Promise<number>;
  /**
   * Publishes an event that follows from this one. Its id is made of the group, this event and how many were published by this
   * handler before: however often the handler runs, the hub stores it once. Its payload must not differ from run to run.
   */
  readonly publish: Publish<Topics>;
}

/**
 * Handles an event. What it returns settles the event; what it throws gives it back as failed. A `Retry` or a `Return`, thrown or
 * returned, says how.
 */
export type Handler<Event extends EventRecord = EventRecord, Topics extends object = AnyTopics> = (
  event: Event,
  ctx: Context<Topics>,
) => unknown;

/** Where a new group begins, or a reader without a group. */
export type From = "latest" | "earliest" | { ts: number } | { afterId: string } | { afterSeq: number };

/** The same as options of their own: `{ from: "ts", ts: 5 }` says what `{ from: { ts: 5 } }` does. */
export interface Place {
  /** Places a new group, or a reader; a group that is there keeps its place. */
  from?: From | "ts" | "afterId" | "afterSeq";
  /** For `from: "ts"`: milliseconds since 1970. */
  ts?: number;
  /** For `from: "afterId"`. */
  afterId?: string;
  /** For `from: "afterSeq"`. */
  afterSeq?: number;
}

/** What an event has to have: all of it. */
export interface Filter {
  tags?: readonly string[];
  key?: string;
  headers?: Readonly<Record<string, string>>;
}

/** Options of the group are stored with it, and one that is left out takes the stored value. */
export interface GroupOptions extends Place {
  /** A list of topics; then the topic of the subscription is a label for it. */
  topics?: readonly string[];
  /** Of the group. */
  filter?: Filter;
  /** Of the group. `"key"`: one event of a key at a time, in order. */
  ordering?: "none" | "key";
  /** Of the group. Skips what a newer event of the same key has overtaken. */
  coalesce?: boolean;
  /** Of the group: failures before an event becomes a dead letter; 5. */
  maxAttempts?: number;
  /** The most events that the hub leases to this member at once. Default: four for each handler that may run. */
  maxInFlight?: number;
  /** Time to settle an event; 30 s. */
  ackTimeoutMs?: number;
  /**
   * Events that wait or run here get more time before theirs is up, again and again until `upToMs` after they came; 10 minutes.
   * `false`: never. Then, those that still wait go back without a failure.
   */
  autoExtend?: { upToMs: number } | false;
  /** Unsubscribes. */
  signal?: AbortSignal;
}

export interface SubscribeOptions extends GroupOptions {
  /** Handlers that run at once; 16. */
  concurrency?: number;
}

export interface WatchOptions extends Place {
  topics?: readonly string[];
  filter?: Filter;
  /** The newest event of each key; with `from: "earliest"` the newest state of all keys, then live. */
  coalesce?: boolean;
  signal?: AbortSignal;
  /** Called when the hub has left out events: `missed` of them, or an unknown number if the connection was lost in between. */
  onLagged?: (lagged: Lagged) => void;
}

export interface Lagged {
  /** The topic in which events were missed, or the pattern. */
  readonly topic: string;
  /** Left out if it is not known. */
  readonly missed?: number;
}

/** A subscription, over however many connections. */
export interface Subscription {
  readonly topic: string;
  readonly group: string | undefined;
  /** Resolves once the hub has accepted the subscription; rejects with what ended it before. */
  readonly opened: Promise<void>;
  /** Resolves once it is over: with the error that ended it, or with nothing if `unsubscribe` or `close` did. Never rejects. */
  readonly closed: Promise<HubError | undefined>;
  readonly isPaused: boolean;
  /** No handler is started until `resume`. What runs goes on, and other members of the group get the rest. */
  pause(): void;
  resume(): void;
  /** Starts no more handlers, lets those that run finish, and gives back the rest. Resolves once no handler will be started. */
  unsubscribe(): Promise<void>;
}

/** An event in the hands of a consumer, until it is settled. */
export interface Delivery<Event extends EventRecord = EventRecord, Topics extends object = AnyTopics>
  extends Context<Topics> {
  readonly event: Event;
  /**
   * Settles the event. Resolves with whether the hub has confirmed it; `false` if the event was no longer held here: then it may
   * come again. Never rejects; only the first of these three counts.
   */
  ack(): Promise<boolean>;
  /** Gives it back as failed. */
  nack(options?: { delayMs?: number; reason?: string }): Promise<boolean>;
  /** Gives it back without a failure. */
  return(options?: { delayMs?: number }): Promise<boolean>;
}
