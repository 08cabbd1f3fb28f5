// The workbench for dead letters.
import assert from "node:assert/strict";
import { deadLetters } from "./harness/failures.ts";
import type { Hub } from "./harness/hub.ts";
import { browserTest, eventually } from "./harness/world.ts";

browserTest("a dead letter is found, edited and replayed by keyboard alone", async ({ hub, open }) => {
  await deadLetters(hub, "orders.created", "billing", [
    { payload: '{"amount":9007199254740993,"currency":"EURO"}', key: "order-17", reason: "unknown currency EURO" },
  ]);
  const viewer = await open();
  const { keyboard } = viewer.page;
  await viewer.evaluate(`addEventListener("pointerdown", () => violated("the mouse was used"), true)`);
  await viewer.settled();
  await keyboard.press("g");
  await keyboard.press("d");
  await viewer.see(viewer.page.getByRole("heading", { name: "Dead letters", exact: true }));
  await viewer.see(viewer.page.locator("tbody").getByText("unknown currency EURO"));
  await keyboard.press("j");
  await keyboard.press("Enter");
  const letter = viewer.dialog("Dead letter");
  await viewer.see(letter.getByText('"amount": 9007199254740993'));
  await viewer.tabTo(letter.getByRole("button", { name: "Edit" }));
  await keyboard.press("Enter");
  const field = letter.getByLabel("Payload (JSON)");
  await viewer.tabTo(field);
  assert.equal(await field.inputValue(), '{"amount":9007199254740993,"currency":"EURO"}');
  // A mistake on the way is told, and cannot be sent.
  await keyboard.press("Control+End");
  await keyboard.press("Backspace");
  await viewer.see(letter.getByText(/^Not JSON/));
  assert.equal(await letter.getByRole("button", { name: /^Replay/ }).getAttribute("aria-disabled"), "true");
  for (let n = 0; n < 2; n += 1) await keyboard.press("Backspace");
  await keyboard.type('"}');
  await viewer.tabTo(letter.getByRole("button", { name: "Replay edited…" }));
  await keyboard.press("Enter");
  const confirm = viewer.dialog("Replay the edited event");
  await viewer.see(confirm.getByText('-   "currency": "EURO"'));
  await viewer.see(confirm.getByText('+   "currency": "EUR"'));
  await viewer.tabTo(confirm.getByRole("button", { name: "Replay" }));
  await keyboard.press("Enter");
  await viewer.see(confirm.getByText("1 event replayed, 0 skipped, 0 failed."));
  await keyboard.press("Escape");
  await viewer.gone(confirm);
  await viewer.see(viewer.page.getByRole("heading", { name: "No dead letters" }));

  // It comes to the group that refused it, with every digit.
  const socket = await hub.socket();
  await socket.subscribe("orders.created", "billing");
  const again = await socket.next();
  assert.equal(again.seq, 2);
  const stored = await (await hub.ask("/event?topic=orders.created&seq=2")).text();
  assert.ok(stored.includes('"payload":{"amount":9007199254740993,"currency":"EUR"}'), stored);
});

browserTest("letters that were replayed are no problem of the overview any more", async ({ hub, open }) => {
  const refused = (n: number) => ({ payload: String(n), key: `order-${n}`, reason: "card expired" });
  await deadLetters(hub, "orders.created", "billing", [refused(1), refused(2), refused(3)]);
  const viewer = await open();
  const problem = viewer.page.locator(".problems li").filter({ hasText: "billing" }).filter({ hasText: "given up" });
  await viewer.see(problem.getByText("3 events given up in the last hour"));
  await viewer.see(problem.getByText("3 dead letters are not replayed."));
  await problem.getByRole("link", { name: /^Replay…/ }).click();
  await viewer.button("Replay all 3…").click();
  const dialog = viewer.dialog("Replay dead letters of orders.created");
  await dialog.getByRole("button", { name: "Replay" }).click();
  await viewer.see(dialog.getByText("3 events replayed, 0 skipped, 0 failed."));
  await dialog.getByRole("button", { name: "Close" }).last().click();
  await viewer.go("/");
  await viewer.see(viewer.page.locator(".problems h2"));
  await viewer.gone(problem);
  await viewer.gone(viewer.page.getByText(/not replayed/));
});

