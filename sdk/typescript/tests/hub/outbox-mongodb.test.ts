// Rows that a service writes with the driver `mongodb`, drained by a real hub.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Binary, Long } from "mongodb";
import { mongoOutbox } from "../../src/outbox/mongodb.ts";
import { drained, eventOf } from "../support/drained.ts";
import { mongoShop, withoutMongo } from "../support/shops.ts";

test("a change and its event are there together, or neither is", { skip: withoutMongo }, async (t) => {
  const { client, hub } = await mongoShop(t);
  const outbox = mongoOutbox(client.db());
  const stock = client.db().collection<{ _id: string; remaining: number; version: number }>("stock");
  await stock.insertOne({ _id: "tea", remaining: 3, version: 0 });
  const take = (pieces: number): Promise<string> =>
    client.withSession((session) =>
      session.withTransaction(async () => {
        const change = { $inc: { remaining: -pieces, version: 1 } };
        const item = await stock.findOneAndUpdate({ _id: "tea" }, change, { session, returnDocument: "after" });
        assert.ok(item);
        const { remaining, version } = item;
        const id = await outbox.add(session, { topic: "shop.stock", key: "tea", ord: version, payload: { remaining }, headers: { via: "sdk" } });
        if (remaining < 0) throw new Error("not enough tea");
        return id;
      }),
    );
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

test("numbers come out of the hub as exact as they went in, and people can query what BSON has", { skip: withoutMongo }, async (t) => {
  const { client, hub } = await mongoShop(t);
  const outbox = mongoOutbox(client.db(), { collection: "outbox" });
  const payloads: [payload: unknown, json: string][] = [
    [{ n: 3_000_000_000, half: 0.5, text: "ü", none: null, gone: undefined }, '{"n":3000000000,"half":0.5,"text":"ü","none":null}'],
    [{ n: 9_007_199_254_740_993n }, '{"n":9007199254740993}'],
    [{ n: 123_456_789_012_345_678_901n, "a\0": 1 }, '{"n":123456789012345678901,"a\\u0000":1}'],
    [null, "null"],
    [[new Date(1_700_000_000_123)], '["2023-11-14T22:13:20.123Z"]'],
  ];
  const ids = await client.withSession((session) =>
    session.withTransaction(async () => {
      const written = [];
      for (const [payload] of payloads) written.push(await outbox.add(session, { topic: "shop.numbers", key: "k", payload }));
      return written;
    }),
  );
  const texts = await drained(hub, "shop.numbers", payloads.length);
  assert.deepEqual(texts.map((text) => eventOf(text).id), ids, "rows of one key go by their ids, which ascend");
  for (const [at, [, json]] of payloads.entries()) assert.ok(texts[at]?.includes(`"payload":${json}`), `${json} in ${texts[at]}`);

  const stored = client.db().collection<{ payload?: { n: unknown }; payload_json?: string }>("outbox");
  const rows = await stored.find({}, { promoteValues: false }).sort({ _id: 1 }).toArray();
  assert.ok(rows.every(({ _id: id }) => (id as unknown) instanceof Binary), "ids are binary values of the driver");
  assert.ok(rows[0]?.payload?.n instanceof Long);
  assert.equal(rows[2]?.payload, undefined);
  assert.equal(rows[2]?.payload_json, payloads[2]?.[1], "what BSON does not have is text");
});

test("a row that would be parked is not written, and the transaction goes on without it", { skip: withoutMongo }, async (t) => {
  const { client, hub } = await mongoShop(t);
  const outbox = mongoOutbox(client.db());
  const id = await client.withSession((session) =>
    session.withTransaction(async () => {
      await assert.rejects(outbox.add(session, { topic: "shop orders", payload: 1 }), /bad_request/);
      return outbox.add(session, { topic: "shop.orders", payload: 1 });
    }),
  );
  assert.deepEqual((await drained(hub, "shop.**", 1)).map((text) => eventOf(text).id), [id]);
  assert.equal(await client.db().collection("outbox").countDocuments(), 1);
});

test("outside of a transaction nothing is written", { skip: withoutMongo }, async (t) => {
  const { client } = await mongoShop(t);
  await client.withSession(async (session) => {
    await assert.rejects(mongoOutbox(client.db()).add(session, { topic: "shop.orders", payload: 1 }), /no transaction/);
  });
  assert.equal(await client.db().collection("outbox").countDocuments(), 0);
});
