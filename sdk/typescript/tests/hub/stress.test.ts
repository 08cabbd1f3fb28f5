// Random work over random trouble, with the hub itself: publishes, handlers that succeed, throw, retry and return, pauses, ends of subscriptions and of
// clients, cut connections, hubs that are killed, stopped and halted. At the end every event is accounted for: see `Account`.
//
// The seed decides what happens, and the machine how far it gets. Longer runs, by hand:
//   EVENT_HUB_SDK_STRESS_SEED=7 EVENT_HUB_SDK_STRESS_SECONDS=40 node --import ./tools/typescript.mjs --test tests/hub/stress.test.ts

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Context, PromClient, Retry, Return, type Subscription } from "../../src/node.ts";
import type { EventRecord } from "../../src/types.ts";
import { type Address, Hub } from "../support/hub.ts";

const SEED = Number(process.env["EVENT_HUB_SDK_STRESS_SEED"] ?? 401);
const SECONDS = Number(process.env["EVENT_HUB_SDK_STRESS_SECONDS"] ?? 12);

/** The hub's `limits.reconnect_grace`. */
const RECONNECT_GRACE_MS = 10_000;
/** How late a loaded machine may do what takes no time. */
const SLACK_MS = 3_000;
const TOPICS = ["stress.a", "stress.b"];
const DERIVED = "derived";
const KEYS = 40;

interface Payload {
  topic: string;
  key: string;
  /** Its number among those of its topic and key, from 1. */
  n: number;
}

interface GroupSpec {
  readonly group: string;
  readonly topic: string;
  readonly covers: readonly string[];
  readonly isKeyed: boolean;
  readonly isLoop?: boolean;
  /** Whether its handlers publish. */
  readonly isDeriving?: boolean;
}

const GROUPS: readonly GroupSpec[] = [
  { group: "keyed", topic: "stress.a", covers: ["stress.a"], isKeyed: true },
  { group: "free", topic: "stress.a", covers: ["stress.a"], isKeyed: false, isDeriving: true },
  { group: "wide", topic: "stress.*", covers: TOPICS, isKeyed: true },
  { group: "loop", topic: "stress.b", covers: ["stress.b"], isKeyed: true, isLoop: true },
];

/** Pseudorandom numbers by a seed (mulberry32). */
class Random {
  constructor(private state: number) {}

  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  pick<Value>(values: readonly Value[]): Value {
    return values[this.below(values.length)] as Value;
  }
}

/** What differs from seed to seed besides what happens. */
class Settings {
  readonly ackTimeoutMs: number;
  readonly concurrency: number;
  readonly maxInFlight: number;
  /** Events that are published and not handled by all groups: more are not published. */
  readonly backlog: number;
  /** The longest pause between two events of the trouble. */
  readonly calmMs: number;
  readonly tokenSeconds: number;
  /** Events per second of a connection. */
  readonly rate: number;
  /** As long as a lease can last that nobody works on any more, and some time for the machine. */
  readonly stuckMs: number;

  constructor(random: Random) {
    this.ackTimeoutMs = random.pick([6_000, 6_000, 30_000]);
    this.concurrency = random.pick([1, 4, 12, 64]);
    this.maxInFlight = this.concurrency * random.pick([1, 4, 20]);
    this.backlog = Math.min(random.pick([500, 3_000, 20_000]), this.concurrency * 1_000);
    this.calmMs = random.pick([100, 400, 1_000]);
    this.tokenSeconds = random.pick([3600, 3600, 3]);
    this.rate = random.pick([1_000_000, 1_000_000, 500]);
    this.stuckMs = this.ackTimeoutMs + RECONNECT_GRACE_MS + 10_000;
  }
}

/** A run of a handler that succeeded. */
interface Run {
  readonly by: Consumer;
  readonly attempt: number;
  readonly began: number;
  readonly ended: number;
}

