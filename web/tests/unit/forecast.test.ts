import assert from "node:assert/strict";
import { test } from "node:test";
import { forecast } from "../../src/lib/forecast.ts";

/** A lag that changes by so much per second, for 20 s. */
function steady(from: number, perSecond: number) {
  return Array.from({ length: 21 }, (_, second) => ({ ts: 1_000_000 + second * 1_000, lag: from + second * perSecond }));
}

test("a lag that shrinks is gone at a time", () => {
  assert.equal(forecast(steady(1_000, -10)), "caught up in about 1 min 20 s");
});

test("a lag that grows says how fast", () => {
  assert.equal(forecast(steady(0, 25)), "growing by 25/s");
});

test("a lag that stands still is not moving", () => {
  assert.equal(forecast(steady(70, 0)), "not moving");
});

test("without a lag there is nothing to forecast, and without samples nothing to go by", () => {
  assert.equal(forecast([{ ts: 1, lag: 0 }]), "caught up");
  assert.equal(forecast([]), "measuring…");
  assert.equal(forecast(steady(100, -1).slice(0, 4)), "measuring…");
});

test("what was before the last half minute does not count", () => {
  const old = { ts: 900_000, lag: 1_000_000 };
  assert.equal(forecast([old, ...steady(1_000, -10)]), "caught up in about 1 min 20 s");
});

test("one burst at the edge of the window does not turn the forecast", () => {
  const points = steady(1_000, -10);
  points[0] = { ts: 1_000_000, lag: 850 };
  assert.equal(forecast(points), "caught up in about 1 min 39 s");
});
