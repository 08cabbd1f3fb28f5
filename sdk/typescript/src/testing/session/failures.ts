// Publishes that are to fail, because a test asks for it.

import { Refusal, type RefusalCode } from "../../rules/refusal.ts";

export interface Failure {
  refusal: Refusal;
  /** The event is stored all the same: its publisher cannot know. */
  stored: boolean;
}

export interface FailureOptions {
  /** Only events of this topic. */
  topic?: string;
  /** How many publishes; 1 unless said. */
  times?: number;
  /** The event is stored all the same, as when a store fails in mid-commit: a publisher that sends it again gets `duplicate`. */
  stored?: boolean;
  retryAfterMs?: number;
}

export class Failures {
  private readonly wanted: { code: RefusalCode; options: FailureOptions; left: number }[] = [];

  add(code: RefusalCode, options: FailureOptions): void {
    this.wanted.push({ code, options, left: options.times ?? 1 });
  }

  /** How the next publish to a topic fails, if it does. */
  take(topic: string): Failure | undefined {
    const found = this.wanted.find(({ options, left }) => left > 0 && (options.topic ?? topic) === topic);
    if (!found) return undefined;
    found.left -= 1;
    const { code, options } = found;
    const more = options.retryAfterMs === undefined ? {} : { retryAfterMs: options.retryAfterMs };
    const refusal = new Refusal(code, `the test asked for ${code}, by MemoryHub.fail`, more);
    return { refusal, stored: options.stored ?? false };
  }
}
