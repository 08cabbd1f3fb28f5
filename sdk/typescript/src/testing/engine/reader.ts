// A reader without a group: it gets every event, acks nothing, and is told what it missed if it cannot keep up.

import type { StoredEvent } from "./event.ts";
import type { TopicLog } from "./log.ts";
import { type Filter, matches } from "./options.ts";

export type Watched = { is: "event"; event: StoredEvent } | { is: "lagged"; topic: string; missed: number };

/** How far a reader may fall behind what is kept in memory before it misses events. */
const MAX_BEHIND = 1000;

interface Feed {
  log: TopicLog;
  position: number;
  /** It has been at the end. */
  isLive: boolean;
}

export class Reader {
  isResting = false;
  private readonly feeds = new Map<string, Feed>();
  private readonly wants: { filter: Filter; coalesce: boolean };
  private readonly tailBytes: number;

  constructor(wants: { filter: Filter; coalesce: boolean }, tailBytes: number) {
    this.wants = wants;
    this.tailBytes = tailBytes;
  }

  get topics(): number {
    return this.feeds.size;
  }

  follow(log: TopicLog, position: number): void {
    this.feeds.set(log.name, { log, position, isLive: false });
  }

  /** What the reader gets now. */
  take(): Watched[] {
    return this.isResting ? [] : [...this.feeds.values()].flatMap((feed) => this.takeFrom(feed));
  }

  private takeFrom(feed: Feed): Watched[] {
    const { log } = feed;
    const { coalesce, filter } = this.wants;
    const missed = log.last - feed.position;
    if (feed.isLive && !coalesce && missed > MAX_BEHIND && log.hasMoreAfter(feed.position, this.tailBytes)) {
      feed.position = log.last;
      return [{ is: "lagged", topic: log.name, missed }];
    }
    feed.isLive = true;
    const watched: Watched[] = [];
    for (const event of log.all().slice(feed.position)) {
      if (coalesce && log.isOvertaken(event)) continue;
      if (matches(filter, event)) watched.push({ is: "event", event });
    }
    feed.position = log.last;
    return watched;
  }
}
