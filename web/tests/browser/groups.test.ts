// What is stuck and why, and how a group is moved.
import assert from "node:assert/strict";
import { browserTest } from "./harness/world.ts";

browserTest("the overview names what is stuck and why, and leads to it", async ({ hub, open }) => {
  const socket = await hub.socket();
  await socket.subscribe("orders.created", "billing");
  socket.close();
  for (let n = 1; n <= 3; n += 1) await hub.publish("orders.created", String(n), `order-${n}`);
  const viewer = await open();
  const problem = viewer.page.locator(".problems li").filter({ hasText: "billing" });
  await viewer.see(problem.getByText("No members"));
  await viewer.see(problem.getByText("3 events behind"));
  await problem.getByRole("link", { name: /^See why billing/ }).click();
  await viewer.addressHas("/group", "group=billing");
  await viewer.see(viewer.text("No consumer is connected with this group."));
  await viewer.see(viewer.page.getByRole("link", { name: "seq 1" }));
});

browserTest("a group that fails all the time is a problem, although it delivers", async ({ hub, open }) => {
  const socket = await hub.socket();
  await socket.subscribe("orders.created", "billing", { maxAttempts: 1_000 });
  await hub.publish("orders.created", "1", "order-1");
  const viewer = await open();
  for (let n = 0; n < 3; n += 1) await socket.settle("NACK", "billing", await socket.next(), { reason: "the disk is read-only" });
  const problem = viewer.page.locator(".problems li").filter({ hasText: "billing" });
  await viewer.see(problem.getByText("Failing"));
  await problem.getByRole("link", { name: /^See why billing/ }).click();
  await viewer.see(viewer.page.getByRole("region", { name: "State" }).getByText("Failing"));
  await viewer.see(viewer.text("the disk is read-only"));
  await socket.settle("ACK", "billing", await socket.next());
  await viewer.see(viewer.page.getByRole("region", { name: "State" }).getByText("Caught up"));
});

browserTest("a blocked key names the event that blocks it", async ({ hub, open }) => {
  await hub.publish("orders.created", "1", "order-1");
  await hub.publish("orders.created", "2", "order-1");
  const socket = await hub.socket();
  await socket.subscribe("orders.created", "billing", { ordering: "key" });
  // Held, and not settled.
  await socket.next();
  const viewer = await open("/groups");
  await viewer.see(viewer.page.locator("tbody tr").filter({ hasText: "billing" }).getByText("Key blocked"));
  await viewer.page.getByRole("link", { name: "billing" }).click();
  const blocking = viewer.page.getByRole("region", { name: "What blocks the key" });
  await viewer.see(blocking.getByText("order-1"));
  // The holder is a row of the table of members.
  const held = /held by (.+) \(member (\d+)\), who has .+ left to ack it/.exec(await blocking.innerText());
  assert.ok(held !== null, await blocking.innerText());
  const members = viewer.page.getByRole("region", { name: "Members", exact: true });
  await viewer.see(members.getByRole("row").filter({ hasText: held[1] ?? "" }).getByRole("cell", { name: held[2] ?? "", exact: true }));
  await blocking.getByRole("link", { name: "Event 1" }).click();
  await viewer.see(viewer.page.getByRole("heading", { name: "Event 1" }));
  await viewer.see(viewer.text("with a member"));
});

browserTest("a seek shows what would come again before it is done, and the command that does the same", async ({ hub, open }) => {
  const socket = await hub.socket();
  await socket.subscribe("orders.created", "billing");
  for (let n = 1; n <= 3; n += 1) {
    await hub.publish("orders.created", String(n));
    await socket.settle("ACK", "billing", await socket.next());
  }
  socket.close();
  const floor = async () => (await hub.json<{ floor: number }>("/groups/detail?topic=orders.created&group=billing")).floor;
  const viewer = await open("/group?topic=orders.created&group=billing");
  await viewer.button(/^Seek/).click();
  const dialog = viewer.dialog(/Seek group billing/);
  await viewer.see(dialog.getByText(/goes back from seq 3 to 0: up to 3 settled events come again/));
  assert.equal(await floor(), 3, "a dry run moves nothing");
  await dialog.getByLabel("To").selectOption("afterSeq");
  await dialog.getByRole("textbox", { name: "Seq" }).fill("1");
  await viewer.see(dialog.getByText(/goes back from seq 3 to 1: up to 2 settled events come again/));
  await viewer.see(dialog.getByText("event-hub groups seek orders.created billing --to after-seq:1"));
  await dialog.getByRole("button", { name: "Seek" }).click();
  await viewer.see(dialog.getByText(/is at seq 1 now/));
  assert.equal(await floor(), 1);
  await dialog.getByRole("button", { name: "Close" }).last().click();
  await viewer.see(viewer.text("1 of 3"));
});

browserTest("a topic is deleted only after a count and a second click", async ({ hub, open }) => {
  await hub.publish("orders.created", "1");
  await hub.publish("orders.created", "2");
  const viewer = await open("/topic?topic=orders.created");
  await viewer.button(/^Delete/).click();
  const dialog = viewer.dialog("Delete orders.created");
  await viewer.see(dialog.getByText(/deletes 1 topic .* with 2 events/));
  await viewer.page.keyboard.press("Escape");
  await viewer.gone(dialog);
  assert.equal((await hub.json<{ topics: unknown[] }>("/topics")).topics.length, 1);
  await viewer.button(/^Delete/).click();
  await dialog.getByRole("button", { name: "Delete the topic" }).click();
  await viewer.see(dialog.getByText("Deleted: 1 topic, 0 groups, 2 events."));
  await dialog.getByRole("button", { name: "Close" }).last().click();
  await viewer.addressHas("/topics");
  assert.equal((await hub.json<{ topics: unknown[] }>("/topics")).topics.length, 0);
});
