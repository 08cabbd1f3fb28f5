import assert from "node:assert/strict";
import { test } from "node:test";
import { PromClient } from "../../src/node.ts";
import { Condition, Hub } from "../support/hub.ts";

const EVENTS = 50_000;
const KEYS = 500;
/** How often the hub is killed meanwhile. */
const RESTARTS = Number(process.env["EVENT_HUB_SDK_RESTARTS"] ?? 2);

interface Step {
  key: string;
  n: number;
}

test(`a hub that is killed ${RESTARTS} times under ${EVENTS} events loses none, doubles none, and keeps the order of keys`, async (t) => {
  const hub = await Hub.start(t);
  const quiet = { log: () => undefined };
  const seen = new Condition();
  await using publisher = new PromClient({ urls: [hub.url], token: hub.token(), pending: { events: 4_000 }, on: quiet });
  await using consumer = new PromClient({ urls: [hub.url], token: hub.token(), on: quiet });

  /** How often each event was handled to its end, and the last one of each key. */
  const handled = new Map<string, number>();
  const last = new Map<string, number>();
  const outOfOrder: string[] = [];
  let completed = 0;
  await consumer.subscribe<Step>(
    "steps",
    "g",
    async ({ payload: { key, n } }) => {
      await new Promise((resolve) => setImmediate(resolve));
      const id = `${key} ${n}`;
      const before = handled.get(id) ?? 0;
      handled.set(id, before + 1);
      if (before > 0) return;
      if (n !== (last.get(key) ?? 0) + 1) outOfOrder.push(`${key}: ${n} after ${last.get(key)}`);
      last.set(key, n);
      completed++;
      seen.changed();
    },
    { ordering: "key", concurrency: 64, maxInFlight: 1000 },
  );

  const publishing = (async () => {
    const pending: Promise<unknown>[] = [];
    for (let n = 1; n <= EVENTS / KEYS; n++) {
      for (let key = 0; key < KEYS; key++) {
        pending.push(publisher.publish("steps", { key: `k${key}`, n }, { key: `k${key}`, order: "key" }));
      }
      // Backpressure, as a program would do it.
      if (pending.length >= 4_000) await Promise.all(pending.splice(0));
    }
    await Promise.all(pending);
  })();

  for (let round = 1; round <= RESTARTS; round++) {
    await seen.until(() => completed >= (EVENTS * round) / (RESTARTS + 1));
    await hub.kill("SIGKILL");
    await hub.run();
  }
  await publishing;
  await seen.until(() => completed >= EVENTS);

  const log = await hub.log("steps");
  assert.equal(log.length, EVENTS, "each event is stored once");
  const stored = new Map<string, number>();
  for (const { key = "", payload } of log) {
    const { n } = payload as Step;
    assert.equal(n, (stored.get(key) ?? 0) + 1, `the log has ${key} out of order`);
    stored.set(key, n);
  }
  const twice = [...handled.values()].filter((times) => times > 1).length;
  t.diagnostic(`${EVENTS} events, ${RESTARTS} restarts: ${EVENTS - handled.size} lost, ${twice} handled twice, ${outOfOrder.length} out of order`);
  assert.equal(handled.size, EVENTS, "each event is handled");
  assert.equal(twice, 0, "no event is handled twice by a consumer that lives on");
  assert.deepEqual(outOfOrder, []);
});
