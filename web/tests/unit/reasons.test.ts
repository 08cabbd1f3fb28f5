import assert from "node:assert/strict";
import { test } from "node:test";
import { adviceOf, isFailing } from "../../src/lib/reasons.ts";

const rates = (acked: number, nacked: number) => ({ minute: { acked, nacked } });

test("a group that fails and acks nothing is failing", () => {
  assert.equal(isFailing({ lag: 1, rates: rates(0, 0.05) }), true);
  assert.equal(isFailing({ lag: 1, rates: rates(0, 0.02) }), false, "a failure or two are no news");
  assert.equal(isFailing({ lag: 1, rates: rates(0.01, 5) }), false);
  assert.equal(isFailing({ lag: 0, rates: rates(0, 5) }), false);
  assert.equal(isFailing({ lag: 1 }), false);
});

test("that a group only fails is told where its reason needs nobody more", () => {
  const title = (reason: string | null) => adviceOf({ reason, isFailing: true }).title;
  assert.deepEqual([null, "backoff", "no_members", "key_blocked"].map(title), ["Failing", "Failing", "No members", "Key blocked"]);
  assert.equal(adviceOf({ reason: "backoff", isFailing: false }).title, "Backoff");
});
