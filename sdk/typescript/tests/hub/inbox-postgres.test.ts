// Inboxes on a real PostgreSQL, with a real hub and consumers that are killed.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { type TestContext, test } from "node:test";
import pg from "pg";
import { exactlyOnceTx } from "../../src/inbox/index.ts";
import { postgresInbox } from "../../src/inbox/postgres.ts";
import { delivery, quiet } from "../inbox/stage.ts";
import { poll } from "../support/condition.ts";
import { DatabaseServer, whyNoServer } from "../support/database-server.ts";
import { chain, killsAtEachStep, outage, type Place, purging, twoCopies } from "../support/inbox/suite.ts";

const skip = whyNoServer("postgres");

/** A new database, by the address of another one. */
async function databaseOn(url: string): Promise<string> {
  const name = `sdk_${randomUUID().replaceAll("-", "")}`;
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  await admin.query(`CREATE DATABASE ${name}`);
  await admin.end();
  return Object.assign(new URL(url), { pathname: `/${name}` }).href;
}

/** A server of the test's own with a database. */
async function place(t: TestContext): Promise<Place> {
  const server = await DatabaseServer.start(t, "postgres");
  return { kind: "postgres", url: await databaseOn(server.url("postgres")), server };
}

/** A database on the server that tests share. */
async function sharedPlace(): Promise<Place> {
  return { kind: "postgres", url: await databaseOn(process.env["EVENT_HUB_TEST_POSTGRES"] ?? "") };
}

killsAtEachStep("PostgreSQL", skip, place);
twoCopies("PostgreSQL", skip, place);
outage("PostgreSQL", skip, place, async ({ server }) => {
  await server?.kill();
  return async () => server?.run();
});
chain("PostgreSQL", skip, place);
purging("PostgreSQL", skip, sharedPlace);

/** An inbox with a table of effects, and a pool that ends with the test. */
async function inboxOf(t: TestContext, isolation?: "serializable") {
  const pool = new pg.Pool({ connectionString: (await sharedPlace()).url });
  t.after(() => pool.end());
  const inbox = postgresInbox(pool, { table: "public.handled", ...(isolation && { isolation }) });
  await inbox.init();
  await inbox.init();
  await pool.query("CREATE TABLE effects (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)");
  const count = async (table: string): Promise<number> => Number((await pool.query<{ count: string }>(`SELECT count(*) FROM ${table}`)).rows[0]?.count);
  return { pool, inbox, count };
}

test("PostgreSQL: an event whose transaction cannot be committed has failed, and leaves no mark", { skip }, async (t) => {
  const { pool, inbox, count } = await inboxOf(t);
  const { event, ctx } = delivery();
  const cases: [handler: (tx: pg.PoolClient) => Promise<unknown>, text: RegExp][] = [
    [async (tx) => tx.query("INSERT INTO effects SELECT 1 / 0").catch(() => "went on"), /bad_request: a statement of the handler has failed/],
    [async (tx) => tx.query("INSERT INTO effects VALUES (1), (1)"), /unique constraint/],
    [async (tx) => tx.query("ROLLBACK"), /bad_request: the handler has ended the transaction/],
    [async (tx) => tx.query("SELECT nothing"), /"nothing" does not exist/],
    [async () => fetch("http://127.0.0.1:1").catch((cause: unknown) => Promise.reject(new Error("no answer", { cause }))), /no answer/],
  ];
  for (const [handler, text] of cases) {
    await assert.rejects(Promise.resolve(exactlyOnceTx(inbox, (_, __, tx) => handler(tx), quiet)(event, ctx)), text);
    assert.deepEqual([await count("handled"), await count("effects")], [0, 0]);
  }
  assert.equal(pool.idleCount, pool.totalCount, "every client is back");
});

test("PostgreSQL: serialisation failures run the handler again", { skip }, async (t) => {
  const { pool, inbox, count } = await inboxOf(t, "serializable");
  await pool.query("CREATE TABLE stock (n int)");
  await pool.query("INSERT INTO stock VALUES (0)");
  let runs = 0;
  const handler = exactlyOnceTx(inbox, async (_, __, tx) => {
    runs++;
    const { rows } = await tx.query<{ n: number }>("SELECT n FROM stock");
    await tx.query("UPDATE stock SET n = $1", [(rows[0]?.n ?? 0) + 1]);
  }, quiet);
  await Promise.all(Array.from({ length: 5 }, () => {
    const { event, ctx } = delivery({ id: randomUUID() });
    return handler(event, ctx);
  }));
  const { rows } = await pool.query<{ n: number }>("SELECT n FROM stock");
  assert.deepEqual([rows[0]?.n, await count("handled")], [5, 5]);
  t.diagnostic(`${runs} runs of 5 events`);
});

test("PostgreSQL: a handler that waits for another copy stops waiting when it is told to", { skip }, async (t) => {
  const { pool, inbox, count } = await inboxOf(t);
  const { event } = delivery();
  let finish: () => void = () => undefined;
  const first = new Promise<void>((resolve) => (finish = resolve));
  let running: () => void = () => undefined;
  const isRunning = new Promise<void>((resolve) => (running = resolve));
  const handling = exactlyOnceTx(inbox, () => {
    running();
    return first;
  }, quiet)(event, delivery().ctx);
  await isRunning;
  // Another store of the same table: as another process would do it.
  const other = exactlyOnceTx(postgresInbox(pool, { table: "handled" }), () => assert.fail("a second run"), quiet);
  const { ctx, controller } = delivery();
  const waiting = Promise.resolve(other(event, ctx));
  const locked = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
  await poll("the second one waits", async () => (await pool.query(locked)).rowCount === 1);
  controller.abort(new Error("told"));
  await assert.rejects(waiting, /told/);
  finish();
  await handling;
  assert.equal(await count("handled"), 1);
  await other(event, delivery().ctx);
});

test("a table with a strange name is refused", () => {
  const pool = new pg.Pool();
  assert.throws(() => postgresInbox(pool, { table: "in box" }), /letters, digits and underscores/);
  assert.throws(() => postgresInbox(pool, { isolation: "chaos" as "serializable" }), /isolation "chaos"/);
});
