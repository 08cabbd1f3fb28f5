// Groups, where the fixtures are silent: times, failures, keys and windows.

import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryHub, type MemoryHubOptions } from "../../src/testing/index.ts";
import { FrameClient } from "./frames.ts";

const manual = (options: MemoryHubOptions = {}): MemoryHub => new MemoryHub({ clock: "manual", ...options });
const ada = { sub: "ada", scopes: ["*:**"] };
const MEMBER = "0b6f2c1e-8d4a-4f7b-9c3d-5e6f7a8b9c0d";

test("the wait after a nack doubles with every failure, and the last one makes a dead letter", async () => {
  const hub = manual();
  const client = await FrameClient.connect(hub);
  await client.subscribe("orders", "g");
  const { id } = hub.publish("orders", { n: 1 }, { key: "k" });
  for (const [attempt, wait] of [20, 40, 80, 160].entries()) {
    assert.deepEqual(await client.payloads(), [attempt === 0 ? '{"n":1}' : `{"n":1}/${attempt + 1}`]);
    client.send({ op: "NACK", topic: "orders", group: "g", id, reason: `no ${attempt}` });
    await hub.advance(wait - 1);
    assert.deepEqual(await client.payloads(), [], `attempt ${attempt + 2} came too early`);
    await hub.advance(1);
  }
  assert.deepEqual(await client.payloads(), ['{"n":1}/5']);
  client.send({ op: "NACK", topic: "orders", group: "g", id, reason: "never" });
  await hub.settled("orders", "g");
  const [letter] = hub.deadLetters("orders");
  assert.deepEqual({ ...letter, original: letter?.original.id }, { topic: "orders", group: "g", original: id, err: "never", ts: hub.now, attempts: 5 });
  assert.equal(hub.events("dlq.orders")[0]?.key, "k");
});

test("a lease ends at its deadline, counts a failure, and the event comes again at once", async () => {
  const hub = manual();
  const client = await FrameClient.connect(hub);
  await client.subscribe("orders", "g", { ackTimeoutMs: 100, maxAttempts: 2 });
  const { id } = hub.publish("orders", 1);
  assert.deepEqual(await client.payloads(), ["1"]);
  await hub.advance(99);
  assert.deepEqual(await client.payloads(), []);
  await hub.advance(1);
  assert.deepEqual(await client.payloads(), ["1/2"]);
  await client.ask({ op: "MODACK", topic: "orders", group: "g", id, extend_ms: 500 });
  await hub.advance(499);
  assert.equal(hub.deadLetters("orders").length, 0);
  await hub.advance(1);
  assert.equal(hub.deadLetters("orders")[0]?.err, "no ack before the deadline");
  const late = await client.ask({ op: "ACK", topic: "orders", group: "g", id });
  assert.equal(late.code, "unknown_id");
});

test("a consumer that vanishes is blamed for its oldest event alone", async () => {
  const hub = manual();
  const client = await FrameClient.connect(hub);
  await client.subscribe("both", "g", { topics: ["a", "b"], maxAttempts: 1 });
  hub.publish("b", "oldest");
  await hub.advance(1);
  hub.publish("a", "second");
  hub.publish("b", "third");
  await hub.idle();
  hub.drop();
  const next = await FrameClient.connect(hub);
  await next.subscribe("both", "g", { topics: ["a", "b"] });
  assert.deepEqual((await next.payloads()).sort(), ['"second"/2', '"third"/2']);
  assert.deepEqual(hub.deadLetters("b").map((letter) => letter.original.payload), ["oldest"]);
  assert.deepEqual(hub.deadLetters("a"), []);
});

test("an event that waits for its retry holds its key back, and no other key", async () => {
  const hub = manual();
  const client = await FrameClient.connect(hub);
  await client.subscribe("orders", "g", { ordering: "key" });
  const first = hub.publish("orders", "a1", { key: "a" });
  hub.publish("orders", "a2", { key: "a" });
  hub.publish("orders", "b1", { key: "b" });
  assert.deepEqual(await client.payloads(), ['"a1"', '"b1"']);
  client.send({ op: "NACK", topic: "orders", group: "g", id: first.id, delay_ms: 1000 });
  hub.publish("orders", "c1", { key: "c" });
  assert.deepEqual(await client.payloads(), ['"c1"']);
  await hub.advance(1000);
  assert.deepEqual(await client.payloads(), ['"a1"/2']);
  client.send({ op: "ACK", topic: "orders", group: "g", id: first.id });
  assert.deepEqual(await client.payloads(), ['"a2"']);
});