/**
 * What has to hold. Every event with a receipt is in the log once, and its keys in order. Every group handles every event, each key in order. One client
 * handles no event twice. Another client handles it again only if the first one's lease or ack was lost, which the protocol allows when
 * - the hub was killed or stopped: its leases are forgotten, and after a kill the acks of the last moments (docs/semantics.md, "The cursor"),
 * - the first client was away for longer than leases are kept (docs/protocol.md, "A member that comes back"),
 * - the first client was closed before its ack could arrive.
 */
class Account {
  constructor(readonly settings: Settings) {}

  readonly wrong: string[] = [];
  readonly published = new Map<string, Payload>();
  readonly stops: number[] = [];
  readonly runs = new Map<string, Run[]>();
  readonly #last = new Map<string, number>();
  readonly #running = new Map<string, number>();
  readonly #handled = new Map<string, number>();
  changed = performance.now();

  get open(): number {
    return Math.max(...GROUPS.map((spec) => this.missing(spec)));
  }

  missing({ group, covers }: GroupSpec): number {
    let missing = 0;
    for (const topic of covers) missing += this.#count(topic) - (this.#handled.get(`${group} ${topic}`) ?? 0);
    return missing;
  }

  readonly #counts = new Map<string, number>();

  #count(topic: string): number {
    return this.#counts.get(topic) ?? 0;
  }

  stored(id: string, payload: Payload): void {
    this.published.set(id, payload);
    this.#counts.set(payload.topic, this.#count(payload.topic) + 1);
  }

  began(spec: GroupSpec, by: Consumer, { event }: { event: EventRecord }): void {
    if (!spec.isKeyed) return;
    const line = `${spec.group} ${event.topic} ${event.key} ${by.number}`;
    const running = this.#running.get(line) ?? 0;
    if (running > 0) this.wrong.push(`${line}: two handlers of a key run at once in one client`);
    this.#running.set(line, running + 1);
  }

  ended(spec: GroupSpec, by: Consumer, { event }: { event: EventRecord }): void {
    const line = `${spec.group} ${event.topic} ${event.key} ${by.number}`;
    if (spec.isKeyed) this.#running.set(line, (this.#running.get(line) ?? 0) - 1);
  }

  handled(spec: GroupSpec, event: EventRecord, run: Run): void {
    this.changed = performance.now();
    const name = `${spec.group} ${event.topic} ${event.id}`;
    const runs = this.runs.get(name);
    if (runs !== undefined) {
      runs.push(run);
      return;
    }
    this.runs.set(name, [run]);
    const covered = `${spec.group} ${event.topic}`;
    this.#handled.set(covered, (this.#handled.get(covered) ?? 0) + 1);
    if (!spec.isKeyed) return;
    const { n } = event.payload as Payload;
    const line = `${covered} ${event.key}`;
    const last = this.#last.get(line) ?? 0;
    if (n !== last + 1) this.wrong.push(`${line}: ${n} was handled after ${last}`);
    this.#last.set(line, n);
  }

  /** Why the protocol allows the second run; undefined if it does not. */
  excuse(first: Run, second: Run): string | undefined {
    const { by } = first;
    if (by === second.by) return undefined;
    for (const stop of this.stops) {
      const again = by.readyAfter(stop);
      if (stop <= second.began && first.began <= again && stop <= first.ended + SLACK_MS) return "hub";
    }
    const kept = Math.min(this.settings.ackTimeoutMs, RECONNECT_GRACE_MS) - SLACK_MS;
    if (by.wasAway(kept, first.began - kept, second.began)) return "away";
    if (by.closedAt !== undefined && !by.wasReady(SLACK_MS, first.ended, by.closedAt)) return "closed";
    return undefined;
  }
}

/** A client with its subscriptions, and its own way to the hub. */
class Consumer {
  readonly #hub: PromClient;
  readonly #subscriptions = new Map<string, Subscription>();
  /** When it was connected, and when no more: in turn. */
  readonly #turns: number[] = [];
  readonly #work: Promise<unknown>[] = [];
  closedAt: number | undefined;
  isEnding = false;

