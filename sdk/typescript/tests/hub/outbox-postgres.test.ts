// Rows that a service writes with the driver `pg`, drained by a real hub.

import assert from "node:assert/strict";
import { test } from "node:test";
import type pg from "pg";
import { postgresOutbox } from "../../src/outbox/postgres.ts";
import { drained, eventOf } from "../support/drained.ts";
import { postgresShop, withoutPostgres } from "../support/shops.ts";

/** Runs something in a transaction. */
async function inTransaction<T>(pool: pg.Pool, run: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const done = await run(client);
    await client.query("COMMIT");
    return done;
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
}

test("a change and its event are there together, or neither is", { skip: withoutPostgres }, async (t) => {
  const { pool, hub } = await postgresShop(t);
  const outbox = postgresOutbox();
  await pool.query("CREATE TABLE stock (sku text PRIMARY KEY, remaining int, version bigint DEFAULT 0)");
  await pool.query("INSERT INTO stock VALUES ('tea', 3)");
  const take = (pieces: number): Promise<string> =>
    inTransaction(pool, async (client) => {
      const change = "UPDATE stock SET remaining = remaining - $1, version = version + 1 RETURNING remaining, version";
      const { rows } = await client.query<{ remaining: number; version: string }>(change, [pieces]);
      assert.ok(rows[0]);
      const { remaining, version } = rows[0];
      const row = { topic: "shop.stock", key: "tea", ord: BigInt(version), payload: { remaining }, headers: { via: "sdk" } };
      const id = await outbox.add(client, row);
      if (remaining < 0) throw new Error("not enough tea");
      return id;
    });
  const first = await take(1);
  await assert.rejects(take(3), /not enough tea/);
  const second = await take(2);
  const events = (await drained(hub, "shop.**", 2)).map(eventOf);
  assert.deepEqual(
    events.map(({ id, topic, key, headers, payload }) => ({ id, topic, key, headers, payload })),
    [
      { id: first, topic: "shop.stock", key: "tea", headers: { via: "sdk" }, payload: { remaining: 2 } },
      { id: second, topic: "shop.stock", key: "tea", headers: { via: "sdk" }, payload: { remaining: 0 } },
    ],
  );
});

test("numbers come out of the hub as exact as they went in", { skip: withoutPostgres }, async (t) => {
  const { pool, hub } = await postgresShop(t);
  const outbox = postgresOutbox({ table: "public.outbox" });
  const payloads: [payload: unknown, json: string][] = [
    [{ n: 3_000_000_000, half: 0.5, text: "ü", gone: undefined }, '{"n":3000000000,"half":0.5,"text":"ü"}'],
    [{ n: 123_456_789_012_345_678_901n, "a\0": 1 }, '{"n":123456789012345678901,"a\\u0000":1}'],
    [null, "null"],
  ];
  const ids = await inTransaction(pool, async (client) => {
    const written = [];
    for (const [payload] of payloads) written.push(await outbox.add(client, { topic: "shop.numbers", payload, key: "k", ord: written.length }));
    return written;
  });
  const texts = await drained(hub, "shop.numbers", payloads.length);
  assert.deepEqual(texts.map((text) => eventOf(text).id), ids);
  for (const [at, [, json]] of payloads.entries()) assert.ok(texts[at]?.includes(`"payload":${json}`), `${json} in ${texts[at]}`);
});

test("a pool and a client without a transaction get no row", { skip: withoutPostgres }, async (t) => {
  const { pool } = await postgresShop(t);
  const outbox = postgresOutbox();
  await assert.rejects(outbox.add(pool, { topic: "shop.orders", payload: 1 }), /this is a pool/);
  const client = await pool.connect();
  try {
    await assert.rejects(outbox.add(client, { topic: "shop.orders", payload: 1 }), /BEGIN one first/);
  } finally {
    client.release();
  }
  const { rows } = await pool.query<{ count: string }>("SELECT count(*) FROM outbox");
  assert.equal(rows[0]?.count, "0");
});
