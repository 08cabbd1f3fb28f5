import assert from "node:assert/strict";
import { test } from "node:test";
import { changes, excerpts } from "../../src/lib/diff.ts";

function shown(before: string, after: string): string[] {
  return changes(before.split("\n"), after.split("\n")).map(({ sign, text }) => `${sign}${text}`);
}

test("the same text has no changes", () => {
  assert.deepEqual(shown("a\nb", "a\nb"), []);
});

test("a line that changed stands between those around it", () => {
  assert.deepEqual(shown("1\n2\n3\nold\n5\n6\n7", "1\n2\n3\nnew\n5\n6\n7"), [" 2", " 3", "-old", "+new", " 5", " 6"]);
});

test("two changes that are far apart leave out what lies between", () => {
  const lines = Array.from({ length: 20 }, (_, n) => String(n));
  const after = [...lines];
  after[2] = "x";
  after[17] = "y";
  assert.deepEqual(changes(lines, after).map(({ sign, text }) => `${sign}${text}`), [" 0", " 1", "-2", "+x", " 3", " 4", "…", " 15", " 16", "-17", "+y", " 18", " 19"]);
});

test("added and removed lines are told apart from those that moved along", () => {
  assert.deepEqual(shown("a\nb\nc", "a\nc"), [" a", "-b", " c"]);
  assert.deepEqual(shown("a\nc", "a\nb\nc"), [" a", "+b", " c"]);
  assert.deepEqual(shown("", "a"), ["-", "+a"]);
});

test("large texts that differ throughout are compared, too", () => {
  const before = Array.from({ length: 20_000 }, (_, n) => `a${n}`);
  const after = before.map((line) => `${line}!`);
  assert.equal(changes(before, after).length, 40_000);
});

test("a long line is cut around the place of the change", () => {
  const [left, right] = ["x".repeat(5_000), "y".repeat(5_000)];
  const lines = excerpts(changes([`${left}old${right}`, "a"], [`${left}new${right}`, "b"]), 100);
  assert.deepEqual(lines.map(({ sign }) => sign).join(""), "--++");
  const [gone, , added] = lines.map(({ text }) => text);
  assert.match(gone ?? "", /^…x+oldy+…$/);
  assert.match(added ?? "", /^…x+newy+…$/);
  assert.equal(gone?.length, 102);
  // A change at the very end, and a line that stands against none.
  assert.match(excerpts(changes([`${left}1`], [`${left}2`]), 100)[0]?.text ?? "", /^…x+1$/);
  assert.match(excerpts(changes([], [left]), 100)[0]?.text ?? "", /^x+…$/);
});
