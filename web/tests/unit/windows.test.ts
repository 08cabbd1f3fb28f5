import assert from "node:assert/strict";
import { test } from "node:test";
import { mayStream } from "../../src/lib/windows.ts";

const NOW = 1_000_000;
const window_ = (id: string, focused: number, more: { isVisible?: boolean; at?: number } = {}) => ({ id, focused, isVisible: true, at: NOW - 100, ...more });
const own = { id: "m", focused: 50, isVisible: true };
const ahead = ["a", "b", "c", "d"].map((id, n) => window_(id, 100 + n));

test("a window alone, or among few, has a stream", () => {
  assert.equal(mayStream(own, [], NOW), true);
  assert.equal(mayStream(own, ahead.slice(1), NOW), true);
});

test("a window waits while four others had the focus later", () => {
  assert.equal(mayStream(own, ahead, NOW), false);
  assert.equal(mayStream({ ...own, focused: 200 }, ahead, NOW), true);
});

test("windows that are hidden, or silent, do not count", () => {
  assert.equal(mayStream(own, [...ahead.slice(1), window_("a", 100, { isVisible: false })], NOW), true);
  assert.equal(mayStream(own, [...ahead.slice(1), window_("a", 100, { at: NOW - 10_000 })], NOW), true);
});

test("of seven windows that were focused at the same time, four have a stream", () => {
  const all = ["a", "b", "c", "d", "e", "f", "g"].map((id) => window_(id, 7));
  const streaming = all.filter((one) => mayStream(one, all.filter(({ id }) => id !== one.id), NOW));
  assert.deepEqual(streaming.map(({ id }) => id), ["a", "b", "c", "d"]);
});
