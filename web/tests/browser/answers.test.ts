// Answers that come late, in parts, or not at all. Most of them are made by the test, so that what happens between two of them is certain.
import assert from "node:assert/strict";
import type { Route } from "playwright-core";
import { deadLetters } from "./harness/failures.ts";
import type { Viewer } from "./harness/viewer.ts";
import { browserTest } from "./harness/world.ts";

type Query = URLSearchParams;

/** Answers the requests of the page to a path by JSON, or by what `answer` does with the request. */
async function answerFor(viewer: Viewer, path: string, answer: (query: Query, route: Route) => unknown): Promise<void> {
  await viewer.page.route((url) => url.pathname === path, async (route) => {
    const made = await answer(new URL(route.request().url()).searchParams, route);
    // The page may be gone by then, with the test.
    if (made !== undefined) await route.fulfill({ json: made }).catch(() => undefined);
  });
}

/** Something that the test brings about, and the page's answers wait for; or the other way round. */
function signal(): Readonly<{ come: Promise<void>; tell: () => void }> {
  let tell: () => void = () => undefined;
  const come = new Promise<void>((done) => {
    tell = done;
  });
  return { come, tell };
}

/** A refusal of the hub. */
function refuse(route: Route, status = 503): Promise<void> {
  return route.fulfill({ status, json: { code: "store_unavailable", error: "the store does not answer" } });
}

function letter(id: string, topic = "orders.created") {
  return { id, topic, group: "billing", key: `key-${id}`, originalSeq: 1, attempts: 1, ts: 1, err: `error ${id}`, replays: 0 };
}

const rows = (viewer: Viewer, text: string) => viewer.page.locator("tbody tr").filter({ hasText: text });

browserTest("a page of letters that comes late is in no list of another filter", async ({ open }) => {
  const viewer = await open();
  const late = signal();
  await answerFor(viewer, "/dlq", async (query) => {
    if (query.get("after") !== null) {
      await late.come;
      return { letters: [letter("late")] };
    }
    return query.get("q") === null ? { letters: [letter("first")], next: "first" } : { letters: [letter("other")] };
  });
  await viewer.go("/letters");
  await viewer.see(rows(viewer, "error first"));
  await viewer.button("Read on").click();
  await viewer.go("/letters?q=other");
  await viewer.see(rows(viewer, "error other"));
  const answered = viewer.page.waitForResponse((answer) => answer.url().includes("after=first"));
  late.tell();
  await (await answered).finished();
  await viewer.settled();
  assert.equal(await rows(viewer, "error late").count(), 0);
  await viewer.see(viewer.text(/^1 letter$/));
});

browserTest("letters that were read on stay, and chosen ones stay chosen, when the page reads again", async ({ open }) => {
  const viewer = await open();
  let isReplayed = false;
  await answerFor(viewer, "/dlq", (query) => (query.get("after") === null ? { letters: isReplayed ? [letter("new")] : [letter("one")], next: "one" } : { letters: [letter("two")] }));
  await viewer.go("/letters?topic=orders.created");
  await viewer.button("Read on").click();
  await viewer.see(rows(viewer, "error two"));
  await viewer.button("Select all shown").click();
  await viewer.see(viewer.button("Replay 2 selected…"));
  isReplayed = true;
  await viewer.comeBack();
  await viewer.see(rows(viewer, "error new"));
  await viewer.see(rows(viewer, "error two"));
  await viewer.see(viewer.button("Replay 2 selected…"));
});

browserTest("a paused tail is as it was after a look at an event", async ({ hub, open }) => {
  await hub.publish("orders.created", "1", "before");
  const viewer = await open("/topic?topic=orders.created");
  await viewer.see(rows(viewer, "before"));
  await viewer.page.keyboard.press("Space");
  await viewer.see(viewer.text(/paused, 0 new/));
  await hub.publish("orders.created", "2", "meanwhile");
  await viewer.see(viewer.text(/paused, 1 new/));
  await rows(viewer, "before").getByRole("link").click();
  await viewer.see(viewer.page.getByRole("heading", { name: "Event 1" }));
  await hub.publish("orders.created", "3", "unseen");
  await viewer.page.goBack();
  await viewer.see(viewer.text(/paused, 2 new/));
  assert.equal(await rows(viewer, "meanwhile").count(), 0);
  await viewer.page.keyboard.press("Space");
  await viewer.see(rows(viewer, "unseen"));
  await viewer.see(rows(viewer, "meanwhile"));
});

