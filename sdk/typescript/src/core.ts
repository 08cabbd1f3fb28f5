import { createClock } from "./clock.ts";
import { createLink } from "./connection/link.ts";
import type * as Deferred from "./deferred.ts";
import type { GroupParts } from "./consume/group.ts";
import { createRegistry, type Subscriber, titleOf } from "./consume/registry.ts";
import type { Context, Delivery, GroupOptions, SubscribeOptions, WatchOptions } from "./consume/types.ts";
import { createWatch } from "./consume/watch.ts";
import { HubError } from "./errors.ts";
import { type ClientEvents, type ClientOptions, type LogLevel, resolveOptions } from "./options.ts";
import type { Platform } from "./platform.ts";
import type { PublishOptions } from "./publish/entry.ts";
import type { Publisher } from "./publish/publisher.ts";
import { type HubState, newsOf } from "./state.ts";
import type { EventRecord, Receipt } from "./types.ts";
import { type Check, checkEvent, createCheck } from "./validate.ts";

const CLOSE_TIMEOUT = 5_000;
/** How often the deferred part is tried to be loaded, and the pause in between. */
const LOAD_TRIES = 60;
const LOAD_RETRY = 1_000;

/** A client without its types: what `PromClient` puts them on. */
export interface Core {
  readonly state: HubState;
  onState(listener: (state: HubState) => void): () => void;
  connect(signal: AbortSignal | undefined): Promise<void>;
  publish(topic: string, payload: unknown, options: PublishOptions): Promise<Receipt>;
  subscribe(
    topic: string,
    group: string,
    handle: (event: EventRecord, ctx: Context) => unknown,
    options: SubscribeOptions,
  ): Promise<Subscriber>;
  consume(topic: string, group: string, options: GroupOptions): AsyncIterableIterator<Delivery, undefined>;
  watch(topic: string, handle: (event: EventRecord) => unknown, options: WatchOptions): Subscriber;
  find(topic: string, group: string | undefined): Subscriber | undefined;
  close(timeoutMs: number | undefined): Promise<void>;
}

