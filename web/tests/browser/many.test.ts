// A hub with many topics: the list is whole, and the document has the rows in sight alone.
import assert from "node:assert/strict";
import { browserTest, eventually } from "./harness/world.ts";

const TOPICS = 2_000;

browserTest("a list of 2,000 topics is scrolled to its end, filtered, and stays where it is under the pointer", async ({ hub, open }) => {
  const name = (n: number) => `shop.part-${String(n).padStart(4, "0")}`;
  const socket = await hub.socket();
  await socket.publish(Array.from({ length: TOPICS }, (_, n) => ({ topic: name(n), payload: n })));
  const viewer = await open("/topics");
  await viewer.see(viewer.text(/^2,000 topics$/));
  const table = viewer.page.getByRole("region", { name: "Topics" });
  await viewer.see(table.getByRole("link", { name: name(0) }));
  assert.equal(await table.locator("table").getAttribute("aria-rowcount"), String(TOPICS + 1));
  assert.ok((await table.locator("tbody tr").count()) < 120, "only the rows in sight are in the document");
  await table.evaluate((element) => {
    element.scrollTop = element.scrollHeight;
  });
  await viewer.see(table.getByRole("link", { name: name(TOPICS - 1) }));
  assert.equal(await table.getByRole("link", { name: name(TOPICS - 1) }).locator("xpath=ancestor::tr").getAttribute("aria-rowindex"), String(TOPICS + 1));

  // By keyboard: back to the first row and into it.
  await table.getByRole("grid").focus();
  await viewer.page.keyboard.press("End");
  await viewer.page.keyboard.press("Home");
  await viewer.see(table.getByRole("link", { name: name(0) }));

  // Sorted by what changes, rows keep their places while the pointer is on them.
  await viewer.page.getByRole("button", { name: /^Events$/ }).click();
  await viewer.addressHas("sort=-events");
  await table.locator("tbody tr").nth(2).hover();
  const order = () => table.locator("tbody tr td:first-child a").evaluateAll((links) => links.slice(0, 10).map((link) => link.textContent));
  const before = await order();
  await socket.publish([{ topic: name(1_999), payload: 1 }, { topic: name(1_999), payload: 2 }, { topic: "shop.new", payload: 1 }]);
  // What was published has reached the page, which counts it below the table.
  await viewer.see(viewer.text(/^1 new\. Rows keep their places/));
  assert.deepEqual(await order(), before);
  await viewer.page.keyboard.press("/");
  await viewer.page.mouse.move(0, 0);
  await eventually("the busiest topic is first", async () => (await order())[0] === name(1_999));
  assert.ok(!before.includes(name(1_999)));

  await viewer.page.keyboard.type("part-19");
  await viewer.see(viewer.text(/^100 topics$/));
  await viewer.see(table.getByRole("link", { name: name(1_999) }));
  await viewer.addressHas("q=part-19");
});
