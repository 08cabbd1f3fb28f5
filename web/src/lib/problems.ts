// Which problems there still are.
import type { Problem, Summary } from "./types.ts";

/** The hub counts the events that a group has given up in the last hour, and not what became of them. Those of a group of which a later and whole count
 * knows no letter that is to be replayed are no problem any more. `countedAt` is when that count came. */
export function unsolved(problems: readonly Problem[], letters: Summary | undefined, countedAt: number | undefined): readonly Problem[] {
  if (letters === undefined || countedAt === undefined || !letters.complete || letters.otherGroups > 0) return problems;
  const open = new Set(letters.groups.filter(({ count, replayed }) => count > replayed).map(({ topic, group }) => `${topic} ${group}`));
  return problems.filter((one) => one.kind !== "letters" || one.lastTs >= countedAt - CLOCK_SLACK_MS || open.has(`${one.topic} ${one.group}`));
}

/** A push endpoint that fails and its group are one problem: that of the endpoint, with what waits in the group. */
export function withoutPushGroups(problems: readonly Problem[]): readonly Problem[] {
  const name = (one: Readonly<{ topic: string; group: string }>) => `${one.topic} ${one.group}`;
  const endpoints = new Set(problems.flatMap((one) => (one.kind === "push" ? [name(one)] : [])));
  const lags = new Map(problems.flatMap((one) => (one.kind === "group" ? [[name(one), one.lag] as const] : [])));
  return problems.flatMap((one): Problem[] => {
    if (one.kind === "group" && one.reason === "endpoint_failing" && endpoints.has(name(one))) return [];
    const lag = one.kind === "push" ? lags.get(name(one)) : undefined;
    return [one.kind === "push" && lag !== undefined ? { ...one, lag } : one];
  });
}

/** How many letters of a group are not replayed; undefined if that was not counted. */
export function openLetters(problem: Extract<Problem, { kind: "letters" }>, letters: Summary | undefined): number | undefined {
  const found = letters?.groups.find(({ topic, group }) => topic === problem.topic && group === problem.group);
  return found === undefined ? undefined : found.count - found.replayed;
}

/** How many letters are not replayed and belong to no problem: those that were given up long ago. */
export function olderLetters(problems: readonly Problem[], letters: Summary): number {
  const named = problems.reduce((sum, one) => sum + (one.kind === "letters" ? (openLetters(one, letters) ?? 0) : 0), 0);
  return Math.max(0, letters.letters - letters.replayed - named);
}

/** The time of the hub is known to a second or two. */
const CLOCK_SLACK_MS = 3_000;
