// PAUSE, RESUME and UNSUBSCRIBE: the hub is told what the program wants, however often it refuses.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Retry } from "../../src/consume/outcome.ts";
import type { SubscribeOptions } from "../../src/consume/types.ts";
import { deferred, setUpConnected, type Setup, stateOf } from "../support/client.ts";
import { settle } from "../support/clock.ts";
import { eventFrame, type FakeSocket, type Frame, uuid } from "../support/server.ts";

async function consuming(handle: () => unknown = () => undefined, options: SubscribeOptions = {}): Promise<Setup & { socket: FakeSocket }> {
  const setup = await setUpConnected({ token: () => "t" });
  const subscribed = setup.hub.subscribe("orders", "g", handle, options);
  setup.socket.ok(await setup.socket.next("SUBSCRIBE"));
  await subscribed;
  return setup;
}

function opsOf(frames: readonly Frame[]): string[] {
  return frames.map((frame) => frame.op);
}

test("a pause that cannot be sent while the token is renewed is sent after that", async () => {
  const { hub, socket } = await consuming();
  hub.watch("news", () => undefined);
  socket.ok(await socket.next("SUBSCRIBE"));
  socket.err(undefined, "token_expired");
  const renewal = await socket.next("AUTH");
  hub.pause("orders", "g");
  hub.pause("news");
  await socket.silent("PAUSE");
  socket.ok(renewal);
  assert.deepEqual([(await socket.next("PAUSE"))["topic"], (await socket.next("PAUSE"))["topic"]], ["orders", "news"]);
  await hub.close({ timeoutMs: 0 });
});

test("a pause that the hub refuses for a while is sent again, unless it is over by then", async () => {
  const { hub, socket, platform } = await consuming();
  hub.pause("orders", "g");
  socket.err(await socket.next("PAUSE"), "rate_limited", { retry_after_ms: 300 });
  await platform.pass(299);
  await socket.silent("PAUSE");
  await platform.pass(1);
  socket.err(await socket.next("PAUSE"), "token_expired");
  hub.resume("orders", "g");
  await platform.pass(1_000);
  await socket.silent();
  await hub.close({ timeoutMs: 0 });
});

test("a subscription is over only when the hub has taken its UNSUBSCRIBE", async () => {
  const { hub, socket, platform } = await consuming();
  const gone = hub.unsubscribe("orders", "g");
  socket.err(await socket.next("UNSUBSCRIBE"), "rate_limited", { retry_after_ms: 300 });
  assert.equal(await stateOf(gone), "pending");
  await platform.pass(300);
  socket.ok(await socket.next("UNSUBSCRIBE"));
  await gone;
  await hub.close({ timeoutMs: 0 });
});

test("a watcher that ends while the token is renewed unsubscribes before the next one subscribes", async () => {
  const { hub, socket } = await consuming();
  const first = hub.watch("news", () => undefined);
  socket.ok(await socket.next("SUBSCRIBE"));
  socket.err(undefined, "token_expired");
  const renewal = await socket.next("AUTH");
  void first.unsubscribe();
  const second = hub.watch("news", () => undefined);
  await socket.silent();
  socket.ok(renewal);
  await socket.next("UNSUBSCRIBE");
  socket.ok(await socket.next("SUBSCRIBE"));
  await second.opened;
  await hub.close({ timeoutMs: 0 });
});

test("a watcher does not end because the UNSUBSCRIBE of the one before it was refused for a while", async () => {
  const { hub, socket, platform } = await consuming();
  const first = hub.watch("news", () => undefined);
  socket.ok(await socket.next("SUBSCRIBE"));
  void first.unsubscribe();
  const second = hub.watch("news", () => undefined);
  socket.err(await socket.next("UNSUBSCRIBE"), "rate_limited", { retry_after_ms: 100 });
  socket.err(await socket.next("SUBSCRIBE"), "already_subscribed");
  assert.equal(await stateOf(second.closed), "pending");
  await platform.pass(1_000);
  socket.ok(await socket.next("UNSUBSCRIBE"));
  socket.ok(await socket.next("SUBSCRIBE"));
  await second.opened;
  await hub.close({ timeoutMs: 0 });
});

