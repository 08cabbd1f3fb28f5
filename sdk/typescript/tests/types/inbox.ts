// Types of inboxes that have to hold, and mistakes that the compiler has to find. Checked by `npm run check`, never run.
import type { DatabaseSyncInstance as DatabaseSync } from "@photostructure/sqlite";
import type Database from "better-sqlite3";
import type { ClientSession, MongoClient } from "mongodb";
import type pg from "pg";
import { exactlyOnce, exactlyOnceTx, memoryInbox } from "../../src/inbox/index.ts";
import { mongoInbox } from "../../src/inbox/mongodb.ts";
import { postgresInbox } from "../../src/inbox/postgres.ts";
import { sqliteInbox } from "../../src/inbox/sqlite.ts";
import type { PromClient } from "../../src/index.ts";
import { mongoOutbox } from "../../src/outbox/mongodb.ts";
import { postgresOutbox } from "../../src/outbox/postgres.ts";
import { sqliteOutbox } from "../../src/outbox/sqlite.ts";

interface Topics {
  "orders.created": { id: number };
  "mail.due": { to: string };
}

/** Compiles if both types are the same. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function same<A, B>(_: Same<A, B>): void {}

const options = { consumer: "billing" };

export async function plain(hub: PromClient<Topics>): Promise<void> {
  await hub.subscribe("orders.created", "billing", exactlyOnce(async (event, ctx) => {
    same<typeof event.payload, { id: number }>(true);
    await ctx.publish("mail.due", { to: "ada" });
    // @ts-expect-error -- the payload of another topic
    await ctx.publish("mail.due", { id: 1 });
  }, memoryInbox(), options));
  // @ts-expect-error -- whose marks they are has to be said
  exactlyOnce(() => undefined, memoryInbox(), {});
}

export async function postgres(hub: PromClient<Topics>, pool: pg.Pool): Promise<void> {
  const outbox = postgresOutbox();
  await hub.subscribe("orders.created", "billing", exactlyOnceTx(postgresInbox(pool), async (event, ctx, tx) => {
    same<typeof tx, pg.PoolClient>(true);
    same<typeof event.payload, { id: number }>(true);
    await tx.query("UPDATE stock SET remaining = remaining - 1");
    await outbox.add(tx, { topic: "mail.due", payload: { to: ctx.group } });
  }, options));
  // @ts-expect-error -- a driver that waits has no prepare
  exactlyOnceTx(postgresInbox(pool), { prepare: () => 1, commit: () => undefined }, options);
}

export async function mongo(hub: PromClient<Topics>, client: MongoClient): Promise<void> {
  const outbox = mongoOutbox(client.db());
  await hub.subscribe("orders.created", "billing", exactlyOnceTx(mongoInbox(client), async (event, _, session) => {
    same<typeof session, ClientSession>(true);
    await client.db().collection("orders").insertOne({ order: event.payload.id }, { session });
    await outbox.add(session, { topic: "mail.due", payload: { to: "ada" } });
  }, options));
}

export async function sqlite(hub: PromClient<Topics>, one: Database.Database, other: DatabaseSync): Promise<void> {
  const outbox = sqliteOutbox();
  await hub.subscribe("orders.created", "billing", exactlyOnceTx(sqliteInbox(one), {
    prepare: async (event) => Promise.resolve(event.payload.id + 1),
    commit: (event, _, db, prepared) => {
      same<typeof db, Database.Database>(true);
      same<typeof prepared, number>(true);
      db.prepare("INSERT INTO orders VALUES (?)").run(event.payload.id);
      outbox.add(db, { topic: "mail.due", payload: { to: "ada" } });
    },
  }, options));
  await hub.subscribe("orders.created", "billing", exactlyOnceTx(sqliteInbox(other), (event, _, db) => {
    same<typeof db, DatabaseSync>(true);
    db.prepare("INSERT INTO orders VALUES (?)").run(event.payload.id);
    outbox.add(db, { topic: "mail.due", payload: { to: "ada" } });
  }, options));
}
