import assert from "node:assert/strict";
import { test } from "node:test";
import { searchOf } from "../../src/lib/search.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const ID = "018f4e3a-1b2c-7d3e-8f40-112233445566";

test("a topic with a seq, and an id, are found at once", () => {
  for (const text of ["orders.created 17", "orders.created/17", " orders.created#17 "]) assert.deepEqual(searchOf(text), { kind: "place", topic: "orders.created", seq: "17" }, text);
  assert.deepEqual(searchOf(` ${ID}\n`), { kind: "id", id: ID });
  assert.deepEqual(searchOf(ID.toUpperCase()), { kind: "id", id: ID.toUpperCase() });
});

test("a trace is named by its id, by a whole traceparent, and by a line of headers", () => {
  const parent = `00-${TRACE}-00f067aa0ba902b7-01`;
  for (const text of [TRACE, parent, ` ${parent} `, `traceparent: ${parent}`, `Traceparent:${parent}`, `ce-traceparent=${parent}`]) assert.deepEqual(searchOf(text), { kind: "trace", id: TRACE }, text);
});

test("anything else may be a correlation id", () => {
  for (const text of ["basket-7", "orders.created", TRACE.slice(1), TRACE.toUpperCase(), "0".repeat(32), `ff-${TRACE}-00f067aa0ba902b7-01`, "traceparent", "é 1"]) assert.deepEqual(searchOf(text), { kind: "correlation", id: text }, text);
  assert.equal(searchOf("  "), undefined);
});
