// Which topics a subscription covers.

import { checkForSeveral, type Position } from "./log.ts";
import { LISTED_TOPICS } from "../../rules/limits.ts";
import { checkReadable } from "../../rules/names.ts";
import { Pattern } from "./pattern.ts";
import { badRequest, shown } from "../../rules/refusal.ts";

export type Cover = { is: "pattern"; pattern: Pattern } | { is: "list"; topics: string[] };

/** What a SUBSCRIBE names: one topic, or a label for several. */
export type Target = { is: "one"; topic: string } | { is: "several"; label: string; cover: Cover };

export function targetOf(name: string, topics: string[] | undefined): Target {
  if (topics) {
    if (topics.length === 0 || topics.length > LISTED_TOPICS) {
      throw badRequest(`the list of topics has ${topics.length} entries; it must have 1 to ${LISTED_TOPICS}`);
    }
    checkLabel(name);
    topics.forEach(checkReadable);
    return { is: "several", label: name, cover: { is: "list", topics: [...new Set(topics)].sort() } };
  }
  if (name.includes("*")) {
    return { is: "several", label: name, cover: { is: "pattern", pattern: Pattern.parse(name) } };
  }
  checkReadable(name);
  return { is: "one", topic: name };
}

/** A label is written as a topic is, never as a pattern: it stands among those. */
function checkLabel(label: string): void {
  if (label.includes("*")) {
    throw badRequest(
      `the label of a list of topics is ${shown(label)}; it must be without *, which is for patterns`,
    );
  }
  try {
    Pattern.parse(label);
  } catch (error) {
    throw badRequest(`the label of a list of topics: ${(error as Error).message}`);
  }
}

export function covers(cover: Cover, topic: string): boolean {
  return cover.is === "list" ? cover.topics.includes(topic) : cover.pattern.covers(topic);
}

export function isSameCover(a: Cover, b: Cover): boolean {
  if (a.is === "pattern") return b.is === "pattern" && a.pattern.text === b.pattern.text;
  return b.is === "list" && a.topics.join() === b.topics.join();
}

/** Refuses a place that means nothing in what is covered. */
export function checkPosition(target: Target, from: Position): void {
  if (target.is === "several") checkForSeveral(from);
}
