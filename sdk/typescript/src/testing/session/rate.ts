// How much a connection and its subject may send: token buckets, each kept as the time at which it is full again. A bucket holds a second's worth.

import { Refusal } from "../../rules/refusal.ts";

const SECOND = 1000;
/** The longest that a bucket can be in debt. */
const MAX_DEBT = 60 * SECOND;
/** Bytes, looked-at topics and touched groups that weigh as much as an event. */
const EVENT_BYTES = 4096;
const LOOKED_AT = 16;
const TOUCHED = 4;

/** What a request weighs beside being one. */
export function workOf({ bytes = 0, topics = 0, groups = 0 }: { bytes?: number; topics?: number; groups?: number }): number {
  return Math.floor(bytes / EVENT_BYTES) + Math.floor(topics / LOOKED_AT) + Math.floor(groups / TOUCHED);
}

export class Bucket {
  private readonly rate: number;
  private readonly whose: string;
  private fullAt = 0;

  constructor(rate: number, whose: string) {
    this.rate = rate;
    this.whose = whose;
  }

  /** Why `count` events do not fit; undefined if they do. Nothing is taken. */
  refusal(count: number, now: number): Refusal | undefined {
    const wait = Math.max(this.fullAt, now) - now;
    if (count > this.rate) {
      return this.refused(wait, `at most ${this.rate} at once, not ${count}: send smaller batches`);
    }
    const over = wait + (count * SECOND) / this.rate - SECOND;
    // Sums of fractions are a little off.
    if (over < 1e-6) return undefined;
    const ms = Math.max(Math.ceil(over), 1);
    return this.refused(over, `try again in ${ms} ms`);
  }

  take(count: number, now: number): void {
    if (this.rate > 0) this.fullAt = Math.max(this.fullAt, now) + (count * SECOND) / this.rate;
  }

  /** Takes what there may be no room for: what follows waits for it. */
  owe(count: number, now: number): void {
    this.take(count, now);
    this.fullAt = Math.min(this.fullAt, now + SECOND + MAX_DEBT);
  }

  private refused(wait: number, advice: string): Refusal {
    const retryAfterMs = Math.max(Math.ceil(wait), 1);
    return new Refusal("rate_limited", `${this.whose} ${this.rate} events per second; ${advice}`, { retryAfterMs });
  }
}

/** The buckets of one connection. */
export class Meter {
  private readonly connection: Bucket | undefined;
  /** Of all subjects of the hub. */
  private readonly subjects: Map<string, Bucket>;
  private readonly subjectRate: number | undefined;
  private subject: Bucket | undefined;

  constructor(connectionRate: number | undefined, subjectRate: number | undefined, subjects: Map<string, Bucket>) {
    this.connection = connectionRate === undefined ? undefined : new Bucket(connectionRate, "this connection may send");
    this.subjectRate = subjectRate;
    this.subjects = subjects;
  }

  /** The connection has said who it is; tokens without a subject count as one. */
  identify(subject: string): void {
    if (this.subjectRate === undefined) return;
    const bucket = this.subjects.get(subject) ?? new Bucket(this.subjectRate, "this subject, over all its connections, may send");
    this.subjects.set(subject, bucket);
    this.subject = bucket;
  }

  /** Takes room for so many events, or refuses them and takes nothing. */
  take(count: number, now: number): void {
    const buckets = [this.connection, this.subject].filter((bucket) => bucket !== undefined);
    for (const bucket of buckets) {
      const refusal = bucket.refusal(count, now);
      if (refusal) throw refusal;
    }
    for (const bucket of buckets) bucket.take(count, now);
  }

  owe(count: number, now: number): void {
    this.connection?.owe(count, now);
    this.subject?.owe(count, now);
  }

  /** For what was refused or is free: the subject's other connections do not pay. */
  oweAlone(count: number, now: number): void {
    this.connection?.owe(count, now);
  }
}
