// The token: by a link or by hand, kept in the tab, renewed without losing the page.
import assert from "node:assert/strict";
import { browserTest, eventually } from "./harness/world.ts";
import type { Viewer } from "./harness/viewer.ts";

/** Everything that a browser keeps, but for the storage of the tab. */
async function stored(viewer: Viewer): Promise<string> {
  return JSON.stringify([await viewer.context.storageState(), await viewer.evaluate("[document.cookie, {...localStorage}, location.href, document.referrer]")]);
}

async function paste(viewer: Viewer, token: string): Promise<void> {
  const dialog = viewer.dialog("Token");
  await dialog.getByLabel("Token").fill(token);
  await dialog.getByRole("button", { name: "Continue" }).click();
}

browserTest("a link logs in, and its token is gone from the address before anything is requested", async ({ hub, viewer: open }) => {
  const viewer = await open();
  await viewer.context.addInitScript(`{
    const real = globalThis.fetch;
    globalThis.addresses = [];
    globalThis.fetch = (...words) => { addresses.push(location.href); return real(...words); };
  }`);
  await viewer.logIn(hub.token);
  const addresses = await viewer.evaluate<string[]>("addresses");
  assert.ok(addresses.length >= 2, "the page asks who it is, and for the stream");
  for (const address of addresses) assert.ok(!address.includes("token"), address);
  assert.equal(await viewer.evaluate("sessionStorage.getItem('event-hub-token')"), hub.token);
  assert.ok(!(await stored(viewer)).includes(hub.token), "the token is in no storage that outlives the tab");
  // Back in the history there is no address with the token.
  await viewer.page.goBack().catch(() => undefined);
  assert.ok(!viewer.page.url().includes(hub.token));
});

browserTest("another tab of the same browser has to log in by itself", async ({ hub, open }) => {
  const viewer = await open();
  const second = await viewer.tab();
  await second.goto(hub.http);
  await second.getByRole("dialog", { name: "Token" }).waitFor();
});

browserTest("without a token the page asks for one, and says why it takes none that is wrong", async ({ hub, viewer: open }) => {
  const viewer = await open();
  await viewer.page.goto(`${hub.http}/#/topics?q=orders`);
  await paste(viewer, "not-a-token");
  await viewer.see(viewer.dialog("Token").getByRole("alert"));
  await paste(viewer, hub.token);
  await viewer.live();
  await viewer.gone(viewer.dialog("Token"));
  await viewer.see(viewer.page.getByRole("heading", { name: "Topics", exact: true }));
  await viewer.addressHas("/topics", "q=orders");
});

browserTest("logging out forgets the token, and the page shows nothing more", async ({ hub, open }) => {
  await hub.publish("payroll.secret", '{"salary":1}', "ada");
  const viewer = await open("/topic?topic=payroll.secret");
  await viewer.see(viewer.page.locator("tbody").getByText("salary"));
  await viewer.button("Your token").click();
  await viewer.button("Log out").click();
  await viewer.see(viewer.dialog("Token"));
  await viewer.see(viewer.text("not logged in"));
  assert.ok(!/payroll|salary/.test(await viewer.page.content()), "nothing of what was read is in the document");
  assert.ok(!viewer.page.url().includes("payroll"), "nor in the address");
  assert.equal(await viewer.evaluate("sessionStorage.getItem('event-hub-token')"), null);
  await viewer.page.reload();
  await viewer.see(viewer.dialog("Token"));
  assert.ok(!(await viewer.page.content()).includes(hub.token));
});

browserTest(
  "a token that runs out is told before, and renewing it keeps the page",
  async ({ hub, open }) => {
    await hub.publish("orders.created", '{"order":17}', "order-17");
    const viewer = await open("/topics?q=orders", { token: await hub.mint(["subscribe:**"], { sub: "ada", ttl: "20s" }) });
    await viewer.see(viewer.page.getByRole("link", { name: "orders.created" }));
    await viewer.see(viewer.text(/Your token expires in/));
    // The hub ends the stream when the token does.
    await viewer.see(viewer.dialog("Token"));
    await viewer.addressHas("q=orders");
    await paste(viewer, await hub.mint(["subscribe:**"], { sub: "ada" }));
    await viewer.live();
    await viewer.gone(viewer.dialog("Token"));
    await viewer.gone(viewer.text(/Your token (expires|has expired)/));
    await viewer.see(viewer.page.getByRole("link", { name: "orders.created" }));
    await viewer.addressHas("/topics", "q=orders");
  },
  { variables: { JWT_CLOCK_TOLERANCE_SEC: "0" } },
);

browserTest("another token shows nothing that only the one before may see", async ({ hub, open }) => {
  await hub.publish("payroll.secret", '{"salary":1}', "ada");
  const viewer = await open("/event?topic=payroll.secret&seq=1");
  const payload = viewer.page.getByText('"salary": 1').or(viewer.page.getByText('{"salary":1}'));
  await viewer.see(payload);
  await viewer.button("Your token").click();
  await viewer.button("Another token…").click();
  await paste(viewer, await hub.mint(["subscribe:orders.**"], { sub: "bob" }));
  await viewer.gone(viewer.dialog("Token"));
  await viewer.see(viewer.page.getByRole("alert"));
  await viewer.settled();
  assert.equal(await payload.count(), 0);
});