test("a group that coalesces does not repeat what was overtaken meanwhile", async () => {
  const hub = manual();
  const client = await FrameClient.connect(hub);
  await client.subscribe("state", "g", { coalesce: true, filter: { tags: ["wanted"] } });
  const first = hub.publish("state", 1, { key: "a", tags: ["wanted"] });
  assert.deepEqual(await client.payloads(), ["1"]);
  hub.publish("state", 2, { key: "a", tags: ["wanted"] });
  hub.publish("state", 3, { key: "a" });
  client.send({ op: "NACK", topic: "state", group: "g", id: first.id, delay_ms: 0 });
  assert.deepEqual(await client.payloads(), [], "the newest does not match, and it has overtaken the others");
  await hub.settled("state", "g");
});

test("dead letters are never dead-lettered again, but retried every 30 s", async () => {
  const hub = manual();
  const client = await FrameClient.connect(hub);
  await client.subscribe("orders", "g", { maxAttempts: 1 });
  const { id } = hub.publish("orders", 1);
  await hub.idle();
  client.send({ op: "NACK", topic: "orders", group: "g", id });
  await hub.idle();
  await client.frames();
  await client.subscribe("dlq.orders", "ops", { from: "earliest", maxAttempts: 1 });
  const letter = client.idOf("dlq.orders", 1);
  client.send({ op: "NACK", topic: "dlq.orders", group: "ops", id: letter, delay_ms: 10 });
  await hub.idle();
  await client.frames();
  await hub.advance(29_999);
  assert.deepEqual(await client.frames(), []);
  await hub.advance(1);
  assert.equal((await client.frames())[0]?.ctx?.attempt, 2);
  assert.equal(hub.events("dlq.dlq.orders").length, 0);
});

test("the window of a member counts over all topics of its pattern", async () => {
  const hub = manual();
  const client = await FrameClient.connect(hub);
  await client.subscribe("shop.*", "g", { maxInFlight: 2 });
  const [one, two] = [hub.publish("shop.a", 1), hub.publish("shop.b", 2)];
  hub.publish("shop.c", 3);
  hub.publish("shop.a", 4);
  assert.deepEqual(await client.payloads(), ["1", "2"]);
  client.send({ op: "ACK", topic: "shop.*", group: "g", ids: [one.id, two.id] });
  assert.deepEqual((await client.payloads()).sort(), ["3", "4"]);
});

test("events that wait behind a key hold no place in the window, but only so many are looked at", async () => {
  const hub = manual({ limits: { maxParked: 3 } });
  const client = await FrameClient.connect(hub);
  await client.subscribe("orders", "g", { ordering: "key", maxInFlight: 2 });
  const first = hub.publish("orders", 0, { key: "a" });
  for (let n = 1; n <= 5; n += 1) hub.publish("orders", n, { key: "a" });
  hub.publish("orders", "other", { key: "b" });
  assert.deepEqual(await client.payloads(), ["0"], "the event of another key lies behind too many that wait");
  client.send({ op: "ACK", topic: "orders", group: "g", id: first.id });
  assert.deepEqual(await client.payloads(), ["1"]);
  assert.deepEqual(hub.group("orders", "g"), { floor: 1, unsettled: 6, leased: 1, parked: 3, members: 1 });
});

test("attempts and failures survive a change of options, which needs a group without members", async () => {
  const hub = manual();
  const client = await FrameClient.connect(hub);
  await client.subscribe("orders", "g");
  const failing = hub.publish("orders", "failing");
  const acked = hub.publish("orders", "acked");
  hub.publish("orders", "held");
  await hub.idle();
  client.send({ op: "ACK", topic: "orders", group: "g", id: acked.id });
  client.send({ op: "NACK", topic: "orders", group: "g", id: failing.id });
  await client.ask({ op: "UNSUBSCRIBE", topic: "orders", group: "g" });
  await client.frames();
  await client.subscribe("orders", "g", { maxAttempts: 2, ordering: "key" });
  assert.deepEqual(await client.payloads(), ['"failing"/2', '"held"/2']);
  client.send({ op: "NACK", topic: "orders", group: "g", id: failing.id });
  await hub.idle();
  assert.equal(hub.deadLetters("orders").length, 1);
});

test("a seek delivers again, under a higher epoch, and what is acked late changes nothing", async () => {
  const hub = manual();
  const client = await FrameClient.connect(hub);
  await client.subscribe("orders", "g");
  const { id } = hub.publish("orders", 1);
  assert.deepEqual(await client.payloads(), ["1"]);
  hub.seek("orders", "g", { from: "earliest" });
  const [again] = await client.frames();
  assert.deepEqual(again?.ctx, { attempt: 1, maxAttempts: 5, ack_deadline_ms: 30_000, epoch: 1 });
  assert.equal((await client.ask({ op: "ACK", topic: "orders", group: "g", id })).op, "OK");
  await hub.settled("orders", "g");
  assert.equal((await client.ask({ op: "ACK", topic: "orders", group: "g", id })).code, "unknown_id");
});

