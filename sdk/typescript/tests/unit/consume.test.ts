import assert from "node:assert/strict";
import { test } from "node:test";
import type { Context } from "../../src/consume/types.ts";
import type { HubError } from "../../src/errors.ts";
import { Retry, Return } from "../../src/consume/outcome.ts";
import type { SubscribeOptions, Subscription } from "../../src/consume/types.ts";
import type { EventRecord } from "../../src/types.ts";
import { uuid5 } from "../../src/consume/uuid5.ts";
import { deferred, setUpConnected, stateOf, type Setup } from "../support/client.ts";
import { settle } from "../support/clock.ts";
import { isKept } from "../support/garbage.ts";
import { eventFrame, type FakeSocket, type Frame, uuid } from "../support/server.ts";

interface Consuming extends Setup {
  readonly socket: FakeSocket;
  readonly subscription: Subscription;
  readonly request: Frame;
}

type Handle = (event: EventRecord, ctx: Context) => unknown;

async function consuming(handle: Handle, options: SubscribeOptions = {}, auth: object = {}): Promise<Consuming> {
  const setup = await setUpConnected({}, auth);
  const subscribed = setup.hub.subscribe("orders", "g", handle, options);
  const request = await setup.socket.next("SUBSCRIBE");
  setup.socket.ok(request);
  return { ...setup, subscription: await subscribed, request };
}

function deliver(socket: FakeSocket, n: number, event: object = {}, ctx: object = {}): void {
  socket.say(eventFrame("orders", "g", { id: uuid(n), seq: n, ...event }, ctx));
}

/** Answers what settles events as a hub does. */
function confirm(socket: FakeSocket): void {
  socket.answerBy((frame) => {
    if (frame.op === "ACK") socket.ok(frame, { acked: (frame["ids"] as string[]).length, unknown: [] });
    if (frame.op === "RETURN") socket.ok(frame, { returned: (frame["ids"] as string[]).length, unknown: [] });
    if (frame.op === "NACK") socket.ok(frame, { id: frame["id"] });
    if (frame.op === "MODACK") socket.ok(frame, { ack_deadline_ms: frame["extend_ms"] });
    if (frame.op === "PAUSE" || frame.op === "RESUME" || frame.op === "UNSUBSCRIBE") socket.ok(frame);
  });
}