browserTest("the busiest topics are those of this stream, not those of the one before", async ({ hub, open }) => {
  await hub.publish("orders.created", "1");
  const { topics } = await hub.json<{ topics: { name: string }[] }>("/topics");
  const viewer = await open();
  let streams = 0;
  await viewer.page.route((url) => url.pathname === "/live" && url.searchParams.get("view") === "overview", (route) => {
    streams += 1;
    const names = streams === 1 ? ["yesterday.topic"] : ["today.topic"];
    const data = JSON.stringify({ rows: names.map((name) => ({ ...topics[0], name })) });
    return route.fulfill({ contentType: "text/event-stream", body: `event: topics\ndata: ${data}\n\n` });
  });
  const busiest = viewer.page.getByRole("region", { name: "Busiest topics" });
  // Each of these streams ends behind its first message, and the page opens the next one.
  await viewer.go("/topics");
  await viewer.see(viewer.page.getByRole("heading", { name: "Topics" }));
  await viewer.go("/");
  await viewer.see(busiest.getByRole("link", { name: "today.topic" }));
  assert.equal(await busiest.getByRole("link", { name: "yesterday.topic" }).count(), 0);
});

browserTest("problems keep their places while the pointer is on them, and take them when it goes", async ({ hub, open }) => {
  await hub.publish("orders.created", "1");
  const viewer = await open();
  const problem = (group: string, lag: number) => ({ kind: "group", topic: "orders.created", group, reason: "no_members", since: 1, lag, inflight: 0, parked: 0, members: 0 });
  let problems = [problem("billing", 1), problem("shipping", 2)];
  await viewer.page.route((url) => url.pathname === "/live" && url.searchParams.get("view") === "overview", (route) =>
    route.fulfill({ contentType: "text/event-stream", body: `event: problems\ndata: ${JSON.stringify({ problems, more: 0 })}\n\n` }));
  // Each of these streams ends behind its message, and the page opens the next one.
  await viewer.go("/topics");
  await viewer.see(viewer.page.getByRole("heading", { name: "Topics" }));
  await viewer.go("/");
  const list = viewer.page.locator(".problems li");
  const groups = () => list.locator("b").allInnerTexts();
  await viewer.see(list.filter({ hasText: "shipping" }));
  await list.filter({ hasText: "shipping" }).getByRole("link", { name: /^See why/ }).hover();
  problems = [problem("mail", 9), problem("shipping", 7)];
  await viewer.see(viewer.page.locator(".problems").getByText("1 new. Rows keep their places"));
  assert.deepEqual(await groups(), ["billing", "shipping"]);
  await viewer.see(list.filter({ hasText: "billing" }).getByText("Solved"));
  await viewer.see(list.filter({ hasText: "shipping" }).getByText("7 events behind"));
  await viewer.page.mouse.move(0, 0);
  await viewer.see(list.filter({ hasText: "mail" }));
  assert.deepEqual(await groups(), ["mail", "shipping"]);
});

browserTest("a screen that cannot be drawn says so, and leaves all others as they are", async ({ hub, open }) => {
  await hub.publish("orders.created", "1");
  const viewer = await open();
  await answerFor(viewer, "/connections", () => ({ connections: [{ id: "1", kind: { not: "a text" }, subject: 7, since: 1 }] }));
  await viewer.go("/connections");
  await viewer.see(viewer.page.getByRole("alert").getByText("The dashboard cannot show this"));
  assert.match(viewer.violations.splice(0).join(), /the console has an error/, "and it is told to the developer");
  await viewer.page.getByRole("link", { name: "Topics" }).click();
  await viewer.see(viewer.page.getByRole("link", { name: "orders.created" }));
  await viewer.gone(viewer.page.getByRole("alert"));
});

