// Names of topics and groups, and of the topics that the hub derives from others.

import { GROUP_BYTES, TOPIC_BYTES } from "./limits.ts";
import { badRequest, bytesOf, shown } from "./refusal.ts";

const SEGMENTS = /^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*$/;
const GROUP = /^[A-Za-z0-9_.-]+$/;
const SYSTEM = "_hub";

/** The name of a topic that somebody may publish to. */
export function checkTopic(name: string): void {
  const bytes = bytesOf(name);
  if (bytes > TOPIC_BYTES) {
    throw badRequest(`topic name ${shown(name)} has ${bytes} bytes; at most ${TOPIC_BYTES} are allowed`);
  }
  checkSegments(name);
  if (name.split(".")[0] === SYSTEM) {
    throw badRequest(`topic name ${shown(name)} begins with ${SYSTEM}, which is for the hub's own topics; choose another`);
  }
}

function checkSegments(name: string): void {
  if (SEGMENTS.test(name)) return;
  throw badRequest(`topic name ${shown(name)} is not segments of [A-Za-z0-9_-] with single dots between them`);
}

/** The name of a topic that somebody may read: also one that the hub derives, whose source has the length of a topic. */
export function checkReadable(name: string): void {
  const derived = derivation(name);
  if (!derived) return checkTopic(name);
  const inner = derivation(derived.source);
  const root = derived.how === "dead-letter" && inner?.how === "snapshot" ? inner.source : derived.source;
  if (derivation(root)) {
    throw badRequest(
      `topic name ${shown(name)} is derived more than once; a topic T has dlq.T, T.snapshot and dlq.T.snapshot`,
    );
  }
  checkTopic(root);
  checkSegments(name);
}

export function checkGroup(name: string): void {
  const bytes = bytesOf(name);
  if (bytes >= 1 && bytes <= GROUP_BYTES && GROUP.test(name)) return;
  throw badRequest(`group name ${shown(name)} (${bytes} bytes) is not 1 to ${GROUP_BYTES} bytes of [A-Za-z0-9_.-]`);
}

export interface Derivation {
  how: "dead-letter" | "snapshot";
  source: string;
}

/** What a name is derived from, if the hub alone writes it. */
export function derivation(name: string): Derivation | undefined {
  if (name.startsWith("dlq.")) return { how: "dead-letter", source: name.slice("dlq.".length) };
  const last = name.lastIndexOf(".");
  if (last >= 0 && name.slice(last + 1) === "snapshot") return { how: "snapshot", source: name.slice(0, last) };
  return undefined;
}

/** Everything that a name is derived from, nearest first. */
export function sourcesOf(name: string): string[] {
  const sources = [];
  for (let found = derivation(name); found; found = derivation(found.source)) sources.push(found.source);
  return sources;
}

/** The topic that publishers write to. */
export function rootOf(name: string): string {
  return sourcesOf(name).at(-1) ?? name;
}

export function deadLetterTopic(topic: string): string {
  return `dlq.${topic}`;
}
