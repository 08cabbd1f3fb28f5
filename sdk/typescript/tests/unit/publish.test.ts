import assert from "node:assert/strict";
import { test } from "node:test";
import type { HubError } from "../../src/errors.ts";
import { PromClient } from "../../src/node.ts";
import { MemoryHub } from "../../src/testing/index.ts";
import { setUp, setUpConnected, stateOf } from "../support/client.ts";
import { settle } from "../support/clock.ts";
import { isKept } from "../support/garbage.ts";
import { type FakeSocket, type Frame, uuid } from "../support/server.ts";

interface Sent {
  topic: string;
  payload: unknown;
  opts: { id: string; key?: string };
}

/** The events of a PUBLISH, of whichever form. */
function eventsOf(frame: Frame): Sent[] {
  return (frame["events"] as Sent[] | undefined) ?? [frame as unknown as Sent];
}

let seq = 0;

/** Answers a PUBLISH as a hub does. */
function store(socket: FakeSocket, frame: Frame, fields: object = {}): void {
  const results = eventsOf(frame).map((event) => ({ id: event.opts.id, seq: ++seq, ts: 1, durable: "fsync", ...fields }));
  if (frame["events"] === undefined) socket.ok(frame, results[0]);
  else socket.ok(frame, { results });
}

test("a publish resolves with its receipt once the hub has stored it", async () => {
  const { hub, socket } = await setUpConnected();
  const published = hub.publish("orders", { item: "tea" }, { key: "k", tags: ["a"], headers: { h: "1" }, sid: "s", ts: 5, caused_by: [uuid(9)] });
  const frame = await socket.next("PUBLISH");
  const { id, ...opts } = (frame as unknown as Sent).opts;
  assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.deepEqual(opts, { ts: 5, key: "k", sid: "s", headers: { h: "1" }, caused_by: [uuid(9)], tags: ["a"] });
  assert.equal(await stateOf(published), "pending");
  socket.ok(frame, { id, seq: 7, ts: 5, durable: "majority", duplicate: true });
  assert.deepEqual(await published, { id, seq: 7, ts: 5, durable: "majority", duplicate: true });
  await hub.close();
});

test("publishes that are ready together go in one frame, and each has its own result", async () => {
  const { hub, socket } = await setUpConnected();
  const results = hub.publishBatch([
    { topic: "orders", payload: 1 },
    { topic: "secrets", payload: 2 },
    { topic: "orders", payload: 3 },
  ]);
  const frame = await socket.next("PUBLISH");
  const [first, , third] = eventsOf(frame);
  socket.ok(frame, {
    results: [
      { id: first?.opts.id, seq: 1, ts: 1, durable: "fsync" },
      { code: "forbidden", msg: "not allowed" },
      { id: third?.opts.id, seq: 2, ts: 1, durable: "fsync" },
    ],
  });
  const [a, b, c] = await results;
  assert.deepEqual(a, { id: first?.opts.id, seq: 1, ts: 1, durable: "fsync" });
  assert.ok(b instanceof Error && String(b) === "Error: forbidden: not allowed");
  assert.ok(c !== undefined && "seq" in c && c.seq === 2);
  await hub.close();
});

test("a payload that is changed after the call is sent as it was (no id_conflict after a reconnect)", async () => {
  const { hub, server, socket, platform } = await setUpConnected();
  const payload = { n: 1 };
  const published = hub.publish("orders", payload);
  payload.n = 2;
  const first = await socket.next("PUBLISH");
  assert.deepEqual(first["payload"], { n: 1 });
  payload.n = 3;
  socket.cut();
  await platform.pass(100);
  const next = await server.accept();
  const second = await next.next("PUBLISH");
  assert.deepEqual({ ...second, corr: "" }, { ...first, corr: "" });
  store(next, second);
  await published;
  await hub.close();
});

