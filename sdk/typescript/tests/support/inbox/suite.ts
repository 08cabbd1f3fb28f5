// What every inbox has to stand: kills at each step, two copies of a consumer, and a chain of outbox, hub, inbox, outbox and hub under kills.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { groupCursor } from "../../../src/inbox/index.ts";
import { PromClient, Return } from "../../../src/node.ts";
import { poll } from "../condition.ts";
import { Hub } from "../hub.ts";
import { execute } from "../package.ts";
import { type Base, type BaseKind, openBase, type Step } from "./bases.ts";
import type { ConsumerOptions } from "./consumer.ts";
import { ConsumerProcess } from "./process.ts";

/** A database of a test's own. */
export interface Place {
  readonly kind: BaseKind;
  readonly url: string;
  /** Ends the server and starts it again; undefined for a file. */
  readonly server?: { kill(): Promise<void>; run(): Promise<void> };
}

/** Leases of a process that is gone are free at once. */
const NO_GRACE = "[limits]\nreconnect_grace = \"0ms\"\n";
const GROUP = "workers";

export interface Stage {
  readonly base: Base;
  readonly hub: Hub;
  readonly client: PromClient;
  /** Starts a consumer of a topic. */
  readonly consumer: (topic: string, options?: Partial<ConsumerOptions>) => ConsumerProcess;
}

export async function stageOf(t: TestContext, place: Place, config = NO_GRACE): Promise<Stage> {
  const base = openBase(place.kind, place.url);
  t.after(() => base.close());
  await base.init();
  const hub = await Hub.start(t, config);
  const client = new PromClient({ urls: [hub.url], token: hub.token(), on: { log: () => undefined } });
  t.after(() => client.close());
  const common = { kind: place.kind, base: place.url, hub: hub.url, token: hub.token(), form: "transactional" } as const;
  return { base, hub, client, consumer: (topic, options = {}) => new ConsumerProcess(t, { ...common, topic, ...options }) };
}

/** Waits until a group has settled all of a topic. */
export async function settled(hub: Hub, topic: string): Promise<void> {
  const group = `topic=${topic}&group=${GROUP}`;
  const isSettled = async (): Promise<boolean> => ((await hub.get(`lag?${group}`)) as { lag?: number }).lag === 0;
  await poll(`${GROUP} has settled ${topic}`, isSettled).catch(async (error: unknown) => {
    throw new Error(`${String(error)}; ${JSON.stringify(await hub.get(`groups/detail?${group}`))}`, { cause: error });
  });
}

/** The number of dead letters of a topic. */
async function deadLetters(hub: Hub, topic: string): Promise<number> {
  const { topics } = (await hub.get(`topics?q=dlq.${topic}`)) as { topics: { name: string }[] };
  return topics.some(({ name }) => name === `dlq.${topic}`) ? (await hub.log(`dlq.${topic}`)).length : 0;
}

/** Kills a consumer at each step of its first event, and has another one take over. */
export function killsAtEachStep(name: string, skip: string | false, place: (t: TestContext) => Promise<Place>): void {
  const cases: [form: ConsumerOptions["form"], stop: Step, runsTwice: boolean][] = [
    ["transactional", "mark", false],
    ["transactional", "run", false],
    ["transactional", "commit", false],
    ["transactional", "ack", false],
    ["plain", "run", false],
    // What docs/exactly-once.md says of this form.
    ["plain", "mark", true],
    ["plain", "ack", false],
  ];
  test(`${name}: a consumer that is killed at any step has each effect once`, { skip }, async (t) => {
    const { base, hub, client, consumer } = await stageOf(t, await place(t));
    const figures: string[] = [];
    for (const [form, stop, runsTwice] of cases) {
      const topic = `${form}.${stop}`;
      const first = consumer(topic, { form, stop, concurrency: 1 });
      await first.ready();
      const ids = (await Promise.all([1, 2, 3].map((n) => client.publish(topic, { n })))).map(({ id }) => id);
      await first.stoppedAt(stop);
      const [stopped] = first.ids("delivered");
      await first.kill();
      const second = consumer(topic, { form, concurrency: 1 });
      await second.until(() => ids.every((id) => first.ids("done").includes(id) || second.ids("done").includes(id)));
      await settled(hub, topic);
      const effects = await base.effects();
      const found = ids.map((id) => effects.get(id) ?? 0);
      assert.deepEqual(found, ids.map((id) => (runsTwice && id === stopped ? 2 : 1)), `${form}, killed before ${stop}`);
      figures.push(`${form} ${stop}: ${found.join(" ")}`);
      await second.kill();
    }
    t.diagnostic(`${name}, effects of three events, killed before: ${figures.join("; ")}`);
  });
}