test("a subscription asks for what it can handle, with a member of its own", async () => {
  const options = { concurrency: 2, from: { ts: 5 }, ordering: "key", maxAttempts: 3, filter: { tags: ["a"] }, ackTimeoutMs: 9_000 } as const;
  const { hub, request } = await consuming(() => undefined, options);
  const { member, ...opts } = request["opts"] as Record<string, unknown>;
  assert.match(String(member), /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.deepEqual(opts, {
    from: "ts",
    ts: 5,
    filter: { tags: ["a"] },
    ordering: "key",
    maxAttempts: 3,
    batch: true,
    batchSize: 8,
    maxInFlight: 8,
    ackTimeoutMs: 9_000,
  });
  await hub.close({ timeoutMs: 0 });
});

test("a handler that returns acks; the acks of a turn go in one frame", async () => {
  const { hub, socket } = await consuming(() => undefined);
  const events = [1, 2, 3].map((n) => {
    const { event, ctx } = eventFrame("orders", "g", { id: uuid(n) });
    return { event, ctx };
  });
  socket.say({ op: "EVENTS", topic: "orders", group: "g", events });
  const ack = await socket.next("ACK");
  assert.deepEqual({ ...ack, corr: "" }, { corr: "", op: "ACK", topic: "orders", group: "g", attempt: 1, ids: [uuid(1), uuid(2), uuid(3)] });
  assert.notEqual(ack["corr"], undefined, "an answer is asked for: only then the ack is known to have arrived");
  await hub.close({ timeoutMs: 0 });
});

test("acks of different attempts go in different frames: each names its attempt", async () => {
  const { hub, socket } = await consuming(() => undefined);
  deliver(socket, 1, {}, { attempt: 1 });
  deliver(socket, 2, {}, { attempt: 4 });
  const frames = [await socket.next("ACK"), await socket.next("ACK")];
  assert.deepEqual(frames.map(({ attempt, ids }) => ({ attempt, ids })), [
    { attempt: 1, ids: [uuid(1)] },
    { attempt: 4, ids: [uuid(2)] },
  ]);
  await hub.close({ timeoutMs: 0 });
});

test("what a handler throws or returns says how the event goes back", async () => {
  const outcomes: (() => unknown)[] = [
    () => {
      throw new Error("no stock");
    },
    () => Promise.reject(new Error("later")),
    () => {
      throw new Retry({ delayMs: 500, reason: "again" });
    },
    () => new Retry({ delayMs: 7 }),
    () => {
      throw new Return({ delayMs: 900 });
    },
    () => Promise.resolve(new Return()),
    () => {
      // eslint-disable-next-line @typescript-eslint/only-throw-error -- programs do this
      throw "a text";
    },
    () => {
      throw new Error("x".repeat(5_000));
    },
  ];
  const { hub, socket, logs } = await consuming((event) => outcomes[event.seq - 1]?.());
  const seen: Record<string, unknown>[] = [];
  for (let n = 1; n <= outcomes.length; n++) {
    deliver(socket, n);
    const { corr: _, topic: __, group: ___, attempt: ____, ...rest } = await socket.next();
    seen.push(rest);
  }
  assert.deepEqual(seen, [
    { op: "NACK", id: uuid(1), reason: "no stock" },
    { op: "NACK", id: uuid(2), reason: "later" },
    { op: "NACK", id: uuid(3), reason: "again", delay_ms: 500 },
    { op: "NACK", id: uuid(4), reason: "retry", delay_ms: 7 },
    { op: "RETURN", ids: [uuid(5)], delay_ms: 900 },
    { op: "RETURN", ids: [uuid(6)] },
    { op: "NACK", id: uuid(7), reason: "a text" },
    { op: "NACK", id: uuid(8), reason: "x".repeat(1024) },
  ]);
  assert.equal(logs.filter((log) => log.message === "handler failed").length, 6);
  await hub.close({ timeoutMs: 0 });
});

test("a hub that cannot take an event back without a failure gets a nack", async () => {
  const { hub, socket } = await consuming(() => new Return({ delayMs: 5 }), {}, { features: [] });
  deliver(socket, 1);
  const nack = await socket.next("NACK");
  assert.deepEqual([nack["id"], nack["delay_ms"]], [uuid(1), 5]);
  await hub.close({ timeoutMs: 0 });
});

test("no more handlers run at once than concurrency allows", async () => {
  let running = 0;
  let most = 0;
  const gates = Array.from({ length: 5 }, () => deferred());
  const { hub, socket } = await consuming(
    async (event) => {
      most = Math.max(most, ++running);
      await gates[event.seq - 1]?.promise;
      running--;
    },
    { concurrency: 2 },
  );
  for (let n = 1; n <= 5; n++) deliver(socket, n);
  await settle();
  assert.equal(running, 2);
  for (const gate of gates) {
    gate.resolve();
    await settle();
  }
  assert.equal(most, 2);
  assert.equal(running, 0);
  await hub.close({ timeoutMs: 0 });
});

test("under ordering key the deliveries of a key run one after the other", async () => {
  const running = new Set<string>();
  const order: string[] = [];
  const gates = new Map([1, 2, 3].map((n) => [uuid(n), deferred()]));
  const { hub, socket } = await consuming(
    async (event) => {
      assert.ok(!running.has(event.key ?? ""), "two handlers of one key at once");
      running.add(event.key ?? "");
      order.push(event.id);
      await gates.get(event.id)?.promise;
      running.delete(event.key ?? "");
    },
    { ordering: "key" },
  );
  deliver(socket, 1, { key: "a" });
  deliver(socket, 2, { key: "a" });
  deliver(socket, 3, { key: "b" });
  await settle();
  assert.deepEqual(order, [uuid(1), uuid(3)]);
  gates.get(uuid(1))?.resolve();
  await settle();
  assert.deepEqual(order, [uuid(1), uuid(3), uuid(2)]);
  for (const gate of gates.values()) gate.resolve();
  await hub.close({ timeoutMs: 0 });
});

test("what runs and what waits gets more time, in one frame, until upToMs", async () => {
  const { hub, socket, platform } = await consuming(() => new Promise(() => undefined), { concurrency: 1, autoExtend: { upToMs: 50_000 } });
  confirm(socket);
  deliver(socket, 1);
  deliver(socket, 2);
  await platform.pass(10_000);
  const first = await socket.next("MODACK");
  assert.deepEqual([first["ids"], first["extend_ms"]], [[uuid(1), uuid(2)], 30_000]);
  await platform.pass(10_000);
  await socket.next("MODACK");
  await platform.pass(30_000);
  const sent = socket.received.filter((frame) => frame.op === "MODACK").length;
  await platform.pass(100_000);
  assert.equal(socket.received.filter((frame) => frame.op === "MODACK").length, sent, "after upToMs nothing is extended");
  await hub.close({ timeoutMs: 0 });
});

test("a delivery whose time is up before a handler is free is not run (nats.go#1929)", async () => {
  const seen: number[] = [];
  const gate = deferred();
  const { hub, socket, platform } = await consuming(
    (event) => {
      seen.push(event.seq);
      return event.seq === 1 ? gate.promise : undefined;
    },
    { concurrency: 1, autoExtend: false },
  );
  confirm(socket);
  deliver(socket, 1);
  deliver(socket, 2, {}, { ack_deadline_ms: 5_000 });
  deliver(socket, 3);
  await platform.pass(6_000);
  gate.resolve();
  await settle();
  assert.deepEqual(seen, [1, 3]);
  await hub.close({ timeoutMs: 0 });
});

test("a handler whose time is up is told by its signal, and its ack is sent all the same", async () => {
  const gate = deferred();
  let signal: AbortSignal | undefined;
  const { hub, socket, platform } = await consuming(
    (_, ctx) => {
      signal = ctx.signal;
      return gate.promise;
    },
    { autoExtend: false },
  );
  socket.answerBy((frame) => frame.op === "PING" && socket.ok(frame));
  deliver(socket, 1);
  await platform.pass(29_999);
  assert.equal(signal?.aborted, false);
  await platform.pass(1);
  assert.ok(signal.aborted);
  assert.equal((signal.reason as HubError).code, "lease_lost");
  gate.resolve();
  assert.deepEqual((await socket.next("ACK"))["ids"], [uuid(1)]);
  await hub.close({ timeoutMs: 0 });
});

test("a lease that the hub does not know any more aborts the signal", async () => {
  let signal: AbortSignal | undefined;
  const { hub, socket, platform } = await consuming((_, ctx) => {
    signal = ctx.signal;
    return new Promise(() => undefined);
  });
  deliver(socket, 1);
  await platform.pass(10_000);
  const modack = await socket.next("MODACK");
  socket.ok(modack, { ack_deadline_ms: 0, unknown: [uuid(1)] });
  assert.ok(signal?.aborted);
  await hub.close({ timeoutMs: 0 });
});

test("the context says what the hub said, and extends", async () => {
  let ctx: Context | undefined;
  const { hub, socket, platform } = await consuming((_, given) => {
    ctx = given;
    return new Promise(() => undefined);
  });
  confirm(socket);
  deliver(socket, 1, {}, { attempt: 2, maxAttempts: 7, epoch: 3 });
  await settle();
  assert.ok(ctx !== undefined);
  const { attempt, maxAttempts, epoch, group, topic, ack_deadline_ms } = ctx;
  assert.deepEqual({ attempt, maxAttempts, epoch, group, topic, ack_deadline_ms }, { attempt: 2, maxAttempts: 7, epoch: 3, group: "g", topic: "orders", ack_deadline_ms: 30_000 });
  assert.equal(ctx.deadline, platform.wall() + 30_000);
  assert.equal(await ctx.extend(60_000), 60_000);
  assert.equal(ctx.deadline, platform.wall() + 60_000);
  assert.equal(await hub.modAck("orders", "g", uuid(1), 90_000), 90_000);
  await assert.rejects(hub.modAck("orders", "g", [uuid(2)], 90_000), { code: "unknown_id" });
  await assert.rejects(hub.modAck("orders", "other", uuid(1), 90_000), { code: "not_subscribed" });
  await hub.close({ timeoutMs: 0 });
});

test("what a handler publishes has ids that are the same however often it runs", async () => {
  const { hub, socket } = await consuming(async (_, ctx) => {
    await Promise.all([ctx.publish("mail.due", 1), ctx.publish("mail.due", 2, { key: "k" })]);
  });
  const runs: unknown[][] = [];
  for (const attempt of [1, 2]) {
    deliver(socket, 1, {}, { attempt });
    const publish = await socket.next("PUBLISH");
    const events = publish["events"] as { opts: { id: string; key?: string; caused_by: string[] } }[];
    runs.push(events.map((event) => event.opts));
    socket.ok(publish, { results: events.map(() => ({ code: "forbidden", msg: "no" })) });
    await socket.next("NACK");
  }
  assert.deepEqual(runs[0], runs[1]);
  const name = (n: number): string => uuid5("6c1f0a52-7d3e-5b9a-8f46-2e0d9c7b1a35", JSON.stringify(["g", "orders", uuid(1), n]));
  assert.deepEqual(runs[0], [
    { id: name(0), caused_by: [uuid(1)] },
    { id: name(1), key: "k", caused_by: [uuid(1)] },
  ]);
  await hub.close({ timeoutMs: 0 });
});

test("a pause starts nothing more and gives back what waits, and a resume goes on", async () => {
  const gate = deferred();
  const seen: number[] = [];
  const { hub, socket } = await consuming(
    async (event) => {
      seen.push(event.seq);
      await gate.promise;
    },
    { concurrency: 1 },
  );
  confirm(socket);
  deliver(socket, 1);
  deliver(socket, 2);
  hub.pause("orders", "g");
  await socket.next("PAUSE");
  assert.deepEqual((await socket.next("RETURN"))["ids"], [uuid(2)], "another member would wait for it");
  // Came before the hub knew of the pause.
  deliver(socket, 3);
  assert.deepEqual((await socket.next("RETURN"))["ids"], [uuid(3)]);
  gate.resolve();
  await socket.next("ACK");
  hub.resume("orders", "g");
  await socket.next("RESUME");
  await settle();
  assert.deepEqual(seen, [1]);
  deliver(socket, 2, {}, { attempt: 2 });
  await settle();
  assert.deepEqual(seen, [1, 2]);
  assert.throws(() => hub.pause("orders", "other"), { code: "not_subscribed" });
  await hub.close({ timeoutMs: 0 });
});

test("what waits in a pause without a connection goes back with the next one", async () => {
  const gate = deferred();
  const seen: number[] = [];
  const { hub, server, socket, platform } = await consuming(
    async (event) => {
      seen.push(event.seq);
      await gate.promise;
    },
    { concurrency: 1 },
  );
  deliver(socket, 1);
  deliver(socket, 2);
  await settle();
  socket.cut();
  hub.pause("orders", "g");
  await platform.pass(1_000);
  const next = await server.accept();
  const again = await next.next("SUBSCRIBE");
  assert.deepEqual((again["opts"] as { held: unknown }).held, [uuid(1)]);
  next.ok(again, { held: [uuid(1)] });
  gate.resolve();
  assert.deepEqual((await next.next("ACK"))["ids"], [uuid(1)]);
  hub.resume("orders", "g");
  await settle();
  assert.deepEqual(seen, [1], "the other one is not held here any more");
  await hub.close({ timeoutMs: 0 });
});

test("a hub that cannot take events back gets none in a pause", async () => {
  const seen: number[] = [];
  const { hub, socket } = await consuming((event) => void seen.push(event.seq), {}, { features: [] });
  hub.pause("orders", "g");
  await socket.next("PAUSE");
  deliver(socket, 1);
  await settle();
  assert.deepEqual(seen, []);
  hub.resume("orders", "g");
  await settle();
  assert.deepEqual(seen, [1]);
  await hub.close({ timeoutMs: 0 });
});

test("unsubscribe gives back what waits, lets finish what runs, and may be awaited in a handler", async () => {
  const gate = deferred();
  const seen: number[] = [];
  const { hub, socket, subscription } = await consuming(
    async (event) => {
      seen.push(event.seq);
      await hub.unsubscribe("orders", "g");
      await gate.promise;
    },
    { concurrency: 1 },
  );
  deliver(socket, 1);
  deliver(socket, 2);
  socket.ok(await socket.next("PAUSE"));
  const returned = await socket.next("RETURN");
  assert.deepEqual(returned["ids"], [uuid(2)]);
  socket.ok(returned, { returned: 1, unknown: [] });
  // Came before the hub knew of the pause.
  deliver(socket, 3);
  assert.deepEqual((await socket.next("RETURN"))["ids"], [uuid(3)]);
  gate.resolve();
  const ack = await socket.next("ACK");
  assert.deepEqual(ack["ids"], [uuid(1)]);
  await socket.silent("UNSUBSCRIBE");
  confirm(socket);
  socket.ok(ack, { acked: 1, unknown: [] });
  socket.ok({ op: "RETURN", corr: socket.received.find((frame) => frame.op === "RETURN" && (frame["ids"] as string[])[0] === uuid(3))?.["corr"] }, { returned: 1, unknown: [] });
  assert.equal(await subscription.closed, undefined);
  assert.deepEqual(seen, [1]);
  await hub.close({ timeoutMs: 0 });
});

test("unsubscribe and subscribe again do not get into each other's way (centrifuge-js#424)", async () => {
  const { hub, socket, subscription } = await consuming(() => "old");
  const gone = hub.unsubscribe("orders", "g");
  const again = hub.subscribe("orders", "g", () => "new");
  const unsubscribe = await socket.next("UNSUBSCRIBE");
  await socket.silent("SUBSCRIBE");
  socket.ok(unsubscribe);
  await gone;
  assert.equal(await subscription.closed, undefined);
  socket.ok(await socket.next("SUBSCRIBE"));
  await again;
  assert.notEqual(await again, subscription);
  await hub.close({ timeoutMs: 0 });
});

test("the same subscription twice is refused here", async () => {
  const { hub } = await consuming(() => undefined);
  await assert.rejects(hub.subscribe("orders", "g", () => undefined), /already_subscribed: this client has a subscription of "orders" by "g"/);
  await hub.close({ timeoutMs: 0 });
});

test("a subscription that the hub refuses rejects, and ends nothing else", async () => {
  const { hub, socket, subscription } = await consuming(() => undefined);
  const refused = hub.subscribe("secrets", "g", () => undefined);
  socket.err(await socket.next("SUBSCRIBE"), "forbidden");
  await assert.rejects(refused, { code: "forbidden" });
  assert.equal(await stateOf(subscription.closed), "pending");
  const again = hub.subscribe("secrets", "g", () => undefined);
  socket.ok(await socket.next("SUBSCRIBE"));
  await again;
  await hub.close({ timeoutMs: 0 });
});

test("a right that is taken back ends its subscription, loudly, and no other", async () => {
  const { hub, socket, subscription, logs } = await consuming((_, ctx) => new Promise((_resolve, reject) => ctx.signal.addEventListener("abort", () => reject(new Error("told")))));
  const watcher = hub.watch("news", () => undefined);
  deliver(socket, 1);
  socket.say({ op: "ERR", code: "forbidden", msg: "taken back", topic: "orders", group: "g" });
  const why = await subscription.closed;
  assert.equal(String(why), "Error: forbidden: taken back");
  assert.ok(logs.some((log) => log.level === "error" && log.message === "subscription ended"));
  assert.equal(await stateOf(watcher.closed), "pending");
  await hub.close({ timeoutMs: 0 });
});

test("a signal unsubscribes", async () => {
  const controller = new AbortController();
  const { hub, socket, subscription } = await consuming(() => undefined, { signal: controller.signal });
  controller.abort();
  socket.ok(await socket.next("UNSUBSCRIBE"));
  assert.equal(await subscription.closed, undefined);
  await assert.rejects(hub.subscribe("orders", "g", () => undefined, { signal: controller.signal }), { name: "AbortError" });
  await hub.close({ timeoutMs: 0 });
});

test("at most 256 SUBSCRIBEs are on their way, and what is rate limited waits", async () => {
  const { hub, socket, platform } = await setUpConnected();
  for (let n = 0; n < 300; n++) hub.watch(`topic.${n}`, () => undefined);
  const asked = (): Frame[] => socket.received.filter((frame) => frame.op === "SUBSCRIBE");
  assert.equal(asked().length, 256);
  socket.err(asked()[0], "rate_limited", { retry_after_ms: 100 });
  for (const frame of asked().slice(1)) socket.ok(frame);
  assert.equal(asked().length, 256);
  await platform.pass(100);
  assert.equal(asked().length, 301);
  assert.ok(asked().slice(256).some((frame) => frame["topic"] === "topic.0"));
  await hub.close({ timeoutMs: 0 });
});

test("bad options of a subscription say what is allowed", async () => {
  const { hub } = await setUpConnected();
  await assert.rejects(hub.subscribe("orders", "g", () => undefined, { concurrency: 0 }), /concurrency 0: a number from 1 is allowed/);
  await hub.close();
});

test("positions can also be given as the seeds do", async () => {
  const { hub, socket } = await setUpConnected();
  const asked: unknown[] = [];
  socket.answerBy((frame) => {
    const { from, ts, afterId, afterSeq } = (frame["opts"] ?? {}) as Record<string, unknown>;
    if (frame.op === "SUBSCRIBE") asked.push(Object.fromEntries(Object.entries({ from, ts, afterId, afterSeq }).filter(([, value]) => value !== undefined)));
    socket.ok(frame);
  });
  await hub.subscribe("a", "g", () => undefined, { from: "ts", ts: 5 });
  await hub.subscribe("b", "g", () => undefined, { from: "afterId", afterId: uuid(1) });
  await hub.watch("c", () => undefined, { from: "afterSeq", afterSeq: 7, ts: 9 }).opened;
  await hub.subscribe("d", "g", () => undefined, { from: { afterId: uuid(2) } });
  await hub.subscribe("e", "g", () => undefined, { from: "earliest" });
  await hub.subscribe("f", "g", () => undefined);
  assert.deepEqual(asked, [
    { from: "ts", ts: 5 },
    { from: "afterId", afterId: uuid(1) },
    { from: "afterSeq", afterSeq: 7 },
    { from: "afterId", afterId: uuid(2) },
    { from: "earliest" },
    {},
  ]);
  await hub.close({ timeoutMs: 0 });
});

test("whatever a handler throws, the event has failed and the next one is handled", async () => {
  const strange = Object.assign(new Error(), { message: { nested: true } });
  const emoji = "\u{1f600}".repeat(600);
  const thrown: unknown[] = [Object.create(null), strange, new Error(`x${emoji}`), new Error("\ud83d"), Symbol("s"), undefined];
  for (const isAsync of [false, true]) {
    let at = 0;
    const { hub, socket } = await consuming(
      () => {
        const error = thrown[at++];
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- what programs do
        if (isAsync) return Promise.reject(error); else throw error;
      },
      { concurrency: 1 },
    );
    confirm(socket);
    for (let n = 1; n <= thrown.length; n++) deliver(socket, n);
    const reasons: string[] = [];
    for (let n = 1; n <= thrown.length; n++) {
      const nack = await socket.next("NACK");
      assert.equal(nack["id"], uuid(n));
      reasons.push(String(nack["reason"]));
    }
    for (const reason of reasons) assert.doesNotMatch(reason, /\p{Surrogate}/u, "the hub takes no halves of characters");
    await hub.close();
  }
});

test("options that are no JSON refuse the subscription, and nothing else", async () => {
  const { hub, socket, platform, server } = await setUpConnected();
  const options = { maxInFlight: 1n } as unknown as SubscribeOptions;
  await assert.rejects(hub.subscribe("orders", "g", () => undefined, options), TypeError);
  socket.cut();
  await assert.rejects(hub.subscribe("more", "g", () => undefined, options), TypeError);
  assert.throws(() => hub.watch("news", () => undefined, { filter: { key: 1n } } as never), TypeError);
  await platform.pass(1_000);
  const connected = hub.connect();
  await server.accept();
  await connected;
  await hub.close();
});

test("subscriptions that are over are not kept", async () => {
  const { hub, socket } = await setUpConnected();
  confirm(socket);
  const come = async (): Promise<WeakRef<object>> => {
    const handler = (): void => undefined;
    const subscribed = hub.subscribe("orders", "g", handler);
    socket.ok(await socket.next("SUBSCRIBE"));
    await (await subscribed).unsubscribe();
    return new WeakRef(handler);
  };
  const gone = await come();
  assert.equal(await isKept(gone), false);
  await hub.close();
});

test("modAck of an id that is not held asks for nothing, and throws nothing later", async () => {
  const gate = deferred();
  const { hub, socket } = await consuming(() => gate.promise);
  deliver(socket, 1);
  await settle();
  await assert.rejects(hub.modAck("orders", "g", [uuid(1), uuid(2)], 60_000), { code: "unknown_id" });
  await socket.silent("MODACK");
  gate.resolve();
  await hub.close({ timeoutMs: 0 });
});

test("extend of an event that was settled rejects, also without a connection", async () => {
  let ctx: Context | undefined;
  const { hub, socket } = await consuming((_, own) => void (ctx = own));
  confirm(socket);
  deliver(socket, 1);
  await settle();
  socket.cut();
  const extended = ctx?.extend(60_000);
  await assert.rejects(extended ?? Promise.resolve(), { code: "lease_lost" });
  await hub.close({ timeoutMs: 0 });
});

test("a signal that ends subscribing rejects with its reason, also while an earlier subscription ends", async () => {
  const gate = deferred();
  const { hub, socket, subscription } = await consuming(() => gate.promise);
  confirm(socket);
  deliver(socket, 1);
  await settle();
  await subscription.unsubscribe();
  const controller = new AbortController();
  const why = new Error("enough");
  const waiting = hub.subscribe("orders", "g", () => undefined, { signal: controller.signal });
  const unanswered = hub.subscribe("more", "g", () => undefined, { signal: controller.signal });
  const both = Promise.allSettled([waiting, unanswered]);
  await socket.next("SUBSCRIBE");
  controller.abort(why);
  assert.equal(await stateOf(both), "resolved");
  assert.deepEqual(await both, [
    { status: "rejected", reason: why },
    { status: "rejected", reason: why },
  ]);
  gate.resolve();
  await hub.close();
});

test("what waits for longer than it may be extended goes back without a failure", async () => {
  for (const autoExtend of [{ upToMs: 60_000 }, false] as const) {
    const gate = deferred();
    const seen: number[] = [];
    const { hub, socket, platform } = await consuming(
      async ({ seq }) => {
        seen.push(seq);
        await gate.promise;
      },
      { autoExtend, concurrency: 1 },
    );
    confirm(socket);
    deliver(socket, 1);
    deliver(socket, 2);
    // The hub is heard, so that the connection lives.
    for (let second = 0; second < 100; second++) {
      await platform.pass(1_000);
      socket.say({});
    }
    const returned = socket.received.filter(({ op }) => op === "RETURN");
    assert.deepEqual(returned.map(({ ids }) => ids), [[uuid(2)]]);
    gate.resolve();
    await settle();
    assert.deepEqual(seen, [1]);
    await hub.close({ timeoutMs: 0 });
  }
});

test("what goes back without a failure is not counted as one", async () => {
  const metrics: string[] = [];
  const setup = await setUpConnected({ on: { metric: (name) => metrics.push(name) } });
  const { hub, socket } = setup;
  const subscribed = hub.subscribe("orders", "g", ({ seq }) => (seq === 1 ? new Return() : seq === 2 ? new Retry() : undefined));
  socket.ok(await socket.next("SUBSCRIBE"));
  await subscribed;
  confirm(socket);
  for (let n = 1; n <= 3; n++) deliver(socket, n);
  await settle();
  assert.deepEqual(metrics, ["connected", "failed", "handled"]);
  assert.deepEqual(setup.logs.filter(({ message }) => message === "handler failed").length, 1);
  await hub.close();
});

test("an outcome that the hub refuses is logged", async () => {
  const { hub, socket, logs } = await consuming(() => new Retry({ delayMs: 86_400_000 }));
  deliver(socket, 1);
  socket.err(await socket.next("NACK"), "bad_request");
  await settle();
  assert.deepEqual(
    logs.filter(({ message }) => message === "outcome refused").map(({ level, fields: { topic, group, ids } }) => ({ level, topic, group, ids })),
    [{ level: "warn", topic: "orders", group: "g", ids: [uuid(1)] }],
  );
  await hub.close({ timeoutMs: 0 });
});

test("unsubscribe does not wait for a hub that is away", async () => {
  for (const isCutBefore of [true, false]) {
    const { hub, socket, subscription, platform } = await consuming(() => undefined);
    deliver(socket, 1);
    await socket.next("ACK");
    if (isCutBefore) socket.cut();
    const unsubscribed = subscription.unsubscribe();
    if (!isCutBefore) {
      assert.equal(await stateOf(unsubscribed), "pending", "the ack is not confirmed yet");
      socket.cut();
    }
    assert.equal(await stateOf(unsubscribed), "resolved");
    await platform.pass(0);
    await hub.close({ timeoutMs: 0 });
  }
});

test("delays are whole milliseconds that the hub takes", async () => {
  const delays = [12.5, -5, NaN, Infinity, 0];
  const { hub, socket } = await consuming(({ seq }) => {
    const delayMs = delays[seq - 1];
    return delayMs === undefined ? new Return({ delayMs: 0.1 }) : new Retry({ delayMs });
  });
  confirm(socket);
  for (let n = 1; n <= delays.length + 1; n++) deliver(socket, n);
  await settle();
  const sent = socket.received.filter(({ op }) => op === "NACK" || op === "RETURN").map(({ op, delay_ms }) => [op, delay_ms]);
  assert.deepEqual(sent, [["NACK", 13], ["NACK", 0], ["NACK", undefined], ["NACK", 43_200_000], ["NACK", 0], ["RETURN", 1]]);
  await hub.close();
});

test("however many handlers may run, a member asks for what the hub allows", async () => {
  for (const concurrency of [50_000, Infinity]) {
    const { hub, request } = await consuming(() => undefined, { concurrency });
    assert.equal((request["opts"] as { maxInFlight: number }).maxInFlight, 100_000);
    await hub.close({ timeoutMs: 0 });
  }
});

test("a subscription knows what the one of its name before it has handled", async () => {
  let handled = 0;
  const { hub, socket, subscription } = await consuming(() => void handled++);
  confirm(socket);
  deliver(socket, 1);
  await settle();
  await subscription.unsubscribe();
  const again = hub.subscribe("orders", "g", () => void handled++);
  socket.ok(await socket.next("SUBSCRIBE"));
  await again;
  // A hub that was killed has forgotten the ack.
  deliver(socket, 1, {}, { attempt: 2 });
  await settle();
  assert.equal(handled, 1);
  assert.equal(socket.received.filter(({ op }) => op === "ACK").length, 2);
  await hub.close();
});

test("a subscription on the next connection knows what the one before it has handled, though a killed hub counts attempts anew", async () => {
  let handled = 0;
  const { hub, socket, subscription, server, platform } = await consuming(() => void handled++);
  confirm(socket);
  deliver(socket, 1);
  await settle();
  await subscription.unsubscribe();
  socket.cut();
  const again = hub.subscribe("orders", "g", () => void handled++);
  await platform.pass(1_000);
  const next = await server.accept();
  confirm(next);
  next.ok(await next.next("SUBSCRIBE"));
  await again;
  deliver(next, 1);
  await settle();
  assert.equal(handled, 1);
  assert.equal(next.received.filter(({ op }) => op === "ACK").length, 1);
  await hub.close();
});

test("a group that is deleted and made again gets its events again", async () => {
  for (const isSubscribed of [true, false]) {
    let handled = 0;
    const { hub, socket, subscription, server, platform } = await consuming(() => void handled++);
    confirm(socket);
    deliver(socket, 1);
    await settle();
    if (isSubscribed) {
      socket.say({ op: "ERR", code: "not_subscribed", msg: "the subscription has ended", topic: "orders", group: "g" });
      assert.equal((await subscription.closed)?.code, "not_subscribed");
      socket.cut();
    } else {
      await subscription.unsubscribe();
    }
    const again = hub.subscribe("orders", "g", () => void handled++);
    await platform.pass(1_000);
    const next = isSubscribed ? await server.accept() : socket;
    next.ok(await next.next("SUBSCRIBE"));
    await again;
    deliver(next, 1);
    await settle();
    assert.equal(handled, 2);
    await hub.close({ timeoutMs: 0 });
  }
});
