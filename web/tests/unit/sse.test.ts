import assert from "node:assert/strict";
import { test } from "node:test";
import { EventReader } from "../../src/lib/sse.ts";

function read(...pieces: string[]) {
  const reader = new EventReader();
  return pieces.flatMap((piece) => reader.push(piece));
}

test("messages have their name and their data", () => {
  assert.deepEqual(read('event: sample\ndata: {"ts":1}\n\ndata: 2\n\n'), [{ event: "sample", data: '{"ts":1}' }, { event: "message", data: "2" }]);
});

test("a stream that is cut anywhere reads the same", () => {
  const text = "retry: 1500\n\n: comment\n\nevent: a\nid: 7\ndata: one\ndata:two\n\nevent:b\ndata: {\"x\":\"y: z\"}\n\n";
  const whole = read(text);
  assert.deepEqual(whole, [{ event: "a", data: "one\ntwo" }, { event: "b", data: '{"x":"y: z"}' }]);
  for (let cut = 1; cut < text.length; cut += 1) assert.deepEqual(read(text.slice(0, cut), text.slice(cut)), whole, `cut at ${cut}`);
  assert.deepEqual(read(...text), whole);
});

test("lines may end with a carriage return", () => {
  assert.deepEqual(read("event: a\r\ndata: 1\r", "\n\r\n"), [{ event: "a", data: "1" }]);
});

test("comments, and messages that are not complete, are no messages", () => {
  assert.deepEqual(read(": keep\n\n", "data: 1\n"), []);
  assert.deepEqual(read("event: a\n\n"), []);
});
