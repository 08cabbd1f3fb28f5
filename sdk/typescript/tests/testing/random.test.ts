// Random work over random trouble, by seeds: publishes, handlers that succeed, throw, retry and return, cut connections, restarts of the hub, stores
// that fail. At the end nothing is lost, nothing is stored twice, and every key was handled in its order.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Retry, Return } from "../../src/api.ts";
import type { HubClient } from "../../src/client.ts";
import type { EventRecord, Receipt } from "../../src/types.ts";
import { Simulation } from "./simulation.ts";

const TOPICS = ["shop.orders", "shop.stock"];
const KEYS = ["a", "b", "c", "d", "e"];
const STEPS = 60;

interface Payload {
  topic: string;
  key: string;
  /** Its number among those of its topic and key. */
  n: number;
}

/** What one run has seen. */
class Run {
  readonly published: { payload: Payload; receipt: Promise<Receipt> }[] = [];
  /** Handled with success, at least once. */
  private readonly done = new Map<string, Set<number>>();
  private readonly counts = new Map<string, number>();
  readonly wrong: string[] = [];
  runs = 0;

  constructor(
    private readonly simulation: Simulation,
    private readonly publisher: HubClient,
  ) {}

  publish(): void {
    const [topic, key] = [this.simulation.pick(TOPICS), this.simulation.pick(KEYS)];
    const line = `${topic}/${key}`;
    const n = this.counts.get(line) ?? 0;
    this.counts.set(line, n + 1);
    const payload = { topic, key, n };
    const receipt = this.publisher.publish(topic, payload, { key, order: "key" });
    // Looked at in the end.
    receipt.catch(() => undefined);
    this.published.push({ payload, receipt });
  }

  /** A handler of one group. Another event of the key may begin only when the one before was handled. */
  handler(group: string) {
    return async (event: EventRecord): Promise<unknown> => {
      this.runs += 1;
      const { topic, key, n } = event.payload as Payload;
      const line = `${group}/${topic}/${key}`;
      const done = this.done.get(line) ?? new Set<number>();
      this.done.set(line, done);
      if (n > 0 && !done.has(n - 1)) this.wrong.push(`${line}: ${n} began before ${n - 1} was handled`);
      await this.simulation.sleep(this.simulation.random() * 30);
      const fate = this.simulation.random();
      if (fate < 0.08) throw new Error("it did not work");
      if (fate < 0.14) throw new Retry({ delayMs: 5 });
      if (fate < 0.2) return new Return({ delayMs: 5 });
      done.add(n);
      return undefined;
    };
  }

  handled(group: string): string[] {
    const lines = [...this.done].filter(([line]) => line.startsWith(`${group}/`));
    return lines.flatMap(([line, numbers]) => [...numbers].map((n) => `${line}/${n}`)).sort();
  }
}

async function trouble({ hub, ...simulation }: Pick<Simulation, "hub" | "random" | "pick">): Promise<void> {
  switch (simulation.pick(["cut", "cut one", "restart", "kill", "fail", "fail stored"])) {
    case "cut":
      hub.drop();
      break;
    case "cut one":
      hub.drop({ sub: simulation.pick(["worker", "publisher"]) });
      break;
    case "restart":
      await hub.stop();
      hub.start();
      break;
    case "kill":
      await hub.stop({ abruptly: true });
      hub.start();
      break;
    case "fail":
      hub.fail("unavailable", { times: 3 });
      break;
    case "fail stored":
      hub.fail("unavailable", { stored: true });
      break;
  }
}

for (let seed = 1; seed <= 12; seed += 1) {
  test(`nothing is lost or out of order, whatever happens, with seed ${seed}`, async () => {
    const simulation = new Simulation(seed);
    const { hub } = simulation;
    const publisher = simulation.client({ sub: "publisher", scopes: ["publish:**"] });
    const workers = [1, 2].map(() => simulation.client({ sub: "worker", scopes: ["subscribe:**"] }));
    const run = new Run(simulation, publisher);
    // Failures of consumers that vanish count; nothing is to become a dead letter here.
    const options = { ordering: "key", maxAttempts: 1000, concurrency: 4 } as const;
    const opened = workers.flatMap((worker) => [
      worker.subscribe("shop.orders", "one", run.handler("one"), options),
      worker.subscribe("shop.*", "all", run.handler("all"), options),
    ]);
    await simulation.advance(100);
    await Promise.all(opened);
    for (let step = 0; step < STEPS; step += 1) {
      for (let count = simulation.random() * 8; count > 0; count -= 1) run.publish();
      await simulation.advance(Math.floor(simulation.random() * 60));
      if (simulation.random() < 0.4) await trouble({ hub, random: simulation.random, pick: (choices) => simulation.pick(choices) });
    }
    const isSettled = (): boolean =>
      TOPICS.every((topic) => hub.events(topic).length === run.published.filter(({ payload }) => payload.topic === topic).length) &&
      [["shop.orders", "one"], ["shop.*", "all"]].every(([topic = "", group = ""]) => {
        const status = hub.group(topic, group);
        return status?.unsettled === 0;
      });
    for (let waited = 0; !isSettled() && waited < 600; waited += 1) await simulation.advance(1000);
    assert.ok(isSettled(), `after ten minutes: ${JSON.stringify([hub.group("shop.orders", "one"), hub.group("shop.*", "all")])}`);
    await Promise.all([publisher, ...workers].map((client) => Promise.all([client.close(), simulation.advance(6_000)])));

    assert.deepEqual(run.wrong, []);
    const lines = run.published.map(({ payload: { topic, key, n } }) => `${topic}/${key}/${n}`);
    assert.deepEqual(run.handled("all"), lines.map((line) => `all/${line}`).sort());
    const orders = lines.filter((line) => line.startsWith("shop.orders/"));
    assert.deepEqual(run.handled("one"), orders.map((line) => `one/${line}`).sort());
    for (const [topic, key] of TOPICS.flatMap((topic) => KEYS.map((key) => [topic, key] as const))) {
      const stored = hub.events<Payload>(topic).filter((event) => event.key === key).map(({ payload }) => payload.n);
      assert.deepEqual(stored, stored.map((_, n) => n), `${topic}/${key} is stored once, in the order of the publishes`);
      assert.deepEqual(hub.deadLetters(topic), []);
    }
    const receipts = await Promise.all(run.published.map(({ receipt }) => receipt));
    assert.equal(new Set(receipts.map(({ id }) => id)).size, run.published.length);
  });
}