test("answers that come in another order are told apart (amqp-connection-manager#142)", async () => {
  const { hub, socket } = await setUpConnected();
  const one = hub.publish("orders", 1);
  const first = await socket.next("PUBLISH");
  const two = hub.publish("orders", 2);
  const second = await socket.next("PUBLISH");
  store(socket, second);
  assert.equal(await stateOf(one), "pending");
  assert.equal((await two).id, eventsOf(second)[0]?.opts.id);
  store(socket, first);
  assert.equal((await one).id, eventsOf(first)[0]?.opts.id);
  await hub.close();
});

test("what was not answered is sent again in its order, and before what is new (amqp-connection-manager#170)", async () => {
  const { hub, server, socket, platform } = await setUpConnected();
  const all: Promise<unknown>[] = [];
  for (let n = 1; n <= 3; n++) {
    all.push(hub.publish("orders", n));
    await socket.next("PUBLISH");
  }
  socket.cut();
  all.push(hub.publish("orders", 4));
  await platform.pass(100);
  const next = await server.accept();
  const seen: unknown[] = [];
  while (seen.length < 4) {
    const frame = await next.next("PUBLISH");
    seen.push(...eventsOf(frame).map((event) => event.payload));
    store(next, frame);
  }
  assert.deepEqual(seen, [1, 2, 3, 4]);
  await Promise.all(all);
  await hub.close();
});

test("what is small goes out together with AUTH", async () => {
  const { hub, server } = setUp();
  const published = hub.publish("orders", 1);
  const large = hub.publish("orders", "x".repeat(40_000));
  const socket = await server.connection();
  socket.open();
  await settle();
  assert.deepEqual(socket.received.map((frame) => frame.op), ["AUTH", "PUBLISH"]);
  socket.ok(await socket.next("AUTH"));
  store(socket, await socket.next("PUBLISH"));
  await published;
  store(socket, await socket.next("PUBLISH"));
  await large;
  await hub.close();
});

test("a frame that the hub does not read rejects the publish that is too large, and only it (amqp-connection-manager#124)", async () => {
  const { hub, server, socket, platform } = await setUpConnected();
  const small = hub.publish("orders", 1);
  await socket.next("PUBLISH");
  const poison = hub.publish("orders", "x".repeat(300_000));
  await socket.next("PUBLISH");
  const last = hub.publish("orders", 3);
  await socket.next("PUBLISH");
  socket.cut(1009, "a frame has at most …");
  await assert.rejects(poison, (error: HubError) => error.code === "too_large" && error.id !== undefined);
  await platform.pass(100);
  const next = await server.accept();
  const frame = await next.next("PUBLISH");
  assert.deepEqual(eventsOf(frame).map((event) => event.payload), [1, 3]);
  store(next, frame);
  await Promise.all([small, last]);
  await hub.close();
});

test("a batch that is refused as a whole is tried event by event", async () => {
  const { hub, socket } = await setUpConnected();
  const one = hub.publish("orders", 1);
  const bad = hub.publish("orders", 2);
  socket.err(await socket.next("PUBLISH"), "bad_request");
  const first = await socket.next("PUBLISH");
  const second = await socket.next("PUBLISH");
  assert.equal(first["events"], undefined);
  store(socket, first);
  socket.err(second, "bad_request");
  await one;
  await assert.rejects(bad, { code: "bad_request" });
  await hub.close();
});

test("what is rate limited is sent again after the time that the hub names", async () => {
  const { hub, socket, platform } = await setUpConnected();
  const published = hub.publish("orders", 1);
  socket.err(await socket.next("PUBLISH"), "rate_limited", { retry_after_ms: 700 });
  const later = hub.publish("orders", 2);
  await platform.pass(699);
  await socket.silent("PUBLISH");
  await platform.pass(1);
  const frame = await socket.next("PUBLISH");
  assert.deepEqual(eventsOf(frame).map((event) => event.payload), [1, 2]);
  store(socket, frame);
  await Promise.all([published, later]);
  await hub.close();
});