  constructor(
    readonly number: number,
    hub: Hub,
    readonly address: Address,
    private readonly account: Account,
    private readonly random: Random,
  ) {
    this.#hub = new PromClient({
      urls: [address.url],
      token: () => hub.token({ ttl: account.settings.tokenSeconds }),
      backoff: { first: 50, longest: 1_000 },
      on: {
        state: ({ is }) => {
          if ((is === "ready") !== (this.#turns.length % 2 === 1)) this.#turns.push(performance.now());
        },
        log: (level, message, fields) => {
          if (message !== "handler failed" && level !== "info" && level !== "debug") this.#note(message, fields["error"]);
        },
      },
    });
  }

  readonly notes = new Map<string, number>();

  #note(message: string, error: unknown): void {
    const note = `${message}: ${String(error).slice(0, 120)}`;
    this.notes.set(note, (this.notes.get(note) ?? 0) + 1);
  }

  #isReadyIn(turn: number): boolean {
    return turn % 2 === 1;
  }

  /** The times between changes: [from, to, whether it was connected]. */
  #times(): [number, number, boolean][] {
    const ends = [...this.#turns, this.closedAt ?? Infinity];
    return ends.map((end, turn) => [turn === 0 ? 0 : (ends[turn - 1] as number), end, this.#isReadyIn(turn)]);
  }

  readyAfter(time: number): number {
    const next = this.#times().find(([from, , isReady]) => isReady && from >= time);
    return next?.[0] ?? Infinity;
  }

  wasAway(ms: number, from: number, to: number): boolean {
    return this.#times().some(([began, ended, isReady]) => !isReady && began > 0 && began < to && ended > from && Math.min(ended, to) - began >= ms);
  }

  wasReady(ms: number, from: number, to: number): boolean {
    return this.#times().some(([began, ended, isReady]) => isReady && Math.min(ended, to) - Math.max(began, from) >= ms);
  }

  join(spec: GroupSpec): void {
    if (spec.isLoop) {
      this.#work.push(this.#loop(spec).catch((error: unknown) => this.#failed(error)));
      return;
    }
    const { ackTimeoutMs, concurrency, maxInFlight } = this.account.settings;
    const joined = this.#hub.subscribe(spec.topic, spec.group, (event, ctx) => this.#handle(spec, event, ctx), {
      from: "earliest",
      ordering: spec.isKeyed ? "key" : "none",
      maxAttempts: 1000,
      ackTimeoutMs,
      concurrency,
      maxInFlight,
    });
    const kept = joined.then(
      (subscription) => this.#subscriptions.set(spec.group, subscription),
      (error: unknown) => this.#failed(error),
    );
    this.#work.push(kept);
  }

  #failed(error: unknown): void {
    // The client was closed meanwhile.
    if (!this.isEnding) this.account.wrong.push(`client ${this.number} cannot subscribe: ${String(error)}`);
  }

  async #loop(spec: GroupSpec): Promise<void> {
    const { ackTimeoutMs, maxInFlight } = this.account.settings;
    const options = { from: "earliest", ordering: "key", maxAttempts: 1000, ackTimeoutMs, maxInFlight } as const;
    while (!this.isEnding) {
      let rounds = 1 + this.random.below(300);
      for await (const delivery of this.#hub.consume(spec.topic, spec.group, options)) {
        const { event } = delivery;
        const began = performance.now();
        this.account.began(spec, this, delivery);
        await sleep(this.random.below(4));
        this.account.ended(spec, this, delivery);
        const fate = this.random.next();
        if (fate < 0.01) void delivery.nack();
        else if (fate < 0.02) void delivery.return();
        else {
          this.account.handled(spec, event, { by: this, attempt: delivery.attempt, began, ended: performance.now() });
          void delivery.ack();
        }
        if (--rounds === 0) break;
      }
    }
  }

  async #handle(spec: GroupSpec, event: EventRecord, ctx: Context): Promise<void> {
    const began = performance.now();
    this.account.began(spec, this, { event });
    try {
      const { ackTimeoutMs } = this.account.settings;
      const length = this.random.next();
      if (length > 0.9995) await sleep(this.random.below(1.5 * Math.min(ackTimeoutMs, 8_000)));
      else if (length > 0.99) await sleep(this.random.below(1_000));
      else if (length > 0.5) await sleep(this.random.below(20));
      const fate = this.random.next();
      if (fate < 0.01) throw new Error("no");
      if (fate < 0.02) throw new Retry({ delayMs: this.random.below(200) });
      if (fate < 0.03) throw new Return({ delayMs: this.random.below(200) });
      if (fate < 0.04) await ctx.extend(ackTimeoutMs);
      if (spec.isDeriving && (event.payload as Payload).n % 10 === 0) await ctx.publish(DERIVED, { from: event.id });
    } finally {
      this.account.ended(spec, this, { event });
    }
    this.account.handled(spec, event, { by: this, attempt: ctx.attempt, began, ended: performance.now() });
  }

  /** Something of what a program does with its subscriptions. */
  act(): string {
    const spec = this.random.pick(GROUPS);
    const subscription = this.#subscriptions.get(spec.group);
    if (subscription === undefined) return "nothing";
    const what = this.random.pick(["pause", "resume", "again", "again after the end"] as const);
    if (what === "pause" || what === "resume") subscription[what]();
    else {
      const left = subscription.unsubscribe();
      this.#subscriptions.delete(spec.group);
      if (what === "again") this.join(spec);
      else this.#work.push(left.then(() => this.join(spec)));
    }
    return `${what} ${spec.group}`;
  }

  pause(): void {
    for (const subscription of this.#subscriptions.values()) subscription.pause();
  }

  resume(): void {
    for (const subscription of this.#subscriptions.values()) subscription.resume();
  }

  /** Ends the client: what runs longer than this is given up. */
  async close(timeoutMs: number): Promise<void> {
    this.isEnding = true;
    await this.#hub.close({ timeoutMs });
    this.closedAt = performance.now();
  }

  get report(): object {
    const subscriptions = [...this.#subscriptions].map(([group, { isPaused }]) => ({ group, isPaused }));
    return { client: this.number, state: this.#hub.state, subscriptions, notes: [...this.notes] };
  }
}

/** Publishes until it is told to end, never much faster than the groups handle. */
async function publish(hub: PromClient, account: Account, random: Random, isOver: () => boolean, keys: string): Promise<void> {
  const numbers = new Map<string, number>();
  const pending = new Set<Promise<void>>();
  while (!isOver()) {
    for (let count = account.open + pending.size < account.settings.backlog ? random.below(30) : 0; count > 0; count--) {
      const topic = random.pick(TOPICS);
      const key = `${keys}${random.below(KEYS)}`;
      const n = (numbers.get(`${topic} ${key}`) ?? 0) + 1;
      numbers.set(`${topic} ${key}`, n);
      const payload = { topic, key, n };
      const stored = hub.publish(topic, payload, { key, order: "key" }).then(
        ({ id }) => account.stored(id, payload),
        (error: unknown) => void account.wrong.push(`a publish was rejected: ${String(error)}`),
      );
      pending.add(stored);
      void stored.then(() => pending.delete(stored));
    }
    await sleep(random.below(30));
  }
  await Promise.all(pending);
}

async function trouble(hub: Hub, account: Account, random: Random, consumers: Consumer[], begin: () => Promise<Consumer>, publishing: Address, until: number, say: (text: string) => void): Promise<void> {
  const outages: Promise<void>[] = [];
  while (performance.now() < until) {
    await sleep(random.below(account.settings.calmMs));
    const consumer = random.pick(consumers);
    const address = random.next() < 0.2 ? publishing : consumer.address;
    const dice = random.next();
    if (dice < 0.25) {
      say("cut");
      address.cut();
    } else if (dice < 0.35) {
      const ms = random.below(2_000);
      say(`unreachable for ${ms}`);
      address.isReachable = false;
      outages.push(sleep(ms).then(() => void (address.isReachable = true)));
    } else if (dice < 0.45) {
      const signal = random.pick(["SIGKILL", "SIGKILL", "SIGTERM"] as const);
      const pause = random.below(300);
      say(signal);
      account.stops.push(performance.now());
      await hub.kill(signal);
      account.stops.push(performance.now());
      await sleep(pause);
      await hub.run();
    } else if (dice < 0.55) {
      say("halt");
      hub.signal("SIGSTOP");
      await sleep(random.below(1_000));
      hub.signal("SIGCONT");
    } else if (dice < 0.6) {
      const timeoutMs = random.pick([0, 100, 2_000]);
      say(`client ${consumer.number} ends within ${timeoutMs}`);
      consumers[consumers.indexOf(consumer)] = await begin();
      outages.push(consumer.close(timeoutMs));
    } else {
      say(`client ${consumer.number}: ${consumer.act()}`);
    }
  }
  await Promise.all(outages);
}

/** The groups of which the hub does not have everything as settled. */
async function unsettled(hub: Hub): Promise<object[]> {
  const open: object[] = [];
  for (const { group, covers } of GROUPS) {
    for (const topic of covers) {
      const detail = (await hub.get(`groups/detail?topic=${topic}&group=${group}`)) as { lag: number; inflight: number; parked: number };
      if (detail.lag + detail.inflight + detail.parked > 0) open.push(detail);
    }
  }
  return open;
}

async function stress(t: TestContext, seed: number, seconds: number): Promise<void> {
  const random = new Random(seed);
  const settings = new Settings(random);
  const hub = await Hub.start(t, `[limits]\nconnection_rate = ${settings.rate}\n`);
  const account = new Account(settings);
  const trace: string[] = [];
  const started = performance.now();
  const say = (text: string): void => void trace.push(`${Math.round(performance.now() - started)} ${text}`);
  const all: Consumer[] = [];
  const begin = async (): Promise<Consumer> => {
    const consumer = new Consumer(all.length, hub, await hub.address(), account, new Random(random.below(2 ** 31)));
    all.push(consumer);
    for (const spec of GROUPS) consumer.join(spec);
    return consumer;
  };
  const publishing = await hub.address();
  await using publisher = new PromClient({ urls: [publishing.url], token: () => hub.token({ ttl: settings.tokenSeconds }), backoff: { first: 50, longest: 1_000 }, on: { log: () => undefined } });
  const consumers = [await begin(), await begin(), await begin()];
  let isOver = false;
  const published = ["x", "y"].map((keys) => publish(publisher, account, new Random(random.below(2 ** 31)), () => isOver, keys));
  await trouble(hub, account, random, consumers, begin, publishing, started + seconds * 1_000, say);
  isOver = true;
  await Promise.all(published);
  say("the trouble is over");
  // A member that stays paused keeps nothing from the others.
  for (const consumer of consumers.slice(1)) consumer.pause();
  const calm = (account.changed = performance.now());
  let stalled = 0;
  while (account.open > 0 && performance.now() - account.changed < settings.stuckMs) {
    consumers[0]?.resume();
    await sleep(50);
    stalled = Math.max(stalled, performance.now() - account.changed);
  }
  const settled = Math.round(performance.now() - calm);
  // What a client had handled whose acks were lost comes once more.
  let open = await unsettled(hub);
  for (const until = performance.now() + settings.stuckMs; open.length > 0 && account.open === 0 && performance.now() < until; open = await unsettled(hub)) {
    for (const consumer of consumers) consumer.resume();
    await sleep(100);
  }
  say("everything is handled, or stuck");

  const missing: string[] = [];
  for (const { group, covers } of GROUPS) {
    for (const [id, { topic, key, n }] of account.published) {
      if (!covers.includes(topic) || account.runs.has(`${group} ${topic} ${id}`)) continue;
      missing.push(`${group} ${topic} ${key} ${n}: ${id}`);
    }
  }
  if (missing.length > 0) {
    for (const name of missing.slice(0, 5)) {
      const [group, topic, , , id] = name.split(" ");
      const { groups } = (await hub.get(`event?topic=${topic}&id=${id}`)) as { groups: { group: string }[] };
      t.diagnostic(`${name} ${JSON.stringify(groups?.filter((other) => other.group === group))}`);
    }
    for (const consumer of consumers) t.diagnostic(JSON.stringify(consumer.report));
  }

  for (const detail of open) t.diagnostic(JSON.stringify(detail));

  const doubled: string[] = [];
  const excused = new Map<string, number>();
  for (const [name, runs] of account.runs) {
    const [first, ...others] = [...runs].sort((a, b) => a.ended - b.ended);
    let before = first as Run;
    for (const run of others) {
      const excuse = account.excuse(before, run) ?? account.excuse(run, before);
      if (excuse === undefined) {
        const text = (one: Run): string =>
          `client ${one.by.number} attempt ${one.attempt} ${Math.round(one.began - started)}..${Math.round(one.ended - started)}`;
        doubled.push(`${name}: ${text(before)}, ${text(run)}`);
      } else {
        excused.set(excuse, (excused.get(excuse) ?? 0) + 1);
      }
      before = run;
    }
  }
  const closing = performance.now();
  await Promise.all(consumers.map((consumer) => consumer.close(20_000)));
  const closed = Math.round(performance.now() - closing);

  const wrongInLog: string[] = [];
  for (const topic of TOPICS) {
    const last = new Map<string, number>();
    const ids = new Set<string>();
    for (const { id, key = "", payload } of await hub.log(topic)) {
      const { n } = payload as Payload;
      if (ids.has(id)) wrongInLog.push(`${id} is stored twice`);
      ids.add(id);
      if (n !== (last.get(key) ?? 0) + 1) wrongInLog.push(`${topic} ${key}: ${n} is stored after ${last.get(key)}`);
      last.set(key, n);
    }
    for (const [id, payload] of account.published) if (payload.topic === topic && !ids.has(id)) wrongInLog.push(`${id} has a receipt and is not stored`);
  }
  const derived = (await hub.log(DERIVED)).map(({ payload }) => (payload as { from: string }).from);
  const expected = [...account.published].filter(([, { topic, n }]) => topic === "stress.a" && n % 10 === 0);
  if (missing.length === 0 && (derived.length !== expected.length || new Set(derived).size !== expected.length)) {
    wrongInLog.push(`${expected.length} derived events expected, ${derived.length} found, ${new Set(derived).size} different`);
  }
  const notes = new Map<string, number>();
  for (const consumer of all) for (const [note, count] of consumer.notes) notes.set(note, (notes.get(note) ?? 0) + count);

  const again = [...excused].map(([why, count]) => `${why} ${count}`).join(", ");
  t.diagnostic(
    `seed ${seed}, ${seconds} s: ${account.published.size} events, ${account.runs.size} handled, ${missing.length} missing, ${doubled.length} doubled, ` +
      `allowed again: ${again || "none"}; ${account.stops.length / 2} stops, ${all.length} clients; all was handled ${settled} ms after the trouble, the longest pause took ${Math.round(stalled)} ms; ` +
      `closed in ${closed} ms; ${JSON.stringify(settings)}`,
  );
  if (notes.size > 0) t.diagnostic(JSON.stringify([...notes]));
  const isWrong = missing.length + doubled.length + account.wrong.length + wrongInLog.length + open.length > 0;
  if (isWrong) for (const line of trace) t.diagnostic(line);
  const few = (lines: unknown[]): unknown[] => lines.slice(0, 20);
  assert.deepEqual(few(account.wrong), []);
  assert.deepEqual(few(wrongInLog), []);
  assert.deepEqual(few(missing), [], `${missing.length} events were not handled`);
  assert.deepEqual(few(doubled), [], `${doubled.length} events were handled twice`);
  assert.deepEqual(open.length, 0, "the hub has everything as settled");
}

test(`random trouble loses nothing, doubles nothing that it need not, and keeps the order (seed ${SEED}, ${SECONDS} s)`, (t) => stress(t, SEED, SECONDS));