/** One copy stops before its commit, and the hub gives the event to another one. */
export function twoCopies(name: string, skip: string | false, place: (t: TestContext) => Promise<Place>): void {
  test(`${name}: of two copies of a consumer at once, one has the effect, and the other one waits for it`, { skip }, async (t) => {
    const { base, hub, client, consumer } = await stageOf(t, await place(t));
    for (const isKilled of [false, true]) {
      const topic = isKilled ? "killed" : "slow";
      // Until the second one is there, the first one gets the event again and again.
      const first = consumer(topic, { stop: "commit", ackTimeoutMs: 500, autoExtend: false, maxAttempts: 1_000 });
      await first.ready();
      const { id } = await client.publish(topic, 1);
      await first.stoppedAt("commit");
      const second = consumer(topic);
      await second.until(() => second.ids("delivered").includes(id));
      assert.deepEqual(second.ids("done"), []);
      if (isKilled) await first.kill();
      else first.go();
      await second.until(() => second.ids("done").includes(id));
      await settled(hub, topic);
      assert.equal((await base.effects()).get(id), 1);
      // On SQLite the second one does not begin before it has the lock; on the others it is held by the mark.
      assert.equal(second.ids("run").length, isKilled ? 1 : 0, "the second copy runs only if the first one is gone");
      await first.kill();
      await second.kill();
    }
  });
}

/** An outage that is longer than a lease. `maxAttempts` is 1: one failure would make a dead letter. */
export function outage(name: string, skip: string | false, place: (t: TestContext) => Promise<Place>, interrupt: (place: Place) => Promise<() => Promise<void>>): void {
  test(`${name}: an outage that is longer than a lease fails no event, and none is handled twice`, { skip }, async (t) => {
    const given = await place(t);
    const { base, hub, client, consumer } = await stageOf(t, given);
    const LEASE_MS = 2_000;
    const worker = consumer("orders", { stop: "run", maxAttempts: 1, ackTimeoutMs: LEASE_MS });
    await worker.ready();
    const publish = (count: number): Promise<string[]> => Promise.all(Array.from({ length: count }, async (_, n) => (await client.publish("orders", n)).id));
    const ids = await publish(1);
    await worker.stoppedAt("run");
    // In the midst of a transaction; a file is locked behind it.
    const repair = given.server === undefined ? undefined : await interrupt(given);
    worker.go();
    if (repair === undefined) await worker.until(() => worker.ids("done").length === 1);
    const later = repair ?? (await interrupt(given));
    ids.push(...(await publish(20)));
    await worker.until(() => worker.ids("delivered").length >= 16);
    // There is nothing to wait for: nothing happens, for longer than the leases last.
    await new Promise((resolve) => setTimeout(resolve, 2 * LEASE_MS));
    await later();
    await worker.until(() => ids.every((id) => worker.ids("done").includes(id)));
    await settled(hub, "orders");
    const effects = await base.effects();
    assert.deepEqual(ids.map((id) => effects.get(id)), ids.map(() => 1));
    assert.equal(await deadLetters(hub, "orders"), 0, "no event has failed");
    t.diagnostic(`${name}: ${ids.length} events over an outage, ${worker.ids("delivered").length} deliveries, ${worker.ids("run").length} runs, ${effects.size} effects, no dead letter`);
  });
}

