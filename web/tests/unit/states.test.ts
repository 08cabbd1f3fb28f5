import assert from "node:assert/strict";
import { test } from "node:test";
import { compare, hasEnded, lossesOf, statusOf, valueOf } from "../../src/lib/states.ts";

const value = (key: string, seq: number, payload = "1") => valueOf({ id: "x", seq, ts: seq, topic: "t", key }, payload);
const state = (...values: ReturnType<typeof value>[]) => new Map(values.map((one) => [one.key, one]));

test("two states are compared key by key", () => {
  const then = state(value("same", 1), value("changed", 2), value("gone", 3));
  const later = state(value("same", 1), value("changed", 9), value("new", 8));
  assert.deepEqual(compare(then, later).map(({ key, difference }) => [key, difference]), [["same", "same"], ["changed", "changed"], ["gone", "gone"], ["new", "new"]]);
});

test("a status is read from a payload, also if that was cut", () => {
  assert.equal(statusOf('{"status":"running"}'), "running");
  assert.equal(statusOf('{"state":"up","data":"xxxx'), "up");
  assert.equal(statusOf('{"status":17}'), undefined);
  assert.equal(statusOf('{"status":"runn'), undefined);
  assert.equal(statusOf('"running"'), undefined);
});

test("a process that said goodbye is not waited for", () => {
  assert.equal(hasEnded('{"status":"Stopped"}'), true);
  assert.equal(hasEnded('{"status":"running"}'), false);
});

test("a payload of null is a deletion, and a long one is cut", () => {
  assert.equal(value("k", 1, "null").deleted, true);
  const long = value("k", 1, `"${"ü".repeat(3_000)}"`);
  assert.equal(long.cut, true);
  assert.equal(long.bytes, 6_002);
  assert.ok(new TextEncoder().encode(long.payload).length <= 2_048);
});

test("what a log can have lost is said", () => {
  assert.deepEqual(lossesOf({ first: 1, compacted: false, retained: false }), []);
  assert.equal(lossesOf({ first: 17, compacted: true, retained: true }).length, 2);
});
