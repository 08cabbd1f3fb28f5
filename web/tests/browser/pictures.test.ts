// The pictures of the documentation. They are made on every run; `cargo xtask dashboard --screenshots` writes them into `docs/images`, each with the outline of
// its page beside it. Every other run compares the outline, so a page cannot change while its picture stays.
import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import type { Hub } from "./harness/hub.ts";
import { busyShop } from "./harness/shop.ts";
import { outline } from "./harness/outline.ts";
import type { Viewer } from "./harness/viewer.ts";
import { browserTest, picturePath } from "./harness/world.ts";

const DOCUMENTATION = new URL("../../../docs/images/", import.meta.url);
/** Samples that a chart needs to look like one. */
const SAMPLES = 12;
/** Charts of the documentation show their whole width. */
const CHART_MS = 110_000;
/** A process that is silent for so long is marked in the picture. */
const STALE_SECONDS = 5;

const isForDocumentation = process.env["EVENT_HUB_SCREENSHOTS"] === "1";

async function path(name: string): Promise<string> {
  if (!isForDocumentation) return picturePath(`docs/${name}.png`);
  await mkdir(DOCUMENTATION, { recursive: true });
  return fileURLToPath(new URL(`${name}.png`, DOCUMENTATION));
}

async function picture(viewer: Viewer, name: string): Promise<void> {
  await viewer.settled();
  await viewer.page.mouse.move(0, 0);
  await viewer.page.screenshot({ path: await path(name), animations: "disabled" });
  const now = await outline(viewer.page);
  const file = new URL(`${name}.txt`, DOCUMENTATION);
  if (isForDocumentation) return writeFile(file, now);
  const before = await readFile(file, "utf8").catch(() => "");
  assert.equal(now, before, `the page is not the one of docs/images/${name}.png any more: \`cargo xtask dashboard --screenshots pictures\` makes it anew`);
}

/** Orders come in and are worked on, until it is stopped. */
function traffic(hub: Hub): () => Promise<void> {
  let goesOn = true;
  const publish = async () => {
    for (let n = 100; goesOn; n += 1) {
      await hub.publish("orders.created", `{"order":${n},"amount":${(n * 37) % 400},"currency":"EUR","items":["tea","cups"]}`, `order-${n}`);
      await hub.publish(n % 5 === 0 ? "payments.refused" : "payments.settled", `{"order":${n}}`, `order-${n}`);
      await hub.publish("process.state", `{"status":"running","rss":${51_000_000 + n * 4_096},"handled":${n}}`, `host:worker:${(n % 2) + 1}`);
      await new Promise((done) => setTimeout(done, 20 + 40 * Math.abs(Math.sin(n / 20))));
    }
  };
  const ended = publish();
  return async () => {
    goesOn = false;
    await ended;
  };
}

browserTest(
  "the pictures of the documentation are what the pages look like",
  async ({ hub, open }) => {
    const analytics = await busyShop(hub);
    let consumes = true;
    const consumer = (async () => {
      while (consumes) await analytics.settle("ACK", "analytics", await analytics.next());
    })().catch(() => undefined);
    const stop = traffic(hub);
    try {
      const viewer = await open("/", { width: 1280, height: 940 });
      await viewer.see(viewer.page.locator(".problems li"));
      const table = viewer.page.getByRole("figure").filter({ hasText: "Events per second" }).getByRole("button", { name: "Table" });
      await table.click();
      await viewer.see(viewer.page.locator("figure tbody tr").nth(SAMPLES - 1));
      await table.click();
      await viewer.see(viewer.page.locator("figure canvas"));
      // What is stuck is a problem after a while only.
      const problem = (text: string) => viewer.see(viewer.page.locator(".problems li").filter({ hasText: text }));
      for (const text of ["billing of orders.created", "ledger of payments.settled", "shipping of orders.created", "given up in the last hour"]) await problem(text);
      if (isForDocumentation) await new Promise((done) => setTimeout(done, CHART_MS));
      await picture(viewer, "overview");

      await viewer.go("/topic?topic=orders.created");
      await viewer.see(viewer.page.locator("tbody tr").nth(10));
      await picture(viewer, "topic");

      await viewer.go("/group?topic=orders.created&group=shipping");
      await viewer.see(viewer.text("carrier API timeout"));
      await viewer.see(viewer.text("Window full"));
      await viewer.see(viewer.page.getByRole("figure").getByText(/events behind [0-9]/));
      if (isForDocumentation) await new Promise((done) => setTimeout(done, CHART_MS / 4));
      await picture(viewer, "group");

      await viewer.go("/letters");
      await viewer.see(viewer.page.locator("tbody").getByText("card expired"));
      await picture(viewer, "dead-letters");

      const { letters } = await hub.json<{ letters: { id: string; originalSeq: number }[] }>("/dlq?topic=orders.created");
      await viewer.go(`/event?topic=orders.created&seq=${letters[0]?.originalSeq ?? 0}`);
      await viewer.see(viewer.text("given up"));
      await picture(viewer, "event");

      await viewer.go(`/letters?letter=${letters[0]?.id ?? ""}&of=orders.created`);
      await viewer.button("Edit").click();
      const field = viewer.page.getByLabel("Payload (JSON)");
      await field.fill((await field.inputValue()).replace("EURO", "EUR"));
      await viewer.button("Replay edited…").click();
      await viewer.see(viewer.text(/goes to group billing alone/));
      await picture(viewer, "redrive");

      const dark = await open(`/state?stale=${STALE_SECONDS}`, { width: 1280, height: 620, theme: "dark" });
      await dark.see(dark.page.locator("tbody tr", { hasText: "host:worker:3" }).getByText("stale"));
      await picture(dark, "state-dark");

      const phone = await open("/", { width: 390, height: 844, theme: "dark" });
      await phone.see(phone.page.locator(".problems li"));
      await picture(phone, "phone");
    } finally {
      consumes = false;
      await stop();
      analytics.close();
      void consumer;
    }
  },
  { config: '[audit]\nlog = "audit.log"\n\n[[topics]]\npattern = "process.state"\ncompaction = true\n' },
);
