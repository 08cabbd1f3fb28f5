// npm install pg
import { randomUUID } from "node:crypto";

/** Takes pieces from stock and says so, or does neither. Answers how many are left. */
export async function take(pool, sku, pieces) {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const { rows } = await client.query(
      "UPDATE stock SET remaining = remaining - $2, version = version + 1 WHERE sku = $1 RETURNING remaining, version",
      [sku, pieces],
    );
    if (rows.length === 0) throw new Error(`no ${sku} in stock`);
    const [{ remaining, version }] = rows;
    await client.query(
      "INSERT INTO outbox (id, topic, key, ord, payload) VALUES ($1, $2, $3, $4, $5)",
      [randomUUID(), "shop.stock", sku, version, JSON.stringify({ sku, remaining })],
    );
    if (remaining < 0) throw new Error(`not enough ${sku}`); // the row goes with the change
    await client.query("COMMIT");
    return remaining;
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
}