browserTest("all letters with one cause are replayed after a count, and no others", async ({ hub, open }) => {
  const refused = (n: number, reason: string) => ({ payload: String(n), key: `order-${n}`, reason });
  await deadLetters(hub, "orders.created", "billing", [refused(1, "card expired"), refused(2, "no such customer"), refused(3, "card expired"), refused(4, "card expired")]);
  const viewer = await open("/letters");
  await viewer.page.getByRole("button", { name: /3 card expired/ }).click();
  await viewer.addressHas("err=card+expired");
  await viewer.button("Replay all 3…").click();
  const dialog = viewer.dialog("Replay dead letters of orders.created");
  await viewer.see(dialog.getByText(/3 events will be appended to orders\.created again, each for the one group/));
  await viewer.see(dialog.getByText(/event-hub dlq replay orders\.created --err 'card expired'/));
  const last = async () => (await hub.json<{ topics: { last: number }[] }>("/topics?q=orders.created")).topics.find(({ last }) => last > 0)?.last;
  const before = await last();
  await dialog.getByRole("button", { name: "Replay" }).click();
  await viewer.see(dialog.getByText("3 events replayed, 0 skipped, 0 failed."));
  assert.equal(before, 4, "a dry run replays nothing");
  await dialog.getByRole("button", { name: "Close" }).last().click();
  await viewer.go("/letters");
  await viewer.see(viewer.page.locator("tbody").getByText("no such customer"));
  const { letters } = await hub.json<{ letters: { err: string }[] }>("/dlq?replayed=0");
  assert.deepEqual(letters.map(({ err }) => err), ["no such customer"]);
});

browserTest("chosen letters are replayed at a rate, with progress, and it can be cancelled", async ({ hub, open }) => {
  const events = Array.from({ length: 20 }, (_, n) => ({ payload: String(n), key: `order-${n}`, reason: "card expired" }));
  await deadLetters(hub, "orders.created", "billing", events);
  const viewer = await open("/letters?topic=orders.created");
  await viewer.button("Select all shown").click();
  await viewer.button("Replay 20 selected…").click();
  const dialog = viewer.dialog("Replay dead letters of orders.created");
  await dialog.getByLabel("At most per second").fill("1");
  await viewer.see(dialog.getByText(/20 events will be appended/));
  await dialog.getByRole("button", { name: "Replay" }).click();
  const progress = viewer.dialog("Replay at a rate");
  await viewer.see(progress.getByText(/running: \d+ of 20 replayed/));
  await progress.getByRole("button", { name: "Cancel the replay" }).click();
  await viewer.see(progress.getByText(/^cancelled: /));
  const { jobs } = await hub.json<{ jobs: { state: string; replayed: number }[] }>("/jobs");
  assert.equal(jobs[0]?.state, "cancelled");
  assert.ok((jobs[0]?.replayed ?? 20) < 20);
});

const card = (n: number) => ({ payload: String(n), key: `order-${n}`, reason: "card expired" });

/** Dead letters that were not replayed, by topic and error. */
async function notReplayed(hub: Hub): Promise<string[]> {
  const { letters } = await hub.json<{ letters: { topic: string; err: string }[] }>("/dlq?replayed=0");
  return letters.map(({ topic, err }) => `${topic}: ${err}`).sort();
}

