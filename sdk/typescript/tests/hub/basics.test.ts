import assert from "node:assert/strict";
import { test } from "node:test";
import { type HubError, PromClient, Retry } from "../../src/node.ts";
import { deferred } from "../support/client.ts";
import { Condition, Hub } from "../support/hub.ts";

test("the surface of the seeds' client works as there", async (t) => {
  const hub = await Hub.start(t);
  const stranger = new PromClient(hub.url, "not a token");
  await assert.rejects(stranger.connect(), /^Error: jwt_invalid: /);
  void stranger.close();

  const client = new PromClient(hub.url, hub.token());
  await client.connect();
  const seen = new Condition();
  const good: { event: unknown; ctx: unknown }[] = [];
  await client.subscribe<unknown>("heartbeat.received", "ops", (event, { attempt, maxAttempts, ack_deadline_ms }) => {
    good.push({ event, ctx: { attempt, maxAttempts, ack_deadline_ms } });
    seen.changed();
  });
  await client.publish("heartbeat.received", { pid: 7 }, { key: "host-1", tags: ["a"], headers: { trace: "1" }, sid: "boot" });
  await client.publish("heartbeat.received", { pid: 8 });
  await seen.until(() => good.length === 2);
  assert.deepEqual(
    { ...(good[0]?.event as object), id: "", ts: 0 },
    { id: "", seq: 1, ts: 0, topic: "heartbeat.received", key: "host-1", sid: "boot", headers: { trace: "1" }, payload: { pid: 7 }, tags: ["a"] },
  );
  assert.deepEqual(good[0]?.ctx, { attempt: 1, maxAttempts: 5, ack_deadline_ms: 30_000 });

  const bad: number[] = [];
  await client.subscribe(
    "process.state",
    "ops",
    async (_, ctx) => {
      bad.push(ctx.attempt);
      seen.changed();
      await Promise.resolve();
      if (ctx.attempt < 3) throw new Retry({ reason: "not yet" });
    },
    { from: "earliest" },
  );
  await client.publish("process.state", { up: true });
  await seen.until(() => bad.length === 3);
  assert.deepEqual(bad, [1, 2, 3]);

  await client.unsubscribe("heartbeat.received", "ops");
  await client.publish("heartbeat.received", { pid: 9 });
  let isFenced = false;
  await client.subscribe("fence", "ops", () => {
    isFenced = true;
    seen.changed();
  });
  await client.publish("fence", 1);
  await seen.until(() => isFenced);
  assert.equal(good.length, 2);
  await client.close();
});

test("receipts say where an event is, and an id is stored once", async (t) => {
  const hub = await Hub.start(t);
  await using client = new PromClient(hub.url, hub.token());
  const id = crypto.randomUUID();
  const first = await client.publish("orders", { n: 1 }, { id, require: "fsync" });
  assert.deepEqual({ ...first, ts: 0 }, { id, seq: 1, ts: 0, durable: "fsync" });
  assert.deepEqual(await client.publish("orders", { n: 1 }, { id }), { ...first, duplicate: true });
  await assert.rejects(client.publish("orders", { n: 2 }, { id }), (error: HubError) => error.code === "id_conflict" && error.id === id);
  await assert.rejects(client.publish("dlq.orders", 1), { code: "forbidden" });
});

test("an event of a topic that promises less is flagged under require fsync", async (t) => {
  const hub = await Hub.start(t, '[[topics]]\npattern = "fast"\ndurability = "interval"\n');
  await using client = new PromClient(hub.url, hub.token());
  await assert.rejects(client.publish("fast", 1, { require: "fsync" }), (error: HubError) => error.code === "not_durable" && error.receipt?.seq === 1);
  assert.equal((await client.publish("fast", 2)).durable, "interval");
});

test("a batch has a result for each event", async (t) => {
  const hub = await Hub.start(t);
  await using client = new PromClient(hub.url, hub.token({ scopes: ["publish:orders"] }));
  const results = await client.publishBatch([
    { topic: "orders", payload: 1 },
    { topic: "secrets", payload: 2 },
    { topic: "orders", payload: 3 },
  ]);
  assert.deepEqual(results.map((result) => (result instanceof Error ? (result as HubError).code : result.seq)), [1, "forbidden", 2]);
});

test("a payload over the limit is refused, and so is a frame that the hub does not read; nothing else is", async (t) => {
  const hub = await Hub.start(t);
  await using client = new PromClient(hub.url, hub.token());
  await client.connect();
  const all = await Promise.allSettled([
    client.publish("orders", "before"),
    client.publish("orders", "x".repeat(2 << 20)),
    client.publish("orders", "x".repeat(5 << 20)),
    client.publish("orders", "after"),
  ]);
  assert.deepEqual(all.map((result) => (result.status === "fulfilled" ? "stored" : (result.reason as HubError).code)), ["stored", "too_large", "too_large", "stored"]);
  assert.deepEqual((await hub.log("orders")).map((record) => record.payload), ["before", "after"]);
});