test("a group that is deleted ends its subscriptions, and the next one begins anew", async () => {
  const hub = manual();
  const client = await FrameClient.connect(hub);
  await client.subscribe("shop.*", "g");
  hub.publish("shop.a", 1);
  await client.frames();
  hub.deleteGroup("shop.*", "g");
  const [ended] = await client.frames();
  assert.deepEqual([ended?.code, ended?.topic, ended?.group], ["not_subscribed", "shop.*", "g"]);
  await client.subscribe("shop.*", "g");
  assert.deepEqual(await client.payloads(), []);
});

test("a member that comes back in time keeps its leases, and one that does not is blamed once", async () => {
  const hub = manual();
  const before = await FrameClient.connect(hub, ada);
  await before.subscribe("orders", "g", { member: MEMBER, maxAttempts: 1 });
  const [one, two] = [hub.publish("orders", 1), hub.publish("orders", 2)];
  assert.deepEqual(await before.payloads(), ["1", "2"]);
  hub.drop();
  await hub.advance(9_999);
  const after = await FrameClient.connect(hub, ada);
  const opts = { member: MEMBER, held: [one.id, two.id], maxAttempts: 1 };
  assert.deepEqual((await after.ask({ op: "SUBSCRIBE", topic: "orders", group: "g", opts })).held, [one.id, two.id]);
  assert.deepEqual(await after.payloads(), []);
  hub.drop({ sub: "ada" });
  await hub.advance(10_000);
  assert.deepEqual(hub.deadLetters("orders").map((letter) => letter.original.id), [one.id]);
  const third = await FrameClient.connect(hub, ada);
  await third.subscribe("orders", "g");
  assert.deepEqual(await third.payloads(), ["2/2"]);
});

test("a member that comes back with other options begins anew, and nothing counts as failed", async () => {
  const hub = manual();
  const before = await FrameClient.connect(hub, ada);
  await before.subscribe("orders", "g", { member: MEMBER, maxInFlight: 5, maxAttempts: 1 });
  const { id } = hub.publish("orders", 1);
  await before.frames();
  hub.drop();
  const after = await FrameClient.connect(hub, ada);
  const opts = { member: MEMBER, maxInFlight: 6, held: [id] };
  assert.deepEqual((await after.ask({ op: "SUBSCRIBE", topic: "orders", group: "g", opts })).held, []);
  assert.deepEqual(await after.payloads(), ["1/2"]);
});

test("a group belongs to the subject that made it", async () => {
  const hub = manual();
  const [one, other] = [await FrameClient.connect(hub, ada), await FrameClient.connect(hub, { sub: "bob", scopes: ["*:**"] })];
  await one.subscribe("orders", "g");
  await one.subscribe("shop.*", "wide");
  const refused = await other.ask({ op: "SUBSCRIBE", topic: "orders", group: "g" });
  assert.deepEqual([refused.code, /belongs to another subject/.test(refused.msg ?? "")], ["forbidden", true]);
  assert.equal((await other.ask({ op: "SUBSCRIBE", topic: "shop.**", group: "wide" })).code, "forbidden");
  const named = { sub: "bob", policy: { rules: [{ effect: "allow" as const, action: "subscribe", topics: ["orders"], groups: ["{sub}", "g"] }] } };
  const invited = await FrameClient.connect(hub, named);
  await invited.subscribe("orders", "g");
  await invited.subscribe("orders", "bob");
  assert.equal((await invited.ask({ op: "SUBSCRIBE", topic: "orders", group: "ada" })).code, "forbidden");
});

test("a list that loses topics gives their groups up, and only who may read them may do that", async () => {
  const hub = manual();
  hub.publish("a", 1);
  const client = await FrameClient.connect(hub, ada);
  await client.subscribe("label", "g", { topics: ["a", "b"] });
  await client.ask({ op: "UNSUBSCRIBE", topic: "label", group: "g" });
  const narrow = await FrameClient.connect(hub, { sub: "ada", scopes: ["subscribe:b"] });
  const refused = await narrow.ask({ op: "SUBSCRIBE", topic: "label", group: "g", opts: { topics: ["b"] } });
  assert.equal(refused.code, "forbidden");
  await client.subscribe("label", "g", { topics: ["b"] });
  assert.equal(hub.group("a", "g"), undefined);
});
