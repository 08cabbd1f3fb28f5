// What subjects have made, and how much of it they may.

import { Refusal } from "../../rules/refusal.ts";

export class Quotas {
  private readonly maxTopics: number | undefined;
  private readonly maxGroups: number | undefined;
  private readonly topics = new Map<string, number>();
  private readonly groups = new Map<string, number>();

  constructor(maxTopics: number | undefined, maxGroups: number | undefined) {
    this.maxTopics = maxTopics;
    this.maxGroups = maxGroups;
  }

  /** Counts a topic that the subject makes; what no subject makes is not counted. */
  takeTopic(subject: string | undefined): void {
    if (subject === undefined) return;
    const used = this.topics.get(subject) ?? 0;
    if (this.maxTopics !== undefined && used >= this.maxTopics) {
      throw new Refusal(
        "quota_exceeded",
        `this subject has made ${this.maxTopics} topics, which is its quota; use an existing one, or have one deleted`,
      );
    }
    this.topics.set(subject, used + 1);
  }

  checkGroups(subject: string | undefined, wanted: number): void {
    if (subject === undefined || this.maxGroups === undefined) return;
    const used = this.groups.get(subject) ?? 0;
    if (used + wanted <= this.maxGroups) return;
    throw new Refusal(
      "quota_exceeded",
      `this subject has ${used} groups, and this would make ${wanted} more: its quota is ${this.maxGroups}; delete those that nobody needs`,
    );
  }

  addGroups(subject: string | undefined, count: number): void {
    if (subject !== undefined) this.groups.set(subject, (this.groups.get(subject) ?? 0) + count);
  }
}
