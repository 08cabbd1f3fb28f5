import assert from "node:assert/strict";
import { test } from "node:test";
import { tokenIn } from "../../src/lib/session.ts";

test("a token is found in a link, in a header and by itself", () => {
  const expected = "eyJ0.eyJz.c2ln-_";
  for (const text of [expected, `  ${expected}\n`, `http://127.0.0.1:8082/#token=${expected}`, `http://127.0.0.1:8082/#/topics?q=a&token=${expected}`, `Bearer ${expected}`, `Authorization: Bearer ${expected}`]) {
    assert.equal(tokenIn(text), expected, text);
  }
});

test("a link with a broken encoding does not stop the page", () => {
  assert.equal(tokenIn("#token=%zz"), "%zz");
});
