import assert from "node:assert/strict";
import { test } from "node:test";
import type {} from "./page/lab.ts";
import { startChromium } from "../support/chromium.ts";
import { Hub } from "../support/hub.ts";
import { openPage, servePages } from "../support/pages.ts";

test("a page publishes and consumes, and its receipts are typed", async (t) => {
  const hub = await Hub.start(t);
  const page = await openPage(t, await startChromium(t), await servePages(t));
  const receipts = await page.evaluate(
    async ([url, token]) => {
      lab.open(url, token);
      await lab.client.connect();
      await lab.handleOrders("billing");
      // @ts-expect-error An order has a number.
      const untyped = (): Promise<unknown> => lab.client.publish("orders.created", { id: "1" });
      void untyped;
      const id = "7f1c2a90-52c1-4b7e-8a55-0c9f3e2d1b00";
      const first = await lab.client.publish("orders.created", { id: 1 }, { id, key: "a", require: "fsync" });
      const again = await lab.client.publish("orders.created", { id: 1 }, { id, key: "a", require: "fsync" });
      const seq: number = first.seq;
      const durable: "memory" | "interval" | "fsync" | "majority" = first.durable;
      await lab.until(() => lab.handled.length === 1);
      return { id: first.id === id, seq, durable, isRecent: Math.abs(Date.now() - first.ts) < 60_000, isDuplicate: again.duplicate, sameSeq: again.seq === seq };
    },
    [hub.url, hub.token()] as const,
  );
  assert.deepEqual(receipts, { id: true, seq: 1, durable: "fsync", isRecent: true, isDuplicate: true, sameSeq: true });
  assert.deepEqual(await page.evaluate(() => lab.handled), [1]);
  const closed = await page.evaluate(async () => {
    await lab.client.close();
    return lab.client.state.is;
  });
  assert.equal(closed, "closed");
  assert.deepEqual((await hub.log("orders.created")).map(({ key, payload }) => ({ key, payload })), [{ key: "a", payload: { id: 1 } }]);
});

test("a page that the hub refuses is told why", async (t) => {
  const hub = await Hub.start(t);
  const page = await openPage(t, await startChromium(t), await servePages(t));
  const refused = await page.evaluate(async (url) => {
    lab.open(url, "not a token");
    return lab.client.connect().then(String, String);
  }, hub.url);
  assert.match(refused, /^Error: jwt_invalid: /);
});

test("a module worker publishes and consumes", async (t) => {
  const hub = await Hub.start(t);
  const page = await openPage(t, await startChromium(t), await servePages(t));
  const [worker] = await Promise.all([
    page.waitForEvent("worker"),
    page.evaluate(
      () =>
        new Promise<void>((resolve, reject) => {
          const started = new Worker("/lab.js", { type: "module" });
          started.addEventListener("message", () => resolve());
          started.addEventListener("error", () => reject(new Error("the worker did not load")));
        }),
    ),
  ]);
  const result = await worker.evaluate(
    async ([url, token]) => {
      lab.open(url, token);
      await lab.handleOrders("billing");
      const { seq } = await lab.client.publish("orders.created", { id: 7 });
      await lab.until(() => lab.handled.length === 1);
      await lab.client.close();
      return { seq, handled: lab.handled, hasDocument: "document" in globalThis };
    },
    [hub.url, hub.token()] as const,
  );
  assert.deepEqual(result, { seq: 1, handled: [7], hasDocument: false });
});

test("events that are published at once by a new client keep their order", async (t) => {
  const hub = await Hub.start(t);
  const page = await openPage(t, await startChromium(t), await servePages(t));
  await page.evaluate(
    async ([url, token]) => {
      lab.open(url, token);
      const ids = Array.from({ length: 100 }, (_, id) => id);
      // The part of the client that publishes is loaded with the first of them.
      await Promise.all(ids.map((id) => lab.client.publish("orders.created", { id }, { key: "a", order: "key" })));
    },
    [hub.url, hub.token()] as const,
  );
  const ids = (await hub.log("orders.created")).map(({ payload }) => (payload as { id: number }).id);
  assert.deepEqual(ids, Array.from({ length: 100 }, (_, id) => id));
});