browserTest("a time that is none does not break the page", async ({ open }) => {
  const viewer = await open();
  // Nanoseconds, as a service may write them into its outbox.
  const row = { id: "1", topic: "orders.created", status: "error", ts: 1_780_000_000_000_000_000, attempts: 1, error: "ts is too late" };
  await answerFor(viewer, "/outbox", () => ({ outboxes: [{ name: "shop", connected: true, pending: 0, parked: 1, sent: 0, retries: 0, rows: [row] }] }));
  await viewer.go("/outboxes");
  await viewer.see(viewer.text("ts is too late"));
  await viewer.see(viewer.text("no time"));
});

browserTest("a state of the past is compared with now when now is known, and calls no key gone before", async ({ hub, open }) => {
  await hub.publish("process.state", '{"status":"running"}', "host:worker:1");
  const viewer = await open();
  const now = signal();
  await answerFor(viewer, "/latest-by-key", async (_, route) => {
    await now.come;
    return route.fallback();
  });
  const past = viewer.page.waitForResponse((answer) => new URL(answer.url()).pathname === "/history");
  await viewer.go(`/state?topic=process.state&at=${Date.now() + 3_600_000}`);
  await (await past).finished();
  await viewer.see(viewer.text(/reading…/));
  await viewer.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
  assert.equal(await viewer.page.getByText("gone", { exact: true }).count(), 0);
  now.tell();
  await viewer.see(rows(viewer, "host:worker:1").getByText("the same"));
}, { config: '[[topics]]\npattern = "process.state"\ncompaction = true\n' });

browserTest("what is done with an endpoint or a parked row is shown as the command that does the same", async ({ hub, open }) => {
  const definition = { topic: "orders.created", url: "https://hooks.example/", secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] };
  await hub.json("/push/crm", { method: "PUT", body: JSON.stringify(definition) });
  const viewer = await open("/push");
  const card = viewer.page.getByRole("region", { name: "crm" });
  await card.getByRole("button", { name: "Delete…" }).click();
  const command = viewer.dialog("Delete crm").locator("code");
  assert.equal(await command.innerText(), `event-hub push rm crm --ops-url ${hub.http}`);
  assert.equal(await hub.cli("push", "rm", "crm", "--yes", "--ops-url", hub.http), "crm: deleted; its group push.crm stays");
  await viewer.gone(card);
  await viewer.page.keyboard.press("Escape");

  const row = { id: "018f4e3a-1b2c-7d3e-8f40-112233445566", topic: "orders.created", status: "error", ts: 1, attempts: 1, error: "refused" };
  await answerFor(viewer, "/outbox", () => ({ outboxes: [{ name: "shop", connected: true, pending: 0, parked: 1, sent: 0, retries: 0, rows: [row] }] }));
  await viewer.go("/outboxes");
  const shown = viewer.dialog("Retry parked rows of shop").locator(".command code");
  for (const [button, ids] of [["Retry all parked…", ""], [/^Retry… row/, `${row.id} `]] as const) {
    await viewer.button(button).click();
    await viewer.see(shown);
    assert.equal(await shown.innerText(), `event-hub outbox retry ${ids}--through-hub --outbox shop --ops-url ${hub.http}`);
    await viewer.page.keyboard.press("Escape");
    await viewer.gone(shown);
  }
});

browserTest("the search for an id tries again when it is told to", async ({ hub, open }) => {
  const { id } = await hub.publish("orders.created", "1");
  const viewer = await open();
  let asked = 0;
  await answerFor(viewer, "/event/find", (_, route) => {
    asked += 1;
    return asked === 1 ? refuse(route) : route.fallback();
  });
  await viewer.go(`/find?id=${id}`);
  await viewer.see(viewer.text("the store does not answer"));
  await viewer.button("Try again").click();
  await viewer.see(viewer.page.getByRole("heading", { name: "Event 1" }));
});