const ROUNDS = Number(process.env["EVENT_HUB_CHAIN_ROUNDS"] ?? 3);
const EVENTS_PER_ROUND = 40;

/** Rows of an outbox become events, these become effects and rows of an outbox again, and these events: under kills of all that takes part. */
export function chain(name: string, skip: string | false, place: (t: TestContext) => Promise<Place>): void {
  test(`${name}: outbox, hub, inbox, outbox, hub: each effect is there once after ${ROUNDS} rounds of kills`, { skip, timeout: 120_000 + ROUNDS * 60_000 }, async (t) => {
    const given = await place(t);
    const program = process.env["EVENT_HUB_BIN"] ?? "";
    if (given.kind !== "mongodb") await execute(program, ["outbox", "init", "--apply", "--db", given.url]);
    const { base, hub, consumer } = await stageOf(t, given, `${NO_GRACE}\n[[outbox]]\nname = "shop"\nlease = "1s"\nurl = "${given.url}"\n`);
    const start = (): ConsumerProcess => consumer("chain.in", { out: "chain.out", maxAttempts: 1_000 });
    let worker = start();
    await worker.ready();
    const ended: ConsumerProcess[] = [];
    const count = (what: "delivered" | "run" | "done"): number => [...ended, worker].reduce((sum, one) => sum + one.ids(what).length, 0);
    const victims: Record<string, () => Promise<void>> = {
      hub: async () => {
        await hub.kill();
        await hub.run();
      },
      consumer: async () => {
        await worker.kill();
        ended.push(worker);
        worker = start();
        await worker.ready();
      },
      ...(given.server && {
        database: async () => {
          await given.server?.kill();
          await given.server?.run();
        },
      }),
    };
    const kills: string[] = [];
    let total = 0;
    const began = Date.now();
    const runRound = async (): Promise<void> => {
      const rows = Array.from({ length: EVENTS_PER_ROUND }, (_, at) => ({ id: crypto.randomUUID(), topic: "chain.in", key: `key-${at % 7}`, payload: { n: total + at } }));
      const before = total;
      total += rows.length;
      // In two transactions, so that rows are written while something is down.
      const half = rows.length / 2;
      await writeSurely(base, rows.slice(0, half));
      const writing = writeSurely(base, rows.slice(half));
      const names = Object.keys(victims).sort(() => Math.random() - 0.5);
      for (const [at, victim] of names.entries()) {
        // Somewhere in the work of this round: the number of effects is what tells how far it is.
        const reached = before + Math.floor(((at + Math.random()) / names.length) * half);
        await poll(`${reached} effects`, async () => (await sizeOf(base)) >= reached);
        kills.push(victim);
        await victims[victim]?.();
      }
      await writing;
      await poll(`the ${total} effects`, async () => (await sizeOf(base)) >= total);
      await poll(`the ${total} events`, async () => (await hub.log("chain.out")).length >= total);
      await settled(hub, "chain.in");
    };
    for (let round = 1; round <= ROUNDS; round++) {
      await runRound().catch(async (error: unknown) => {
        const state = await Promise.all([hub.get("outbox"), hub.get(`groups/detail?topic=chain.in&group=${GROUP}`), sizeOf(base)]).catch(String);
        throw new Error(`round ${round}, with kills of ${kills.slice(-4).join(", ")}: ${String(error)}; ${JSON.stringify(state)}; ${worker.lastWords}`, { cause: error });
      });
    }
    const source = await hub.log("chain.in");
    const effects = await base.effects();
    const result = await hub.log("chain.out");
    const numbers = new Set(result.map(({ payload }) => (payload as { n: number }).n));
    const doubled = [...effects.values()].filter((times) => times > 1).length;
    t.diagnostic(
      `${name}: ${ROUNDS} rounds in ${Math.round((Date.now() - began) / 1000)} s, ${kills.length} kills (${Object.keys(victims).map((victim) => `${kills.filter((one) => one === victim).length} of the ${victim}`).join(", ")}), ` +
        `${total} rows, ${source.length} events in, ${count("delivered")} deliveries, ${count("run")} runs, ${effects.size} effects (${doubled} doubled, ${total - effects.size} lost), ${result.length} events out (${numbers.size} different)`,
    );
    assert.equal(source.length, total, "each row is published once");
    assert.deepEqual([...effects.keys()].sort(), source.map(({ id }) => id).sort(), "each event has an effect");
    assert.equal(doubled, 0, "no effect is there twice");
    assert.equal(result.length, total, "each effect is published once");
    assert.equal(numbers.size, total, "each effect is published");
    assert.equal(await deadLetters(hub, "chain.in"), 0);
  });
}