browserTest("the dialog that asks for a token stays, however often Escape is pressed", async ({ hub, viewer: open }) => {
  const viewer = await open();
  await viewer.page.goto(hub.http);
  const dialog = viewer.dialog("Token");
  await viewer.see(dialog);
  // A browser lets a page refuse to close a dialog once.
  for (let n = 0; n < 3; n += 1) {
    await viewer.page.keyboard.press("Escape");
    await viewer.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    assert.equal(await dialog.count(), 1);
  }
  await paste(viewer, hub.token);
  await viewer.live();
});

browserTest("a token that may only read has grey buttons that name the rule, and the hub refuses as well", async ({ hub, open }) => {
  await hub.publish("orders.created", '{"order":17}', "order-17");
  const socket = await hub.socket();
  await socket.subscribe("orders.created", "billing");
  const token = await hub.mint(["subscribe:**"], { sub: "reader" });
  const viewer = await open("/group?topic=orders.created&group=billing", { token });
  const seek = viewer.button(/^Seek/);
  await viewer.see(seek);
  assert.equal(await seek.getAttribute("aria-disabled"), "true");
  assert.match((await seek.getAttribute("title")) ?? "", /admin:orders\.created/);
  await seek.click({ force: true });
  assert.equal(await viewer.page.getByRole("dialog").count(), 0, "a grey button does nothing");
  await viewer.go("/topic?topic=orders.created&tab=publish");
  const publish = viewer.button(/^Publish to/);
  await viewer.see(publish);
  assert.match((await publish.getAttribute("title")) ?? "", /publish:orders\.created/);

  // What the page does not offer, the hub does not do either.
  const asks: readonly [string, RequestInit][] = [
    ["/publish/orders.created", { method: "POST", body: "1" }],
    ["/groups/seek", { method: "POST", body: '{"topic":"orders.created","group":"billing","to":"earliest"}' }],
    ["/groups?topic=orders.created&group=billing", { method: "DELETE" }],
    ["/topics?topic=orders.created", { method: "DELETE" }],
    ["/dlq/replay", { method: "POST", body: '{"topic":"orders.created"}' }],
    ["/audit", {}],
  ];
  for (const [path, init] of asks) assert.equal((await hub.ask(path, init, token)).status, 403, path);
});

browserTest("what a token may not see is asked for once, and not again and again", async ({ hub, open }) => {
  const viewer = await open("/", { token: await hub.mint(["subscribe:**"], { sub: "reader" }) });
  let refused = 0;
  viewer.page.on("response", (answer) => {
    if (answer.status() === 403) refused += 1;
  });
  await viewer.go("/hubs");
  await viewer.see(viewer.page.getByRole("alert").getByText(/those who may administrate something/));
  // The same screen reads something else as often, which is not refused.
  for (let polls = 0; polls < 2; polls += 1) await viewer.page.waitForResponse((answer) => new URL(answer.url()).pathname === "/readyz" && answer.ok());
  assert.equal(refused, 1);
  await viewer.button("Try again").click();
  await eventually("the hub is asked when somebody wants it", async () => refused === 2);
});

browserTest("a token that may see one topic sees no name of any other", async ({ hub, open }) => {
  await hub.publish("orders.created", '{"order":17}', "order-17");
  await hub.publish("payroll.secret", '{"amount":1}', "ada");
  const socket = await hub.socket();
  await socket.subscribe("payroll.secret", "hidden-group");
  const viewer = await open("/", { token: await hub.mint(["subscribe:orders.**"]) });
  for (const screen of ["/", "/topics", "/groups", "/letters", "/state", "/outboxes", "/push", "/connections", "/hubs", "/quotas", "/audit"]) {
    await viewer.go(screen);
    await viewer.settled();
    const text = await viewer.page.locator("body").innerText();
    assert.ok(!/payroll|hidden-group/.test(text), `${screen}: ${text}`);
  }
  await viewer.go("/topic?topic=payroll.secret");
  await viewer.see(viewer.page.getByRole("heading", { name: "No such topic" }));
});

browserTest(
  "an administrator of some topics sees no outbox that has no parked row of theirs, and one of all topics sees each",
  async ({ hub, open }) => {
    await hub.publish("orders.created", "1");
    const viewer = await open("/", { token: await hub.mint(["admin:orders.**", "subscribe:orders.**"]) });
    await viewer.settled();
    await viewer.see(viewer.page.getByRole("heading", { name: "Overview" }));
    for (const screen of ["/", "/outboxes"]) {
      await viewer.go(screen);
      await viewer.settled();
      const text = await viewer.page.locator("body").innerText();
      assert.ok(!/payroll/.test(text), `${screen}: ${text}`);
    }
    await viewer.see(viewer.page.getByRole("heading", { name: "No parked row" }));
    await viewer.see(viewer.text("How outboxes are doing is shown to tokens with the right admin for all topics"));
    const all = await open("/");
    await all.see(all.page.locator(".problems li").filter({ hasText: "payroll" }));
    await all.go("/outboxes");
    await all.see(all.page.getByRole("region", { name: "payroll" }).getByText("not connected"));
  },
  { config: '[[outbox]]\nname = "payroll"\nurl = "sqlite:missing/payroll.db"\n' },
);
