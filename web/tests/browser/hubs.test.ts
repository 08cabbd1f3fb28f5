// Two hubs on one MongoDB: what one shows of a group that the other serves.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Hub } from "./harness/hub.ts";
import { browserTest } from "./harness/world.ts";

const server = process.env["EVENT_HUB_TEST_MONGO"];
assert.ok(server !== undefined, "EVENT_HUB_TEST_MONGO is not set; `cargo xtask dashboard` starts a MongoDB and sets it");
const url = new URL(server);
url.pathname = `/browser-${randomUUID()}`;
const variables = { MONGO_URL: url.href };

browserTest("a group that another hub serves is shown with its owner", async ({ hub, open }) => {
  // They share the secret of development, which is all that is in the directory.
  const other = await Hub.start({ variables, dir: hub.dir });
  try {
    const socket = await other.socket();
    await socket.subscribe("orders.created", "billing");
    await hub.publish("orders.created", "1");
    const viewer = await open("/hubs");
    await viewer.see(viewer.text("this one"));
    assert.equal(await viewer.page.locator("tbody tr").count(), 2);
    const elsewhere = viewer.page.locator("tbody tr").filter({ hasText: new URL(other.ws).host });
    await elsewhere.getByRole("link", { name: "1", exact: true }).click();
    await viewer.addressHas("/groups", "hub=");
    await viewer.see(viewer.page.getByRole("link", { name: "billing" }));
    await viewer.see(viewer.page.locator("tbody").getByText("On another hub"));
    await viewer.go("/groups?hub=this");
    await viewer.see(viewer.page.getByRole("heading", { name: "No group matches" }));
    await viewer.button("Show the groups of every hub").click();
    await viewer.see(viewer.page.getByRole("link", { name: "billing" }));
    await viewer.go("/group?topic=orders.created&group=billing");
    await viewer.see(viewer.text("Another hub on this store serves the group"));
    await viewer.page.getByRole("link", { name: new URL(other.ws).host }).click();
    await viewer.addressHas("/hubs", "q=");
    await viewer.see(viewer.page.getByRole("heading", { name: "Hubs" }));
  } finally {
    await other.end();
  }
}, { variables });