/** The number of events with an effect; while the database is down, none is known. */
async function sizeOf(base: Base): Promise<number> {
  return base.effects().then(
    ({ size }) => size,
    () => -1,
  );
}

/** Writes rows, again while that fails: their ids are known, so they are there once. */
function writeSurely(base: Base, rows: Parameters<Base["write"]>[0]): Promise<void> {
  return poll("the rows are written", () =>
    base.write(rows).then(
      () => true,
      (error: unknown) => base.isDuplicate(error),
    ),
  );
}

/** Marks are purged below the cursor of the group, which the hub tells, and only old ones. */
export function purging(name: string, skip: string | false, place: (t: TestContext) => Promise<Place>): void {
  test(`${name}: marks are purged below the group's cursor when they are old, and no others`, { skip }, async (t) => {
    const { base, hub, client } = await stageOf(t, await place(t));
    const handled = new Set<number>();
    const handler = base.transactional({ consumer: "worker" }, { step: () => undefined, rows: () => [] });
    await client.subscribe("orders", GROUP, async (event, ctx) => {
      // One that is not settled for long holds the cursor.
      if (event.seq === 4) return new Return({ delayMs: 3_600_000 });
      const result = await handler(event, ctx);
      handled.add(event.seq);
      return result;
    });
    const receipts = [];
    for (const n of [1, 2, 3, 4, 5]) receipts.push(await client.publish("orders", n));
    const cursor = (): Promise<number> => groupCursor({ url: hub.http, token: hub.token(), topic: "orders", group: GROUP });
    await poll("the cursor is at 3", async () => handled.size === 4 && (await cursor()) === 3);
    const marks = receipts.map(({ id, seq }) => ({ consumer: "worker", topic: "orders", id, seq }));
    const has = (): Promise<boolean[]> => Promise.all(marks.map((mark) => base.store.has(mark)));
    assert.deepEqual(await has(), [true, true, true, false, true]);
    const range = { consumer: "worker", topic: "orders", below: await cursor() };
    assert.equal(await base.store.purge(range), 0, "young marks stay");
    assert.equal(await base.store.purge({ ...range, generation: 1, keepMs: 0 }), 0);
    assert.equal(await base.store.purge({ ...range, topic: "others", keepMs: 0 }), 0);
    assert.equal(await base.store.purge({ ...range, keepMs: 0 }), 2);
    assert.deepEqual(await has(), [false, false, true, false, true]);
    await assert.rejects(groupCursor({ url: hub.http, token: hub.token(), topic: "orders", group: "nobody" }), /bad_request: .*nobody/);
    await assert.rejects(groupCursor({ url: hub.http, token: hub.token({ scopes: [] }), topic: "orders", group: GROUP }), /forbidden/);
    await assert.rejects(groupCursor({ url: "http://127.0.0.1:1", token: "", topic: "orders", group: GROUP }), /connect_failed: 127\.0\.0\.1:1 cannot be reached/);
  });
}
