// Handlers whose effects happen once: what is run, what is marked, and what becomes of an event when the store fails.

import assert from "node:assert/strict";
import { test } from "node:test";
import { exactlyOnce, exactlyOnceTx, memoryInbox } from "../../src/inbox/index.ts";
import { PromClient, Retry, Return } from "../../src/node.ts";
import { Condition } from "../support/condition.ts";
import { delivery, Fault, FlakyStore, quiet, setUp, SynchronousStore, TransactionalStore } from "./stage.ts";

test("an event that comes again after it was handled is acked and not run, also by another client", async (t) => {
  const { hub, client } = setUp(t);
  const store = memoryInbox();
  const runs: unknown[] = [];
  const handler = exactlyOnce((event) => runs.push(event.payload), store, quiet);
  await client.subscribe("orders", "billing", handler);
  hub.publish("orders", 1);
  hub.publish("orders", 2);
  await hub.settled("orders", "billing");
  await client.unsubscribe("orders", "billing");
  hub.seek("orders", "billing", { from: "earliest" });
  const other = new PromClient({ urls: [hub.url], token: hub.token(), webSocket: hub.webSocket });
  t.after(() => other.close());
  await other.subscribe("orders", "billing", handler);
  await hub.settled("orders", "billing");
  assert.deepEqual(runs, [1, 2]);
});

test("a raised generation handles events again, and another consumer is not held back by the marks of this one", async (t) => {
  const { hub, client } = setUp(t);
  const store = memoryInbox();
  const runs: string[] = [];
  const subscribe = (name: string, options: { consumer: string; generation?: number }): Promise<unknown> =>
    client.subscribe("orders", "billing", exactlyOnce(() => void runs.push(name), store, { ...quiet, ...options }));
  await subscribe("first", { consumer: "billing" });
  hub.publish("orders", 1);
  await hub.settled("orders", "billing");
  for (const [name, options] of [
    ["same", { consumer: "billing", generation: 0 }],
    ["next", { consumer: "billing", generation: 1 }],
    ["other", { consumer: "mail" }],
  ] as const) {
    await client.unsubscribe("orders", "billing");
    hub.seek("orders", "billing", { from: "earliest" });
    await subscribe(name, options);
    await hub.settled("orders", "billing");
  }
  assert.deepEqual(runs, ["first", "next", "other"]);
});

test("what throws, and what returns a Retry or a Return, is not marked and runs again", async (t) => {
  const { hub, client } = setUp(t);
  const store = new FlakyStore();
  const attempts: number[] = [];
  const outcomes: (() => unknown)[] = [
    () => {
      throw new Error("no");
    },
    () => new Retry({ delayMs: 1 }),
    () => {
      throw new Return({ delayMs: 1 });
    },
    () => new Return({ delayMs: 1 }),
    () => "done",
  ];
  await client.subscribe("orders", "billing", exactlyOnce((_, ctx) => {
    attempts.push(ctx.attempt);
    return outcomes.shift()?.();
  }, store, quiet));
  hub.publish("orders", 1);
  await hub.settled("orders", "billing");
  assert.deepEqual(attempts, [1, 2, 3, 4, 5]);
  assert.deepEqual(store.asked.filter((what) => what === "add"), ["add"]);
});

test("an event waits here while the store is down, longer than its lease, and has not failed", async (t) => {
  const { hub, client } = setUp(t);
  const store = new FlakyStore();
  store.down = "everything";
  const logged: string[] = [];
  const runs: number[] = [];
  const handler = exactlyOnce((_, ctx) => runs.push(ctx.attempt), store, { consumer: "billing", log: (level, message) => logged.push(`${level} ${message}`) });
  // Nothing but the inbox extends.
  await client.subscribe("orders", "billing", handler, { maxAttempts: 1, ackTimeoutMs: 300, autoExtend: false });
  hub.publish("orders", 1);
  const began = Date.now();
  const asked = new Condition();
  const looking = setInterval(() => asked.changed(), 20);
  t.after(() => clearInterval(looking));
  await asked.until(() => Date.now() - began > 900);
  assert.deepEqual(runs, []);
  store.down = "nothing";
  await hub.settled("orders", "billing");
  assert.deepEqual(runs, [1], "the first delivery");
  assert.deepEqual(hub.deadLetters("orders"), []);
  assert.deepEqual(logged, ["warn inbox unavailable", "info inbox available again"]);
});