for (const [name, fail, settlement] of [
  ["an ack", undefined, { op: "ACK", ids: [uuid(1)] }],
  ["a nack", new Retry({ delayMs: 700, reason: "later" }), { op: "NACK", id: uuid(1), reason: "later", delay_ms: 700 }],
] as const) {
  test(`${name} waits until the hub has accepted the subscription of this connection`, async () => {
    const gate = deferred();
    const { hub, server, socket, platform } = await consuming(() => gate.promise.then(() => fail));
    socket.say(eventFrame("orders", "g", { id: uuid(1) }));
    await settle();
    socket.cut();
    gate.resolve();
    await platform.pass(1_000);
    const next = await server.accept();
    assert.deepEqual(opsOf(next.received), ["AUTH", "SUBSCRIBE"]);
    next.err(await next.next("SUBSCRIBE"), "rate_limited", { retry_after_ms: 300 });
    await next.silent();
    await platform.pass(300);
    const again = await next.next("SUBSCRIBE");
    assert.deepEqual((again["opts"] as { held?: string[] }).held, [uuid(1)]);
    next.ok(again, { held: [uuid(1)] });
    const { corr: _, topic: __, group: ___, attempt: ____, ...sent } = await next.next();
    assert.deepEqual(sent, settlement);
    await hub.close({ timeoutMs: 0 });
  });
}

test("a watcher gets nothing that was on its way to the one before it", async () => {
  const { hub, socket, logs } = await consuming();
  const first = hub.watch("news", () => undefined);
  socket.ok(await socket.next("SUBSCRIBE"));
  void first.unsubscribe();
  const seen: number[] = [];
  const second = hub.watch("news", (event) => void seen.push(event.seq), { filter: { key: "k" } });
  const request = await socket.next("SUBSCRIBE");
  socket.say(eventFrame("news", undefined, { id: uuid(1), seq: 1 }));
  socket.say({ op: "LAGGED", topic: "news", missed: 5 });
  socket.say({ op: "ERR", code: "forbidden", msg: "no", topic: "news" });
  socket.ok(request);
  socket.say(eventFrame("news", undefined, { id: uuid(2), seq: 2, key: "k" }));
  assert.deepEqual(seen, [2]);
  assert.deepEqual(logs, []);
  assert.equal(await stateOf(second.closed), "pending");
  await hub.close({ timeoutMs: 0 });
});

test("an event that crosses the UNSUBSCRIBE does not end the subscription before the answer", async () => {
  const { hub, socket } = await consuming();
  const gone = hub.unsubscribe("orders", "g");
  const unsubscribe = await socket.next();
  assert.equal(unsubscribe.op, "UNSUBSCRIBE", "what holds nothing need not pause first");
  socket.say(eventFrame("orders", "g", { id: uuid(1) }));
  socket.err(await socket.next("RETURN"), "not_subscribed");
  assert.equal(await stateOf(gone), "pending");
  socket.ok(unsubscribe);
  await gone;
  await hub.close({ timeoutMs: 0 });
});

test("a watcher that is paused hears nothing, and what came meanwhile at its end", async () => {
  const { hub, socket } = await setUpConnected();
  const seen: number[] = [];
  const watch = hub.watch("news", ({ seq }) => {
    seen.push(seq);
    if (seq === 1 || seq === 3) watch.pause();
  });
  socket.ok(await socket.next("SUBSCRIBE"));
  await watch.opened;
  const events = [1, 2, 3, 4].map((seq) => ({ event: { id: uuid(seq), seq, ts: 1, topic: "news", payload: null } }));
  socket.say({ op: "EVENTS", topic: "news", events });
  assert.deepEqual(seen, [1]);
  socket.say(eventFrame("news", undefined, { id: uuid(5), seq: 5 }));
  assert.deepEqual(seen, [1]);
  watch.resume();
  assert.deepEqual(seen, [1, 2, 3], "paused once more by its handler");
  watch.resume();
  assert.deepEqual(seen, [1, 2, 3, 4, 5]);
  await hub.close({ timeoutMs: 0 });
});
