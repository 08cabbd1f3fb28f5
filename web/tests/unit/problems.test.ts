import assert from "node:assert/strict";
import { test } from "node:test";
import { withoutPushGroups, olderLetters, openLetters, unsolved } from "../../src/lib/problems.ts";
import type { Problem, Summary } from "../../src/lib/types.ts";

const NOW = 1_800_000_000_000;

function letters(group: string, lastTs: number): Problem {
  return { kind: "letters", topic: "orders", group, count: 3, lastTs };
}

function counted(groups: readonly string[], more: Partial<Summary> = {}): Summary {
  const of = (group: string) => ({ topic: "orders", group, count: 3, replayed: 0, firstTs: 1, lastTs: 1 });
  return { letters: 3, replayed: 0, errors: [], otherErrors: 0, groups: groups.map(of), otherGroups: 0, complete: true, ...more };
}

test("letters that were replayed or discarded are no problem any more", () => {
  const problems = [letters("billing", NOW - 60_000), letters("mail", NOW - 60_000)];
  assert.deepEqual(unsolved(problems, counted(["mail"]), NOW), [problems[1]]);
  const store: Problem = { kind: "store", reason: "full" };
  assert.deepEqual(unsolved([store, letters("billing", NOW - 60_000)], counted([]), NOW), [store]);
});

test("letters that are newer than the count are a problem", () => {
  const fresh = [letters("billing", NOW + 1_000)];
  assert.deepEqual(unsolved(fresh, counted([]), NOW), fresh);
});

test("a count that is not whole says nothing of what it does not name", () => {
  const problems = [letters("billing", NOW - 60_000)];
  assert.deepEqual(unsolved(problems, undefined, undefined), problems);
  assert.deepEqual(unsolved(problems, counted([], { complete: false }), NOW), problems);
  assert.deepEqual(unsolved(problems, counted([], { otherGroups: 1 }), NOW), problems);
});

test("what is not replayed is told with its problem, and what has none is counted beside", () => {
  const summary = counted(["billing", "mail"], { letters: 6 });
  assert.equal(openLetters({ kind: "letters", topic: "orders", group: "mail", count: 9, lastTs: NOW }, summary), 3);
  assert.equal(openLetters({ kind: "letters", topic: "orders", group: "other", count: 9, lastTs: NOW }, summary), undefined);
  assert.equal(olderLetters([letters("billing", NOW)], summary), 3);
  assert.equal(olderLetters([letters("billing", NOW), letters("mail", NOW)], summary), 0);
});

test("an endpoint that fails and its group are one problem", () => {
  const group = (name: string, reason: string): Problem => ({ kind: "group", topic: "orders", group: name, reason, since: 1, lag: 7, inflight: 0, parked: 0, members: 1, oldestUnsettled: null });
  const push: Problem = { kind: "push", name: "crm", topic: "orders", group: "push.crm", state: "failing" };
  const others = [group("push.crm", "store_unavailable"), group("push.erp", "endpoint_failing")];
  assert.deepEqual(withoutPushGroups([push, group("push.crm", "endpoint_failing"), ...others]), [{ ...push, lag: 7 }, ...others]);
  assert.deepEqual(withoutPushGroups([push]), [push]);
});
