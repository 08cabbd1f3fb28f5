import assert from "node:assert/strict";
import { test } from "node:test";
import { relationsOf } from "../../src/lib/relations.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const of = (headers: Record<string, string>) => relationsOf(headers).map(({ parameter, id }) => [parameter, id]);

test("an event belongs to its correlation and to its trace", () => {
  assert.deepEqual(of({ "x-correlation-id": "c 1", Traceparent: `00-${TRACE}-00f067aa0ba902b7-01` }), [["correlationId", "c 1"], ["traceId", TRACE]]);
  assert.deepEqual(of({ "x-correlation-id": "c", correlationId: "d" }), [["correlationId", "d"]]);
  assert.deepEqual(of({ "ce-traceparent": `01-${TRACE}-00f067aa0ba902b7-00-later` }), [["traceId", TRACE]]);
});

test("what is no traceparent names no trace", () => {
  for (const traceparent of ["", TRACE, `ff-${TRACE}-00f067aa0ba902b7-01`, `00-${TRACE.toUpperCase()}-00f067aa0ba902b7-01`, `00-${TRACE}-00f067aa0ba902b7-01x`]) assert.deepEqual(of({ traceparent }), [], traceparent);
  assert.deepEqual(relationsOf(undefined), []);
});
