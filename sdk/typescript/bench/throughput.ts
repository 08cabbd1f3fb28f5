// The rate of the SDK against that of a bare `ws` connection which sends the same frames: `npm run bench` with EVENT_HUB_BIN set to a hub, better a
// release build. Rounds take turns, so that a busy machine is unfair to both; what counts is the median of the ratios.
import { randomUUID } from "node:crypto";
import { PromClient } from "../src/node.ts";
import { Bare } from "./bare.ts";
import { startHub } from "./hub.ts";

const ROUNDS = Number(process.env["EVENT_HUB_BENCH_ROUNDS"] ?? 5);
const EVENTS = Number(process.env["EVENT_HUB_BENCH_EVENTS"] ?? 100_000);
/** Events that are on their way at once. */
const IN_FLIGHT = 1024;
const PER_FRAME = 256;
const GOAL = 0.6;

const payload = { order: 17, item: "tea", state: "created", note: "x".repeat(100) };

interface Measured {
  /** Events per second. */
  readonly rate: number;
  /** Microseconds of this process per event. */
  readonly cpu: number;
}

async function measure(run: () => Promise<void>): Promise<Measured> {
  const cpu = process.cpuUsage();
  const since = performance.now();
  await run();
  const seconds = (performance.now() - since) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return { rate: EVENTS / seconds, cpu: (user + system) / EVENTS };
}

/** So many workers take turns until all is done. */
async function workers(count: number, each: (n: number) => Promise<void>, total: number): Promise<void> {
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < total) await each(next++);
  };
  await Promise.all(Array.from({ length: count }, work));
}

async function main(): Promise<void> {
  const hub = await startHub();
  const token = hub.token;
  const bare = await Bare.connect(hub.url, token);
  const client = new PromClient(hub.url, token);
  await client.connect();

  const publishBare = (): Promise<Measured> =>
    measure(() =>
      workers(
        IN_FLIGHT / PER_FRAME,
        async () => {
          const events = Array.from({ length: PER_FRAME }, () => ({ topic: "bench", payload, opts: { id: randomUUID() } }));
          const { results } = await bare.ask({ op: "PUBLISH", events });
          if (results?.some((result) => result.code !== undefined) === true) throw new Error("a publish failed");
        },
        Math.ceil(EVENTS / PER_FRAME),
      ),
    );
  const publishClient = (): Promise<Measured> =>
    measure(() => workers(IN_FLIGHT, async () => void (await client.publish("bench", payload)), EVENTS));

  let groups = 0;
  const opts = { from: "earliest" as const, maxInFlight: 1000 };
  const consumeBare = (): Promise<Measured> =>
    measure(async () => {
      const group = `bare-${groups++}`;
      const reader = await Bare.connect(hub.url, token);
      let seen = 0;
      const acks: Promise<unknown>[] = [];
      const done = new Promise<void>((resolve) => {
        reader.onEvents = (events) => {
          acks.push(reader.ask({ op: "ACK", topic: "full", group, ids: events.map(({ event }) => event.id) }));
          seen += events.length;
          if (seen >= EVENTS) resolve();
        };
      });
      await reader.ask({ op: "SUBSCRIBE", topic: "full", group, opts: { ...opts, batch: true, batchSize: 100 } });
      await done;
      await Promise.all(acks);
      reader.close();
    });
  const consumeClient = (handler: () => unknown) => (): Promise<Measured> =>
    measure(async () => {
      const reader = new PromClient(hub.url, token);
      let seen = 0;
      const done = new Promise<void>((resolve) => {
        void reader.subscribe(
          "full",
          `client-${groups++}`,
          () => {
            if (++seen >= EVENTS) resolve();
            return handler();
          },
          opts,
        );
      });
      await done;
      await reader.close();
    });

  for (let sent = 0; sent < EVENTS; sent += PER_FRAME) {
    const events = Array.from({ length: Math.min(PER_FRAME, EVENTS - sent) }, () => ({ topic: "full", payload }));
    await bare.ask({ op: "PUBLISH", events });
  }

  const contests: [string, () => Promise<Measured>, () => Promise<Measured>][] = [
    ["publish", publishBare, publishClient],
    ["consume", consumeBare, consumeClient(() => undefined)],
    ["consume, handlers that wait a turn", consumeBare, consumeClient(() => Promise.resolve())],
  ];
  let isTooSlow = false;
  for (const [name, runBare, runClient] of contests) {
    const ratios: number[] = [];
    const cpu: number[] = [];
    let rates = "";
    for (let round = 0; round < ROUNDS; round++) {
      const [one, other] = [await runBare(), await runClient()];
      ratios.push(other.rate / one.rate);
      cpu.push(other.cpu / one.cpu);
      rates += ` ${Math.round(one.rate)}/${Math.round(other.rate)}`;
    }
    const ratio = median(ratios);
    isTooSlow ||= ratio < GOAL;
    console.log(`${name.padEnd(36)} ${ratio.toFixed(2)} of the bare rate (goal ${GOAL}), ${median(cpu).toFixed(2)} times its CPU; bare/client per second:${rates}`);
  }
  bare.close();
  await client.close();
  await hub.stop();
  if (isTooSlow) process.exitCode = 1;
}

function median(values: number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}

await main();
