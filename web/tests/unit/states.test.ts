import assert from "node:assert/strict";
import { test } from "node:test";
import { compare, hasEnded, LatestByKey, lossesOf, statusOf, valueOf } from "../../src/lib/states.ts";

const value = (key: string, seq: number, payload = "1") => valueOf({ id: "x", seq, ts: seq, topic: "t", key }, payload);
const state = (...values: ReturnType<typeof value>[]) => new Map(values.map((one) => [one.key, one]));

test("two states are compared key by key", () => {
  const then = state(value("same", 1), value("changed", 2), value("gone", 3));
  const later = state(value("same", 1), value("changed", 9), value("new", 8));
  assert.deepEqual(compare(then, later, true).map(({ key, difference }) => [key, difference]), [["same", "same"], ["changed", "changed"], ["gone", "gone"], ["new", "new"]]);
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

test("a key that the later state does not have is only gone if all of that was read", () => {
  assert.deepEqual(compare(state(value("a", 1)), state(), false).map(({ difference }) => difference), ["unread"]);
});

test("the newest values have a limit, however many keys the stream brings", () => {
  const latest = new LatestByKey(3);
  latest.beginRead();
  latest.takePage([value("a", 1), value("b", 2)]);
  latest.endRead(true);
  assert.equal(latest.isWhole, true);
  for (let seq = 3; seq < 100; seq += 1) latest.takeStreamed([value(`new-${seq}`, seq)]);
  assert.deepEqual([...latest.list.rows.keys()], ["a", "b", "new-3"]);
  assert.equal(latest.isWhole, false, "and it is told that there are more");
  latest.takeStreamed([value("a", 100)]);
  assert.equal(latest.list.rows.get("a")?.seq, 100, "keys that are there go on");
  // A new reading takes the place of the one before, even if every key is another one.
  latest.beginRead();
  latest.takePage([value("x", 101), value("y", 102), value("z", 103)]);
  latest.endRead(true);
  assert.deepEqual([...latest.list.rows.keys()].sort(), ["x", "y", "z"]);
  assert.equal(latest.isWhole, true);
});

test("a page that is older than the stream brings nothing back", () => {
  const latest = new LatestByKey();
  latest.beginRead();
  latest.takeStreamed([value("deleted", 7, "null"), value("changed", 8, "2"), value("fresh", 9)]);
  latest.takePage([value("deleted", 5), value("changed", 6, "1"), value("again", 3)]);
  latest.endRead(true);
  assert.deepEqual([...latest.list.rows].map(([key, { seq }]) => [key, seq]).sort(), [["again", 3], ["changed", 8], ["fresh", 9]]);
  latest.beginRead();
  latest.takeStreamed([value("again", 10, "null")]);
  latest.takeStreamed([value("again", 11)]);
  latest.takePage([value("again", 10)]);
  latest.endRead(true);
  assert.deepEqual([...latest.list.rows].map(([key, { seq }]) => [key, seq]), [["again", 11]]);
});
