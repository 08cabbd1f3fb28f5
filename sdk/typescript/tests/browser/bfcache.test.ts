import assert from "node:assert/strict";
import { test } from "node:test";
import { PromClient } from "../../src/node.ts";
import type {} from "./page/lab.ts";
import { startChromium } from "../support/chromium.ts";
import { Hub } from "../support/hub.ts";
import { openPage, servePages } from "../support/pages.ts";

test("a page that comes back from the back/forward cache is connected again, and goes on behind its last event", async (t) => {
  const hub = await Hub.start(t);
  const pages = await servePages(t);
  const page = await openPage(t, await startChromium(t), `${pages}/shop`);
  await using publisher = new PromClient(hub.url, hub.token());
  await page.evaluate(
    async ([url, token]) => {
      lab.notePageEvents();
      lab.open(url, token);
      await lab.handleOrders("billing");
    },
    [hub.url, hub.token()] as const,
  );
  for (let visit = 1; visit <= 3; visit++) {
    await publisher.publish("orders.created", { id: 2 * visit - 1 });
    const before = await page.evaluate(async (orders) => {
      await lab.until(() => lab.handled.length === orders);
      return lab.states.length;
    }, 2 * visit - 1);
    await page.goto(`${pages}/elsewhere`);
    // While nobody handles orders.
    await publisher.publish("orders.created", { id: 2 * visit });
    await page.evaluate(() => history.back());
    await page.waitForURL("**/shop", { waitUntil: "commit" });
    const result = await page.evaluate(
      async ([states, orders]) => {
        await lab.readyAfter(states);
        await lab.until(() => lab.handled.length >= orders);
        return { handled: lab.handled, restored: lab.pageEvents.filter((name) => name === "pageshow persisted").length };
      },
      [before, 2 * visit] as const,
    );
    // A page that is loaded anew has no events.
    assert.deepEqual(result, { handled: Array.from({ length: 2 * visit }, (_, index) => index + 1), restored: visit });
  }
});
