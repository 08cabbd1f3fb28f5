import assert from "node:assert/strict";
import { test } from "node:test";
import type { Context, SubscribeOptions } from "../../src/consume/types.ts";
import type { EventRecord } from "../../src/types.ts";
import { deferred, setUp, setUpConnected, type Setup, inState } from "../support/client.ts";
import { settle } from "../support/clock.ts";
import { eventFrame, type FakeSocket, type Frame, uuid } from "../support/server.ts";

interface Running {
  readonly event: EventRecord;
  readonly ctx: Context;
  readonly finish: () => void;
  readonly fail: (error: Error) => void;
}

/** A subscription whose handlers end when the test says so. */
async function consuming(options: SubscribeOptions = {}): Promise<Setup & { socket: FakeSocket; request: Frame; runs: Running[] }> {
  const setup = await setUpConnected();
  const runs: Running[] = [];
  const subscribed = setup.hub.subscribe(
    "orders",
    "g",
    (event, ctx) => {
      const { promise, resolve, reject } = deferred();
      runs.push({ event, ctx, finish: resolve, fail: reject });
      return promise;
    },
    options,
  );
  const request = await setup.socket.next("SUBSCRIBE");
  setup.socket.ok(request);
  await subscribed;
  return { ...setup, request, runs };
}

function deliver(socket: FakeSocket, n: number, ctx: object = {}): void {
  socket.say(eventFrame("orders", "g", { id: uuid(n), seq: n }, ctx));
}

function opts(frame: Frame): { member: string; held?: string[] } {
  return frame["opts"] as { member: string; held?: string[] };
}

test("a consumer that comes back is the same member, and names what it still works on", async () => {
  const { hub, server, socket, platform, request, runs } = await consuming({ concurrency: 1 });
  deliver(socket, 1);
  deliver(socket, 2);
  await settle();
  socket.cut();
  await platform.pass(1_000);
  const next = await server.connection();
  next.open();
  // Together with AUTH: no round trip is lost.
  const again = await next.next("SUBSCRIBE");
  assert.equal(opts(again).member, opts(request).member);
  assert.deepEqual(opts(again).held, [uuid(1), uuid(2)]);
  next.ok(await Promise.resolve(next.received[0] as Frame));
  next.ok(again, { held: [uuid(1), uuid(2)] });
  runs[0]?.finish();
  const ack = await next.next("ACK");
  // The hub may have delivered it once more, over the connection that was lost.
  assert.deepEqual([ack["ids"], ack["attempt"]], [[uuid(1)], undefined]);
  await settle();
  assert.equal(runs.length, 2, "what waited is run, once");
  await platform.pass(20_000);
  assert.equal(runs[1]?.ctx.signal.aborted, false, "what is held goes on");
  await hub.close({ timeoutMs: 0 });
});

test("an ack that was not sent is sent over the next connection (amqp-connection-manager#142, #297, #362)", async () => {
  const { hub, server, socket, platform, runs } = await consuming();
  deliver(socket, 1);
  await settle();
  socket.cut();
  runs[0]?.finish();
  await settle();
  await platform.pass(1_000);
  const next = await server.accept();
  const again = await next.next("SUBSCRIBE");
  assert.deepEqual(opts(again).held, [uuid(1)], "what is not named would go to somebody else");
  next.ok(again, { held: [uuid(1)] });
  assert.deepEqual((await next.next("ACK"))["ids"], [uuid(1)]);
  await hub.close({ timeoutMs: 0 });
});

test("an ack that was sent and not confirmed is sent again, and never over a connection without the subscription", async () => {
  const { hub, server, socket, platform, runs } = await consuming();
  deliver(socket, 1);
  await settle();
  runs[0]?.finish();
  await socket.next("ACK");
  socket.cut();
  await platform.pass(1_000);
  const next = await server.accept();
  next.ok(await next.next("SUBSCRIBE"), { held: [uuid(1)] });
  next.ok(await next.next("ACK"), { acked: 1, unknown: [] });
  await settle();
  next.cut();
  await platform.pass(1_000);
  const third = await server.accept();
  assert.deepEqual(third.received.map((frame) => frame.op), ["AUTH", "SUBSCRIBE"], "the hub has answered; nothing is left to say");
  await hub.close({ timeoutMs: 0 });
});