test("a batch that does not fit the rate is sent in smaller ones", async () => {
  const { hub, socket, platform } = await setUpConnected();
  const all = Promise.all(Array.from({ length: 8 }, (_, n) => hub.publish("orders", n)));
  socket.err(await socket.next("PUBLISH"), "rate_limited", { retry_after_ms: 10 });
  await platform.pass(10);
  const sizes: number[] = [];
  for (let rest = 8; rest > 0; ) {
    const frame = await socket.next("PUBLISH");
    sizes.push(eventsOf(frame).length);
    rest -= eventsOf(frame).length;
    store(socket, frame);
  }
  await all;
  assert.deepEqual(sizes, [4, 4]);
  await hub.close();
});

test("under order key nothing overtakes a publish that the hub refuses for a while (rust-rdkafka#468)", async () => {
  const { hub, socket, platform } = await setUpConnected();
  const stored: unknown[] = [];
  const all: Promise<unknown>[] = [];
  for (let n = 1; n <= 3; n++) all.push(hub.publish("orders", `a${n}`, { key: "a", order: "key" }));
  const first = await socket.next("PUBLISH");
  assert.equal(first["ordered"], true);
  // While these are on their way no other of the key is sent; other keys are.
  all.push(hub.publish("orders", "a4", { key: "a", order: "key" }), hub.publish("orders", "b1", { key: "b", order: "key" }));
  const second = await socket.next("PUBLISH");
  assert.deepEqual(eventsOf(second).map((event) => event.payload), ["b1"]);
  store(socket, second);
  const [event] = eventsOf(first);
  socket.ok(first, {
    results: [
      { id: event?.opts.id, seq: 1, ts: 1, durable: "fsync" },
      { code: "rate_limited", msg: "wait", retry_after_ms: 50 },
      { code: "unavailable", msg: "an event before it was refused" },
    ],
  });
  await platform.pass(50);
  const third = await socket.next("PUBLISH");
  stored.push(...eventsOf(third).map((other) => other.payload));
  store(socket, third);
  await Promise.all(all);
  assert.deepEqual(stored, ["a2", "a3", "a4"]);
  await hub.close();
});

test("under order key a publish that is refused for good lets the next ones go on", async () => {
  const { hub, socket } = await setUpConnected();
  const one = hub.publish("orders", 1, { key: "a", order: "key" });
  const two = hub.publish("orders", 2, { key: "a", order: "key" });
  socket.ok(await socket.next("PUBLISH"), {
    results: [{ code: "schema_violation", msg: "no" }, { code: "unavailable", msg: "an event before it was refused" }],
  });
  await assert.rejects(one, { code: "schema_violation" });
  store(socket, await socket.next("PUBLISH"));
  await two;
  await hub.close();
});

test("a hub without ordered batches gets one publish of a key at a time", async () => {
  const { hub, socket } = await setUpConnected({}, { features: [] });
  const all = Promise.all([1, 2].map((n) => hub.publish("orders", n, { key: "a", order: "key" })));
  const first = await socket.next("PUBLISH");
  assert.deepEqual(eventsOf(first).map((event) => event.payload), [1]);
  await socket.silent("PUBLISH");
  store(socket, first);
  store(socket, await socket.next("PUBLISH"));
  await all;
  await hub.close();
});

test("order by key holds over a reconnect in which the first was stored and the answer was lost", async () => {
  const { hub, server, socket, platform } = await setUpConnected();
  const all = Promise.all([1, 2].map((n) => hub.publish("orders", n, { key: "a", order: "key" })));
  await socket.next("PUBLISH");
  const third = hub.publish("orders", 3, { key: "a", order: "key" });
  socket.cut();
  await platform.pass(100);
  const next = await server.accept();
  const frame = await next.next("PUBLISH");
  assert.deepEqual(eventsOf(frame).map((event) => event.payload), [1, 2, 3]);
  store(next, frame, { duplicate: true });
  await Promise.all([all, third]);
  await hub.close();
});

test("a publish that the store did not answer is sent again with its id", async () => {
  const { hub, socket, platform } = await setUpConnected();
  const published = hub.publish("orders", 1);
  const first = await socket.next("PUBLISH");
  socket.err(first, "unavailable", { id: eventsOf(first)[0]?.opts.id });
  await platform.pass(100);
  const second = await socket.next("PUBLISH");
  assert.deepEqual(eventsOf(second), [{ ...first, corr: second["corr"] }]);
  store(socket, second);
  await published;
  await hub.close();
});

