import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { Page } from "playwright-core";
import type {} from "./page/lab.ts";
import { PageTools, startChromium } from "../support/chromium.ts";
import { Hub } from "../support/hub.ts";
import { openPage, servePages } from "../support/pages.ts";
import { assertStoredOnceInOrder } from "../support/stored.ts";

// Chromium's emulation of a network that is gone refuses new connections and holds the frames of open WebSockets, in both directions, until the
// network is back. It closes no socket, and a page learns of one that has been closed only after the frames that are held. Where a test wants a
// connection that breaks at once, it cuts it in the proxy in front of the hub, before the network goes.

const KEYS = 30;
/** Events that are handled before each time that the network goes, and after the last one. */
const EVENTS = 500;
/** How often the network is gone for a moment. */
const CUTS = 3;

interface Setup {
  readonly hub: Hub;
  readonly page: Page;
  readonly tools: PageTools;
}

async function startLoad(t: TestContext): Promise<Setup> {
  const hub = await Hub.start(t);
  const page = await openPage(t, await startChromium(t), await servePages(t));
  const tools = await PageTools.of(page);
  await page.evaluate(
    async ([url, token, keys]) => {
      // Cuts come faster than failures are forgotten.
      lab.open(url, token, { backoff: { longest: 1_000 } });
      await lab.startLoad(keys);
    },
    [hub.url, hub.token(), KEYS] as const,
  );
  return { hub, page, tools };
}

async function assertNothingLostOrDoubled(t: TestContext, { hub, page }: Setup): Promise<void> {
  const figures = await page.evaluate(async (events) => {
    await lab.load.more(events);
    return lab.load.stop();
  }, EVENTS);
  t.diagnostic(`${figures.events} events: ${figures.lost} lost, ${figures.twice} handled twice, ${figures.outOfOrder.length} out of order`);
  assert.deepEqual(figures, { events: figures.events, lost: 0, twice: 0, outOfOrder: [] });
  await assertStoredOnceInOrder(hub, figures.events);
}

test("a network that is gone for a moment holds the frames, and nothing is lost or handled twice", async (t) => {
  const setup = await startLoad(t);
  const { page, tools } = setup;
  for (let pause = 1; pause <= CUTS; pause++) {
    await page.evaluate((events) => lab.load.more(events), EVENTS);
    await tools.setOffline(true);
    // Acks and publishes wait for the network by then.
    await page.evaluate(() => lab.load.idle());
    await tools.setOffline(false);
  }
  await assertNothingLostOrDoubled(t, setup);
  assert.equal(await page.evaluate(() => lab.states.filter(({ is }) => is === "ready").length), 1, "the connection has held");
});

test("connections that break without a network are made anew when it is back, and nothing is lost or handled twice", async (t) => {
  const setup = await startLoad(t);
  const { hub, page, tools } = setup;
  for (let cut = 1; cut <= CUTS; cut++) {
    await page.evaluate((events) => lab.load.more(events), EVENTS);
    const before = await page.evaluate(() => lab.states.length);
    hub.isReachable = false;
    await page.evaluate(() => lab.until(() => lab.client.state.is === "waiting"));
    await tools.setOffline(true);
    hub.isReachable = true;
    // One of the next two tries is refused by the browser.
    await page.evaluate(() => {
      const { state } = lab.client;
      const tries = "tries" in state ? state.tries + 2 : 2;
      return lab.until(() => lab.client.state.is === "waiting" && lab.client.state.tries >= tries);
    });
    await tools.setOffline(false);
    await page.evaluate((states) => lab.readyAfter(states), before);
  }
  await assertNothingLostOrDoubled(t, setup);
});

test("a network that is gone for long is noticed, and nothing is lost or handled twice when it is back", async (t) => {
  const setup = await startLoad(t);
  const { page, tools } = setup;
  await page.evaluate((events) => lab.load.more(events), EVENTS);
  const before = await page.evaluate(() => lab.states.length);
  await tools.setOffline(true);
  // After 25 s of silence the client asks the hub for a sign of life, and after 5 s more it gives the connection up.
  await page.evaluate(() => lab.until(() => lab.client.state.is === "waiting" && lab.client.state.tries >= 2));
  await tools.setOffline(false);
  await page.evaluate((states) => lab.readyAfter(states), before);
  await assertNothingLostOrDoubled(t, setup);
});

test("an event that was handled while the network was gone for long is settled when it is back, and the next one of its key follows at once", async (t) => {
  const hub = await Hub.start(t);
  const page = await openPage(t, await startChromium(t), await servePages(t));
  const tools = await PageTools.of(page);
  await page.evaluate(
    async ([url, token]) => {
      lab.open(url, token);
      lab.closeGate();
      await lab.handleOrders("billing", { ordering: "key", ackTimeoutMs: 25_000 });
      for (const id of [1, 2]) await lab.client.publish("orders.created", { id }, { key: "a" });
      await lab.until(() => lab.running === 1);
    },
    [hub.url, hub.token()] as const,
  );
  await tools.setOffline(true);
  const before = await page.evaluate(async () => {
    // The ack does not arrive. The lease ends, and what the hub sends then does not arrive either.
    lab.openGate();
    await lab.until(() => lab.client.state.is === "waiting");
    return lab.states.length;
  });
  await tools.setOffline(false);
  const took = await page.evaluate(async (states) => {
    await lab.readyAfter(states);
    const since = performance.now();
    await lab.until(() => lab.handled.length >= 2);
    return performance.now() - since;
  }, before);
  assert.deepEqual(await page.evaluate(() => lab.handled), [1, 2]);
  // Far less than the time to settle an event.
  assert.ok(took < 5_000, `the second order came ${Math.round(took)} ms after the connection`);
});
