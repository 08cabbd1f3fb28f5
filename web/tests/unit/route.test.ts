import assert from "node:assert/strict";
import { test } from "node:test";
import { parse, to } from "../../src/lib/route.ts";

test("what a link is made of comes out of it again", () => {
  const params = { topic: "orders.created", q: "a&b=c?d#e %41+", key: "ü\u202e\n", at: "0" };
  assert.deepEqual(parse(to("/topic", params)), { path: "/topic", params });
});

test("parameters without a value are left out", () => {
  assert.equal(to("/letters", { topic: undefined, q: "" }), "#/letters");
  assert.equal(to("/event", { topic: "a", seq: 0 }), "#/event?topic=a&seq=0");
});

test("an empty address is the overview", () => {
  for (const fragment of ["", "#", "#?q=1"]) assert.equal(parse(fragment).path, "/");
});

test("a question mark in a value does not end it", () => {
  assert.deepEqual(parse("#/find?id=a?b").params, { id: "a?b" });
});

test("what is no percent encoding is taken as it is", () => {
  assert.deepEqual(parse("#/topics?q=100%").params, { q: "100%" });
});
