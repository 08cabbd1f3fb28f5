// Inboxes in files of SQLite, with a real hub and consumers that are killed; with drivers of both shapes.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { DatabaseSync } from "@photostructure/sqlite";
import BetterSqlite from "libsql";
import { exactlyOnceTx } from "../../src/inbox/index.ts";
import { type SqliteDatabase, sqliteInbox } from "../../src/inbox/sqlite.ts";
import { sqliteOutbox } from "../../src/outbox/sqlite.ts";
import { delivery, quiet } from "../inbox/stage.ts";
import { poll } from "../support/condition.ts";
import type { BaseKind } from "../support/inbox/bases.ts";
import { chain, killsAtEachStep, outage, type Place, purging, settled, stageOf, twoCopies } from "../support/inbox/suite.ts";

const placeFor =
  (kind: BaseKind) =>
  async (t: TestContext): Promise<Place> => {
    const directory = await mkdtemp(join(tmpdir(), "event-hub-sqlite-"));
    t.after(() => rm(directory, { recursive: true, force: true }));
    return { kind, url: `sqlite:${join(directory, "shop.db")}` };
  };

killsAtEachStep("SQLite", false, placeFor("sqlite"));
killsAtEachStep("SQLite as in Node", false, placeFor("node-sqlite"));
twoCopies("SQLite", false, placeFor("sqlite"));
outage("SQLite", false, placeFor("node-sqlite"), ({ url }) => {
  // Another writer holds the lock for longer than the leases last.
  const database = new DatabaseSync(url.replace(/^sqlite:/, ""));
  database.exec("BEGIN IMMEDIATE");
  return Promise.resolve(() => {
    database.exec("COMMIT");
    database.close();
    return Promise.resolve();
  });
});
chain("SQLite", false, placeFor("sqlite"));
chain("SQLite as in Node", false, placeFor("node-sqlite"));
purging("SQLite", false, placeFor("node-sqlite"));

test("SQLite: a replayed dead letter of an event that was handled after all has no second effect", async (t) => {
  const { base, hub, client, consumer } = await stageOf(t, await placeFor("sqlite")(t));
  // The lease ends before the commit, and a failure is one too many.
  const worker = consumer("orders", { stop: "commit", ackTimeoutMs: 500, autoExtend: false, maxAttempts: 1 });
  await worker.ready();
  const { id } = await client.publish("orders", 1);
  await worker.stoppedAt("commit");
  const request = (path: string, body: object): Promise<{ replayed?: number }> =>
    fetch(new URL(path, hub.http), { method: "POST", headers: { authorization: `Bearer ${hub.token()}` }, body: JSON.stringify(body) }).then(
      (response) => response.json() as Promise<{ replayed?: number }>,
    );
  await poll("the dead letter is replayed", async () => (await request("dlq/replay", { topic: "orders" })).replayed === 1);
  worker.go();
  await worker.until(() => worker.ids("done").length >= 2);
  await settled(hub, "orders");
  const replay = (await hub.log("orders"))[1];
  assert.ok(replay && worker.ids("done").includes(replay.id) && replay.id !== id);
  assert.deepEqual([...(await base.effects())], [[id, 1]]);
  assert.deepEqual(worker.ids("run"), [id]);
});

const drivers: [name: string, open: () => SqliteDatabase][] = [
  ["as better-sqlite3", () => new BetterSqlite(":memory:")],
  ["as node:sqlite", () => new DatabaseSync(":memory:")],
];

for (const [name, open] of drivers) {
  test(`SQLite ${name}: a transaction that fails leaves no mark, and one that is open on the same connection is waited for`, async () => {
    const database = open();
    const inbox = sqliteInbox(database, { table: "handled" });
    inbox.init();
    inbox.init();
    database.exec("CREATE TABLE effects (n INTEGER UNIQUE)");
    const count = (table: string): number => (database.prepare(`SELECT count(*) AS n FROM ${table}`).get() as { n: number }).n;
    const { event, ctx } = delivery();
    const handle = (commit: () => unknown): Promise<unknown> => Promise.resolve(exactlyOnceTx(inbox, commit, quiet)(event, ctx));
    const write = (): unknown => database.prepare("INSERT INTO effects VALUES (?)").run(1);
    await assert.rejects(handle(() => {
      write();
      write();
    }), /UNIQUE/);
    await assert.rejects(handle(() => database.exec("ROLLBACK")), /bad_request: the handler has ended the transaction/);
    await assert.rejects(handle(() => Promise.resolve(write())), /commit has returned a promise/);
    assert.deepEqual([count("handled"), count("effects")], [0, 0]);

    database.exec("BEGIN");
    const handled = handle(write);
    await new Promise((resolve) => setImmediate(resolve));
    database.exec("ROLLBACK");
    await handled;
    await handle(() => assert.fail("a second run"));
    assert.deepEqual([count("handled"), count("effects")], [1, 1]);
  });

  test(`SQLite ${name}: a row of the outbox is written in a transaction, as the table has it`, () => {
    const database = open() as SqliteDatabase & { prepare(sql: string): { get(): unknown } };
    database.exec("CREATE TABLE outbox (id TEXT, topic TEXT, key TEXT, ord INTEGER, payload TEXT, headers TEXT)");
    const outbox = sqliteOutbox();
    assert.throws(() => outbox.add(database as never, { topic: "orders", payload: 1 }), /no transaction; BEGIN IMMEDIATE/);
    database.exec("BEGIN IMMEDIATE");
    assert.throws(() => outbox.add(database as never, { topic: "a b", payload: 1 }), /bad_request/);
    const id = outbox.add(database as never, { topic: "orders", payload: { n: 2n ** 53n }, key: "k", ord: 7, headers: { a: "b" } });
    const row = { ...(database.prepare("SELECT * FROM outbox").get() as object) } as Record<string, unknown>;
    delete row["_metadata"];
    assert.deepEqual(row, { id, topic: "orders", key: "k", ord: 7, payload: '{"n":9007199254740992}', headers: '{"a":"b"}' });
    outbox.add(database as never, { topic: "orders", payload: null });
    database.exec("COMMIT");
  });
}
