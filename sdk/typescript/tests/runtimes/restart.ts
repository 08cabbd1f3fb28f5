// A program of a user, run by Deno and by Bun while the test kills the hub and starts it again. It ends by itself.

import { HubError, PromClient } from "event-hub-client";

interface Topics {
  steps: { n: number };
  beats: { n: number };
}

const EVENTS = 600;
const KEYS = 10;
/** How many events are published ahead of the handlers. */
const AHEAD = 100;
const BATCH = 20;

const report = (line: object): void => console.log(JSON.stringify(line));
const states: string[] = [];
let onLost = (): void => undefined;
const lost = new Promise<void>((resolve) => (onLost = resolve));

const hub = new PromClient<Topics>({
  urls: [process.env["HUB_URL"] ?? ""],
  token: () => process.env["TOKEN"] ?? "",
  on: {
    log: () => undefined,
    state({ is }) {
      states.push(is);
      if (is === "waiting") onLost();
    },
  },
});

const refusal: unknown = await new PromClient({ urls: [process.env["HUB_URL"] ?? ""], token: "none", on: { log: () => undefined } })
  .connect()
  .catch((error: unknown) => error);
report({ refused: refusal instanceof HubError && refusal.code });

await hub.connect();
const first = await hub.publish("beats", { n: 0 }, { id: "7f1c2a90-52c1-4b7e-8a55-0c9f3e2d1b00" });
const again = await hub.publish("beats", { n: 0 }, { id: first.id });
report({ receipt: { ...again, ts: 0 } });

/** How often each event was handled to its end, and what came out of order within its key. */
const handled = new Map<number, number>();
const watched: number[] = [];
const outOfOrder: string[] = [];
const last = new Map<string, number>();
let changed = (): void => undefined;
const until = async (isTrue: () => boolean): Promise<void> => {
  while (!isTrue()) await new Promise<void>((resolve) => (changed = resolve));
};

await hub.subscribe(
  "steps",
  "workers",
  async (event) => {
    const { n } = event.payload;
    if (n === EVENTS / 2) report({ kill: true });
    // Held while the hub is gone: the outcomes go over the next connection.
    if (n >= EVENTS / 2) await lost;
    const key = event.key ?? "";
    if (n <= (last.get(key) ?? -1)) outOfOrder.push(`${key}: ${n} after ${last.get(key)}`);
    last.set(key, n);
    handled.set(n, (handled.get(n) ?? 0) + 1);
    changed();
  },
  { ordering: "key" },
);
hub.watch(
  "steps",
  (event) => {
    watched.push(event.seq);
    changed();
  },
  { from: "earliest" },
);

const keyed = (async () => {
  const pending: Promise<unknown>[] = [];
  for (let n = 0; n < EVENTS; n++) {
    await until(() => n < handled.size + AHEAD);
    pending.push(hub.publish("steps", { n }, { key: `key-${n % KEYS}`, order: "key" }));
  }
  await Promise.all(pending);
})();
// Publishes are on their way all the time, also when the hub is killed.
let beats = 1;
let isReconnected = false;
const stop = hub.onState(({ is }) => (isReconnected ||= is === "ready"));
while (!isReconnected) {
  const batch = Array.from({ length: BATCH }, () => ({ topic: "beats" as const, payload: { n: beats++ } }));
  for (const result of await hub.publishBatch(batch)) if (result instanceof Error) throw result;
}
stop();
await keyed;
await until(() => handled.size === EVENTS && watched.length === EVENTS);

let taken = 0;
for await (const delivery of hub.consume("beats", "counters", { from: "earliest" })) {
  await delivery.ack();
  taken++;
  if (taken === beats) break;
}
await hub.close();
report({
  beats,
  handled: handled.size,
  twice: [...handled.values()].filter((times) => times > 1).length,
  outOfOrder,
  isWatchedInOrder: watched.every((seq, index) => seq === index + 1),
  states: [...new Set(states)],
  end: hub.state.is,
});