test("an event that comes again while its handler runs is the handler's, under the new attempt", async () => {
  const { hub, server, socket, platform, runs } = await consuming();
  deliver(socket, 1);
  await settle();
  socket.cut();
  await platform.pass(1_000);
  const next = await server.accept();
  // The hub was restarted: it has forgotten all leases.
  next.ok(await next.next("SUBSCRIBE"), { held: [] });
  deliver(next, 1, { attempt: 2 });
  await settle();
  assert.equal(runs.length, 1);
  assert.equal(runs[0]?.ctx.attempt, 2);
  await platform.pass(20_000);
  assert.equal(runs[0]?.ctx.signal.aborted, false);
  runs[0]?.finish();
  const ack = await next.next("ACK");
  assert.deepEqual([ack["ids"], ack["attempt"]], [[uuid(1)], 2]);
  await hub.close({ timeoutMs: 0 });
});

test("an event that does not come again in time aborts the signal of its handler", async () => {
  const { hub, server, socket, platform, runs } = await consuming();
  deliver(socket, 1);
  await settle();
  const signal = runs[0]?.ctx.signal;
  socket.cut();
  await platform.pass(1_000);
  const next = await server.accept();
  next.ok(await next.next("SUBSCRIBE"), { held: [] });
  await platform.pass(9_999);
  assert.equal(signal?.aborted, false);
  await platform.pass(1);
  assert.equal(signal?.aborted, true);
  await hub.close({ timeoutMs: 0 });
});

test("a connection that stays away for longer than the grace aborts the handlers, and drops what waits", async () => {
  const { hub, server, socket, platform, runs } = await consuming({ concurrency: 1 });
  deliver(socket, 1);
  deliver(socket, 2);
  await settle();
  const signal = runs[0]?.ctx.signal;
  socket.cut();
  for (let second = 0; second < 9; second++) {
    await platform.pass(1_000);
    for (const other of server.sockets) if (!other.isClosed) other.fail("refused");
  }
  assert.equal(signal?.aborted, false);
  await platform.pass(1_000);
  assert.equal(signal?.aborted, true);
  runs[0]?.finish();
  await settle();
  assert.equal(runs.length, 1, "what waited may be with somebody else by now");
  await hub.close({ timeoutMs: 0 });
});

test("a delivery that waited and is not held any more is not run", async () => {
  const { hub, server, socket, platform, runs } = await consuming({ concurrency: 1 });
  deliver(socket, 1);
  deliver(socket, 2);
  await settle();
  socket.cut();
  await platform.pass(1_000);
  const next = await server.accept();
  next.ok(await next.next("SUBSCRIBE"), { held: [uuid(1)] });
  runs[0]?.finish();
  await settle();
  assert.equal(runs.length, 1);
  // It comes again, and then it is.
  deliver(next, 2, { attempt: 2 });
  await settle();
  assert.equal(runs.length, 2);
  await hub.close({ timeoutMs: 0 });
});

test("an event that was handled a short while ago is acked and not run again", async () => {
  const { hub, server, socket, platform, runs } = await consuming();
  deliver(socket, 1);
  await settle();
  runs[0]?.finish();
  socket.ok(await socket.next("ACK"), { acked: 1, unknown: [] });
  socket.cut();
  await platform.pass(1_000);
  const next = await server.accept();
  next.ok(await next.next("SUBSCRIBE"), { held: [] });
  // A hub that was killed may have lost the ack.
  deliver(next, 1, { attempt: 2 });
  const ack = await next.next("ACK");
  assert.deepEqual([ack["ids"], ack["attempt"]], [[uuid(1)], 2]);
  assert.equal(runs.length, 1);
  // A seek means it: the epoch is higher.
  next.ok(ack, { acked: 1, unknown: [] });
  deliver(next, 1, { attempt: 1, epoch: 1 });
  await settle();
  assert.equal(runs.length, 2);
  await hub.close({ timeoutMs: 0 });
});

test("an id is forgotten after a while", async () => {
  const { hub, socket, platform, runs } = await consuming();
  deliver(socket, 1);
  await settle();
  runs[0]?.finish();
  socket.ok(await socket.next("ACK"), { acked: 1, unknown: [] });
  socket.answerBy((frame) => frame.op === "PING" && socket.ok(frame));
  await platform.pass(59_000);
  deliver(socket, 1, { attempt: 2 });
  socket.ok(await socket.next("ACK"), { acked: 1, unknown: [] });
  assert.equal(runs.length, 1);
  await platform.pass(200_000);
  deliver(socket, 1, { attempt: 3 });
  await settle();
  assert.equal(runs.length, 2);
  await hub.close({ timeoutMs: 0 });
});

