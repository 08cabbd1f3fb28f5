import assert from "node:assert/strict";
import { test } from "node:test";
import type { Lagged } from "../../src/consume/types.ts";
import { setUpConnected } from "../support/client.ts";
import { settle } from "../support/clock.ts";
import { eventFrame, uuid } from "../support/server.ts";

test("a watcher reads without a group and settles nothing", async () => {
  const { hub, socket } = await setUpConnected();
  const seen: number[] = [];
  const watcher = hub.watch("news", (event) => void seen.push(event.seq), { from: "earliest", coalesce: true });
  const request = await socket.next("SUBSCRIBE");
  assert.deepEqual({ ...request, corr: "" }, { corr: "", op: "SUBSCRIBE", topic: "news", opts: { from: "earliest", coalesce: true, batch: true } });
  socket.ok(request);
  await watcher.opened;
  socket.say(eventFrame("news", undefined, { id: uuid(1), seq: 1 }));
  const { event } = eventFrame("news", undefined, { id: uuid(2), seq: 2 });
  socket.say({ op: "EVENTS", topic: "news", events: [{ event }] });
  assert.deepEqual(seen, [1, 2]);
  await socket.silent("ACK");
  await watcher.unsubscribe();
  await socket.next("UNSUBSCRIBE");
  socket.say(eventFrame("news", undefined, { id: uuid(3), seq: 3 }));
  assert.deepEqual(seen, [1, 2]);
  assert.equal(await watcher.closed, undefined);
  await hub.close();
});

test("a watcher of a topic goes on behind its last event after a reconnect, and misses nothing", async () => {
  const lags: Lagged[] = [];
  const { hub, server, socket, platform } = await setUpConnected({ on: { lagged: (lagged) => void lags.push(lagged) } });
  hub.watch("news", () => undefined, { from: "earliest" });
  socket.ok(await socket.next("SUBSCRIBE"));
  socket.say(eventFrame("news", undefined, { id: uuid(7), seq: 7 }));
  socket.cut();
  await platform.pass(1_000);
  const next = await server.accept();
  const again = await next.next("SUBSCRIBE");
  assert.deepEqual(again["opts"], { from: "afterSeq", afterSeq: 7, batch: true });
  next.ok(again);
  assert.deepEqual(lags, []);
  await hub.close({ timeoutMs: 0 });
});

test("a watcher that may have missed something over a reconnect says so", async () => {
  const lags: Lagged[] = [];
  const own: Lagged[] = [];
  const { hub, server, socket, platform } = await setUpConnected({ on: { lagged: (lagged) => void lags.push(lagged) } });
  hub.watch("orders.**", () => undefined, { onLagged: (lagged) => void own.push(lagged) });
  hub.watch("states.*", () => undefined, { from: "earliest", coalesce: true });
  socket.ok(await socket.next("SUBSCRIBE"));
  socket.ok(await socket.next("SUBSCRIBE"));
  assert.deepEqual(lags, [], "the first time nothing is missed");
  socket.cut();
  await platform.pass(1_000);
  const next = await server.accept();
  next.ok(await next.next("SUBSCRIBE"));
  next.ok(await next.next("SUBSCRIBE"));
  await settle();
  assert.deepEqual(lags, [{ topic: "orders.**" }], "the newest states come all anew");
  assert.deepEqual(own, lags);
  await hub.close({ timeoutMs: 0 });
});

test("what the hub says of a slow reader is passed on", async () => {
  const lags: Lagged[] = [];
  const { hub, socket } = await setUpConnected({ on: { lagged: (lagged) => void lags.push(lagged) } });
  hub.watch("news", () => undefined);
  hub.watch("orders.*", () => undefined);
  socket.ok(await socket.next("SUBSCRIBE"));
  socket.ok(await socket.next("SUBSCRIBE"));
  socket.say({ op: "LAGGED", topic: "news", missed: 1240 });
  socket.say({ op: "LAGGED", topic: "orders.*", missed: 3, of: "orders.created" });
  assert.deepEqual(lags, [
    { topic: "news", missed: 1240 },
    { topic: "orders.created", missed: 3 },
  ]);
  await hub.close({ timeoutMs: 0 });
});

test("a watcher that throws is heard of, and goes on", async () => {
  const { hub, socket, logs } = await setUpConnected();
  let calls = 0;
  hub.watch("news", () => {
    if (++calls === 1) throw new Error("one");
    return Promise.reject(new Error("two"));
  });
  socket.ok(await socket.next("SUBSCRIBE"));
  for (let n = 1; n <= 2; n++) socket.say(eventFrame("news", undefined, { id: uuid(n), seq: n }));
  await settle();
  assert.deepEqual(logs.map(({ message, fields }) => [message, String(fields["error"])]), [
    ["watcher failed", "Error: one"],
    ["watcher failed", "Error: two"],
  ]);
  await hub.close({ timeoutMs: 0 });
});

test("mounting twice and unmounting once leaves one watcher (realtime-js#169)", async () => {
  const { hub, socket } = await setUpConnected();
  // What React does under StrictMode: mount, unmount, mount.
  const first = hub.watch("news", () => undefined);
  void first.unsubscribe();
  const seen: number[] = [];
  const second = hub.watch("news", (event) => void seen.push(event.seq));
  assert.deepEqual(socket.received.slice(1).map((frame) => frame.op), ["SUBSCRIBE", "UNSUBSCRIBE", "SUBSCRIBE"]);
  const [, one, two, three] = socket.received;
  for (const frame of [one, two, three]) if (frame !== undefined) socket.ok(frame);
  await second.opened;
  socket.say(eventFrame("news", undefined, { id: uuid(1), seq: 1 }));
  assert.deepEqual(seen, [1]);
  assert.throws(() => hub.watch("news", () => undefined), { code: "already_subscribed" });
  await hub.close({ timeoutMs: 0 });
});

test("a watcher is paused and resumed, also over a reconnect", async () => {
  const { hub, server, socket, platform } = await setUpConnected();
  hub.watch("news", () => undefined);
  hub.pause("news");
  await socket.next("PAUSE");
  socket.cut();
  await platform.pass(1_000);
  const next = await server.accept();
  assert.deepEqual(next.received.map((frame) => frame.op), ["AUTH", "SUBSCRIBE", "PAUSE"]);
  hub.resume("news");
  await next.next("RESUME");
  await hub.close({ timeoutMs: 0 });
});

test("an onLagged that throws ends nothing, and the client's callback is called all the same", async (t) => {
  const complaints = t.mock.method(console, "error", () => undefined);
  const lags: Lagged[] = [];
  const { hub, server, socket, platform } = await setUpConnected({ on: { lagged: (lagged) => void lags.push(lagged) } });
  const onLagged = (): void => {
    throw new Error("no");
  };
  const watcher = hub.watch("orders.**", () => undefined, { onLagged });
  socket.ok(await socket.next("SUBSCRIBE"));
  await watcher.opened;
  socket.cut();
  await platform.pass(1_000);
  const next = await server.accept();
  next.ok(await next.next("SUBSCRIBE"));
  assert.deepEqual(lags, [{ topic: "orders.**" }]);
  assert.equal(complaints.mock.callCount(), 1);
  await hub.close({ timeoutMs: 0 });
});
