import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { BrowserContext, Page } from "playwright-core";
import { PromClient } from "../../src/node.ts";
import type {} from "./page/lab.ts";
import { PageTools, startChromium } from "../support/chromium.ts";
import { Condition, Hub } from "../support/hub.ts";
import { openPage, servePages } from "../support/pages.ts";

const ACK_TIMEOUT_MS = 2_000;
const ORDERS = 8;

interface Setup {
  readonly hub: Hub;
  readonly context: BrowserContext;
  readonly page: Page;
}

/** A page with handlers that wait for the gate: half of the orders run, and half wait in the client. */
async function startHandlers(t: TestContext, ...flags: string[]): Promise<Setup> {
  const hub = await Hub.start(t);
  const context = await startChromium(t, ...flags);
  const page = await openPage(t, context, await servePages(t));
  await page.evaluate(
    async ([url, token, orders, ackTimeoutMs]) => {
      lab.notePageEvents();
      lab.open(url, token, { webSocket: lab.countingSocket });
      lab.closeGate();
      await lab.handleOrders("billing", { ackTimeoutMs, concurrency: orders / 2, maxInFlight: orders });
      for (let id = 1; id <= orders; id++) await lab.client.publish("orders.created", { id });
      await lab.until(() => lab.deliveries === orders && lab.running === orders / 2);
    },
    [hub.url, hub.token(), ORDERS, ACK_TIMEOUT_MS] as const,
  );
  return { hub, context, page };
}

interface Rival {
  readonly handled: number[];
  readonly changed: Condition;
  close(): Promise<void>;
}

/** Another member of the group, which handles what the hub takes away from the page. */
async function startRival(t: TestContext, hub: Hub): Promise<Rival> {
  const rival = new PromClient(hub.url, hub.token());
  t.after(() => rival.close());
  const changed = new Condition();
  const handled: number[] = [];
  await rival.subscribe<{ id: number }>("orders.created", "billing", (event) => {
    handled.push(event.payload.id);
    changed.changed();
  });
  return { handled, changed, close: () => rival.close() };
}

const ALL = Array.from({ length: ORDERS }, (_, index) => index + 1);
const sorted = (ids: readonly number[]): number[] => [...ids].sort((a, b) => a - b);

test("a page behind another tab keeps its leases, although its timers hardly run, and handles every event once", async (t) => {
  // After five minutes Chromium runs the timers of a hidden page once a minute. Here it does so within seven seconds.
  const { hub, context, page } = await startHandlers(t, "--enable-features=IntensiveWakeUpThrottling:grace_period_seconds/1");
  const front = await context.newPage();
  await page.evaluate(() => lab.until(() => lab.pageEvents.at(-1) === "hidden"));
  const rival = await startRival(t, hub);
  // Nothing tells of a lease that does not end. Without timers it would have ended three times since those seven seconds.
  await new Promise((resolve) => setTimeout(resolve, 7_000 + 3 * ACK_TIMEOUT_MS));
  assert.deepEqual(rival.handled, []);
  await page.bringToFront();
  await front.close();
  const result = await page.evaluate(async (orders) => {
    await lab.until(() => lab.pageEvents.at(-1) === "visible");
    lab.openGate();
    await lab.until(() => lab.handled.length >= orders);
    const { handled, deliveries, aborted } = lab;
    return { handled, deliveries, aborted, connections: lab.states.filter(({ is }) => is === "ready").length };
  }, ORDERS);
  assert.deepEqual({ ...result, handled: sorted(result.handled) }, { handled: ALL, deliveries: ORDERS, aborted: [], connections: 1 });
  assert.deepEqual(rival.handled, []);
});

test("a page behind another tab goes on with what comes", async (t) => {
  const { hub, context, page } = await startHandlers(t);
  await context.newPage();
  await page.evaluate(() => lab.until(() => lab.pageEvents.at(-1) === "hidden"));
  await using publisher = new PromClient(hub.url, hub.token());
  const handled = page.evaluate(async (orders) => {
    lab.openGate();
    await lab.until(() => lab.handled.length >= orders + 100);
    return lab.handled;
  }, ORDERS);
  await publisher.publishBatch(Array.from({ length: 100 }, (_, index) => ({ topic: "orders.created", payload: { id: ORDERS + 1 + index } })));
  assert.deepEqual(sorted(await handled), Array.from({ length: ORDERS + 100 }, (_, index) => index + 1));
});

test("a page that is frozen gives back its events at once, and goes on with others when it runs again", async (t) => {
  const { hub, page } = await startHandlers(t);
  const tools = await PageTools.of(page);
  const rival = await startRival(t, hub);
  const before = await page.evaluate(() => lab.states.length);
  await tools.setFrozen(true);
  // The hub does not wait for the end of the leases, of which nothing can be said while the page stands still.
  await rival.changed.until(() => rival.handled.length === ORDERS);
  assert.deepEqual(sorted(rival.handled), ALL);
  await tools.setFrozen(false);
  await page.bringToFront();
  const result = await page.evaluate(async (states) => {
    await lab.until(() => lab.pageEvents.includes("resume"));
    await lab.readyAfter(states);
    return { handled: lab.handled, aborted: lab.aborted.length, events: lab.pageEvents.filter((name) => name === "freeze" || name === "resume") };
  }, before);
  // Handlers that ran have been told that their events are not theirs any more.
  assert.deepEqual(result, { handled: [], aborted: ORDERS / 2, events: ["freeze", "resume"] });
  await rival.close();
  await using publisher = new PromClient(hub.url, hub.token());
  const next = Array.from({ length: 50 }, (_, index) => ORDERS + 1 + index);
  await publisher.publishBatch(next.map((id) => ({ topic: "orders.created", payload: { id } })));
  const handled = await page.evaluate(async (orders) => {
    lab.openGate();
    await lab.until(() => lab.running === 0 && lab.handled.length >= orders);
    return lab.handled;
  }, ORDERS / 2 + next.length);
  // The handlers that were told end as well.
  const late = handled.filter((id) => id <= ORDERS);
  assert.equal(late.length, ORDERS / 2);
  assert.deepEqual(sorted(handled.filter((id) => id > ORDERS)), next);
});
