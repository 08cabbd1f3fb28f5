// Types that have to hold, and mistakes that the compiler has to find. Checked by `npm run check`, never run.
import { type EventRecord, PromClient, type Receipt, type StandardSchema, type WebSocketLike } from "../../src/index.ts";

interface Order {
  id: number;
}
interface ProcState {
  pid: number;
}
interface Topics {
  "orders.created": Order;
  "orders.paid": Order & { amount: number };
  "mail.due": { to: string };
  [topic: `process.${string}.state`]: ProcState;
}

/** Compiles if both types are the same. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function same<A, B>(_: Same<A, B>): void {}

export async function typed(hub: PromClient<Topics>, other: PromClient<{ a: { n: number } }>): Promise<void> {
  const receipt = await hub.publish("orders.created", { id: 1 });
  same<typeof receipt, Receipt>(true);
  await hub.publish("process.web-1.state", { pid: 7 }, { key: "web-1", order: "key", require: "fsync" });
  // @ts-expect-error -- no such topic
  await hub.publish("orders.creatd", { id: 1 });
  // @ts-expect-error -- the payload of another topic
  await hub.publish("orders.created", { pid: 1 });
  // @ts-expect-error -- a field is missing
  await hub.publish("orders.paid", { id: 1 });
  // @ts-expect-error -- a payload has to be there
  await hub.publish("orders.created");
  // @ts-expect-error -- no such order
  await hub.publish("orders.created", { id: 1 }, { order: "topic" });
  // @ts-expect-error -- types given by hand are for clients without topics
  await hub.publish<Order>("anything", { id: 1 });
  // @ts-expect-error -- a pattern is nothing to publish to
  await hub.publish("orders.*", { id: 1 });

  await hub.publishBatch([
    { topic: "orders.created", payload: { id: 1 } },
    { topic: "mail.due", payload: { to: "a" }, options: { key: "a" } },
  ]);
  // @ts-expect-error -- each event has the payload of its topic
  await hub.publishBatch([{ topic: "mail.due", payload: { id: 1 } }]);

  const subscription = await hub.subscribe("orders.created", "billing", async (event, ctx) => {
    same<typeof event, EventRecord<Order, "orders.created">>(true);
    await ctx.publish("mail.due", { to: "ada" });
    // @ts-expect-error -- the handler's publishes are typed, too
    await ctx.publish("mail.due", { id: 1 });
    // @ts-expect-error -- read-only
    event.payload = { id: 2 };
  });
  subscription.pause();
  // @ts-expect-error -- no such topic
  await hub.subscribe("orders.creatd", "billing", () => undefined);
  // @ts-expect-error -- no such option
  await hub.subscribe("orders.created", "billing", () => undefined, { paralel: 1 });

  await hub.subscribe("process.*.state", "ops", (event) => same<typeof event.payload, ProcState>(true));
  // A pattern: a union, told apart by its topic.
  await hub.subscribe("orders.**", "audit", (event) => {
    if (event.topic === "orders.paid") same<typeof event.payload.amount, number>(true);
    // @ts-expect-error -- orders.created has no amount
    else void event.payload.amount;
  });
  // A pattern that covers none of the known topics: nothing is known.
  await hub.subscribe("other.*", "audit", (event) => same<typeof event, EventRecord>(true));
  // A list.
  await hub.subscribe("some", "audit", (event) => same<typeof event.topic, "orders.created" | "mail.due">(true), {
    topics: ["orders.created", "mail.due"],
  });

  for await (const delivery of hub.consume("orders.paid", "workers")) {
    same<typeof delivery.event.payload.amount, number>(true);
    same<Awaited<ReturnType<typeof delivery.ack>>, boolean>(true);
  }
  hub.watch("mail.*", (event) => same<typeof event.payload, { to: string }>(true), { from: "earliest", coalesce: true });
  // @ts-expect-error -- a watcher is no member of a group
  hub.watch("mail.due", () => undefined, { maxAttempts: 3 });
  // @ts-expect-error -- clients of different topics are different
  const mixed: PromClient<Topics> = other;
  void mixed;
}

export async function untyped(): Promise<void> {
  const hub = new PromClient("ws://127.0.0.1:8090/", "token");
  await hub.publish("anything", { any: "payload" });
  await hub.publish<Order>("orders", { id: 1 });
  await hub.subscribe<Order>("orders", "g", (event) => same<typeof event, EventRecord<Order>>(true));
  await hub.subscribe("orders", "g", (event) => same<typeof event.payload, unknown>(true), { from: { afterSeq: 5 } });
  hub.watch<Order>("orders", (event) => event.payload.id);
  for await (const delivery of hub.consume<Order>("orders", "g")) same<typeof delivery.event.payload, Order>(true);
  // @ts-expect-error -- the payload is not of the type that is given
  await hub.publish<Order>("orders", { name: "x" });
  const { state } = hub;
  if (state.is === "ready") same<typeof state.sub, string | undefined>(true);
  // @ts-expect-error -- only a client that waits has an error and a time
  void state.error;
}

export function options(schema: StandardSchema<unknown, Order>, wrong: StandardSchema<unknown, string>): void {
  new PromClient<Topics>({ urls: ["ws://a", "ws://b"], token: ({ signal, refused }) => fetchToken(signal, refused?.code), validate: { "orders.created": schema } });
  // @ts-expect-error -- a validator of something else
  new PromClient<Topics>({ urls: ["ws://a"], validate: { "orders.created": wrong } });
  // @ts-expect-error -- the second argument belongs to the first form
  new PromClient({ urls: ["ws://a"] }, "token");
  // @ts-expect-error -- wait or reject
  new PromClient({ urls: ["ws://a"], pending: { whenFull: "drop" } });
  const browser: WebSocketLike = new WebSocket("ws://a");
  new PromClient({ urls: ["ws://a"], webSocket: (url) => (url === "" ? browser : new WebSocket(url)) });
}

declare function fetchToken(signal: AbortSignal, why: string | undefined): Promise<string>;
