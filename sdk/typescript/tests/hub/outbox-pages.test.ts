// The outbox code of the pages, under every runtime: with the packed package, the drivers, and databases whose outbox a hub drains.

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { transform } from "esbuild";
import { blocksOf } from "../docs/blocks.ts";
import { drained, eventOf } from "../support/drained.ts";
import type { Hub } from "../support/hub.ts";
import { HOME } from "../support/package.ts";
import { Packed } from "../support/packed.ts";
import { NODE, RUNTIMES, type Permissions, type Runtime, run } from "../support/runtimes.ts";
import { mongoShop, postgresShop, withoutMongo, withoutPostgres } from "../support/shops.ts";

/** Of the MongoDB block. */
const ADDRESS = "mongodb://127.0.0.1:27017/shop?replicaSet=rs0";

let packed: Packed;
let directory: string;

before(async () => {
  packed = await Packed.build();
  const { devDependencies } = JSON.parse(await readFile(join(HOME, "package.json"), "utf8")) as { devDependencies: Record<string, string> };
  const { mongodb, pg } = devDependencies;
  directory = await packed.project("outbox", { "package.json": '{"type":"module"}' }, `mongodb@${mongodb}`, `pg@${pg}`);
});

after(() => packed.remove());

/** The block with this entry of the package, on the page about the SDK. That about inboxes has fragments that use it. */
function codeOf(entry: string): string {
  const blocks = blocksOf("docs/sdk-typescript.md").filter(({ code }) => code.includes(`from "event-hub-client/${entry}"`));
  assert.equal(blocks.length, 1, `one block imports ${entry}`);
  return blocks[0]?.code ?? "";
}

interface Program {
  readonly name: string;
  readonly code: string;
  readonly env?: Record<string, string>;
  readonly permissions: Permissions;
}

/** Sells what is in stock, one piece too many, and one more: an event comes of each sale, and none of the one that failed. */
async function sell(runtime: Runtime, hub: Hub, { name, code, env = {}, permissions }: Program, restock: () => Promise<unknown>): Promise<void> {
  const file = runtime === NODE ? `${name}.mjs` : `${name}.ts`;
  await writeFile(join(directory, file), runtime === NODE ? (await transform(code, { loader: "ts" })).code : code);
  const sellOne = (): Promise<void> => run(runtime, { directory, file, permissions, env, onLine: () => undefined });
  await sellOne();
  await sellOne();
  await assert.rejects(sellOne(), /stock_remaining_check|failed validation/);
  await restock();
  await sellOne();
  const events = (await drained(hub, "shop.**", 3)).map(eventOf);
  assert.deepEqual(
    events.map(({ topic, key, payload }) => ({ topic, key, payload })),
    [1, 0, 0].map((remaining) => ({ topic: "shop.stock", key: "tea", payload: { remaining } })),
  );
}

for (const runtime of [NODE, ...RUNTIMES]) {
  test(`the code for PostgreSQL runs under ${runtime.name}`, { skip: withoutPostgres }, async (t) => {
    const { pool, url, hub } = await postgresShop(t);
    await pool.query("CREATE TABLE stock (sku text PRIMARY KEY, remaining int CHECK (remaining >= 0), version bigint DEFAULT 0)");
    await pool.query("INSERT INTO stock VALUES ('tea', 2)");
    const env = {
      PGHOST: url.hostname,
      PGPORT: url.port,
      PGUSER: decodeURIComponent(url.username),
      PGPASSWORD: decodeURIComponent(url.password),
      PGDATABASE: url.pathname.slice(1),
    };
    const code = `${codeOf("outbox/postgres")}await pool.end();\n`;
    const program = { name: "postgres", code, env, permissions: { net: [url.host], env: [] } };
    await sell(runtime, hub, program, () => pool.query("UPDATE stock SET remaining = 1"));
  });

  test(`the code for MongoDB runs under ${runtime.name}`, { skip: withoutMongo }, async (t) => {
    const { client, url, hub } = await mongoShop(t);
    await client.db().command({ collMod: "stock", validator: { remaining: { $gte: 0 } } });
    const stock = client.db().collection<{ _id: string; remaining: number; version: number }>("stock");
    await stock.insertOne({ _id: "tea", remaining: 2, version: 0 });
    const code = codeOf("outbox/mongodb");
    assert.ok(code.includes(ADDRESS));
    const ending = `${code.replace(ADDRESS, url.href)}await client.close();\n`;
    const program = { name: "mongodb", code: ending, permissions: { net: [url.host], env: [], sys: [], read: [] } };
    await sell(runtime, hub, program, () => stock.updateOne({ _id: "tea" }, { $set: { remaining: 1 } }));
  });
}
