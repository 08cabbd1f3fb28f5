// Services with a database of their own on a server that the tests share, and a hub that drains their outbox.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import type { TestContext } from "node:test";
import { promisify } from "node:util";
import { MongoClient } from "mongodb";
import pg from "pg";
import { Hub } from "./hub.ts";

const postgres = process.env["EVENT_HUB_TEST_POSTGRES"];
const mongo = process.env["EVENT_HUB_TEST_MONGO"];

/** Why a test with PostgreSQL is skipped. */
export const withoutPostgres = postgres === undefined ? "EVENT_HUB_TEST_POSTGRES is not set; `cargo xtask sdk` starts a PostgreSQL and sets it" : false;
/** Why a test with MongoDB is skipped. */
export const withoutMongo = mongo === undefined ? "EVENT_HUB_TEST_MONGO is not set; `cargo xtask sdk` starts a MongoDB and sets it" : false;

export interface PostgresShop {
  readonly url: URL;
  readonly pool: pg.Pool;
  readonly hub: Hub;
}

/** A database of the test's own with the table, and a hub that drains it. */
export async function postgresShop(t: TestContext): Promise<PostgresShop> {
  const name = `sdk_${randomUUID().replaceAll("-", "")}`;
  const program = process.env["EVENT_HUB_BIN"];
  assert.ok(program, "EVENT_HUB_BIN is not set; `cargo xtask sdk` does that, or set it to a built event-hub");
  const url = new URL(postgres ?? "");
  url.pathname = `/${name}`;
  const pool = new pg.Pool({ connectionString: url.href });
  // The database stays: the server goes when the tests have run, and until then the hub uses it.
  t.after(() => pool.end());
  const admin = new pg.Client({ connectionString: postgres });
  await admin.connect();
  await admin.query(`CREATE DATABASE ${name}`);
  await admin.end();
  await promisify(execFile)(program, ["outbox", "init", "--apply", "--db", url.href]);
  const hub = await Hub.start(t, `[[outbox]]\nname = "shop"\nurl = "${url.href}"\n`);
  return { url, pool, hub };
}

export interface MongoShop {
  readonly url: URL;
  readonly client: MongoClient;
  readonly hub: Hub;
}

/** A database of the test's own, and a hub that drains its outbox. */
export async function mongoShop(t: TestContext): Promise<MongoShop> {
  const url = new URL(mongo ?? "");
  url.pathname = `/sdk-${randomUUID()}`;
  const client = await new MongoClient(url.href).connect();
  t.after(async () => {
    await client.db().dropDatabase();
    await client.close();
  });
  // A transaction makes no collection that somebody else makes at the same time.
  for (const name of ["stock", "outbox"]) await client.db().createCollection(name);
  const hub = await Hub.start(t, `[[outbox]]\nname = "shop"\nurl = "${url.href}"\n`);
  return { url, client, hub };
}