test("in a long outage events are given back without a failure, and are handled after it", async () => {
  const store = new FlakyStore();
  store.down = "everything";
  const { event, ctx } = delivery();
  const runs: unknown[] = [];
  const handler = exactlyOnce((given) => runs.push(given.id), store, { ...quiet, holdMs: 0 });
  const error: unknown = await Promise.resolve(handler(event, ctx)).catch((reason: unknown) => reason);
  assert.ok(error instanceof Return && error.delayMs === 10_000, String(error));
  store.down = "nothing";
  await handler(event, ctx);
  assert.deepEqual(runs, [event.id]);
});

test("an event that was handled and cannot be marked is not run again by this process", async () => {
  const store = new FlakyStore();
  store.down = "add";
  const { event, ctx } = delivery();
  let runs = 0;
  const handler = exactlyOnce(() => runs++, store, { ...quiet, holdMs: 0 });
  await assert.rejects(Promise.resolve(handler(event, ctx)), Return);
  await assert.rejects(Promise.resolve(handler(event, ctx)), Return);
  store.down = "nothing";
  await handler(event, ctx);
  await handler(event, ctx);
  assert.equal(runs, 1);
});

test("a handler that is told to stop while it waits for the store gives its event back", async (t) => {
  const { hub, client } = setUp(t);
  const store = new FlakyStore();
  store.down = "everything";
  await client.subscribe("orders", "billing", exactlyOnce(() => undefined, store, quiet), { maxAttempts: 1 });
  hub.publish("orders", 1);
  await hub.idle();
  await client.close();
  assert.deepEqual(hub.deadLetters("orders"), []);
  assert.equal(hub.group("orders", "billing")?.unsettled, 1);
});

test("a second copy of an event waits until the first one has ended, and runs only if that has failed", async () => {
  for (const [isFailing, expected] of [
    [false, 1],
    [true, 2],
  ] as const) {
    const { event, ctx } = delivery();
    let finish: () => void = () => undefined;
    const finished = new Promise<void>((resolve) => (finish = resolve));
    let runs = 0;
    const handler = exactlyOnce(async () => {
      runs++;
      await finished;
      if (isFailing && runs === 1) throw new Error("no");
    }, memoryInbox(), quiet);
    const first = Promise.resolve(handler(event, ctx)).catch(() => "failed");
    const second = Promise.resolve(handler(event, delivery().ctx));
    const third = delivery();
    const aborted = Promise.resolve(handler(event, third.ctx));
    third.controller.abort(new Error("lost"));
    await assert.rejects(aborted, /lost/);
    assert.equal(runs, 1);
    finish();
    await Promise.all([first, second]);
    assert.equal(runs, expected);
  }
});

test("a replayed dead letter is known by the id of the event that was published first", async () => {
  let runs = 0;
  const handler = exactlyOnce(() => runs++, memoryInbox(), quiet);
  const { event, ctx } = delivery();
  await handler(event, ctx);
  const replay = delivery({ id: "018f4e3a-1b2c-7d3e-8f40-aaaaaaaaaaaa", seq: 9, headers: { "x-hub-replay-of": event.id, "x-hub-replay-for": "billing" } });
  await handler(replay.event, replay.ctx);
  assert.equal(runs, 1);
  await handler(delivery({ topic: "refunds" }).event, ctx);
  assert.equal(runs, 2, "ids are those of a topic");
});

