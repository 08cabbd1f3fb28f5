// npm install mongodb
import { UUID } from "mongodb";

/** Takes pieces from stock and says so, or does neither. Answers how many are left. */
export async function take(client, sku, pieces) {
  const db = client.db();
  return client.withSession((session) =>
    session.withTransaction(async () => {
      const item = await db.collection("stock").findOneAndUpdate(
        { _id: sku },
        { $inc: { remaining: -pieces, version: 1 } },
        { session, returnDocument: "after" },
      );
      if (item === null) throw new Error(`no ${sku} in stock`);
      await db.collection("outbox").insertOne(
        {
          _id: new UUID(), // the event's id
          topic: "shop.stock",
          key: sku, // rows of one key are published in their order:
          ord: item.version, // this one, which no other change of the item has
          payload: { sku, remaining: item.remaining },
          status: "pending",
          ts: new Date(),
          attempts: 0,
        },
        { session },
      );
      if (item.remaining < 0) throw new Error(`not enough ${sku}`); // the row goes with the change
      return item.remaining;
    }),
  );
}
