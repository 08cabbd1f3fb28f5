// A test of a user, run by Deno and by Bun without any permission: the hub in memory.

import { PromClient } from "event-hub-client";
import { MemoryHub } from "event-hub-client/testing";

const hub = new MemoryHub();
const client = new PromClient({ urls: [hub.url], token: hub.token(), webSocket: hub.webSocket, on: { log: () => undefined } });
await client.subscribe("orders", "mail", (_, ctx) => ctx.publish("mail.due", { to: "ada" }));
hub.fail("unavailable", { stored: true });
const { seq, duplicate } = await client.publish("orders", { id: 1 });
await hub.settled("orders", "mail");
await hub.stop();
hub.start();
await client.publish("orders", { id: 2 });
await hub.settled("orders", "mail");
await client.close();
console.log(JSON.stringify({ seq, duplicate, mails: hub.events("mail.due").length }));
