// What comes and goes by itself moves no row, wherever the pointer is.
import assert from "node:assert/strict";
import type { Locator } from "playwright-core";
import { deadLetters } from "./harness/failures.ts";
import type { Viewer } from "./harness/viewer.ts";
import { browserTest } from "./harness/world.ts";

const card = (n: number) => ({ payload: String(n), key: `order-${n}`, reason: "card expired" });
const cards = (count: number) => Array.from({ length: count }, (_, n) => card(n));

/** Watches where rows are. */
async function watch(viewer: Viewer, rows: readonly Locator[]) {
  const places = () => Promise.all(rows.map(async (row) => {
    const box = await row.boundingBox();
    return box === null ? "not there" : `${box.x},${box.y}`;
  }));
  const before = await places();
  assert.ok(!before.includes("not there"), "all rows are drawn");
  return async (what: string) => {
    await viewer.settled();
    assert.deepEqual(await places(), before, what);
  };
}

for (const look of [{ width: 1440, height: 900 }, { width: 800, height: 600 }]) {
  browserTest(`banners and running replays move no row of a table that is scrolled to its end, ${look.width} px`, async ({ hub, open }) => {
    await deadLetters(hub, "orders.created", "billing", cards(60));
    await deadLetters(hub, "payments.settled", "ledger", cards(30));
    const viewer = await open("/letters?topic=orders.created", look);
    const table = viewer.page.locator(".table");
    const key = (n: number) => table.locator("tbody tr").filter({ has: viewer.page.getByText(`order-${n}`, { exact: true }) });
    await viewer.see(key(59));
    await table.evaluate((element) => { element.scrollTop = element.scrollHeight; });
    await viewer.see(key(0));
    await viewer.settled();
    const isWhere = await watch(viewer, [key(0), key(5), viewer.page.getByRole("heading", { name: "Dead letters" }), viewer.page.locator(".causes")]);
    await key(3).hover();

    const { job } = await hub.json<{ job: string }>("/dlq/replay", { method: "POST", body: '{"topic":"payments.settled","rate":1}' });
    const replays = viewer.page.getByRole("region", { name: "Replays under way" });
    await viewer.see(replays);
    await isWhere("a replay has begun");
    await hub.json(`/jobs/${job}`, { method: "DELETE" });
    await viewer.gone(replays);
    await isWhere("the replay is over");

    let isAway = true;
    await viewer.page.route((url) => url.pathname.startsWith("/dlq"), (route) => (isAway ? route.fulfill({ status: 503, json: { code: "unavailable", error: "the store does not answer" } }) : route.fallback()));
    await viewer.comeBack();
    const banner = viewer.page.locator(".banner").filter({ hasText: "the store does not answer" });
    await viewer.see(banner);
    assert.equal(await banner.count(), 1, "one banner says it");
    await isWhere("a banner has come");
    isAway = false;
    await banner.getByRole("button", { name: "Try again" }).click();
    await viewer.gone(banner);
    await key(3).hover();
    await isWhere("the banner is gone");

    await hub.kill();
    await viewer.see(viewer.page.locator(".banner").filter({ hasText: "does not answer" }));
    await isWhere("the hub is away");
    await hub.begin();
    await viewer.live();
    await viewer.gone(viewer.page.locator(".banner"));
    await isWhere("the hub is back");
  });
}

browserTest("a banner moves nothing on a screen that scrolls as a whole", async ({ hub, open }) => {
  await deadLetters(hub, "orders.created", "billing", cards(1));
  const viewer = await open("/event?topic=orders.created&seq=1", { width: 1440, height: 420 });
  await viewer.see(viewer.text("given up"));
  const main = viewer.page.locator("main");
  await main.evaluate((element) => { element.scrollTop = element.scrollHeight; });
  await viewer.settled();
  // What is last on the page stays in sight above the banner.
  const last = viewer.page.getByText(/^event-hub event show/);
  const isWhere = await watch(viewer, [last, viewer.page.getByRole("heading", { name: "Journey" })]);
  await hub.kill();
  const banner = viewer.page.locator(".banner");
  await viewer.see(banner);
  await isWhere("the hub is away");
  const [low, high] = await Promise.all([last.boundingBox(), banner.boundingBox()]);
  assert.ok((low?.y ?? 0) + (low?.height ?? 0) <= (high?.y ?? 0), "the banner hides nothing");
  await hub.begin();
  await viewer.live();
  await viewer.gone(banner);
  await isWhere("the hub is back");
});
