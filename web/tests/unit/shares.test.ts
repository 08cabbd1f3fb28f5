import assert from "node:assert/strict";
import { test } from "node:test";
import { shares } from "../../src/lib/shares.ts";

test("a rate is shared so that the jobs together have it, and no more", () => {
  assert.deepEqual(shares(10, 4), [3, 3, 2, 2]);
  assert.deepEqual(shares(4, 4), [1, 1, 1, 1]);
  assert.deepEqual(shares(7, 1), [7]);
});

test("a job of less than one per second there is not", () => {
  assert.equal(shares(3, 4), undefined);
  assert.equal(shares(10, 0), undefined);
});
