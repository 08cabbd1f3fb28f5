/**
 * Rows for the outbox of a service on PostgreSQL, in the service's own transaction. The driver is yours: nothing is imported from it.
 *
 * @module
 */

import { type OutboxRow, type RowLimits, checkedRow, wrong } from "./row.ts";
import { quotedTable } from "./table.ts";

export { type OutboxRow } from "./row.ts";

/** What is needed of a `Client` or `PoolClient` of the package `pg`. */
export interface PostgresClient {
  query(text: string, values: unknown[]): Promise<unknown>;
}

export interface PostgresOutboxOptions extends RowLimits {
  /** The table, perhaps with its schema: `shop.outbox`. `outbox` unless given; then the client's `search_path` says where it is. */
  table?: string;
}

/** An outbox on PostgreSQL. */
export interface PostgresOutbox {
  /**
   * Writes a row in the transaction that the client has begun: it is published if that is committed, and gone if not. Answers the id that the event
   * will have.
   *
   * @throws HubError `bad_request`, `too_large` or `forbidden` for a row that no hub would publish; nothing is written then.
   */
  add(client: PostgresClient, row: OutboxRow): Promise<string>;
}

/** An outbox whose rows a drainer publishes: an `[[outbox]]` of a hub, or `event-hub outbox drain`. `event-hub outbox init` makes the table. */
export function postgresOutbox({ table = "outbox", ...limits }: PostgresOutboxOptions = {}): PostgresOutbox {
  const insert = `INSERT INTO ${quotedTable(table)} (id, topic, key, ord, payload, headers) VALUES ($1, $2, $3, $4, $5, $6)`;
  return {
    async add(client, row) {
      refuseOutsideOfTransaction(client);
      const { id, topic, key, ord, payload, headers } = checkedRow(row, limits);
      const written = headers.length === 0 ? null : JSON.stringify(Object.fromEntries(headers));
      // Numbers go as text: a bigint would be one that the driver does not know.
      await client.query(insert, [id, topic, key ?? null, ord === undefined ? null : ord.toString(), payload, written]);
      return id;
    },
  };
}

/** A pool gives each statement a connection of its own, and a client knows whether it has begun a transaction. */
function refuseOutsideOfTransaction(client: PostgresClient): void {
  const { totalCount, getTransactionStatus }: { totalCount?: unknown; getTransactionStatus?: unknown } = client as object;
  if (typeof totalCount === "number") {
    throw wrong("this is a pool, which gives every statement a connection of its own; use the client of pool.connect() that has begun the transaction");
  }
  const status: unknown = typeof getTransactionStatus === "function" ? getTransactionStatus.call(client) : undefined;
  if (status === "I") {
    throw wrong("the client has no transaction; BEGIN one first, so that the row is there if and only if your change is");
  }
}
