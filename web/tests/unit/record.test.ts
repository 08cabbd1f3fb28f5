import assert from "node:assert/strict";
import { test } from "node:test";
import { page, record, take } from "../../src/lib/record.ts";

const RECORD = '{"id":"x","ts":1,"topic":"t","key":"k","payload":{"n":9007199254740993, "a":[1]},"seq":7,"headers":{"x-a":"b"}}';

test("the payload of a record stays text, all else is parsed", () => {
  const found = record(RECORD);
  assert.equal(found?.payload, '{"n":9007199254740993, "a":[1]}');
  assert.deepEqual(found?.record, { id: "x", ts: 1, topic: "t", key: "k", seq: 7, headers: { "x-a": "b" } });
});

test("a payload of null is a payload, and what has none is no record", () => {
  assert.equal(record('{"id":"x","payload":null}')?.payload, "null");
  assert.equal(record('{"id":"x"}'), undefined);
  assert.equal(record("null"), undefined);
});

test("a page has its records and the rest of the answer", () => {
  const { events, rest } = page<{ topic: string; next: number }>(`{"topic":"t","events":[${RECORD},${RECORD}],"count":2,"next":8}`);
  assert.equal(events.length, 2);
  assert.deepEqual(rest, { topic: "t", count: 2, next: 8 });
  assert.deepEqual(page("{}").events, []);
});

test("a member that is taken out is not parsed", () => {
  const { taken, rest } = take<{ a: number }>('{"a":1,"event":{"payload":1e999}}', "event", "none");
  assert.deepEqual([...taken], [["event", '{"payload":1e999}']]);
  assert.deepEqual(rest, { a: 1 });
});