browserTest("what is no id leads to where it may be found", async ({ hub, open }) => {
  await hub.publish("orders.created", "1");
  const viewer = await open();
  const field = viewer.page.getByLabel("Find an event by its id");
  await field.fill("orders");
  await viewer.page.keyboard.press("Enter");
  await viewer.see(viewer.page.getByRole("heading", { name: "No event with this correlation id" }));
  await viewer.page.getByRole("link", { name: "topics with this in their name" }).click();
  await viewer.see(viewer.page.getByRole("link", { name: "orders.created" }));
  await field.fill("orders.created:1");
  await viewer.page.keyboard.press("Enter");
  await viewer.see(viewer.page.getByRole("heading", { name: "Event 1" }));
});

browserTest("further groups of an event stay while the page follows it", async ({ hub, open }) => {
  await hub.publish("orders.created", '{"order":17}');
  const real = await hub.json<object>("/event?topic=orders.created&seq=1");
  const viewer = await open();
  let polls = 0;
  await answerFor(viewer, "/event", (query) => {
    if (query.get("after") === null) polls += 1;
    const group = query.get("after") === null ? { group: "first", state: "pending" } : { group: "second", state: "pending" };
    return { ...real, groups: [group], next: query.get("after") === null ? "first" : undefined };
  });
  await viewer.go("/event?topic=orders.created&seq=1");
  const journey = viewer.page.getByRole("region", { name: "Journey" });
  await viewer.see(journey.getByRole("link", { name: "first" }));
  await viewer.button("Further groups").click();
  await viewer.see(journey.getByRole("link", { name: "second" }));
  // Two more polls: the page has drawn the first of them when it sends the second.
  const before = polls;
  while (polls < before + 2) await viewer.page.waitForResponse((answer) => new URL(answer.url()).pathname === "/event");
  assert.equal(await journey.getByRole("link", { name: "second" }).count(), 1);
});

browserTest("a dialog tells that the hub does not answer, and why a button is greyed", async ({ hub, open }) => {
  await deadLetters(hub, "orders.created", "billing", [{ payload: "1", reason: "card expired" }]);
  const viewer = await open("/topic?topic=orders.created", { token: await hub.mint(["subscribe:**"], { sub: "reader" }) });
  await answerFor(viewer, "/ticket", (_, route) => route.abort());
  await viewer.button("Export…").click();
  const dialog = viewer.dialog("Export orders.created");
  await dialog.getByRole("button", { name: "Download" }).click();
  await viewer.see(dialog.getByText("the hub does not answer"));
  await viewer.page.keyboard.press("Escape");
  await viewer.gone(dialog);
  const { letters } = await hub.json<{ letters: { id: string }[] }>("/dlq");
  await viewer.go(`/letters?letter=${letters[0]?.id ?? ""}&of=orders.created`);
  const replay = viewer.dialog("Dead letter").getByRole("button", { name: /^Replay/ });
  await replay.click({ force: true });
  const notice = viewer.dialog("Dead letter").locator(".notice");
  await viewer.see(notice.getByText(/admin:orders\.created/));
  const isOnTop = await notice.evaluate((element) => {
    const { x, y, width, height } = element.getBoundingClientRect();
    return element.contains(document.elementFromPoint(x + width / 2, y + height / 2));
  });
  assert.ok(isOnTop, "it can be read");
});