browserTest("all letters of one cause are replayed over several topics, and a topic that fails keeps no other one from it", async ({ hub, open }) => {
  await deadLetters(hub, "orders.created", "billing", [card(1), card(2), { payload: "3", reason: "no such customer" }]);
  await deadLetters(hub, "payments.settled", "ledger", [card(4)]);
  await deadLetters(hub, "vault.secrets", "guard", [card(5)]);
  const token = await hub.mint(["subscribe:**", "subscribe:dlq.**", "admin:orders.*", "admin:payments.*"]);
  const viewer = await open("/letters", { token });
  await viewer.page.getByRole("button", { name: /4 card expired/ }).click();
  await viewer.addressHas("err=card+expired");
  await viewer.button("Replay all 4…").click();
  const dialog = viewer.dialog("Replay dead letters of several topics");
  await viewer.see(dialog.getByText("3 events will be appended to 2 topics again, each for the one group that gave it up."));
  const row = (topic: string) => dialog.locator("tbody tr", { hasText: topic });
  await viewer.see(row("orders.created").getByText("2", { exact: true }));
  await viewer.see(row("payments.settled").getByText("1", { exact: true }));
  await viewer.see(row("vault.secrets").getByText(/left alone: no rule of your token allows admin on vault\.secrets/));
  await viewer.see(dialog.getByText(/^event-hub dlq replay --all-topics --err 'card expired'/));
  assert.equal((await notReplayed(hub)).length, 5, "a dry run replays nothing");
  // What comes in after the count is not meant.
  await deadLetters(hub, "orders.created", "billing", [card(6)]);
  let isAway = true;
  await viewer.page.route((url) => url.pathname === "/dlq/replay", (route) => {
    const isMeant = isAway && (route.request().postData() ?? "").includes("payments.settled");
    return isMeant ? route.fulfill({ status: 503, json: { code: "unavailable", error: "the store does not answer" } }) : route.fallback();
  });
  await dialog.getByRole("button", { name: "Replay" }).click();
  await viewer.see(dialog.getByText("2 events replayed, 0 skipped, 0 failed."));
  await viewer.see(dialog.getByText("1 topic ended before everything was done."));
  await viewer.see(row("orders.created").getByText("2 replayed, 0 skipped, 0 failed"));
  await viewer.see(row("payments.settled").getByText(/then it failed: the store does not answer/));
  isAway = false;
  await dialog.getByRole("button", { name: "Close" }).last().click();
  assert.deepEqual(await notReplayed(hub), ["orders.created: card expired", "orders.created: no such customer", "payments.settled: card expired", "vault.secrets: card expired"]);
  await viewer.button("Replay all 3…").click();
  await viewer.see(dialog.getByText(/^2 events will be appended to 2 topics again/));
  await dialog.getByRole("button", { name: "Replay" }).click();
  // What was replayed the first time is skipped.
  await viewer.see(dialog.getByText("2 events replayed, 2 skipped, 0 failed."));
  assert.deepEqual(await notReplayed(hub), ["orders.created: no such customer", "vault.secrets: card expired"]);
});

browserTest("a replay of several topics at a rate is a job of each, and they are cancelled together; all are discarded", async ({ hub, open }) => {
  const letters = Array.from({ length: 10 }, (_, n) => card(n));
  for (const topic of ["orders.created", "payments.settled"]) await deadLetters(hub, topic, "billing", letters);
  const viewer = await open("/letters");
  await viewer.button("Replay all 20…").click();
  const dialog = viewer.dialog("Replay dead letters of several topics");
  await viewer.see(dialog.getByText(/^20 events will be appended to 2 topics again/));
  const replay = dialog.getByRole("button", { name: /^Replay/ });
  await dialog.getByLabel("At most per second").fill("1");
  await viewer.see(dialog.getByText(/each of the 2 topics needs one per second at least/));
  assert.equal(await replay.getAttribute("aria-disabled"), "true");
  await dialog.getByLabel("At most per second").fill("2");
  await viewer.see(dialog.getByText(/event-hub dlq replay --all-topics --rate 2/));
  await replay.click();
  const progress = viewer.dialog("Replay at a rate");
  for (const topic of ["orders.created", "payments.settled"]) await viewer.see(progress.getByRole("region", { name: `Replay on ${topic}` }).getByText(/running: \d+ of 10 replayed/));
  await viewer.see(progress.getByText(/^event-hub jobs cancel /));
  await progress.getByRole("button", { name: "Cancel all" }).click();
  await eventually("both are cancelled", async () => {
    const { jobs } = await hub.json<{ jobs: { state: string }[] }>("/jobs");
    return jobs.length === 2 && jobs.every(({ state }) => state === "cancelled");
  });
  await viewer.see(progress.getByText(/^cancelled: /));
  await progress.getByRole("button", { name: "Close" }).last().click();
  await viewer.gone(progress);
  await viewer.page.getByLabel("Replayed", { exact: true }).selectOption("all");
  await viewer.button("Discard all…").click();
  const discard = viewer.dialog("Discard dead letters of several topics");
  await viewer.see(discard.getByText("20 letters of 2 topics will be in no list any more, and cannot be replayed."));
  await viewer.see(discard.getByText(/^event-hub dlq rm --all-topics --all/));
  await discard.getByRole("button", { name: "Discard" }).click();
  await viewer.see(discard.getByText("20 letters discarded."));
  await discard.getByRole("button", { name: "Close" }).last().click();
  await viewer.see(viewer.page.getByRole("heading", { name: "No dead letters" }));
});

