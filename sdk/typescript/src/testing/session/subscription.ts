// One subscription of a connection: what it reads, where its events come from, and the frames that they go out in.

import type { Policy } from "../auth/policy.ts";
import type { Cover, Target } from "../engine/cover.ts";
import type { Member } from "../engine/member.ts";
import type { Pattern } from "../engine/pattern.ts";
import type { Reader } from "../engine/reader.ts";
import { type Outgoing, eventFrame, eventsFrame, lagged } from "./answer.ts";
import type { Name } from "./request.ts";

export type Feed =
  | { is: "group"; member: Member; /** What it is found by when its client comes back. */ key: string | undefined }
  | { is: "watch"; reader: Reader };

/** An `EVENTS` ends at about so many characters. */
const BATCH_CHARACTERS = 256 * 1024;

export class Subscription {
  readonly name: Name;
  readonly feed: Feed;
  readonly ackTimeout: number;
  /** How many topics it covered when it was opened. */
  readonly topics: number;
  isPaused = false;
  private readonly reads: Target;
  /** Events of one `EVENTS`; undefined: each in a frame of its own. */
  private readonly batch: number | undefined;
  private waiting: (Outgoing | { of: string; missed: number })[] = [];

  constructor(opened: {
    name: Name;
    feed: Feed;
    reads: Target;
    batch: number | undefined;
    ackTimeout: number;
    topics: number;
  }) {
    this.name = opened.name;
    this.feed = opened.feed;
    this.reads = opened.reads;
    this.batch = opened.batch;
    this.ackTimeout = opened.ackTimeout;
    this.topics = opened.topics;
  }

  get isWide(): boolean {
    return isWide(this.reads);
  }

  isNamed({ topic, group }: Name): boolean {
    return this.name.topic === topic && this.name.group === group;
  }

  /** Whether an event may be named by its own topic instead: the subscription has several. */
  covers({ topic, group }: Name): boolean {
    if (this.name.group !== group || !isWide(this.reads)) return false;
    const { cover } = this.reads;
    return cover.is === "list" ? cover.topics.includes(topic) : cover.pattern.matches(topic);
  }

  /** The member, if it holds the event under this name: its own, or that of the event's topic. */
  holderOf(id: string, of: Name): Member | undefined {
    if (this.feed.is !== "group") return undefined;
    const topic = this.feed.member.topicOf(id);
    return topic !== undefined && (this.isNamed(of) || topic === of.topic) ? this.feed.member : undefined;
  }

  isAllowed(policy: Policy): boolean {
    return isAllowed(policy, this.reads, this.name.group);
  }

  queue(what: Outgoing | { of: string; missed: number }): void {
    this.waiting.push(what);
  }

  /** The frames of what was queued. */
  takeFrames(): string[] {
    const frames: string[] = [];
    let several: Outgoing[] = [];
    let characters = 0;
    const flush = (): void => {
      if (several.length > 0) frames.push(eventsFrame(this.name, several));
      [several, characters] = [[], 0];
    };
    for (const what of this.waiting) {
      if (!("event" in what)) {
        flush();
        frames.push(lagged(this.name, what.of, what.missed));
      } else if (this.batch === undefined) frames.push(eventFrame(this.name, what));
      else {
        several.push(what);
        characters += what.event.json.length;
        if (several.length === this.batch || characters >= BATCH_CHARACTERS) flush();
      }
    }
    flush();
    this.waiting = [];
    return frames;
  }
}

/** Whether it may have events of another topic than its name. */
export function isWide(reads: Target): reads is Extract<Target, { is: "several" }> {
  if (reads.is === "one") return false;
  const { label, cover } = reads;
  return !(cover.is === "list" && cover.topics.length === 1 && cover.topics[0] === label);
}

export function isAllowed(policy: Policy, reads: Target, group: string | undefined): boolean {
  return subjectsOf(reads).every((subject) => policy.allows("subscribe", subject, group));
}

/** Whether rules name the group for all that is read: then it may be another subject's. */
export function namesGroup(policy: Policy, reads: Target, group: string): boolean {
  return subjectsOf(reads).every((subject) => policy.namesGroup(subject, group));
}

function subjectsOf(reads: Target): (string | Pattern)[] {
  if (reads.is === "one") return [reads.topic];
  return subjectsOfCover(reads.cover);
}

function subjectsOfCover(cover: Cover): (string | Pattern)[] {
  return cover.is === "list" ? cover.topics : [cover.pattern];
}