test("what is refused because of its rate is sent again, in order under order key", async (t) => {
  const hub = await Hub.start(t, "[limits]\nconnection_rate = 500\n");
  await using client = new PromClient(hub.url, hub.token());
  const all = Array.from({ length: 1_500 }, (_, n) => client.publish("orders", n, { key: `k${n % 3}`, order: "key" }));
  await Promise.all(all);
  const log = await hub.log("orders");
  assert.equal(log.length, 1_500);
  for (const key of ["k0", "k1", "k2"]) {
    const payloads = log.filter((record) => record.key === key).map((record) => Number(record.payload));
    assert.deepEqual(payloads, [...payloads].sort((a, b) => a - b));
  }
});

test("a handler's publishes are stored once, however often it runs", async (t) => {
  const hub = await Hub.start(t);
  await using client = new PromClient(hub.url, hub.token());
  const seen = new Condition();
  let runs = 0;
  await client.subscribe("orders", "g", async (event, ctx) => {
    await ctx.publish("mail.due", { order: event.id });
    runs++;
    seen.changed();
    if (ctx.attempt < 3) throw new Retry({ delayMs: 0, reason: "not yet" });
  });
  const { id } = await client.publish("orders", 1);
  await seen.until(() => runs === 3);
  const log = await hub.log("mail.due");
  assert.deepEqual(log.map((record) => record.payload), [{ order: id }]);
});

test("an iterator takes jobs one by one, and a break gives the rest to the next one", async (t) => {
  const hub = await Hub.start(t);
  await using client = new PromClient(hub.url, hub.token());
  await client.publishBatch([1, 2, 3, 4].map((payload) => ({ topic: "jobs", payload })));
  const done: unknown[] = [];
  for await (const job of client.consume<number>("jobs", "workers", { from: "earliest", maxInFlight: 4 })) {
    if (done.length === 2) break;
    assert.equal(await job.ack(), true);
    done.push(job.event.payload);
  }
  for await (const job of client.consume<number>("jobs", "workers")) {
    await job.ack();
    done.push(job.event.payload);
    if (done.length === 4) break;
  }
  assert.deepEqual(done, [1, 2, 3, 4]);
});

test("a watcher with coalesce gets the newest state of every key, then live", async (t) => {
  const hub = await Hub.start(t);
  await using client = new PromClient(hub.url, hub.token());
  for (const [key, n] of [["a", 1], ["b", 2], ["a", 3]] as const) await client.publish("state", n, { key });
  const seen = new Condition();
  const states = new Map<string, unknown>();
  let events = 0;
  client.watch<number>("state", (event) => {
    states.set(event.key ?? "", event.payload);
    events++;
    seen.changed();
  }, { from: "earliest", coalesce: true });
  await seen.until(() => events === 2);
  assert.deepEqual([...states].sort(), [["a", 3], ["b", 2]]);
  await client.publish("state", 4, { key: "b" });
  await seen.until(() => events === 3);
  assert.equal(states.get("b"), 4);
});

test("a dead letter is made of what fails too often, and a return counts no failure", async (t) => {
  const hub = await Hub.start(t);
  await using client = new PromClient(hub.url, hub.token());
  const seen = new Condition();
  const dead: { original: { payload: unknown }; err: string }[] = [];
  await client.publish("orders", "first");
  await client.subscribe<{ original: { payload: unknown }; err: string }>("dlq.orders", "undertaker", (event) => {
    dead.push(event.payload);
    seen.changed();
  });
  const orders = client.consume("orders", "g", { maxAttempts: 1, from: "earliest" });
  for (let attempt = 1; attempt <= 4; attempt++) {
    const delivery = (await orders.next()).value;
    assert.equal(delivery?.attempt, attempt);
    if (attempt < 4) await delivery.return();
    else await delivery.nack({ reason: "broken" });
  }
  await seen.until(() => dead.length === 1);
  assert.deepEqual([dead[0]?.original.payload, dead[0]?.err], ["first", "broken"]);
  await orders.return?.();
});

test("a member that pauses holds no key back from the others", async (t) => {
  const hub = await Hub.start(t);
  await using pausing = new PromClient(hub.url, hub.token());
  await using other = new PromClient(hub.url, hub.token());
  const gate = deferred();
  const seen = new Condition();
  const runs: number[] = [];
  const options = { ordering: "key", concurrency: 2, maxInFlight: 40 } as const;
  const subscription = await pausing.subscribe<number>(
    "orders",
    "g",
    async (event) => {
      runs.push(event.payload);
      seen.changed();
      await gate.promise;
    },
    options,
  );
  await pausing.publishBatch(Array.from({ length: 400 }, (_, n) => ({ topic: "orders", payload: n, options: { key: `k${n % 40}` } })));
  await seen.until(() => runs.length === 2);
  await other.subscribe<number>(
    "orders",
    "g",
    (event) => {
      runs.push(event.payload);
      seen.changed();
    },
    options,
  );
  subscription.pause();
  // All but what follows the two that run.
  await seen.until(() => runs.length === 382);
  gate.resolve();
  await seen.until(() => runs.length === 400);
  assert.equal(new Set(runs).size, 400);
});
