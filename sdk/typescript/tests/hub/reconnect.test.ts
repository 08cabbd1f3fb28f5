import assert from "node:assert/strict";
import { test } from "node:test";
import { PromClient } from "../../src/node.ts";
import { deferred } from "../support/client.ts";
import { Condition, Hub } from "../support/hub.ts";

test("handlers keep their leases over a cut connection, and every event is handled once", async (t) => {
  const hub = await Hub.start(t);
  await using publisher = new PromClient(hub.url, hub.token());
  const seen = new Condition();
  const states: string[] = [];
  await using consumer = new PromClient({
    urls: [hub.url],
    token: hub.token(),
    on: {
      state: (state) => {
        states.push(state.is);
        seen.changed();
      },
    },
  });
  const gate = deferred();
  const runs = new Map<number, number>();
  const attempts: number[] = [];
  const aborted: string[] = [];
  await consumer.subscribe<number>(
    "orders",
    "g",
    async (event, ctx) => {
      runs.set(event.payload, (runs.get(event.payload) ?? 0) + 1);
      ctx.signal.addEventListener("abort", () => aborted.push(String(ctx.signal.reason)));
      seen.changed();
      await gate.promise;
      attempts.push(ctx.attempt);
      seen.changed();
    },
    { concurrency: 5 },
  );
  await publisher.publishBatch(Array.from({ length: 10 }, (_, payload) => ({ topic: "orders", payload })));
  await seen.until(() => runs.size === 5);
  // A rival that would get whatever the hub takes away from the consumer.
  const rivals: number[] = [];
  await publisher.subscribe<number>("orders", "g", (event) => {
    rivals.push(event.payload);
    throw new Error("the rival wants nothing");
  });
  for (let cut = 1; cut <= 3; cut++) {
    const before = states.length;
    hub.cut();
    await seen.until(() => states.lastIndexOf("waiting") >= before && states.at(-1) === "ready");
  }
  gate.resolve();
  await seen.until(() => attempts.length === 10);
  assert.deepEqual([...runs.values()], Array.from({ length: 10 }, () => 1));
  assert.deepEqual(attempts, Array.from({ length: 10 }, () => 1), "no event was delivered again");
  assert.deepEqual([rivals, aborted], [[], []]);
});

test("a token that ends in mid-stream is renewed, and nothing is lost or comes twice", async (t) => {
  const hub = await Hub.start(t);
  let tokens = 0;
  // The first ones end before they could be renewed, so that the hub stops the deliveries for a while.
  const token = (): string => hub.token({ ttl: tokens++ < 2 ? 1 : 2 });
  const seen = new Condition();
  const got: number[] = [];
  await using client = new PromClient({ urls: [hub.url], token });
  await client.subscribe<number>(
    "orders",
    "g",
    async (event) => {
      await new Promise((resolve) => setTimeout(resolve, 1));
      got.push(event.payload);
      seen.changed();
    },
    { ordering: "key", concurrency: 4 },
  );
  let next = 0;
  const published: Promise<unknown>[] = [];
  while (tokens < 6) {
    const batch = Array.from({ length: 20 }, () => ({ topic: "orders", payload: next++, options: { key: "k", order: "key" as const } }));
    published.push(client.publishBatch(batch));
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await Promise.all(published);
  await seen.until(() => got.length >= next);
  assert.deepEqual(got, Array.from({ length: next }, (_, n) => n));
});

test("a hub that stands still for a moment loses nothing", async (t) => {
  const hub = await Hub.start(t);
  const seen = new Condition();
  const got: number[] = [];
  await using client = new PromClient(hub.url, hub.token());
  await client.subscribe<number>("orders", "g", (event) => {
    got.push(event.payload);
    seen.changed();
  });
  await client.publish("orders", 0);
  hub.signal("SIGSTOP");
  const rest = Promise.all(Array.from({ length: 500 }, (_, n) => client.publish("orders", n + 1, { key: "k", order: "key" })));
  await new Promise((resolve) => setTimeout(resolve, 500));
  hub.signal("SIGCONT");
  await rest;
  await seen.until(() => got.length === 501);
  assert.deepEqual(got, Array.from({ length: 501 }, (_, n) => n));
});

test("a watcher goes on behind its last event after a restart of the hub", async (t) => {
  const hub = await Hub.start(t);
  const seen = new Condition();
  const got: number[] = [];
  await using watcher = new PromClient(hub.url, hub.token());
  await using publisher = new PromClient(hub.url, hub.token());
  await watcher.watch<number>("news", (event) => {
    got.push(event.payload);
    seen.changed();
  }).opened;
  await publisher.publish("news", 1);
  await seen.until(() => got.length === 1);
  await hub.kill("SIGTERM");
  await hub.run();
  // Whether the watcher or the publisher is back first, nothing is missed.
  await publisher.publish("news", 2);
  await seen.until(() => got.length === 2);
  assert.deepEqual(got, [1, 2]);
});