test("a publish without an answer in time is unavailable, with its id", async () => {
  const { hub, socket, platform } = await setUpConnected({ publishTimeoutMs: 1_000 });
  const published = hub.publish("orders", 1, { id: uuid(1) });
  const failed = assert.rejects(published, (error: HubError) => error.code === "unavailable" && error.id === uuid(1));
  await socket.next("PUBLISH");
  await platform.pass(1_000);
  await failed;
  await hub.close();
});

test("a full queue is loud (reconnecting-websocket#147)", async () => {
  const { hub } = setUp({ pending: { events: 2, whenFull: "reject" } });
  const kept = [hub.publish("orders", 1), hub.publish("orders", 2)];
  await assert.rejects(hub.publish("orders", 3), (error: HubError) => {
    assert.equal(error.code, "queue_full");
    assert.match(error.message, /2 publishes .* at most 2 with 16777216 bytes may/);
    return true;
  });
  await hub.close({ timeoutMs: 0 });
  for (const publish of kept) await assert.rejects(publish, { code: "unavailable" });
});

test("bytes bound the queue, too, but one event always fits", async () => {
  const { hub, socket } = await setUpConnected({ pending: { bytes: 1_000, whenFull: "reject" } });
  const large = hub.publish("orders", "x".repeat(5_000));
  await assert.rejects(hub.publish("orders", 1), { code: "queue_full" });
  store(socket, await socket.next("PUBLISH"));
  await large;
  await hub.close();
});

test("what does not fit waits for room, in its order", async () => {
  const { hub, socket } = await setUpConnected({ pending: { events: 2 } });
  const all = Promise.all([1, 2, 3, 4, 5].map((n) => hub.publish("orders", n)));
  const seen: unknown[] = [];
  while (seen.length < 5) {
    const frame = await socket.next("PUBLISH");
    assert.ok(eventsOf(frame).length <= 2);
    seen.push(...eventsOf(frame).map((event) => event.payload));
    store(socket, frame);
  }
  await all;
  assert.deepEqual(seen, [1, 2, 3, 4, 5]);
  await hub.close();
});

test("no more than the window is on its way without an answer", async () => {
  const { hub, socket } = await setUpConnected({ pending: { events: 100_000 } });
  const all = Promise.all(Array.from({ length: 10_000 }, (_, n) => hub.publish("orders", n)));
  await settle();
  const frames = socket.received.filter((frame) => frame.op === "PUBLISH");
  assert.equal(frames.reduce((sum, frame) => sum + eventsOf(frame).length, 0), 4096);
  assert.ok(frames.every((frame) => eventsOf(frame).length <= 256));
  socket.answerBy((frame) => frame.op === "PUBLISH" && store(socket, frame));
  for (const frame of frames) store(socket, frame);
  await all;
  await hub.close();
});

test("a signal gives up a publish, sent or not", async () => {
  const { hub, socket } = await setUpConnected();
  const controller = new AbortController();
  const sent = hub.publish("orders", 1, { signal: controller.signal });
  const frame = await socket.next("PUBLISH");
  const unsent = hub.publish("orders", 2, { signal: controller.signal });
  controller.abort(new Error("enough"));
  await assert.rejects(sent, /enough/);
  await assert.rejects(unsent, /enough/);
  store(socket, frame);
  await socket.silent("PUBLISH");
  await assert.rejects(hub.publish("orders", 3, { signal: controller.signal }), /enough/);
  await hub.close();
});

