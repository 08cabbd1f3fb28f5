// What flows: the tail with pause, filter and time, the stream behind it, and what becomes of it when the hub or the tab goes away.
import assert from "node:assert/strict";
import type { Locator, Page } from "playwright-core";
import type { Hub } from "./harness/hub.ts";
import type { Viewer } from "./harness/viewer.ts";
import { browserTest, eventually } from "./harness/world.ts";

const TAIL = "/topic?topic=orders.created";

/** The row of the tail with this key. */
function row(viewer: Viewer, key: string): Locator {
  return viewer.page.locator("tbody tr").filter({ hasText: key });
}

browserTest("an event shows up when it is published", async ({ hub, open }) => {
  const viewer = await open(TAIL);
  await viewer.see(viewer.page.getByRole("heading", { name: "No such topic" }));
  await hub.publish("orders.created", '{"order":17}', "order-17");
  await viewer.see(row(viewer, "order-17"));
  await viewer.see(viewer.text('{"order":17}'));
  await hub.publish("orders.created", '{"order":18}', "order-18");
  await viewer.see(row(viewer, "order-18"));
  assert.match(await viewer.page.locator("tbody tr").first().innerText(), /order-18/, "the newest is first");
});

browserTest("the first event of a hub replaces the page that says how to publish one", async ({ hub, open }) => {
  const viewer = await open();
  await viewer.see(viewer.page.getByRole("heading", { name: "No events yet" }));
  await hub.publish("orders.created", '{"order":17}');
  await viewer.see(viewer.page.getByRole("link", { name: "orders.created" }));
  await viewer.gone(viewer.page.getByRole("heading", { name: "No events yet" }));
});

browserTest("a test event can be published from the page, and its number goes out as it was typed", async ({ hub, open }) => {
  const viewer = await open(`${TAIL}&tab=publish`);
  await viewer.page.getByLabel("Key").fill("order-19");
  await viewer.page.getByLabel("Payload (JSON)").fill('{"amount":9007199254740993}');
  await viewer.button("Publish to orders.created").click();
  await viewer.see(viewer.text(/Published as seq 1/));
  const stored = await (await hub.ask("/replay?topic=orders.created&from=earliest")).text();
  assert.ok(stored.includes('"payload":{"amount":9007199254740993}'), stored);
});

browserTest("a paused tail stands still and counts what is new, and shows it when it goes on", async ({ hub, open }) => {
  await hub.publish("orders.created", "1", "before");
  const viewer = await open(TAIL);
  await viewer.see(row(viewer, "before"));
  // By the key, which has to work wherever the focus is.
  await viewer.page.keyboard.press("Space");
  await viewer.addressHas("paused=1");
  await viewer.see(viewer.text(/paused, 0 new/));
  await hub.publish("orders.created", "2", "meanwhile");
  await viewer.see(viewer.text(/paused, 1 new/));
  assert.equal(await row(viewer, "meanwhile").count(), 0);
  await viewer.page.keyboard.press("Space");
  await viewer.see(row(viewer, "meanwhile"));
});

browserTest("a filter of the tail finds text in key and payload, also in what comes later", async ({ hub, open }) => {
  await hub.publish("orders.created", '{"item":"Green TEA"}', "order-1");
  await hub.publish("orders.created", '{"item":"coffee"}', "order-2");
  const viewer = await open(TAIL);
  await viewer.see(row(viewer, "order-2"));
  await viewer.page.keyboard.press("/");
  await viewer.page.keyboard.type("green tea");
  await viewer.gone(row(viewer, "order-2"));
  await viewer.see(row(viewer, "order-1"));
  await viewer.addressHas("q=green+tea");
  await hub.publish("orders.created", '{"item":"green tea, again"}', "order-3");
  await hub.publish("orders.created", '{"item":"coffee, again"}', "order-4");
  await hub.publish("orders.created", '{"item":"green tea, at last"}', "order-5");
  await viewer.see(row(viewer, "order-5"));
  await viewer.see(row(viewer, "order-3"));
  assert.equal(await row(viewer, "order-4").count(), 0);
});

