import type { Clock } from "../clock.ts";
import type { Link } from "../connection/link.ts";
import type { HubError } from "../errors.ts";
import { type Answer, fieldsOf, type Incoming, refusalOf } from "../frames.ts";
import type { Subscription } from "./types.ts";

/** Requests that are not answered: the hub charges each SUBSCRIBE, and refuses a flood of them. */
const UNANSWERED = 256;
const RETRY = 200;

/** What the hub has of a subscription on this connection: undefined if it does not have it. */
export type Presence = "active" | "paused" | undefined;

/** Something that is subscribed on every connection anew. */
export interface Subscriber extends Subscription {
  /** No more handlers are started; it ends when those that run have. */
  readonly isStopping: boolean;
  /** What the hub should have. The registry tells the hub as soon as it can, and again if the hub refuses for a while. */
  readonly wanted: Presence;
  /** The hub has accepted the subscription on this connection. */
  readonly isLive: boolean;
  /** The SUBSCRIBE, as its fields. */
  request(): string;
  subscribed(answer: Answer): void;
  /** The hub has taken the UNSUBSCRIBE. */
  unsubscribed?(): void;
  /** The connection is lost, or the hub refuses the SUBSCRIBE for a while. */
  down(): void;
  deliver(frame: Exclude<Incoming, Answer>): void;
  /** The page is about to be frozen. */
  handBack?(): void;
  /** The page can be seen no longer, or again. */
  hidden?(): void;
  /** More may be sent than before. */
  flush?(): void;
  /** It is over: with an error, or because it was asked for. */
  end(error: HubError | undefined): void;
  /** Of a member of a group: puts off the deadlines of these; resolves with the least time that is left. */
  modAck?(ids: readonly string[], ms: number): Promise<number>;
  /** Unsubscribes; what runs is told that it is over. */
  close(): void;
  /** Unsubscribes without waiting for anything: what is in hand goes back. */
  abandon(): void;
}

/** The subscriptions of a client. */
export interface Registry {
  readonly size: number;
  readonly get: (topic: string, group: string | undefined) => Subscriber | undefined;
  /** A copy: it may change while it is gone through. */
  all(): readonly Subscriber[];
  add(subscriber: Subscriber): void;
  /** Tells the hub what the subscriber wants now. Returns whether the hub has the subscription, as far as it was told. */
  update(subscriber: Subscriber): boolean;
  remove(subscriber: Subscriber): void;
  /** The hub has ended a subscription. */
  ended(topic: string, group: string | undefined, error: HubError): void;
  /** Subscribes what is not subscribed on this connection; on a new one, everything. */
  resume(isNewConnection: boolean): void;
  /** The connection is lost, and with it all subscriptions of the hub. */
  down(): void;
}

export function nameOf(topic: string, group: string | undefined): string {
  return group === undefined ? topic : `${topic}\0${group}`;
}

/** The name of a subscription in errors. */
export function titleOf(topic: string, group: string | undefined): string {
  return `"${topic}"${group === undefined ? "" : ` by "${group}"`}`;
}

