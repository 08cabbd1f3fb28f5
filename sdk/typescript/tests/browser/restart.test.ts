import assert from "node:assert/strict";
import { test } from "node:test";
import type {} from "./page/lab.ts";
import { startChromium } from "../support/chromium.ts";
import { Hub } from "../support/hub.ts";
import { openPage, servePages } from "../support/pages.ts";
import { assertStoredOnceInOrder } from "../support/stored.ts";

const KEYS = 60;
/** How often the hub is killed meanwhile. */
const RESTARTS = Number(process.env["EVENT_HUB_SDK_RESTARTS"] ?? 3);
/** Events that are handled before each kill, and after the last one. */
const EVENTS = Math.max(200, Math.ceil(6_000 / (RESTARTS + 1)));

test(`a hub that is killed ${RESTARTS} times under the load of a page loses none, doubles none, and keeps the order of keys`, async (t) => {
  const hub = await Hub.start(t);
  const page = await openPage(t, await startChromium(t), await servePages(t));
  await page.evaluate(
    async ([url, token, keys]) => {
      // Kills come faster than failures are forgotten.
      lab.open(url, token, { backoff: { longest: 500 } });
      await lab.startLoad(keys);
    },
    [hub.url, hub.token(), KEYS] as const,
  );
  for (let round = 1; round <= RESTARTS; round++) {
    await page.evaluate((events) => lab.load.more(events), EVENTS);
    await hub.kill("SIGKILL");
    await hub.run();
  }
  const figures = await page.evaluate(async (events) => {
    await lab.load.more(events);
    return lab.load.stop();
  }, EVENTS);
  const connections = await page.evaluate(() => lab.states.filter(({ is }) => is === "ready").length);
  t.diagnostic(
    `${figures.events} events, ${RESTARTS} restarts, ${connections} connections: ${figures.lost} lost, ${figures.twice} handled twice, ${figures.outOfOrder.length} out of order`,
  );
  assert.deepEqual(figures, { events: figures.events, lost: 0, twice: 0, outOfOrder: [] });
  assert.ok(connections > RESTARTS, "each restart has cut the connection of the page");
  await assertStoredOnceInOrder(hub, figures.events);
});
