// Every value of an event was written by somebody else. It is shown as text, and nothing else comes of it.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Viewer } from "./harness/viewer.ts";
import { browserTest } from "./harness/world.ts";
import { deadLetters } from "./harness/failures.ts";

const run = promisify(execFile);

/** What has broken other pages. Each would call `violated` if it were taken for code, or make an element with the class `injected`. */
const CORPUS = [
  `<script>violated("script")</script>`,
  `<img src=x onerror='violated("onerror")' class="injected">`,
  `<svg onload='violated("onload")' class="injected"></svg>`,
  `"><b class="injected">bold</b>`,
  `' onmouseover='violated("attribute")' class='injected`,
  `javascript:violated("link")`,
  `</script><script>violated("closed")</script>`,
  `</textarea><i class="injected">`,
  `{{constructor.constructor("violated('template')")()}}`,
  "${violated('literal')}",
  `<a href="javascript:violated('anchor')" class="injected">click</a>`,
  `__proto__`,
  `constructor`,
  "\u202Eevil\u202C and \u200Bhidden\u0007",
] as const;

/** As a part of an address. */
const HIDDEN = encodeURIComponent(CORPUS.at(-1) ?? "");

/** Nothing was made of the texts. */
async function nothingInjected(viewer: Viewer, where: string): Promise<void> {
  const found = await viewer.evaluate<string[]>(`[...document.querySelectorAll(".injected, main script, main img, main iframe, main object, main embed, [onerror], [onload], [onmouseover], [onclick]")].map((one) => one.outerHTML.slice(0, 200))`);
  assert.deepEqual(found, [], where);
  const links = await viewer.evaluate<string[]>(`[...document.querySelectorAll("a[href], form[action]")].map((one) => one.getAttribute("href") ?? one.getAttribute("action")).filter((href) => !href.startsWith("#/"))`);
  assert.deepEqual(links, [], where);
  const raw = await viewer.evaluate<boolean>(String.raw`/[\u202a-\u202e\u200b\u0007]/.test(document.body.innerText)`);
  assert.equal(raw, false, `${where}: characters that hide or turn text are shown as their codes`);
}