export function createRegistry(clock: Clock, link: Link, onRemoved: () => void): Registry {
  const subscribers = new Map<string, Subscriber>();
  /** What the hub was told on this connection. Has subscribers that are removed and still to be unsubscribed. */
  const told = new Map<Subscriber, "active" | "paused">();
  /** What the hub is to be told on this connection, in this order: an UNSUBSCRIBE goes before the next SUBSCRIBE of its name. */
  let todo: Subscriber[] = [];
  let unanswered = 0;
  let connection = 0;
  let notBefore = 0;
  const retry = clock.alarm(pump);

  const keyOf = ({ topic, group }: Subscriber): string => nameOf(topic, group);
  const isIn = (subscriber: Subscriber): boolean => subscribers.get(keyOf(subscriber)) === subscriber;

  function tell(subscriber: Subscriber, presence: Presence): void {
    if (presence === undefined) told.delete(subscriber);
    else told.set(subscriber, presence);
  }

  function pump(): void {
    for (let next = todo[0]; next !== undefined; next = todo[0]) {
      if (clock.now() < notBefore) return retry.set(notBefore);
      // An answer that comes at once pumps the rest.
      todo.shift();
      if (!send(next)) return void todo.unshift(next);
    }
  }

  /** Sends what brings the hub to what is wanted; false if that has to wait. */
  function send(subscriber: Subscriber): boolean {
    for (;;) {
      const before = told.get(subscriber);
      const { wanted, topic, group } = subscriber;
      if (before === wanted) return true;
      const isFirst = before === undefined;
      const op = wanted === "paused" ? "PAUSE" : wanted === "active" ? "RESUME" : "UNSUBSCRIBE";
      const request = isFirst ? subscriber.request() : fieldsOf({ op, topic, group });
      if (unanswered >= UNANSWERED || !link.canSend(request.length)) return false;
      ask(subscriber, request, before, isFirst ? "active" : wanted);
    }
  }

  function ask(subscriber: Subscriber, request: string, before: Presence, next: Presence): void {
    const own = connection;
    const isFirst = before === undefined;
    unanswered++;
    tell(subscriber, next);
    link.ask(request, (answer) => {
      if (answer === undefined || own !== connection) return;
      unanswered--;
      const error = refusalOf(answer);
      if (error !== undefined && isPassing(error, subscriber)) {
        notBefore = Math.max(notBefore, clock.now() + (error.retryAfterMs ?? RETRY));
        // A later request may have changed it since; but none counts without the SUBSCRIBE.
        if (isFirst || told.get(subscriber) === next) tell(subscriber, before);
        todo.push(subscriber);
        if (isFirst) subscriber.down();
      } else if (isFirst && error !== undefined) {
        told.delete(subscriber);
        subscriber.end(error);
      } else if (isFirst && isIn(subscriber)) {
        subscriber.subscribed(answer);
      } else if (next === undefined) {
        subscriber.unsubscribed?.();
      }
      pump();
    });
  }

  /** Whether the same request may be taken later. */
  function isPassing({ code }: HubError, subscriber: Subscriber): boolean {
    if (/^(rate_limited|unavailable|token_expired|unauthorized)$/.test(code)) return true;
    // The UNSUBSCRIBE of the one before was refused for a while.
    return code === "already_subscribed" && [...told.keys()].some((other) => other !== subscriber && keyOf(other) === keyOf(subscriber));
  }

  function update(subscriber: Subscriber): boolean {
    const isTold = told.has(subscriber);
    if (isTold) {
      todo.push(subscriber);
      pump();
    }
    return isTold;
  }

  const all = (): Subscriber[] => [...subscribers.values()];
  const get = (topic: string, group: string | undefined): Subscriber | undefined => subscribers.get(nameOf(topic, group));

  return {
    get size() {
      return subscribers.size;
    },
    get,
    all,
    add(subscriber) {
      subscribers.set(keyOf(subscriber), subscriber);
      if (link.state.is !== "ready" && link.state.is !== "authenticating") return;
      todo.push(subscriber);
      pump();
    },
    update,
    remove(subscriber) {
      if (isIn(subscriber)) subscribers.delete(keyOf(subscriber));
      update(subscriber);
      onRemoved();
    },
    ended(topic, group, error) {
      const subscriber = get(topic, group);
      // Before its OK the error is about the subscription of this name that was here before.
      if (subscriber?.isLive !== true) return;
      told.delete(subscriber);
      subscriber.end(error);
    },
    resume(isNewConnection) {
      if (isNewConnection) {
        notBefore = 0;
        todo = all();
      }
      pump();
      for (const subscriber of all()) subscriber.flush?.();
    },
    down() {
      connection++;
      unanswered = 0;
      told.clear();
      todo = [];
      for (const subscriber of all()) subscriber.down();
    },
  };
}