browserTest("outboxes, push endpoints and quotas have their filter and order in the address", async ({ open }) => {
  const viewer = await open();
  const outbox = (name: string) => ({ name, connected: true, pending: 0, parked: 0, sent: 0, retries: 0, rows: [] });
  await answerFor(viewer, "/outbox", () => ({ outboxes: [outbox("shop"), outbox("billing")] }));
  const endpoint = (name: string) => ({ name, topic: `${name}.events`, group: `push.${name}`, url: "http://h/", mode: "plain", state: "active", inflight: 0, delivered: 0, concurrency: 1, origin: "file" });
  // The second page of the list is a part of it.
  await answerFor(viewer, "/push", (query) => (query.get("after") === null ? { endpoints: [endpoint("crm")], next: "crm" } : { endpoints: [endpoint("erp")] }));
  await answerFor(viewer, "/quotas", () => ({ subjects: ["ada", "bob", "adam"].map((subject, used) => ({ subject, topics: { used } })), patterns: [{ pattern: "stock.**", topics: { used: 7, max: 7 } }] }));
  const region = (name: string) => viewer.page.getByRole("region", { name, exact: true });
  await viewer.go("/outboxes");
  await viewer.see(region("shop"));
  await viewer.page.keyboard.press("/");
  await viewer.page.keyboard.type("bill");
  await viewer.addressHas("q=bill");
  await viewer.gone(region("shop"));
  await viewer.see(region("billing"));
  await viewer.go("/push");
  await viewer.see(region("crm"));
  await viewer.see(region("erp"));
  await viewer.go("/push?q=erp.ev");
  await viewer.gone(region("crm"));
  await viewer.see(region("erp"));
  await viewer.go("/quotas?q=AD&sort=-topics");
  await viewer.see(rows(viewer, "adam"));
  assert.deepEqual(await viewer.page.locator("tbody td:first-child").allInnerTexts(), ["adam", "ada"]);
  // Topics can have a quota as well.
  await viewer.go("/quotas?q=stock");
  await viewer.see(rows(viewer, "topics stock.**").getByText("used up"));
});

browserTest("an error moves nothing, and is read out without an age, which would be read out each second", async ({ open }) => {
  const viewer = await open();
  let asked = 0;
  await answerFor(viewer, "/outbox", (_, route) => {
    asked += 1;
    return asked === 1 ? { outboxes: [] } : refuse(route);
  });
  await viewer.go("/outboxes");
  const heading = viewer.page.getByRole("heading", { name: "This hub drains no outbox" });
  await viewer.see(heading);
  const before = await heading.boundingBox();
  await viewer.see(viewer.page.locator(".banner time"));
  assert.deepEqual(await heading.boundingBox(), before, "nothing moves under the pointer");
  await viewer.see(viewer.page.getByRole("alert").getByText("the store does not answer"));
  assert.equal(await viewer.page.locator("[role=alert] time, [role=status] time").count(), 0);
});

browserTest("an edit is not lost by Escape", async ({ hub, open }) => {
  await deadLetters(hub, "orders.created", "billing", [{ payload: '{"amount":1}', reason: "card expired" }]);
  const { letters } = await hub.json<{ letters: { id: string }[] }>("/dlq");
  const viewer = await open(`/letters?letter=${letters[0]?.id ?? ""}&of=orders.created`);
  const dialog = viewer.dialog("Dead letter");
  await dialog.getByRole("button", { name: "Edit" }).click();
  const field = dialog.getByLabel("Payload (JSON)");
  await field.fill('{"amount":2}');
  for (let n = 0; n < 3; n += 1) {
    await viewer.page.keyboard.press("Escape");
    await viewer.see(dialog.getByRole("alert").getByText("What you have edited is not replayed"));
  }
  assert.equal(await field.inputValue(), '{"amount":2}');
  await dialog.getByRole("button", { name: "Go on editing" }).click();
  await viewer.gone(dialog.getByRole("alert"));
  await viewer.page.keyboard.press("Escape");
  await dialog.getByRole("button", { name: "Discard the edit" }).click();
  await viewer.gone(dialog);
});

browserTest("a replay that fails on its way, or is stopped, says what it has done", async ({ hub, open }) => {
  await deadLetters(hub, "orders.created", "billing", [{ payload: "1", reason: "card expired" }]);
  const viewer = await open();
  let step: (route: Route) => unknown = () => undefined;
  await answerFor(viewer, "/dlq/replay", (_, route) => {
    const { dryRun, after } = route.request().postDataJSON() as { dryRun?: boolean; after?: string };
    if (dryRun === true) return { matched: 3, skipped: 0, complete: true };
    return after === undefined ? { replayed: 1, next: "one" } : step(route);
  });
  await viewer.go("/letters?topic=orders.created");
  const dialog = viewer.dialog("Replay dead letters of orders.created");
  step = (route) => refuse(route);
  await viewer.button("Replay all 1…").click();
  await dialog.getByRole("button", { name: "Replay" }).click();
  await viewer.see(dialog.getByText("1 event replayed, 0 skipped, 0 failed."));
  await viewer.see(dialog.getByText("the store does not answer"));
  await dialog.getByRole("button", { name: "Close" }).last().click();

  const [asked, answer] = [signal(), signal()];
  step = async () => {
    asked.tell();
    await answer.come;
    return { replayed: 1, next: "two" };
  };
  await viewer.button("Replay all 1…").click();
  await dialog.getByRole("button", { name: "Replay" }).click();
  await asked.come;
  await dialog.getByRole("button", { name: "Stop" }).click();
  answer.tell();
  await viewer.see(dialog.getByText("2 events replayed, 0 skipped, 0 failed."));
  await viewer.see(dialog.getByText("Stopped before the end."));
});

