import assert from "node:assert/strict";
import { test } from "node:test";
import { PromClient } from "../../src/node.ts";
import { Condition, Hub } from "../support/hub.ts";

// In a file of its own, because it takes as long as a client waits for a sign of life.
test("a hub that stands still for long is left, and come back to, with nothing lost", async (t) => {
  const hub = await Hub.start(t);
  const seen = new Condition();
  const got: number[] = [];
  const states: string[] = [];
  await using client = new PromClient({
    urls: [hub.url],
    token: hub.token(),
    on: {
      state: (state) => {
        states.push(state.is);
        seen.changed();
      },
    },
  });
  await client.subscribe<number>("orders", "g", (event) => {
    got.push(event.payload);
    seen.changed();
  });
  hub.signal("SIGSTOP");
  const published = Promise.all([1, 2, 3].map((n) => client.publish("orders", n, { key: "k", order: "key" })));
  await seen.until(() => states.includes("waiting"));
  hub.signal("SIGCONT");
  await published;
  await seen.until(() => got.length >= 3);
  assert.deepEqual(got, [1, 2, 3]);
  assert.deepEqual((await hub.log("orders")).map((record) => record.payload), [1, 2, 3]);
});