export function createCore(platform: Platform, options: ClientOptions): Core {
  const { link: linkOptions, publisher: publisherOptions, on } = resolveOptions(options);
  const check: Check | undefined = options.validate && createCheck(options.validate);
  const clock = createClock(platform, () => link.feed({ on: "wake" }));
  const listeners = new Set<(state: HubState) => void>();
  /** Those who wait for the first connection, or for the next one. */
  const connecting: { resolve: () => void; reject: (error: unknown) => void }[] = [];
  let state: HubState = { is: "idle" };
  let isClosing = false;
  let isDrained: (() => void) | undefined;
  let isClosed = (): void => undefined;
  const closed = new Promise<void>((resolve) => (isClosed = resolve));

  const closedError = (): HubError =>
    new HubError("closed", "the client is closed; make another one", { cause: "error" in state ? state.error : undefined });

  function log(level: LogLevel, message: string, fields: Readonly<Record<string, unknown>>): void {
    if (on.log !== undefined) call(() => on.log?.(level, message, fields));
    else if (level === "warn" || level === "error") console.warn(`event-hub: ${message}`, fields);
  }

  /** Calls a function of the program. An exception of it must not stop the connection's work. */
  function call(run: () => void): void {
    try {
      run();
    } catch (error) {
      console.error("event-hub: a callback failed", error);
    }
  }

  const metric: ClientEvents["metric"] = on.metric && ((name, value) => call(() => on.metric?.(name, value)));

  function tell(next: HubState): void {
    if (newsOf(state) === newsOf(next)) return;
    state = next;
    call(() => on.state?.(next));
    for (const listener of [...listeners]) call(() => listener(next));
  }

  const link = createLink(platform, clock, linkOptions, {
    state(next) {
      if (!isClosing || next.is === "closed") tell(next);
      if (next.is !== "ready") return;
      for (const { resolve } of connecting.splice(0)) resolve();
    },
    send(isNewConnection) {
      registry.resume(isNewConnection);
      publisher?.flush();
      if (isNewConnection) metric?.("connected", 1);
    },
    down() {
      metric?.("connection_lost", 1);
      registry.down();
    },
    tooLarge: () => publisher?.tooLarge(),
    deliver(frame) {
      registry.get(frame.topic, frame.group)?.deliver(frame);
    },
    subscriptionEnded: (topic, group, error) => registry.ended(topic, group, error),
    failed(error) {
      log("info", "connection failed", { error });
      for (const { reject } of connecting.splice(0)) reject(error);
      if (!hasWork()) link.feed({ on: "unused" });
    },
    handBack() {
      for (const subscriber of registry.all()) subscriber.handBack?.();
    },
    hidden() {
      for (const subscriber of registry.all()) subscriber.hidden?.();
    },
    ended(error) {
      if (error !== undefined) log("error", "client ended", { error });
      const why = error ?? closedError();
      publisher?.end(why);
      for (const subscriber of registry.all()) subscriber.end(error);
      for (const { reject } of connecting.splice(0)) reject(why);
      clock.stop();
      isClosed();
    },
    log: (message, error) => log("warn", message, { error }),
  });
  let publisher: Publisher | undefined;
  let loading: Promise<typeof Deferred> | undefined;
  /** Publishes that wait for the publisher. */
  let early = 0;
  const registry = createRegistry(clock, link, checkDrained);

  const parts: GroupParts = { platform, clock, link, registry, checkFree, begin, publish, log, metric };

  function isOver(): boolean {
    return isClosing || link.state.is === "closed";
  }

  function publish(topic: string, payload: unknown, opts: PublishOptions): Promise<Receipt> {
    // Handlers that run may publish until they end, also while the client closes.
    if (isClosing ? isDrained === undefined : isOver()) return Promise.reject(closedError());
    if (check === undefined) return send(topic, payload, opts);
    // What the validator throws rejects the promise.
    return new Promise((resolve) => {
      const checked = check(topic, payload);
      // Nobody asks for its verdict if the payload is refused for another reason.
      if (checked instanceof Promise) checked.catch(() => undefined);
      resolve(send(topic, payload, opts, checked));
    });
  }

  function send(topic: string, payload: unknown, opts: PublishOptions, checked?: unknown): Promise<Receipt> {
    // Counted before: an attempt that fails at once must not find that nothing is to do.
    early++;
    link.feed({ on: "start" });
    early--;
    if (publisher !== undefined && early === 0) return publisher.publish(topic, payload, opts, checked);
    const { signal } = opts;
    try {
      // The caller may change both meanwhile.
      payload = JSON.parse(JSON.stringify(payload));
      opts = { ...(JSON.parse(JSON.stringify(opts)) as PublishOptions), signal: signal as AbortSignal };
    } catch {
      // What JSON does not have, the publisher refuses.
    }
    early++;
    const published = load().then(
      ({ createPublisher }) => {
        early--;
        if (link.state.is === "closed") throw link.state.error ?? closedError();
        publisher ??= createPublisher(platform, clock, link, { ...publisherOptions, metric, onEmpty: checkDrained });
        const receipt = publisher.publish(topic, payload, opts, checked);
        checkDrained();
        return receipt;
      },
      (error) => {
        early--;
        checkDrained();
        throw error;
      },
    );
    return orAborted(signal, published);
  }

  /** What a promise gives, unless the signal is aborted before. */
  function orAborted<Value>(signal: AbortSignal | undefined, work: Promise<Value>): Promise<Value> {
    platform.heed?.(signal);
    if (signal === undefined) return work;
    return new Promise<Value>((resolve, reject) => {
      const abort = (): void => reject(signal.reason as Error);
      signal.addEventListener("abort", abort);
      work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
    });
  }

  function load(): Promise<typeof Deferred> {
    return (loading ??= tryToLoad());
  }

  /** Like a connection that is lost, a file that cannot be loaded is tried again. */
  async function tryToLoad(): Promise<typeof Deferred> {
    for (let tries = 1; ; tries++) {
      try {
        return await platform.loadDeferred();
      } catch (cause) {
        if (link.state.is === "closed") throw closedError();
        if (tries >= LOAD_TRIES) {
          loading = undefined;
          throw new HubError("connect_failed", String(cause), { cause });
        }
        await new Promise<void>((resolve) => void platform.setTimer(resolve, LOAD_RETRY));
      }
    }
  }

  function hasWork(): boolean {
    return early + registry.size + (publisher?.pending ?? 0) > 0;
  }

  function checkFree(topic: string, group: string | undefined): void {
    if (isOver()) throw closedError();
    if (registry.get(topic, group) === undefined) return;
    throw new HubError("already_subscribed", `this client has a subscription of ${titleOf(topic, group)}; unsubscribe first, or use another client`);
  }

  function begin(subscriber: Subscriber): void {
    // Options that JSON does not have are refused here, and not on a connection.
    subscriber.request();
    registry.add(subscriber);
    link.feed({ on: "start" });
  }

  function checkDrained(): void {
    if (!hasWork()) isDrained?.();
  }

  async function close(timeoutMs: number): Promise<void> {
    const until = clock.now() + timeoutMs;
    const drained = new Promise<void>((resolve) => {
      isDrained = resolve;
      if (timeoutMs > 0) clock.alarm(resolve).set(until);
      else resolve();
    });
    tell({ is: "closing", until });
    for (const subscriber of registry.all()) subscriber.close();
    checkDrained();
    await Promise.race([drained, closed]);
    isDrained = undefined;
    for (const subscriber of registry.all()) subscriber.abandon();
    publisher?.end(closedError());
    link.feed({ on: "close" });
  }

  return {
    get state() {
      return state;
    },
    onState(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    async connect(signal) {
      signal?.throwIfAborted();
      if (isOver()) throw closedError();
      if (link.state.is === "ready") return;
      const connected = new Promise<void>((resolve, reject) => {
        connecting.push({ resolve, reject });
        link.feed({ on: "start" });
        // As long as there is a network.
        load().catch(() => undefined);
      });
      await orAborted(signal, connected);
    },
    publish: (topic, payload, opts) => (isClosing ? Promise.reject(closedError()) : publish(topic, payload, opts)),
    subscribe(topic, group, handle, opts) {
      return orAborted(opts.signal, load().then(({ subscribe }) => subscribe(parts, topic, group, opts, check, handle)));
    },
    consume(topic, group, opts) {
      let iterator: Promise<ReturnType<typeof Deferred.createIterator>> | undefined;
      const call = async (method: "next" | "return"): Promise<IteratorResult<Delivery, undefined>> => {
        iterator ??= load().then(({ createIterator }) => createIterator(parts, topic, group, opts, check));
        return (await iterator)[method]();
      };
      return {
        next: () => call("next"),
        return: () => call("return"),
        [Symbol.asyncIterator]() {
          return this;
        },
      };
    },
    watch(topic, handle, opts) {
      checkFree(topic, undefined);
      platform.heed?.(opts.signal);
      opts.signal?.throwIfAborted();
      const watcher = createWatch(
        {
          registry,
          log,
          lagged(lagged) {
            call(() => opts.onLagged?.(lagged));
            call(() => on.lagged?.(lagged));
          },
        },
        topic,
        opts,
        (event) => {
          const checked = checkEvent(check, event);
          return checked instanceof Promise ? checked.then(handle) : handle(checked);
        },
      );
      begin(watcher);
      return watcher;
    },
    find: registry.get,
    close(timeoutMs = CLOSE_TIMEOUT) {
      if (!isOver()) {
        // What it calls may call this.
        isClosing = true;
        void close(timeoutMs);
      }
      return closed;
    },
  };
}