test("marks in memory are bounded, and purged by seq and age together", async () => {
  const consumer = "billing";
  const store = memoryInbox({ limit: 3 });
  const mark = (seq: number, topic = "orders") => ({ consumer, topic, id: `id-${seq}`, seq });
  for (const seq of [1, 2, 3]) await store.add(mark(seq));
  assert.equal(await store.has(mark(1)), true);
  await store.add(mark(4));
  assert.deepEqual(await Promise.all([1, 2, 3, 4].map((seq) => store.has(mark(seq)))), [true, false, true, true], "the one that was used least recently has gone");
  assert.equal(await store.purge({ consumer, topic: "orders", below: 4 }), 0, "young marks stay");
  assert.equal(await store.purge({ consumer, topic: "refunds", below: 4, keepMs: 0 }), 0);
  assert.equal(await store.purge({ consumer, topic: "orders", below: 4, keepMs: 0, generation: 1 }), 0);
  assert.equal(await store.purge({ consumer, topic: "orders", below: 4, keepMs: 0 }), 2);
  assert.equal(await store.has(mark(4)), true);
  await assert.rejects(store.purge({ consumer, topic: "orders", below: -1 }), /below -1: an integer from 0/);
  await assert.rejects(store.purge({ consumer, topic: "orders", below: 1, keepMs: NaN }), /keepMs NaN/);
  assert.throws(() => memoryInbox({ limit: 0 }), /limit 0/);
});

test("wrong options are refused when the handler is made", () => {
  for (const [options, text] of [
    [{ consumer: "" }, /consumer "".*letters, digits/],
    [{ consumer: "billing#1" }, /consumer "billing#1"/],
    [{ consumer: "b".repeat(201) }, /1 to 200/],
    [{ consumer: "b", generation: -1 }, /generation -1/],
    [{ consumer: "b", generation: 0.5 }, /generation 0\.5/],
    [{ consumer: "b", holdMs: NaN }, /holdMs NaN/],
  ] as const) {
    assert.throws(() => exactlyOnce(() => undefined, memoryInbox(), options), text);
    assert.throws(() => exactlyOnceTx(new TransactionalStore(), () => undefined, options), text);
  }
});

test("in a transaction the mark and the changes are there together, and a duplicate runs nothing", async () => {
  const store = new TransactionalStore();
  const { event, ctx } = delivery();
  const handler = exactlyOnceTx(store, (given, _, tx) => tx.write(given.id), quiet);
  await handler(event, ctx);
  await handler(event, ctx);
  assert.deepEqual(store.committed, [event.id]);
});

test("a Retry or a Return of a handler with a transaction rolls back, and goes on to the hub", async () => {
  for (const outcome of [new Retry({ delayMs: 5 }), new Return(), new Error("no")]) {
    for (const isThrown of [true, false]) {
      if (!isThrown && !(outcome instanceof Retry)) continue;
      const store = new TransactionalStore();
      const { event, ctx } = delivery();
      const handler = exactlyOnceTx(store, (_, __, tx) => {
        tx.write("gone");
        if (isThrown) throw outcome;
        return outcome;
      }, quiet);
      assert.equal(await Promise.resolve(handler(event, ctx)).catch((reason: unknown) => reason), outcome);
      assert.deepEqual([store.committed, store.asked], [[], ["has"]]);
    }
  }
});

test("a transaction that fails because of the database runs again here, and publishes under the same ids", async () => {
  for (const faults of [["conflict", "conflict"], ["unavailable"]] as const) {
    const store = new TransactionalStore();
    store.faults.push(...faults.map((fault) => new Fault(fault)));
    const { event, ctx, published } = delivery();
    let runs = 0;
    const handler = exactlyOnceTx(store, async (_, run, tx) => {
      runs++;
      tx.write("once");
      await run.publish("mail", 1);
      await run.publish("mail", 2);
    }, quiet);
    await handler(event, ctx);
    assert.equal(runs, faults.length + 1);
    assert.deepEqual(store.committed, ["once"]);
    const ids = published.map(({ id }) => id);
    assert.equal(new Set(ids).size, 2, "two events");
    assert.deepEqual(ids.slice(2, 4), ids.slice(0, 2));
  }
});

