// A hub with something on every screen.
import { deadLetters } from "./failures.ts";
import type { Hub } from "./hub.ts";
import { Socket } from "./socket.ts";

export const SHOP_CONFIG = `
[audit]
log = "audit.log"

[[topics]]
pattern = "process.state"
compaction = true

[[quota]]
subject = "*"
topics = 100

[[outbox]]
name = "shop"
url = "sqlite:missing/shop.db"

[[push]]
name = "crm"
topic = "orders.created"
url = "http://127.0.0.1:9/hooks"
secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
allow_private = true
`;

/** No lease of theirs ends while a test runs. */
const PATIENT_MS = 3_600_000;

/** Topics, groups in several states, dead letters, processes, connections. The sockets stay open for as long as the hub runs; the one of the group
 * `analytics` is handed over, which holds events that it has not settled. */
export async function busyShop(hub: Hub): Promise<Socket> {
  await deadLetters(hub, "orders.created", "billing", [
    { payload: '{"order":11,"amount":9007199254740993,"currency":"EURO"}', key: "order-11", reason: "unknown currency EURO" },
    { payload: '{"order":12,"amount":250,"currency":"EURO"}', key: "order-12", reason: "unknown currency EURO" },
    { payload: '{"order":13,"amount":100,"currency":"EUR"}', key: "order-13", reason: "card expired" },
  ]);
  const services: Socket[] = [];
  for (const sub of ["shipping-service", "analytics"]) services.push(await hub.socket(await hub.mint(["subscribe:**", "publish:**"], { sub })));
  const [shipping, analytics] = services as [Socket, Socket];
  await shipping.subscribe("orders.created", "shipping", { ordering: "key", maxInFlight: 3, ackTimeoutMs: PATIENT_MS });
  await analytics.subscribe("orders.created", "analytics", { ackTimeoutMs: PATIENT_MS });
  for (let n = 14; n <= 18; n += 1) await hub.publish("orders.created", `{"order":${n},"amount":${n * 10},"currency":"EUR","items":["tea","cups"]}`, `order-${n % 3}`);
  for (let n = 0; n < 4; n += 1) await analytics.settle("ACK", "analytics", await analytics.next());
  await shipping.settle("NACK", "shipping", await shipping.next(), { reason: "carrier API timeout", delay_ms: 3_600_000 });
  for (let n = 1; n <= 3; n += 1) await hub.publish("process.state", `{"status":"${n === 3 ? "failed" : "running"}","rss":${n * 1_000_000}}`, `host:worker:${n}`);
  for (const topic of ["payments.settled", "payments.refused", "stock.changed"]) await hub.publish(topic, '{"sku":"tea-250g","count":12}', "tea-250g");
  const leaver = await hub.socket();
  await leaver.subscribe("payments.settled", "ledger");
  leaver.close();
  return analytics;
}
