// The part of the client that a page loads after the rest.

import assert from "node:assert/strict";
import { test } from "node:test";
import * as deferred from "../../src/deferred.ts";
import { setUp, stateOf } from "../support/client.ts";
import type { ManualPlatform } from "../support/clock.ts";
import { uuid } from "../support/server.ts";

const CUT = new TypeError("Failed to fetch dynamically imported module");

/** The first loads fail. */
function failToLoad(platform: ManualPlatform, times: number): { readonly loads: number } {
  const seen = { loads: 0 };
  platform.loader = () => (++seen.loads > times ? Promise.resolve(deferred) : Promise.reject(CUT));
  return seen;
}

test("connect loads the rest at once, once", async () => {
  const { hub, server, platform } = setUp();
  const seen = failToLoad(platform, 0);
  const connected = hub.connect();
  assert.equal(seen.loads, 1);
  const socket = await server.accept();
  await connected;
  const published = hub.publish("orders", 1);
  socket.ok(await socket.next("PUBLISH"), { id: uuid(1), seq: 1, ts: 1, durable: "fsync" });
  await published;
  assert.equal(seen.loads, 1);
  await hub.close();
});

test("what could not be loaded is loaded again, and publishes keep their order meanwhile", async () => {
  const { hub, server, platform } = setUp();
  const seen = failToLoad(platform, 2);
  const published = Promise.all([hub.publish("orders", 1), hub.publish("orders", 2)]);
  const subscribed = hub.subscribe("orders", "g", () => undefined);
  const socket = await server.accept();
  await platform.pass(1_000);
  await socket.silent();
  await platform.pass(1_000);
  assert.equal(seen.loads, 3);
  socket.ok(await socket.next("SUBSCRIBE"));
  await subscribed;
  const publish = await socket.next("PUBLISH");
  assert.deepEqual((publish["events"] as { payload: number }[]).map(({ payload }) => payload), [1, 2]);
  socket.ok(publish, { results: [1, 2].map((seq) => ({ id: uuid(seq), seq, ts: 1, durable: "fsync" })) });
  await published;
  await hub.close({ timeoutMs: 0 });
});

test("what cannot be loaded for a minute rejects, and the next call tries again", async () => {
  const { hub, server, platform } = setUp();
  const seen = failToLoad(platform, 60);
  const failed = assert.rejects(hub.publish("orders", 1), { code: "connect_failed", cause: CUT });
  const socket = await server.accept();
  socket.answerBy((frame) => frame.op === "PING" && socket.ok(frame));
  await platform.pass(59_000);
  await failed;
  assert.equal(seen.loads, 60);
  const published = hub.publish("orders", 2);
  socket.ok(await socket.next("PUBLISH"), { id: uuid(1), seq: 1, ts: 1, durable: "fsync" });
  await published;
  await hub.close();
});

test("a client that is closed does not go on loading", async () => {
  const { hub, server, platform } = setUp();
  failToLoad(platform, Infinity);
  const published = hub.publish("orders", 1);
  await server.accept();
  const closed = hub.close({ timeoutMs: 0 });
  assert.equal(await stateOf(published), "pending");
  await platform.pass(1_000);
  await assert.rejects(published, { code: "closed" });
  await closed;
  assert.equal(platform.timers, 0);
});

test("what a program does to its options later changes nothing, also while the rest is loaded", async () => {
  const { hub, server } = setUp();
  const options = { key: "", headers: { step: "" }, tags: [""] };
  const published = [1, 2].map((n) => {
    options.key = `key-${n}`;
    options.headers.step = options.tags[0] = String(n);
    return hub.publish("orders", n, options);
  });
  options.key = options.headers.step = options.tags[0] = "later";
  const socket = await server.accept();
  const frame = await socket.next("PUBLISH");
  const events = frame["events"] as { payload: number; opts: Record<string, unknown> }[];
  assert.deepEqual(
    events.map(({ payload, opts: { key, headers, tags } }) => ({ payload, key, headers, tags })),
    [1, 2].map((n) => ({ payload: n, key: `key-${n}`, headers: { step: String(n) }, tags: [String(n)] })),
  );
  socket.ok(frame, { results: events.map(({ opts }) => ({ id: opts["id"], seq: 1, ts: 1, durable: "fsync" })) });
  await Promise.all(published);
  await hub.close();
});

test("a signal ends a publish that waits for the rest to be loaded", async () => {
  const { hub, platform } = setUp();
  failToLoad(platform, 60);
  const controller = new AbortController();
  const published = hub.publish("orders", 1, { signal: controller.signal });
  const rejected = assert.rejects(published, { message: "enough" });
  controller.abort(new Error("enough"));
  assert.equal(await stateOf(rejected), "resolved");
  await hub.close({ timeoutMs: 0 });
});

test("close waits for nothing after a publish that was refused here", async () => {
  const { hub, server } = setUp();
  const connected = hub.connect();
  await server.accept();
  await connected;
  const refused = assert.rejects(hub.publish("orders", 1n), { code: "bad_request" });
  const closed = hub.close();
  await refused;
  assert.equal(await stateOf(closed), "resolved");
});