test("require fsync rejects a receipt that promises less, and carries it", async () => {
  const { hub, socket } = await setUpConnected();
  for (const durable of ["fsync", "majority"]) {
    const published = hub.publish("orders", 1, { require: "fsync" });
    store(socket, await socket.next("PUBLISH"), { durable });
    assert.equal((await published).durable, durable);
  }
  for (const durable of ["memory", "interval"] as const) {
    const published = hub.publish("orders", 1, { require: "fsync" });
    store(socket, await socket.next("PUBLISH"), { durable });
    await assert.rejects(published, (error: HubError) => error.code === "not_durable" && error.receipt?.durable === durable && error.id === error.receipt.id);
  }
  await hub.close();
});

test("what JSON cannot say is refused before it is sent", async () => {
  const { hub, socket } = await setUpConnected();
  const cycle: Record<string, unknown> = {};
  cycle["self"] = cycle;
  await assert.rejects(hub.publish("orders", undefined), /bad_request: a payload of type undefined; JSON is allowed, null to delete a key/);
  await assert.rejects(hub.publish("orders", 1n), /bad_request: the payload cannot be written as JSON: TypeError/);
  await assert.rejects(hub.publish("orders", cycle), { code: "bad_request" });
  await socket.silent("PUBLISH");
  await hub.close();
});

test("errors that only the caller can mend are not tried again", async () => {
  const { hub, socket } = await setUpConnected();
  for (const code of ["forbidden", "id_conflict", "schema_violation", "quota_exceeded", "too_large", "internal"]) {
    const published = hub.publish("orders", 1);
    socket.err(await socket.next("PUBLISH"), code);
    await assert.rejects(published, { code });
  }
  await socket.silent("PUBLISH");
  await hub.close();
});

test("a publish that is given up during an outage is not kept", async () => {
  const { hub, server, platform } = setUp({ publishTimeoutMs: 10_000 });
  const give = (signal?: AbortSignal): { ref: WeakRef<object>; done: Promise<unknown> } => {
    const options = { ...(signal && { signal }) };
    return { ref: new WeakRef(options), done: hub.publish("orders", 1, options).catch(() => undefined) };
  };
  const kept = hub.publish("orders", 0).catch((error: unknown) => error);
  const controller = new AbortController();
  const aborted = give(controller.signal);
  await server.connection();
  controller.abort();
  await aborted.done;
  await settle();
  assert.equal(await isKept(aborted.ref), false, "aborted");
  const late = give();
  await platform.pass(10_000);
  await Promise.all([late.done, kept]);
  assert.equal(await isKept(late.ref), false, "timed out");
  await hub.close({ timeoutMs: 0 });
});

test("1009 rejects the publish with the most bytes, not the one with the most characters", async () => {
  const { hub, socket, server, platform } = await setUpConnected();
  // Characters of one byte, and fewer of three bytes.
  const allowed = hub.publish("orders", "a".repeat(900_000));
  const poison = hub.publish("orders", "€".repeat(500_000));
  const rejected = assert.rejects(poison, { code: "too_large" });
  await socket.next("PUBLISH");
  await socket.next("PUBLISH");
  socket.cut(1009, "a frame has at most …");
  await platform.pass(100);
  const next = await server.accept();
  store(next, await next.next("PUBLISH"));
  await allowed;
  await rejected;
  await hub.close();
});

test("under Node one signal may be for many publishes and subscriptions without a warning of a leak", async () => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning);
  process.on("warning", onWarning);
  const server = new MemoryHub();
  const hub = new PromClient({ urls: [server.url], token: server.token(), webSocket: server.webSocket, on: { log: () => undefined } });
  const controller = new AbortController();
  const { signal } = controller;
  // Before the connection is there, and after.
  for (const round of [1, 2]) {
    const topics = Array.from({ length: 20 }, (_, n) => `t${round}-${n}`);
    await Promise.all(topics.map((topic) => hub.publish(topic, 1, { signal })));
    await Promise.all(topics.map((topic) => hub.subscribe(topic, "g", () => undefined, { signal })));
    for (const topic of topics) {
      void hub.consume(topic, "loop", { signal }).next();
      hub.watch(topic, () => undefined, { signal });
    }
  }
  await settle();
  controller.abort();
  await hub.close();
  process.off("warning", onWarning);
  assert.deepEqual(warnings, []);
});