test("an event that failed is run again, also if the nack was not confirmed", async () => {
  const { hub, socket, runs } = await consuming();
  deliver(socket, 1);
  await settle();
  runs[0]?.fail(new Error("no"));
  await socket.next("NACK");
  deliver(socket, 1, { attempt: 2 });
  await settle();
  assert.equal(runs.length, 2);
  await hub.close({ timeoutMs: 0 });
});

test("a nack that was not confirmed is sent again, with its delay", async () => {
  const { hub, server, socket, platform, runs } = await consuming();
  deliver(socket, 1);
  await settle();
  runs[0]?.fail(new Error("no"));
  await socket.next("NACK");
  socket.cut();
  await platform.pass(1_000);
  const next = await server.accept();
  const again = await next.next("SUBSCRIBE");
  assert.deepEqual(opts(again).held, [uuid(1)]);
  next.ok(again, { held: [uuid(1)] });
  await settle();
  assert.equal((await next.next("NACK"))["reason"], "no");
  await hub.close({ timeoutMs: 0 });
});

test("a late ack does not settle a later delivery: it names its attempt", async () => {
  const { hub, socket, runs } = await consuming();
  deliver(socket, 1, { attempt: 3 });
  await settle();
  runs[0]?.finish();
  assert.equal((await socket.next("ACK"))["attempt"], 3);
  await hub.close({ timeoutMs: 0 });
});

test("extend waits for the connection, and then puts the deadline off", async () => {
  const { hub, server, socket, platform, runs } = await consuming();
  deliver(socket, 1);
  await settle();
  socket.cut();
  const extended = runs[0]?.ctx.extend(120_000);
  await platform.pass(1_000);
  const next = await server.accept();
  next.answerBy((frame) => frame.op === "MODACK" && next.ok(frame, { ack_deadline_ms: frame["extend_ms"] }));
  next.ok(await next.next("SUBSCRIBE"), { held: [uuid(1)] });
  assert.equal(await extended, 120_000);
  await hub.close({ timeoutMs: 0 });
});

test("extend of a lease that is lost says so", async () => {
  const { hub, server, socket, platform, runs } = await consuming();
  deliver(socket, 1);
  await settle();
  socket.cut();
  const extended = assert.rejects(runs[0]?.ctx.extend(120_000) as Promise<number>, { code: "lease_lost" });
  await platform.pass(1_000);
  const next = await server.accept();
  next.ok(await next.next("SUBSCRIBE"), { held: [] });
  await platform.pass(10_000);
  next.ok(await next.next("MODACK"), { ack_deadline_ms: 0, unknown: [uuid(1)] });
  await extended;
  await hub.close({ timeoutMs: 0 });
});

test("a pause holds over a reconnect", async () => {
  const { hub, server, socket, platform } = await consuming();
  hub.pause("orders", "g");
  await socket.next("PAUSE");
  socket.cut();
  await platform.pass(1_000);
  const next = await server.accept();
  assert.deepEqual(next.received.map((frame) => frame.op), ["AUTH", "SUBSCRIBE", "PAUSE"]);
  await hub.close({ timeoutMs: 0 });
});

test("a subscription that is refused after a reconnect ends alone", async () => {
  const { hub, server, socket, platform } = await consuming();
  const watcher = hub.watch("news", () => undefined);
  socket.cut();
  await platform.pass(1_000);
  const next = await server.accept();
  next.err(await next.next("SUBSCRIBE"), "forbidden");
  next.ok(await next.next("SUBSCRIBE"));
  await assert.doesNotReject(watcher.opened);
  inState(hub, "ready");
  await assert.rejects(hub.modAck("orders", "g", uuid(1), 1), { code: "not_subscribed" });
  await hub.close({ timeoutMs: 0 });
});

test("subscribe during the fetch of a token subscribes once (centrifuge-js#265, #303)", async () => {
  const gate = deferred<string>();
  const { hub, server } = setUp({ token: () => gate.promise });
  const subscribed = hub.subscribe("orders", "g", () => undefined);
  await settle();
  gate.resolve("t");
  const socket = await server.accept();
  socket.ok(await socket.next("SUBSCRIBE"));
  await subscribed;
  await socket.silent("SUBSCRIBE");
  await hub.close({ timeoutMs: 0 });
});

