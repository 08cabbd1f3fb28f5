import type { Clock } from "../clock.ts";
import type { Link } from "../connection/link.ts";
import type { HubError } from "../errors.ts";
import { type Answer, type Incoming, refusalOf } from "../frames.ts";
import type { Subscription } from "./types.ts";

/** SUBSCRIBEs that are not answered: the hub charges each, and refuses a flood of them. */
const UNANSWERED = 256;
const RETRY = 200;

/** Something that is subscribed on every connection anew. */
export interface Subscriber extends Subscription {
  /** No more handlers are started; it ends when those that run have. */
  readonly isStopping: boolean;
  /** The SUBSCRIBE, as its fields. */
  request(): string;
  /** It was sent: what else has to be said right behind it. */
  asked(): void;
  subscribed(answer: Answer): void;
  down(): void;
  deliver(frame: Exclude<Incoming, Answer>): void;
  /** The page is about to be frozen. */
  handBack(): void;
  hidden(isHidden: boolean): void;
  /** More may be sent than before. */
  flush(): void;
  /** It is over: with an error, or because it was asked for. */
  end(error: HubError | undefined): void;
  /** Puts off the deadlines of these; resolves with the least time that is left. */
  modAck(ids: readonly string[], ms: number): Promise<number>;
  /** Unsubscribes; what runs is told that it is over. */
  close(): void;
  /** Unsubscribes without waiting for anything: what is in hand goes back. */
  abandon(): void;
}

/** The subscriptions of a client. */
export interface Registry {
  readonly size: number;
  get(topic: string, group: string | undefined): Subscriber | undefined;
  all(): Iterable<Subscriber>;
  add(subscriber: Subscriber): void;
  remove(subscriber: Subscriber): void;
  /** Subscribes what is not subscribed on this connection; on a new one, everything. */
  resume(isNewConnection: boolean): void;
}

export function nameOf(topic: string, group: string | undefined): string {
  return group === undefined ? topic : `${topic}\0${group}`;
}

export function createRegistry(clock: Clock, link: Link, onRemoved: () => void): Registry {
  const subscribers = new Map<string, Subscriber>();
  /** What is to be subscribed on this connection. */
  let todo: Subscriber[] = [];
  let unanswered = 0;
  let connection = 0;
  let notBefore = 0;
  const retry = clock.alarm(pump);

  const isIn = (subscriber: Subscriber): boolean =>
    subscribers.get(nameOf(subscriber.topic, subscriber.group)) === subscriber;

  function pump(): void {
    if (todo.length > 0 && clock.now() < notBefore) return retry.set(notBefore);
    let done = 0;
    for (const subscriber of todo) {
      if (isIn(subscriber)) {
        const request = subscriber.request();
        if (unanswered >= UNANSWERED || !link.canSend(request.length)) break;
        ask(subscriber, request);
      }
      done++;
    }
    todo = todo.slice(done);
  }

  function ask(subscriber: Subscriber, request: string): void {
    const own = connection;
    unanswered++;
    link.ask(request, (answer) => {
      if (answer === undefined || own !== connection) return;
      unanswered--;
      const error = refusalOf(answer);
      if (!isIn(subscriber)) {
        // Ended in between.
      } else if (error === undefined) {
        subscriber.subscribed(answer);
      } else if (/^(rate_limited|unavailable|token_expired|unauthorized)$/.test(error.code)) {
        notBefore = Math.max(notBefore, clock.now() + (error.retryAfterMs ?? RETRY));
        todo.push(subscriber);
      } else {
        subscriber.end(error);
      }
      pump();
    });
    subscriber.asked();
  }

  return {
    get size() {
      return subscribers.size;
    },
    get: (topic, group) => subscribers.get(nameOf(topic, group)),
    all: () => subscribers.values(),
    add(subscriber) {
      subscribers.set(nameOf(subscriber.topic, subscriber.group), subscriber);
      if (link.state.is !== "ready" && link.state.is !== "authenticating") return;
      todo.push(subscriber);
      pump();
    },
    remove(subscriber) {
      if (isIn(subscriber)) subscribers.delete(nameOf(subscriber.topic, subscriber.group));
      onRemoved();
    },
    resume(isNewConnection) {
      if (isNewConnection) {
        connection++;
        unanswered = 0;
        notBefore = 0;
        todo = [...subscribers.values()];
      }
      pump();
      for (const subscriber of subscribers.values()) subscriber.flush();
    },
  };
}