browserTest("a tail can begin at a time of the past, and go back to live", async ({ hub, open }) => {
  await hub.publish("orders.created", "1", "early");
  const { topics } = await hub.json<{ topics: { lastCommitted: number }[] }>("/topics?q=orders.created");
  const early = topics[0]?.lastCommitted ?? 0;
  // The field has seconds, so the next event is in a later one.
  await eventually("the next second", () => Promise.resolve(Math.floor(Date.now() / 1_000) > Math.floor(early / 1_000)));
  await hub.publish("orders.created", "2", "late");
  const viewer = await open(TAIL);
  await viewer.see(row(viewer, "early"));
  const at = await viewer.evaluate<string>(`(() => {
    const date = new Date(${Math.floor(early / 1_000) * 1_000 + 1_000});
    const pad = (value) => String(value).padStart(2, "0");
    return date.getFullYear() + "-" + pad(date.getMonth() + 1) + "-" + pad(date.getDate()) + "T" + [date.getHours(), date.getMinutes(), date.getSeconds()].map(pad).join(":");
  })()`);
  await viewer.page.getByLabel("Go to a time").fill(at);
  await viewer.page.getByLabel("Go to a time").dispatchEvent("change");
  await viewer.addressHas("at=");
  await viewer.gone(row(viewer, "early"));
  await viewer.see(row(viewer, "late"));
  await viewer.button("Back to live").click();
  await viewer.see(row(viewer, "early"));
});

browserTest("a copied address shows somebody else the same filter, order and pause", async ({ hub, open }) => {
  for (const name of ["orders.b", "orders.a", "stock.c"]) await hub.publish(name, "1", "k");
  await hub.publish("orders.b", "2", "k");
  const names = (viewer: Viewer) => viewer.page.locator("tbody tr td:first-child a").allInnerTexts();
  const first = await open("/topics");
  await first.page.keyboard.press("/");
  await first.page.keyboard.type("orders");
  await first.page.getByRole("button", { name: /^Events$/ }).click();
  await first.addressHas("q=orders", "sort=-events");
  await eventually("two topics are left", async () => (await names(first)).length === 2);
  const second = await open(new URL(first.page.url()).hash.slice(1));
  await second.see(second.page.getByRole("link", { name: "orders.b" }));
  await eventually("the same list", async () => (await names(second)).join() === "orders.b,orders.a");
  assert.equal(await second.page.getByLabel("Filter topics").inputValue(), "orders");
  assert.equal(await second.page.locator("th[aria-sort=descending]").innerText(), "Events ↓");

  await first.go(`${"/topic?topic=orders.b"}&q=2`);
  await first.see(first.button(/Pause/));
  await first.button(/Pause/).click();
  await first.addressHas("paused=1");
  const third = await open(new URL(first.page.url()).hash.slice(1));
  await third.see(third.button(/Resume/));
  assert.equal(await third.page.getByLabel("Filter by text in key, id or payload").inputValue(), "2");
});

browserTest("a page outlives a hub that is killed, and shows what the next one has", async ({ hub, open }) => {
  await hub.publish("orders.created", "1", "before");
  const viewer = await open(`${TAIL}&q=e`, { width: 360, height: 740 });
  await viewer.see(row(viewer, "before"));
  await viewer.evaluate("globalThis.stillTheSamePage = true");
  const place = await row(viewer, "before").boundingBox();
  await hub.kill();
  await viewer.see(viewer.page.locator(".status.lost"));
  await viewer.see(viewer.text(/the connection to the hub broke off|the hub (closed the stream|does not answer)/));
  assert.deepEqual(await row(viewer, "before").boundingBox(), place, "nothing moves under the pointer");
  await hub.begin();
  await viewer.live();
  await hub.publish("orders.created", "2", "between");
  await viewer.see(row(viewer, "between"));
  await viewer.see(row(viewer, "before"));
  await viewer.addressHas("q=e");
  assert.equal(await viewer.evaluate("globalThis.stillTheSamePage"), true);
});

/** Streams that the hub has open. */
async function streams(hub: Hub): Promise<number> {
  const { connections } = await hub.json<{ connections: { kind: string }[] }>("/connections?limit=1000");
  return connections.filter(({ kind }) => kind === "live").length;
}

