// Inboxes on a real MongoDB, with a real hub and consumers that are killed.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { type TestContext, test } from "node:test";
import { type Binary, type ClientSession, Long, MongoClient } from "mongodb";
import { exactlyOnceTx, type TransactionalHandler } from "../../src/inbox/index.ts";
import { mongoInbox } from "../../src/inbox/mongodb.ts";
import { delivery, quiet } from "../inbox/stage.ts";
import { DatabaseServer, whyNoServer } from "../support/database-server.ts";
import { chain, killsAtEachStep, outage, type Place, purging, twoCopies } from "../support/inbox/suite.ts";

const skip = whyNoServer("mongodb");

/** A server of the test's own. */
async function place(t: TestContext): Promise<Place> {
  const server = await DatabaseServer.start(t, "mongodb");
  return { kind: "mongodb", url: server.url(`sdk-${randomUUID()}`), server };
}

/** A database on the server that tests share, which goes with the test. */
async function sharedPlace(t: TestContext): Promise<Place> {
  const url = new URL(process.env["EVENT_HUB_TEST_MONGO"] ?? "");
  url.pathname = `/sdk-${randomUUID()}`;
  t.after(async () => {
    const client = new MongoClient(url.href);
    await client.db().dropDatabase();
    await client.close();
  });
  return Promise.resolve({ kind: "mongodb", url: url.href });
}

killsAtEachStep("MongoDB", skip, place);
twoCopies("MongoDB", skip, place);
outage("MongoDB", skip, place, async ({ server }) => {
  await server?.kill();
  return async () => server?.run();
});
chain("MongoDB", skip, place);
purging("MongoDB", skip, sharedPlace);

test("MongoDB: marks are written as the documents say, with the change or not at all", { skip }, async (t) => {
  const client = new MongoClient((await sharedPlace(t)).url);
  t.after(() => client.close());
  const inbox = mongoInbox(client, { collection: "handled" });
  await inbox.init();
  const effects = await client.db().createCollection("effects");
  const { event, ctx } = delivery({ seq: 7 });
  const handle = (handler: TransactionalHandler<ClientSession>): Promise<unknown> =>
    Promise.resolve(exactlyOnceTx(inbox, handler, { ...quiet, generation: 2 })(event, ctx));
  const write = (session: ClientSession): Promise<unknown> => effects.insertOne({ n: 1 }, { session });
  const counts = async (): Promise<number[]> => Promise.all(["handled", "effects"].map((name) => client.db().collection(name).countDocuments()));
  await assert.rejects(handle(async (_, __, session) => {
    await write(session);
    throw new Error("no");
  }), /no/);
  await assert.rejects(handle(async (_, __, session) => {
    await write(session);
    await session.abortTransaction();
  }), /bad_request: the handler has ended the transaction/);
  await assert.rejects(handle(async () => fetch("http://127.0.0.1:1")), /fetch failed/);
  assert.deepEqual(await counts(), [0, 0]);
  await handle((_, __, session) => write(session));
  await handle(() => assert.fail("a second run"));
  assert.deepEqual(await counts(), [1, 1]);
  const mark = await client.db().collection<{ _id: object }>("handled").findOne({}, { promoteLongs: false });
  const { _id: key, seq, at, ...rest } = mark as unknown as { _id: { id: Binary }; seq: Long; at: Date };
  assert.deepEqual(Object.keys(key), ["c", "t", "id"]);
  assert.deepEqual({ ...key, id: key.id.toUUID().toString() }, { c: "billing#2", t: "orders", id: event.id });
  assert.ok(seq instanceof Long && seq.toNumber() === 7 && at instanceof Date);
  assert.deepEqual(rest, {});
});
