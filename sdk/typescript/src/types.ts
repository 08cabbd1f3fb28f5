/** An event as the hub stores it. */
export interface EventRecord<Payload = unknown, Topic extends string = string> {
  /** A UUID, unique in the topic. */
  readonly id: string;
  /** The position in the topic, from 1. */
  readonly seq: number;
  /** Milliseconds since 1970: the hub's clock, unless the publisher gave a time. */
  readonly ts: number;
  readonly topic: Topic;
  /** The entity that the event is about. */
  readonly key?: string;
  readonly sid?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly payload: Payload;
  readonly caused_by?: readonly string[];
  readonly tags?: readonly string[];
}

/** How safe an event is, from the least to the most; the last two are beyond what a power loss takes. */
export type Durability = "memory" | "interval" | "fsync" | "majority";

/** What the hub answers to a publish. */
export interface Receipt {
  readonly id: string;
  readonly seq: number;
  readonly ts: number;
  readonly durable: Durability;
  /** The topic had the id already; nothing was added. */
  readonly duplicate?: true;
}

/** The options of a publish that go to the hub. */
export interface EventOptions {
  /** A UUID. Left out, the client makes one. */
  id?: string;
  ts?: number;
  key?: string;
  sid?: string;
  headers?: Readonly<Record<string, string>>;
  caused_by?: readonly string[];
  tags?: readonly string[];
}