/** A browser without windows has no tab in the background, so the page is told that it is one, or is not any more. */
function show(viewer: Viewer, page: Page, state: "visible" | "hidden"): Promise<void> {
  return viewer.evaluate(
    `{
      Object.defineProperty(document, "visibilityState", { configurable: true, get: () => "${state}" });
      Object.defineProperty(document, "hidden", { configurable: true, get: () => ${state === "hidden"} });
      document.dispatchEvent(new Event("visibilitychange"));
    }`,
    page,
  );
}

// A browser opens six connections to a host at most, so streams of tabs in the background would leave none for the seventh.
browserTest("seven tabs of a window are open at once, and each is live when it is looked at", async ({ hub, open }) => {
  await hub.publish("orders.created", "1", "before");
  const viewer = await open(TAIL);
  const pages = [viewer.page];
  while (pages.length < 7) {
    await show(viewer, pages.at(-1) as Page, "hidden");
    const page = await viewer.tab();
    await viewer.logIn(hub.token, page);
    await viewer.go(TAIL, page);
    await page.locator("tbody tr").filter({ hasText: "before" }).waitFor();
    pages.push(page);
  }
  await hub.publish("orders.created", "2", "for-all");
  for (const [index, page] of pages.entries()) {
    await show(viewer, pages.at(index - 1) as Page, "hidden");
    await show(viewer, page, "visible");
    await viewer.live(page);
    await page.locator("tbody tr").filter({ hasText: "for-all" }).waitFor();
    await eventually("one tab has a stream", async () => (await streams(hub)) === 1);
  }
});

browserTest("of seven windows four are live, and each of the others is when somebody turns to it", async ({ hub, open }) => {
  await hub.publish("orders.created", "1", "before");
  const viewer = await open(TAIL);
  const pages = [viewer.page];
  while (pages.length < 7) {
    const page = await viewer.tab();
    await viewer.logIn(hub.token, page);
    await viewer.go(TAIL, page);
    await page.locator("tbody tr").filter({ hasText: "before" }).waitFor();
    pages.push(page);
  }
  await eventually("four streams", async () => (await streams(hub)) === 4);
  const inactive = pages.map((page) => page.locator(".status", { hasText: "other windows are live" }));
  await eventually("three windows say that they are not live", async () => (await Promise.all(inactive.map((one) => one.count()))).filter((n) => n === 1).length === 3);
  for (const page of pages) assert.equal(await page.locator(".screen.old").count(), await page.locator(".status", { hasText: "other windows are live" }).count(), "they are greyed");
  await hub.publish("orders.created", "2", "for-all");
  for (const page of pages) {
    await viewer.evaluate(`dispatchEvent(new Event("focus"))`, page);
    await viewer.live(page);
    await page.locator("tbody tr").filter({ hasText: "for-all" }).waitFor();
  }
  await eventually("four streams again", async () => (await streams(hub)) === 4);
});

browserTest("a tab that is hidden has no stream, and catches up when it is looked at", async ({ hub, open }) => {
  await hub.publish("orders.created", "1", "before");
  const viewer = await open(TAIL);
  await viewer.see(row(viewer, "before"));
  await eventually("one stream", async () => (await streams(hub)) === 1);
  await show(viewer, viewer.page, "hidden");
  await eventually("no stream", async () => (await streams(hub)) === 0);
  await viewer.see(viewer.page.locator(".status", { hasText: "paused" }));
  await hub.publish("orders.created", "2", "unseen");
  await show(viewer, viewer.page, "visible");
  await viewer.live();
  await viewer.see(row(viewer, "unseen"));
});

browserTest("the state of processes changes as they report, and says who has fallen silent", async ({ hub, open }) => {
  await hub.publish("process.state", '{"status":"running","n":1}', "host:worker:1");
  await hub.publish("process.state", '{"status":"running"}', "host:worker:2");
  const viewer = await open("/state?stale=1");
  await viewer.see(row(viewer, "host:worker:1"));
  await viewer.see(row(viewer, "host:worker:1").getByText("stale"));
  await hub.publish("process.state", '{"status":"stopping","n":9007199254740993}', "host:worker:1");
  await viewer.see(row(viewer, "host:worker:1").getByText("stopping"));
  await viewer.see(row(viewer, "9007199254740993"));
  await hub.publish("process.state", "null", "host:worker:2");
  await viewer.gone(row(viewer, "host:worker:2"));
}, { config: '[[topics]]\npattern = "process.state"\ncompaction = true\n' });
