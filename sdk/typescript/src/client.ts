/// <reference lib="esnext.disposable" preserve="true" />
import type {
  Context,
  Delivery,
  GroupOptions,
  Handler,
  SubscribeOptions,
  Subscription,
  WatchOptions,
} from "./consume/types.ts";
import { type Subscriber, titleOf } from "./consume/registry.ts";
import type { TokenSource } from "./connection/token.ts";
import { type Core, createCore } from "./core.ts";
import { HubError } from "./errors.ts";
import type { ClientOptions } from "./options.ts";
import type { Platform } from "./platform.ts";
import type { PublishOptions } from "./publish/entry.ts";
import type { HubState } from "./state.ts";
import type { AnyTopics, EventOf, PatternOf, PayloadOf, TopicOf, Untyped } from "./topics.ts";
import type { EventRecord, Receipt } from "./types.ts";

/** An event of a batch. */
export type NewEvent<Topics extends object = AnyTopics> = {
  [Topic in TopicOf<Topics>]: {
    readonly topic: Topic;
    readonly payload: Topics[Topic];
    readonly options?: PublishOptions;
  };
}[TopicOf<Topics>];

/** A client of a hub, on a platform that the entry of the package brings. */
export abstract class HubClient<Topics extends object = AnyTopics> {
  readonly #core: Core;
  /** `await using hub = new PromClient(…)` closes it at the end of the block. */
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  protected constructor(platform: Platform, target: string | ClientOptions<Topics>, token: TokenSource) {
    const options: ClientOptions<Topics> = typeof target === "string" ? { urls: [target], token } : target;
    const openSocket = options.webSocket ?? platform.openSocket;
    this.#core = createCore({ ...platform, openSocket }, options);
    // Old browsers do not have the symbol.
    const dispose = Symbol.asyncDispose as symbol | undefined;
    if (dispose !== undefined) Object.defineProperty(this, dispose, { value: () => this.close() });
  }

  /** Where the client stands. The same object until something changes. */
  get state(): HubState {
    return this.#core.state;
  }

  /** Tells of every change of `state`; returns what ends that. */
  onState(listener: (state: HubState) => void): () => void {
    return this.#core.onState(listener);
  }

  /**
   * Resolves when there is a connection; rejects if the first attempt fails. Nothing needs it: what follows connects by itself,
   * and goes on trying.
   */
  connect(options: { signal?: AbortSignal } = {}): Promise<void> {
    return this.#core.connect(options.signal);
  }

  /**
   * Publishes an event. Resolves when the hub has stored it. Over lost connections it is sent again with the same id, so that it
   * is stored once. Rejects with `unavailable` if it is not known in time whether it is stored.
   */
  publish<const Topic extends TopicOf<Topics>>(
    topic: Topic,
    payload: PayloadOf<Topics, Topic>,
    options?: PublishOptions,
  ): Promise<Receipt>;
  publish<Payload>(topic: Untyped<Topics>, payload: Payload, options?: PublishOptions): Promise<Receipt>;
  publish(topic: string, payload: unknown, options: PublishOptions = {}): Promise<Receipt> {
    return this.#core.publish(topic, payload, options);
  }