browserTest(
  "hostile text is text on every screen",
  async ({ hub, open }) => {
    const socket = await hub.socket();
    const keyed = (text: string) => ({ key: text.slice(0, 100) });
    const events = CORPUS.map((text, n) => ({
      topic: n % 2 === 0 ? "orders.created" : "process.state",
      payload: { [text]: text, status: text },
      opts: { ...keyed(text), headers: { [`x-text-${n}`]: text.replace(/[\u0000-\u001f]/g, "") }, tags: [text], sid: text },
    }));
    await socket.publish(events);
    await socket.publish(CORPUS.map((text) => ({ topic: "orders.plain", payload: text, opts: keyed(text) })));
    await deadLetters(hub, "orders.failed", "billing", CORPUS.map((text) => ({ payload: JSON.stringify(text), key: text.slice(0, 100), reason: text })));
    // Members whose subject is hostile, and events that failed with a hostile reason.
    const member = await hub.socket(await hub.mint(["subscribe:**", "publish:**"], { sub: CORPUS[1] }));
    await member.subscribe("orders.created", "shipping", { maxAttempts: 50 });
    await member.settle("NACK", "shipping", await member.next(), { reason: CORPUS[0], delay_ms: 3_600_000 });
    await hub.json("/push/crm", {
      method: "PUT",
      body: JSON.stringify({ topic: "orders.*", url: "http://127.0.0.1:9/?<script>violated('push')</script>", allowPrivate: true, secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] }),
    }).catch(() => undefined);

    const viewer = await open("/", { token: await hub.mint(["publish:**", "subscribe:**", "admin:**"], { sub: CORPUS[2] }) });
    const { letters } = await hub.json<{ letters: { id: string; err: string }[] }>("/dlq?topic=orders.failed&limit=1000");
    assert.equal(letters.length, CORPUS.length);
    const screens: readonly (readonly [string, string])[] = [
      ["/", "problems"],
      ["/topics", "orders.created"],
      ["/topic?topic=orders.created", "onload="],
      ["/topic?topic=orders.plain", "<script>"],
      ["/topic?topic=orders.plain&tab=state", "<script>"],
      ["/topic?topic=orders.created&tab=groups", "shipping"],
      ["/state?topic=process.state", "onerror="],
      ["/groups", "shipping"],
      ["/group?topic=orders.created&group=shipping", "<script>"],
      ["/letters", "</textarea>"],
      ["/outboxes", "<script>"],
      ["/push", "crm"],
      ["/connections", "onerror="],
      ["/hubs", ""],
      ["/quotas", "onerror="],
      ["/audit", ""],
      ...events.map((_, n) => [`/event?topic=${events[n]?.topic ?? ""}&seq=${Math.floor(n / 2) + 1}`, "status"] as const),
      ...letters.map(({ id }) => [`/letters?letter=${id}&of=orders.failed`, "of orders.failed"] as const),
      [`/state?topic=orders.plain&history=${encodeURIComponent(CORPUS[1])}`, "onerror="],
      // What a link can say.
      [`/topic?topic=${encodeURIComponent(CORPUS[1])}`, "onerror="],
      [`/group?topic=${encodeURIComponent(CORPUS[0])}&group=${encodeURIComponent(CORPUS[3])}`, "injected"],
      [`/topics?q=${encodeURIComponent(CORPUS[3])}&sort=${encodeURIComponent(CORPUS[5])}`, "injected"],
      [`/find?id=${encodeURIComponent(CORPUS[0])}`, ""],
      [`/event?topic=${encodeURIComponent(CORPUS[1])}&id=${encodeURIComponent(CORPUS[0])}`, ""],
      [`/${encodeURIComponent(CORPUS[1])}`, "No such page"],
      ...["/topic?", "/topic?tab=publish&", "/topic?tab=state&", "/event?seq=1&", "/state?", "/group?", "/letters?"].map((screen) => [`${screen}topic=${HIDDEN}&group=${HIDDEN}&q=${HIDDEN}`, ""] as const),
    ];
    for (const [screen, text] of screens) {
      await viewer.go(screen);
      await viewer.settled();
      if (text !== "") await viewer.see(viewer.page.locator("body").getByText(text).or(viewer.page.getByRole("heading", { name: text })).or(viewer.page.locator(`input[value*=${JSON.stringify(text)}]`)));
      await nothingInjected(viewer, screen);
    }
    for (const [screen, button] of [["/group", /^Seek/], ["/group", /^Delete/], ["/topic", /^Delete/], ["/topic", /^Export/]] as const) {
      await viewer.go(`${screen}?topic=${HIDDEN}&group=${HIDDEN}`);
      await viewer.button(button).click();
      await viewer.see(viewer.page.getByRole("dialog"));
      await viewer.settled();
      await nothingInjected(viewer, `${screen}, ${String(button)}`);
      await viewer.page.keyboard.press("Escape");
      await viewer.gone(viewer.page.getByRole("dialog"));
    }
    await viewer.button("Your token").click();
    await viewer.see(viewer.dialog("Your token").getByText("onload="));
    await nothingInjected(viewer, "the token");
  },
  {
    config: '[[outbox]]\nname = "shop"\nurl = "sqlite:shop.db"\n\n[[topics]]\npattern = "process.state"\ncompaction = true\n\n[audit]\nlog = "audit.log"\n',
    prepare: outboxWithHostileRows,
  },
);