test("a page that is hidden puts deadlines off for longer than its timers sleep, also those of what comes later", async () => {
  const { hub, socket, platform } = await consuming();
  deliver(socket, 1);
  await settle();
  platform.tell("hidden");
  const first = await socket.next("MODACK");
  assert.deepEqual([first["ids"], first["extend_ms"]], [[uuid(1)], 300_000]);
  socket.ok(first, { ack_deadline_ms: 300_000 });
  deliver(socket, 2);
  const second = await socket.next("MODACK");
  assert.deepEqual([second["ids"], second["extend_ms"]], [[uuid(2)], 300_000]);
  await hub.close({ timeoutMs: 0 });
});

test("a frozen page tells its handlers that their events are somebody else's", async () => {
  const { hub, server, socket, platform, runs } = await consuming();
  deliver(socket, 1);
  await settle();
  const signal = runs[0]?.ctx.signal;
  platform.tell("suspend");
  await socket.next("UNSUBSCRIBE");
  assert.equal(signal?.aborted, true);
  platform.tell("wake");
  const next = await server.accept();
  assert.equal(opts(await next.next("SUBSCRIBE")).held, undefined);
  await hub.close({ timeoutMs: 0 });
});

test("a SUBSCRIBE names at most 10,000 events, first those that are nearest to their end; the handlers of the others are told", async () => {
  const { hub, server, socket, platform, runs } = await consuming({ concurrency: 10_001, maxInFlight: 100_000 });
  const events = Array.from({ length: 10_010 }, (_, n) => {
    const { event, ctx } = eventFrame("orders", "g", { id: uuid(n), seq: n + 1 });
    return { event, ctx };
  });
  socket.say({ op: "EVENTS", topic: "orders", group: "g", events });
  await settle();
  assert.equal(runs.length, 10_001);
  runs[10_000]?.finish();
  await settle();
  const signals = runs.map(({ ctx }) => ctx.signal);
  socket.cut();
  await platform.pass(1_000);
  const next = await server.accept();
  const { held = [] } = opts(await next.next("SUBSCRIBE"));
  assert.equal(held.length, 10_000);
  assert.deepEqual(held.sort(), [...Array.from({ length: 9_999 }, (_, n) => uuid(n)), uuid(10_000)], "the last one is done but for its ack");
  const told = signals.flatMap((signal, n) => (signal.aborted ? [n] : []));
  assert.deepEqual(told, [9_999, 10_001]);
  await hub.close({ timeoutMs: 0 });
});

test("extend rejects with the hub's refusal", async () => {
  const { hub, socket, runs } = await consuming();
  deliver(socket, 1);
  await settle();
  const extended = assert.rejects(runs[0]?.ctx.extend(13 * 3_600_000) as Promise<number>, { code: "bad_request" });
  socket.err(await socket.next("MODACK"), "bad_request");
  await extended;
  const refused = assert.rejects(hub.modAck("orders", "g", uuid(1), 13 * 3_600_000), { code: "bad_request" });
  socket.err(await socket.next("MODACK"), "bad_request");
  await refused;
  await hub.close({ timeoutMs: 0 });
});

test("extend rejects when the subscription ends while there is no connection", async () => {
  const { hub, socket, runs } = await consuming();
  deliver(socket, 1);
  await settle();
  socket.cut();
  const extended = assert.rejects(runs[0]?.ctx.extend(60_000) as Promise<number>, { code: "closed" });
  await hub.close({ timeoutMs: 0 });
  await extended;
});

test("a page that is hidden from the start puts deadlines off, too", async () => {
  const { hub, server, platform } = setUp();
  platform.isHidden = true;
  const subscribed = hub.subscribe("orders", "g", () => new Promise(() => undefined));
  const socket = await server.accept();
  socket.ok(await socket.next("SUBSCRIBE"));
  await subscribed;
  deliver(socket, 1);
  assert.equal((await socket.next("MODACK"))["extend_ms"], 300_000);
  platform.tell("visible");
  deliver(socket, 2);
  await socket.silent("MODACK");
  await hub.close({ timeoutMs: 0 });
});
