import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnyTopics } from "../../src/topics.ts";
import type { SchemaResult, StandardSchema } from "../../src/validate.ts";
import { deferred, setUpConnected } from "../support/client.ts";
import { settle } from "../support/clock.ts";
import { eventFrame, uuid } from "../support/server.ts";

interface Order {
  n: number;
  at?: Date;
}
interface Topics {
  orders: Order;
  slow: Order;
  free: unknown;
}

function schema(isSlow: boolean): StandardSchema<unknown, Order> {
  const validate = (value: unknown): { value: Order } | { issues: { message: string; path?: (string | { key: string })[] }[] } => {
    if (typeof value !== "object" || value === null) return { issues: [{ message: "not an object" }] };
    if (!("n" in value) || typeof value.n !== "number") return { issues: [{ message: "not a number", path: ["n", { key: "inner" }] }] };
    return { value: { n: value.n, at: new Date(0) } };
  };
  return { "~standard": { version: 1, vendor: "test", validate: (value) => (isSlow ? Promise.resolve(validate(value)) : validate(value)) } };
}

const validate = { orders: schema(false), slow: schema(true) };

test("a payload that its validator refuses is not published, and the error says where it is wrong", async () => {
  const { hub, socket } = await setUpConnected<Topics>({ validate });
  for (const topic of ["orders", "slow"] as const) {
    const bad = { n: "one" } as unknown as Order;
    await assert.rejects(hub.publish(topic, bad), new RegExp(`^Error: schema_violation: a payload that the validator of "${topic}" refuses: n.inner: not a number$`));
  }
  await socket.silent("PUBLISH");
  await hub.close();
});

test("what is published is what was given, also if a slow validator lets the caller change it meanwhile", async () => {
  const { hub, socket } = await setUpConnected<Topics>({ validate });
  for (const topic of ["orders", "slow"] as const) {
    const payload = { n: 1 };
    const published = hub.publish(topic, payload);
    payload.n = 2;
    const frame = await socket.next("PUBLISH");
    assert.deepEqual(frame["payload"], { n: 1 });
    socket.ok(frame, { id: uuid(1), seq: 1, ts: 1, durable: "fsync" });
    await published;
  }
  await hub.close();
});

test("a handler gets what the validator made of the payload; what it refuses fails", async () => {
  const { hub, socket } = await setUpConnected<Topics>({ validate });
  for (const topic of ["orders", "slow"] as const) {
    const seen: Order[] = [];
    const subscribed = hub.subscribe(topic, "g", (event) => void seen.push(event.payload));
    socket.ok(await socket.next("SUBSCRIBE"));
    await subscribed;
    socket.say(eventFrame(topic, "g", { id: uuid(1), payload: { n: 1 } }));
    await socket.next("ACK");
    assert.deepEqual(seen, [{ n: 1, at: new Date(0) }]);
    socket.say(eventFrame(topic, "g", { id: uuid(2), payload: 5 }));
    assert.match(String((await socket.next("NACK"))["reason"]), /schema_violation.*not an object/);
  }
  await hub.close({ timeoutMs: 0 });
});

test("iterators and watchers get what the validator made of the payload, and nothing that it refuses", async () => {
  const { hub, socket, logs } = await setUpConnected<Topics>({ validate });
  for (const topic of ["orders", "slow"] as const) {
    const deliveries = hub.consume(topic, "workers");
    const first = deliveries.next();
    socket.ok(await socket.next("SUBSCRIBE"));
    socket.say(eventFrame(topic, "workers", { id: uuid(1), payload: 5 }));
    await socket.next("NACK");
    socket.say(eventFrame(topic, "workers", { id: uuid(2), payload: { n: 2 } }));
    assert.deepEqual((await first).value?.event.payload, { n: 2, at: new Date(0) });
    const seen: Order[] = [];
    hub.watch(topic, (event) => void seen.push(event.payload));
    socket.ok(await socket.next("SUBSCRIBE"));
    socket.say(eventFrame(topic, undefined, { id: uuid(1), payload: 5 }));
    socket.say(eventFrame(topic, undefined, { id: uuid(2), payload: { n: 2 } }));
    await settle();
    assert.deepEqual(seen, [{ n: 2, at: new Date(0) }]);
  }
  assert.equal(logs.filter((log) => log.message === "watcher failed").length, 2);
  await hub.close({ timeoutMs: 0 });
});

test("publishes are stored in the order of their calls, however long their validators take", async () => {
  const gates = new Map([1, 2, 3, 4].map((n) => [n, deferred()]));
  const validateLater = async (value: unknown): Promise<SchemaResult<Order>> => {
    const order = value as Order;
    await gates.get(order.n)?.promise;
    return order.n === 2 ? { issues: [{ message: "no" }] } : { value: order };
  };
  const slow: StandardSchema<unknown, Order> = { "~standard": { version: 1, vendor: "test", validate: validateLater } };
  const { hub, socket } = await setUpConnected<Topics>({ validate: { slow } });
  const options = { key: "k", order: "key" } as const;
  const first = hub.publish("slow", { n: 1 }, options);
  const refused = assert.rejects(hub.publish("slow", { n: 2 }, options), { code: "schema_violation" });
  const third = hub.publish("slow", { n: 3 }, options);
  const free = hub.publish("free", { n: 4 });
  gates.get(3)?.resolve();
  gates.get(2)?.resolve();
  await refused;
  await socket.silent("PUBLISH");
  gates.get(1)?.resolve();
  const sent: unknown[] = [];
  socket.answerBy((frame) => {
    const events = (frame["events"] ?? [frame]) as { payload: Order }[];
    sent.push(...events.map(({ payload }) => payload.n));
    const results = events.map(({ payload }) => ({ id: uuid(payload.n), seq: payload.n, ts: 1, durable: "fsync" }));
    socket.ok(frame, frame["events"] === undefined ? results[0] : { results });
  });
  await Promise.all([first, third, free]);
  assert.deepEqual(sent, [1, 3, 4]);
  await hub.close();
});

test("a topic has no validator because of a name that all objects have", async () => {
  const { hub, socket } = await setUpConnected({ validate: {} });
  const published = hub.publish("constructor", 1);
  socket.ok(await socket.next("PUBLISH"), { id: uuid(1), seq: 1, ts: 1, durable: "fsync" });
  await published;
  await hub.close();
});

test("a validator that refuses later what is no JSON throws nothing that nobody catches", async () => {
  const unhandled: unknown[] = [];
  const onUnhandled = (error: unknown): void => void unhandled.push(error);
  process.on("unhandledRejection", onUnhandled);
  const validate = { orders: { "~standard": { version: 1, vendor: "test", validate: () => Promise.reject(new Error("late")) } } } as const;
  const { hub, socket } = await setUpConnected<AnyTopics>({ validate });
  const first = hub.publish("other", 1);
  const { corr } = await socket.next("PUBLISH");
  socket.say({ op: "OK", corr, id: uuid(1), seq: 1, ts: 1, durable: "fsync" });
  await first;
  await assert.rejects(hub.publish("orders", 1n), { code: "bad_request" });
  await settle();
  process.off("unhandledRejection", onUnhandled);
  assert.deepEqual(unhandled, []);
  await hub.close();
});