/** A database whose outbox has rows that cannot be published, with hostile text in every column. */
async function outboxWithHostileRows(dir: string): Promise<void> {
  const program = process.env["EVENT_HUB_PROGRAM"] ?? "event-hub";
  await run(program, ["outbox", "init", "--apply", "--db", "sqlite:shop.db"], { cwd: dir });
  const rows = CORPUS.map((text, n) => {
    const quoted = `'${text.replace(/[\u0000-\u001f]/g, "").replaceAll("'", "''")}'`;
    return `INSERT INTO outbox (id, topic, key, payload) VALUES ('018f4e3a-1b2c-7d3e-8f40-1122334455${String(n + 10)}', ${quoted}, ${quoted}, '1');`;
  });
  const [database, statements] = [join(dir, "shop.db"), rows.join("\n")];
  const python = "import sqlite3, sys\nwith sqlite3.connect(sys.argv[1]) as db: db.executescript(sys.argv[2])";
  // A machine has the one or the other.
  await run("sqlite3", [database, statements]).catch(() => run("python3", ["-c", python, database, statements]));
}

browserTest("a number beyond 2^53 survives view, copy, edit and publishing again", async ({ hub, open }) => {
  const payload = '{"amount":9007199254740993,"ratio":0.10000000000000000555,"big":[123456789012345678901234567890,1e400,-0.0]}';
  await hub.publish("orders.created", payload, "order-17");
  const viewer = await open("/topic?topic=orders.created");
  await viewer.see(viewer.page.locator("tbody").getByText(payload));
  await viewer.page.getByRole("link", { name: "1", exact: true }).click();
  const shown = viewer.page.getByRole("region", { name: /^Payload, / });
  for (const number of ["9007199254740993", "0.10000000000000000555", "123456789012345678901234567890", "1e400", "-0.0"]) await viewer.see(shown.getByText(number));
  await viewer.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await viewer.button("Copy the payload").click();
  await viewer.see(viewer.page.locator('button[aria-label="Copy the payload"] path[d^="M3 8.500"]'));
  assert.equal(await viewer.evaluate("navigator.clipboard.readText()"), payload);
  const [download] = await Promise.all([viewer.page.waitForEvent("download"), viewer.button("Download").click()]);
  assert.equal(download.suggestedFilename(), "orders.created-1.json");
  await viewer.button("Publish again…").click();
  const field = viewer.page.getByLabel("Payload (JSON)");
  assert.equal(await field.inputValue(), payload);
  await viewer.button("Publish to orders.created").click();
  await viewer.see(viewer.text(/Published as seq 2/));
  const stored = await (await hub.ask("/event?topic=orders.created&seq=2")).text();
  assert.ok(stored.includes(`"payload":${payload}`), stored);
});

browserTest("a payload of one MiB opens, scrolls to its end and is copied whole", async ({ hub, open }) => {
  // Many lines, then one that is long.
  const items = Array.from({ length: 20_000 }, (_, n) => `{"n":${n},"text":"item ${n}"}`).join(",");
  const start = `{"items":[${items}],"long":"`;
  const payload = `${start}${"x".repeat(1_048_500 - start.length)}","end":"here it ends"}`;
  assert.ok(payload.length > 1_040_000 && payload.length <= 1_048_576);
  await hub.publish("orders.created", payload, "large");
  const viewer = await open("/topic?topic=orders.created");
  await viewer.page.getByRole("link", { name: "1", exact: true }).click();
  const shown = viewer.page.getByRole("region", { name: /^Payload, / });
  await viewer.see(shown.getByText('"item 0"'));
  await viewer.see(viewer.page.locator(".payload header").getByText(/1,?02\d.* KiB|1 MiB/));
  await shown.evaluate((element) => {
    element.scrollTop = element.scrollHeight;
  });
  await viewer.see(shown.getByText("here it ends"));
  const lines = await viewer.evaluate<number>(`document.querySelector(".payload pre").textContent.length`);
  assert.ok(lines < 200_000, "only the lines in sight are in the document");
  await viewer.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await viewer.button("Copy the payload").click();
  await viewer.see(viewer.page.locator('button[aria-label="Copy the payload"] path[d^="M3 8.500"]'));
  assert.equal(await viewer.evaluate("navigator.clipboard.readText().then((text) => text.length)"), payload.length);
});