browserTest("events of one trace, and of one correlation, are found from each of them", async ({ hub, open }) => {
  const trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  for (let n = 1; n <= 3; n += 1) {
    const headers = n === 2 ? {} : { traceparent: `00-${trace}-00f067aa0ba902b${n}-01`, "x-correlation-id": n === 3 ? "c-3" : "c-1" };
    await hub.json("/publish/orders.created", { method: "POST", body: String(n), headers });
  }
  const viewer = await open("/event?topic=orders.created&seq=1");
  await viewer.button("Find events with the same trace").click();
  const found = viewer.page.getByRole("region", { name: "Same trace" });
  await viewer.see(found.getByText("1 (this one)"));
  await viewer.see(found.getByRole("link", { name: "3", exact: true }));
  assert.equal(await found.locator("tbody tr").count(), 2);
  await viewer.see(found.getByText(`event-hub replay orders.created --trace-id ${trace}`));
  assert.match(await hub.cli("replay", "orders.created", "--trace-id", trace), /"seq":1\}\n.*"seq":3\}$/s);
  await viewer.button("Find events with the same correlation id").click();
  const same = viewer.page.getByRole("region", { name: "Same correlation id" });
  await viewer.see(same.getByText("1 (this one)"));
  assert.equal(await same.locator("tbody tr").count(), 1);
});

browserTest("the search field finds a trace by its id or a traceparent, and a correlation id, in every topic that may be read", async ({ hub, open }) => {
  const trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  const topics = ["orders.created", "payments.settled", "vault.secrets"];
  for (const [n, topic] of topics.entries()) {
    const headers = { traceparent: `00-${trace}-00f067aa0ba902b${n}-01`, "x-correlation-id": n === 2 ? "other" : "basket-7" };
    await hub.json(`/publish/${topic}`, { method: "POST", body: "1", headers });
    await hub.publish(topic, "2");
  }
  const token = await hub.mint(["subscribe:orders.*", "subscribe:payments.*", "publish:vault.secrets"]);
  const viewer = await open("/", { token });
  const field = viewer.page.getByRole("searchbox", { name: /^Find an event/ });
  const found = async (text: string, label: string) => {
    await field.fill(text);
    await viewer.page.keyboard.press("Enter");
    const rows = viewer.page.getByRole("region", { name: label }).locator("tbody tr");
    await viewer.see(viewer.text("4 events looked at, 2 topics searched."));
    return rows.allInnerTexts();
  };
  const places = (texts: readonly string[]) => texts.map((text) => topics.find((topic) => text.includes(topic)));
  for (const text of [`traceparent: 00-${trace}-00f067aa0ba902b7-00`, trace]) {
    assert.deepEqual(places(await found(text, "Events with this trace")), topics.slice(0, 2), text);
    await viewer.see(viewer.text(`event-hub event find --trace-id ${trace} --from-ts ago:1d`));
    await viewer.go("/");
  }
  assert.deepEqual(places(await found("basket-7", "Events with this correlation id")), topics.slice(0, 2));
  await viewer.page.getByLabel("Committed in").selectOption("all");
  await viewer.addressHas("correlation=basket-7", "since=all");
  await viewer.see(viewer.text("4 events looked at, 2 topics searched."));
  await viewer.page.getByRole("region", { name: "Events with this correlation id" }).getByRole("link", { name: "1", exact: true }).first().click();
  await viewer.see(viewer.page.getByRole("heading", { name: "Event 1" }));
  // What the command line does is the same.
  const lines = (await hub.cli("event", "find", "--traceparent", `00-${trace}-00f067aa0ba902b7-00`, "--from-ts", "ago:1d", "--json")).split("\n");
  assert.deepEqual(lines.map((line) => (JSON.parse(line) as { topic: string }).topic), topics);
});

browserTest("the journey of an event goes from its commit to the dead letter and its replay", async ({ hub, open }) => {
  await deadLetters(hub, "orders.created", "billing", [{ payload: '{"order":17}', key: "order-17", reason: "no such customer" }]);
  const { letters } = await hub.json<{ letters: { originalId: string }[] }>("/dlq");
  const id = letters[0]?.originalId ?? "";
  const viewer = await open();
  await viewer.page.getByLabel("Find an event by its id").fill(id);
  await viewer.page.keyboard.press("Enter");
  const journey = viewer.page.getByRole("region", { name: "Journey" });
  await viewer.see(journey.getByText("committed"));
  await viewer.see(journey.getByText("given up"));
  await viewer.see(journey.getByText("no such customer"));
  await hub.json("/dlq/replay", { method: "POST", body: '{"topic":"orders.created"}' });
  await viewer.button("Look again").click();
  await journey.getByRole("link", { name: "replayed as seq 2" }).click();
  await viewer.see(viewer.page.getByRole("heading", { name: "Event 2" }));
  await viewer.see(journey.getByText(/for group billing alone/));
});