  /** Publishes several events. Each has a result of its own, in their order: a receipt, or an error. */
  publishBatch(events: readonly NewEvent<Topics>[]): Promise<(Receipt | Error)[]> {
    const settled = events.map(({ topic, payload, options }) =>
      this.#core.publish(topic, payload, options ?? {}).catch((error: unknown) =>
        error instanceof Error ? error : new HubError("closed", String(error), { cause: error }),
      ),
    );
    return Promise.all(settled);
  }

  /** Handles the events of a topic or pattern as a member of a group. Resolves when the hub has accepted the subscription. */
  subscribe<const Pattern extends PatternOf<Topics>>(
    topic: Pattern,
    group: string,
    handler: Handler<EventOf<Topics, Pattern>, Topics>,
    options?: SubscribeOptions & { topics?: never },
  ): Promise<Subscription>;
  /** A list of topics; `label` names it. */
  subscribe<const List extends readonly TopicOf<Topics>[]>(
    label: string,
    group: string,
    handler: Handler<EventOf<Topics, List[number]>, Topics>,
    options: SubscribeOptions & { topics: List },
  ): Promise<Subscription>;
  subscribe<Payload>(
    topic: Untyped<Topics>,
    group: string,
    handler: Handler<EventRecord<Payload>, Topics>,
    options?: SubscribeOptions,
  ): Promise<Subscription>;
  subscribe(
    topic: string,
    group: string,
    handler: (event: never, ctx: Context<Topics>) => unknown,
    options: SubscribeOptions = {},
  ): Promise<Subscription> {
    return this.#core.subscribe(topic, group, handler as (event: EventRecord, ctx: Context) => unknown, options);
  }

  /**
   * The events of a topic or pattern as a member of a group, one by one: `for await (const delivery of hub.consume(…))`. The
   * subscription begins with the loop and ends with it; what is not settled by then goes back.
   */
  consume<const Pattern extends PatternOf<Topics>>(
    topic: Pattern,
    group: string,
    options?: GroupOptions,
  ): AsyncIterableIterator<Delivery<EventOf<Topics, Pattern>, Topics>, undefined>;
  consume<Payload>(
    topic: Untyped<Topics>,
    group: string,
    options?: GroupOptions,
  ): AsyncIterableIterator<Delivery<EventRecord<Payload>, Topics>, undefined>;
  consume(topic: string, group: string, options: GroupOptions = {}): AsyncIterableIterator<Delivery<never, Topics>, undefined> {
    return this.#core.consume(topic, group, options) as AsyncIterableIterator<Delivery<never, Topics>, undefined>;
  }

  /** Reads without a group: every reader gets every event, nothing is settled and nothing is stored. */
  watch<const Pattern extends PatternOf<Topics>>(
    topic: Pattern,
    handler: (event: EventOf<Topics, Pattern>) => unknown,
    options?: WatchOptions,
  ): Subscription;
  watch<Payload>(
    topic: Untyped<Topics>,
    handler: (event: EventRecord<Payload>) => unknown,
    options?: WatchOptions,
  ): Subscription;
  watch(topic: string, handler: (event: never) => unknown, options: WatchOptions = {}): Subscription {
    return this.#core.watch(topic, handler as (event: EventRecord) => unknown, options);
  }

  /** Starts no more handlers, lets those that run finish, and gives back the rest. Does nothing if there is no such subscription. */
  async unsubscribe(topic: string, group?: string): Promise<void> {
    await this.#core.find(topic, group)?.unsubscribe();
  }

  /** Starts no more handlers of a subscription until `resume`. */
  pause(topic: string, group?: string): void {
    this.#find(topic, group).pause();
  }

  resume(topic: string, group?: string): void {
    this.#find(topic, group).resume();
  }

  /**
   * Puts off the deadline of events that this subscription holds: the deadline is `ms` from now, if that is later. Resolves with the time left, or rejects
   * with the hub's refusal.
   */
  async modAck(topic: string, group: string, ids: string | readonly string[], ms: number): Promise<number> {
    // Watchers have no deadlines: no time is left.
    return this.#find(topic, group).modAck?.(typeof ids === "string" ? [ids] : ids, ms) ?? 0;
  }

  /**
   * Ends everything: handlers are told by their signal and may finish, acks and publishes are sent, and the rest is given back.
   * After `timeoutMs` (5 s) it waits no longer; publishes that are not answered by then are rejected with `unavailable`.
   */
  close(options: { timeoutMs?: number } = {}): Promise<void> {
    return this.#core.close(options.timeoutMs);
  }

  #find(topic: string, group: string | undefined): Subscriber {
    const found = this.#core.find(topic, group);
    if (found !== undefined) return found;
    throw new HubError("not_subscribed", `this client has no subscription of ${titleOf(topic, group)}`);
  }
}
