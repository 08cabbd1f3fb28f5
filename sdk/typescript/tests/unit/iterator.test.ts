import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnyTopics } from "../../src/topics.ts";
import { deferred, setUpConnected, stateOf } from "../support/client.ts";
import { settle } from "../support/clock.ts";
import { eventFrame, type FakeSocket, uuid } from "../support/server.ts";

function deliver(socket: FakeSocket, n: number): void {
  socket.say(eventFrame("jobs", "workers", { id: uuid(n), seq: n }));
}

/** Confirms what settles. */
function confirm(socket: FakeSocket): void {
  socket.answerBy((frame) => {
    if (frame.op === "ACK" || frame.op === "RETURN") socket.ok(frame, { unknown: [] });
    if (frame.op === "NACK" || frame.op === "PAUSE" || frame.op === "UNSUBSCRIBE" || frame.op === "PING") socket.ok(frame);
  });
}

test("an iterator that nobody starts subscribes nothing (graphql-redis-subscriptions#197)", async () => {
  const { hub, socket } = await setUpConnected();
  const unstarted = hub.consume("jobs", "workers");
  await socket.silent("SUBSCRIBE");
  assert.deepEqual(await unstarted.return?.(), { done: true, value: undefined });
  assert.deepEqual(await unstarted.next(), { done: true, value: undefined });
  await socket.silent("SUBSCRIBE");
  await hub.close();
});

test("deliveries come one by one, and are settled by hand", async () => {
  const { hub, socket } = await setUpConnected();
  const deliveries = hub.consume("jobs", "workers");
  const first = deliveries.next();
  const request = await socket.next("SUBSCRIBE");
  socket.ok(request);
  confirm(socket);
  for (let n = 1; n <= 4; n++) deliver(socket, n);
  const one = (await first).value;
  assert.equal(one?.event.seq, 1);
  assert.equal(one.attempt, 1);
  assert.equal(await one.ack(), true);
  assert.equal(await one.nack(), false, "only the first outcome counts");
  const two = (await deliveries.next()).value;
  assert.equal(await two?.nack({ delayMs: 5, reason: "no" }), true);
  const three = (await deliveries.next()).value;
  assert.equal(await three?.return({ delayMs: 7 }), true);
  const settled = socket.received.filter((frame) => /^(ACK|NACK|RETURN)$/.test(frame.op));
  assert.deepEqual(settled.map(({ op, delay_ms }) => [op, delay_ms]), [["ACK", undefined], ["NACK", 5], ["RETURN", 7]]);
  await deliveries.return?.();
  await hub.close();
});

test("a break gives back what is not settled and what waits, and unsubscribes", async () => {
  const { hub, socket } = await setUpConnected();
  const loop = (async () => {
    for await (const delivery of hub.consume("jobs", "workers")) {
      assert.equal(delivery.event.seq, 1);
      break;
    }
  })();
  socket.ok(await socket.next("SUBSCRIBE"));
  confirm(socket);
  deliver(socket, 1);
  deliver(socket, 2);
  await loop;
  const returned = socket.received.filter((frame) => frame.op === "RETURN").flatMap((frame) => frame["ids"] as string[]);
  assert.deepEqual(returned.sort(), [uuid(1), uuid(2)]);
  await socket.next("UNSUBSCRIBE");
  await hub.close();
});

test("an ack of an event that is not held any more resolves with false", async () => {
  const { hub, socket } = await setUpConnected();
  const deliveries = hub.consume("jobs", "workers");
  const first = deliveries.next();
  socket.ok(await socket.next("SUBSCRIBE"));
  deliver(socket, 1);
  const acked = (await first).value?.ack();
  socket.ok(await socket.next("ACK"), { acked: 0, unknown: [uuid(1)] });
  assert.equal(await acked, false);
  confirm(socket);
  await deliveries.return?.();
  await hub.close();
});

test("a refused subscription rejects the loop once, and then it is over", async () => {
  const { hub, socket } = await setUpConnected();
  const deliveries = hub.consume("jobs", "workers");
  const first = deliveries.next();
  const second = deliveries.next();
  socket.err(await socket.next("SUBSCRIBE"), "forbidden");
  await assert.rejects(first, { code: "forbidden" });
  assert.equal((await second).done, true);
  assert.equal((await deliveries.next()).done, true);
  await hub.close();
});

test("a signal ends the loop, and what the body works on can still be acked", async () => {
  const controller = new AbortController();
  const { hub, socket } = await setUpConnected();
  const deliveries = hub.consume("jobs", "workers", { signal: controller.signal });
  const first = deliveries.next();
  socket.ok(await socket.next("SUBSCRIBE"));
  confirm(socket);
  deliver(socket, 1);
  const one = (await first).value;
  const second = deliveries.next();
  controller.abort();
  assert.equal((await second).done, true);
  assert.equal(await one?.ack(), true);
  await socket.next("UNSUBSCRIBE");
  assert.equal((await hub.consume("jobs", "workers", { signal: controller.signal }).next()).done, true);
  await hub.close();
});