test("published ids are those of a handler without an inbox", async (t) => {
  const { hub, client } = setUp(t);
  const store = new TransactionalStore();
  await client.subscribe("orders", "billing", exactlyOnceTx(store, (_, ctx) => ctx.publish("mail", 1), quiet));
  hub.publish("orders", 1);
  await hub.settled("orders", "billing");
  await client.unsubscribe("orders", "billing");
  hub.seek("orders", "billing", { from: "earliest" });
  await client.subscribe("orders", "billing", (_, ctx) => ctx.publish("mail", 1));
  await hub.settled("orders", "billing");
  assert.equal(hub.events("mail").length, 1);
});

test("a handler that loses against other transactions for two minutes has failed", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const store = new TransactionalStore();
  const { event, ctx } = delivery();
  let runs = 0;
  const handler = exactlyOnceTx(store, () => {
    runs++;
    store.faults.push(new Fault("conflict"));
  }, quiet);
  let outcome: unknown;
  void Promise.resolve(handler(event, ctx)).catch((reason: unknown) => (outcome = reason));
  for (let second = 0; second < 122; second++) {
    await new Promise((resolve) => setImmediate(resolve));
    if (second < 119) assert.equal(outcome, undefined);
    t.mock.timers.tick(1_000);
  }
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(outcome instanceof Fault);
  assert.ok(runs > 100);
});

test("a lock that another writer holds is waited for without a limit", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const store = new SynchronousStore();
  let isBusy = true;
  const onceSync = store.onceSync.bind(store);
  store.onceSync = (mark, run) => {
    if (isBusy) throw new Fault("conflict");
    return onceSync(mark, run);
  };
  const { event, ctx } = delivery();
  let isDone = false;
  const handled = Promise.resolve(exactlyOnceTx(store, (_, __, tx) => tx.write("once"), quiet)(event, ctx)).then(() => (isDone = true));
  for (let minute = 0; minute < 30; minute++) {
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
    t.mock.timers.tick(60_000);
  }
  assert.equal(isDone, false);
  isBusy = false;
  for (let turn = 0; turn < 5; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
    t.mock.timers.tick(1_000);
  }
  await handled;
  assert.deepEqual(store.committed, ["once"]);
});

test("a driver that blocks: prepare is outside of the transaction, commit within it, and must not be async", async () => {
  const store = new SynchronousStore();
  const { event, ctx } = delivery();
  const steps: string[] = [];
  const handler = exactlyOnceTx(store, {
    prepare: async () => {
      steps.push("prepare");
      return Promise.resolve(41);
    },
    commit: (_, __, tx, prepared) => {
      steps.push("commit");
      tx.write(String(prepared + 1));
    },
  }, quiet);
  store.faults.push(new Fault("conflict"));
  await handler(event, ctx);
  await handler(event, ctx);
  assert.deepEqual(store.committed, ["42"]);
  assert.deepEqual(steps, ["prepare", "commit", "commit"], "what was prepared serves the second try, and a duplicate prepares nothing");

  const later = delivery({ id: "018f4e3a-1b2c-7d3e-8f40-bbbbbbbbbbbb" });
  const wrong = exactlyOnceTx(store, async (_, __, tx) => {
    await Promise.resolve();
    tx.write("late");
  }, quiet);
  await assert.rejects(Promise.resolve(wrong(later.event, later.ctx)), /commit has returned a promise/);
  const returned = exactlyOnceTx(store, { prepare: () => new Return({ delayMs: 7 }), commit: () => assert.fail("not prepared") }, quiet);
  assert.ok((await returned(later.event, later.ctx)) instanceof Return);
  assert.deepEqual(store.committed, ["42"]);
});
