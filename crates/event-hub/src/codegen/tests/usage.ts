// Compiled with the generated types: what must be accepted, and what must not.
import type { OrdersCreated, Topics } from "./generated";

declare function publish<T extends keyof Topics & string>(topic: T, payload: Topics[T]): void;

const order: OrdersCreated = { id: "1", price: 2.5, note: null, customer: { name: "Ada", city: "London" } };
publish("orders.created", order);
publish("orders.created", { ...order, state: "paid", lines: [{ sku: "a", parts: [{ sku: "b" }] }], pair: ["x", 1] });
publish("orders.created", { ...order, payment: { card: "4111" }, amount: 12, type: "order", tags: { a: "b" } });
publish("process.db.state", { ts: 1, state: "up" });
publish("process.web.state", { ts: 1, state: "up", pid: 7 });
publish("process", { ts: 1 });
publish("process.a.b.c", { ts: 1 });
publish("metrics.web.requests", 3);
publish("metrics.cpu", 0.5);
publish("numbers", 2.5);

// @ts-expect-error: the price is a number
publish("orders.created", { ...order, price: "2.5" });
// @ts-expect-error: it is required
publish("orders.created", { id: "1", price: 1, note: null });
// @ts-expect-error: no such state
publish("orders.created", { ...order, state: "lost" });
// @ts-expect-error: the pattern asks for a state, too
publish("process.web.state", { ts: 1, pid: 7 });
// @ts-expect-error: a number at least
publish("metrics.cpu", "0.5");
// @ts-expect-error: no topic has that schema
publish("unknown", 1);