test("close ends the loop", async () => {
  const { hub, socket } = await setUpConnected();
  const deliveries = hub.consume("jobs", "workers");
  const first = deliveries.next();
  socket.ok(await socket.next("SUBSCRIBE"));
  confirm(socket);
  assert.equal(await stateOf(first), "pending");
  await hub.close();
  assert.equal((await first).done, true);
});

test("what was yielded is extended until it is settled", async () => {
  const { hub, socket, platform } = await setUpConnected();
  const deliveries = hub.consume("jobs", "workers");
  const first = deliveries.next();
  socket.ok(await socket.next("SUBSCRIBE"));
  deliver(socket, 1);
  await first;
  await platform.pass(10_000);
  assert.deepEqual((await socket.next("MODACK"))["ids"], [uuid(1)]);
  await settle();
  await hub.close({ timeoutMs: 0 });
});

/** A loop that waits because a handler of the same group is still at work, and the end of that wait. */
async function waiting(signal?: AbortSignal): Promise<{ setup: Awaited<ReturnType<typeof setUpConnected<AnyTopics>>>; deliveries: AsyncIterator<unknown>; first: Promise<IteratorResult<unknown>>; release: () => Promise<void> }> {
  const gate = deferred();
  const setup = await setUpConnected();
  const { hub, socket } = setup;
  const subscribed = hub.subscribe("jobs", "workers", () => gate.promise);
  socket.ok(await socket.next("SUBSCRIBE"));
  const before = await subscribed;
  deliver(socket, 1);
  confirm(socket);
  await settle();
  void before.unsubscribe();
  const deliveries = hub.consume("jobs", "workers", signal ? { signal } : {});
  const first = deliveries.next();
  assert.equal(await stateOf(first), "pending");
  const release = async (): Promise<void> => {
    gate.resolve();
    await before.closed;
    await settle();
  };
  return { setup, deliveries, first, release };
}

test("a loop that ends while it waits for another one to end subscribes nothing", async () => {
  const { setup, deliveries, first, release } = await waiting();
  await deliveries.return?.();
  assert.equal((await first).done, true);
  await release();
  await setup.socket.silent("SUBSCRIBE");
  assert.equal((await deliveries.next()).done, true);
  await setup.hub.close();
});

test("a signal ends a loop that waits for another one to end", async () => {
  const controller = new AbortController();
  const { setup, deliveries, first, release } = await waiting(controller.signal);
  controller.abort();
  assert.equal((await first).done, true);
  await release();
  await setup.socket.silent("SUBSCRIBE");
  assert.equal((await deliveries.next()).done, true);
  await setup.hub.close();
});

test("a signal keeps a subscription from beginning that waits for another one to end", async () => {
  const controller = new AbortController();
  const { setup, deliveries, release } = await waiting();
  await deliveries.return?.();
  const subscribed = setup.hub.subscribe("jobs", "workers", () => undefined, { signal: controller.signal });
  const refused = assert.rejects(subscribed, { name: "AbortError" });
  await settle();
  controller.abort();
  await release();
  await refused;
  await setup.socket.silent("SUBSCRIBE");
  await setup.hub.close();
});

test("only the first outcome counts, also of a delivery that was lost: the key's next one waits for its turn", async () => {
  const { hub, socket, platform } = await setUpConnected();
  const deliveries = hub.consume("jobs", "workers", { ordering: "key", autoExtend: false });
  const pulled = deliveries.next();
  socket.ok(await socket.next("SUBSCRIBE"));
  confirm(socket);
  const keyed = (n: number): void => socket.say(eventFrame("jobs", "workers", { id: uuid(n), seq: n, key: "k" }));
  keyed(1);
  const first = (await pulled).value;
  await platform.pass(30_000);
  // The time of the first one is up. Its key goes on here, one by one.
  for (let n = 2; n <= 4; n++) keyed(n);
  const pulls = [deliveries.next(), deliveries.next()];
  assert.equal(await first?.return(), false);
  assert.equal(await first?.nack(), false);
  assert.equal(await first?.nack(), false);
  const states = await Promise.all(pulls.map((pull) => stateOf(pull)));
  assert.deepEqual(states, ["resolved", "pending"], "one event of a key at a time");
  await hub.close({ timeoutMs: 0 });
});

test("a loop that ends while a validator thinks ends, whatever the validator says", async () => {
  for (const isRefused of [true, false]) {
    const verdict = deferred<{ value: unknown } | { issues: { message: string }[] }>();
    const validate = { jobs: { "~standard": { version: 1, vendor: "test", validate: () => verdict.promise } } } as const;
    const { hub, socket } = await setUpConnected<AnyTopics>({ validate });
    const controller = new AbortController();
    const seen: unknown[] = [];
    const loop = (async () => {
      for await (const delivery of hub.consume("jobs", "workers", { signal: controller.signal })) seen.push(delivery);
    })();
    socket.ok(await socket.next("SUBSCRIBE"));
    confirm(socket);
    deliver(socket, 1);
    await settle();
    controller.abort();
    verdict.resolve(isRefused ? { issues: [{ message: "no" }] } : { value: 1 });
    assert.equal(await stateOf(loop), "resolved");
    assert.deepEqual(seen, []);
    assert.equal(socket.received.filter(({ op }) => op === (isRefused ? "NACK" : "RETURN")).length, 1);
    await hub.close();
  }
});