browserTest("whose the token is is asked for until the hub says it", async ({ hub, viewer: stranger }) => {
  const viewer = await stranger();
  let asked = 0;
  await answerFor(viewer, "/whoami", (_, route) => {
    asked += 1;
    return asked === 1 ? refuse(route) : route.fallback();
  });
  await viewer.logIn(await hub.mint(["subscribe:**"], { sub: "ada" }));
  await viewer.see(viewer.button(/Your token/).getByText("ada"));
});

browserTest("rates that come late are in no chart of another viewer", async ({ hub, open }) => {
  await hub.publish("stock.changed", "1");
  const viewer = await open("/topics");
  const late = signal();
  let asked = 0;
  await answerFor(viewer, "/stats", async () => {
    asked += 1;
    if (asked > 1) return { samples: [] };
    await late.come;
    return { samples: [{ ts: Date.now() - 60_000, published: 7_777, bytes: 1, delivered: 1, acked: 1, nacked: 1, redelivered: 1, deadlettered: 1 }] };
  });
  await viewer.page.reload();
  await viewer.live();
  await viewer.button("Your token").click();
  await viewer.button("Another token…").click();
  await viewer.dialog("Token").getByLabel("Token").fill(await hub.mint(["subscribe:stock.**"], { sub: "bob" }));
  await viewer.dialog("Token").getByRole("button", { name: "Continue" }).click();
  await viewer.see(viewer.button(/Your token/).getByText("bob"));
  await viewer.live();
  const answered = viewer.page.waitForResponse((answer) => new URL(answer.url()).pathname === "/stats");
  late.tell();
  await (await answered).finished();
  await viewer.go("/");
  const figure = viewer.page.getByRole("figure").filter({ hasText: "Events per second" });
  await figure.getByRole("button", { name: "Table" }).click();
  await viewer.see(figure.locator("tbody tr"));
  assert.doesNotMatch(await figure.innerText(), /777/);
});

browserTest("ages go by the clock of the hub, not by that of the browser", async ({ hub, viewer: stranger }) => {
  await hub.publish("orders.created", "1", "now");
  const viewer = await stranger();
  // A clock that is a day ahead.
  await viewer.context.addInitScript("{ const real = Date.now; Date.now = () => real() + 86_400_000; }");
  await viewer.logIn(hub.token);
  await viewer.go("/topic?topic=orders.created");
  await viewer.see(rows(viewer, "now").locator("time"));
  await viewer.settled();
  for (const age of await viewer.page.locator("time").allInnerTexts()) assert.doesNotMatch(age, /\d [hd]\b/);
});

browserTest("a command is copied as it is shown, with no character that a terminal acts on", async ({ open }) => {
  const viewer = await open(`/topic?topic=${encodeURIComponent("a\u0003b\u202e")}`);
  await viewer.see(viewer.page.getByRole("heading", { name: "No such topic" }));
  const command = viewer.page.locator(".command code");
  const shown = await command.innerText();
  assert.equal(shown, String.raw`event-hub publish $'a\003b\342\200\256' '{"order":17}' --url "` + '${EVENT_HUB_URL:?}"');
  await viewer.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await viewer.button("Copy the command").click();
  await viewer.see(viewer.page.locator('button[aria-label="Copy the command"] path[d^="M3 8.500"]'));
  assert.equal(await viewer.evaluate("navigator.clipboard.readText()"), shown);
});
