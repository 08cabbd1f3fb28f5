/**
 * Rows for the outbox of a service on SQLite, in the service's own transaction. The driver is yours, and has to block: `better-sqlite3`, `node:sqlite`
 * or one like these. Nothing is imported from it.
 *
 * @module
 */

import { type OutboxRow, type RowLimits, checkedRow, wrong } from "./row.ts";
import { quotedTable } from "./table.ts";

export { type OutboxRow } from "./row.ts";

/** What is needed of a connection. */
export interface SqliteOutboxDatabase {
  prepare(sql: string): { run(...values: (string | bigint)[]): unknown };
}

export interface SqliteOutboxOptions extends RowLimits {
  /** The table; `outbox` unless given. */
  table?: string;
}

/** An outbox on SQLite. */
export interface SqliteOutbox {
  /**
   * Writes a row in the transaction that the connection has begun: it is published if that is committed, and gone if not. Answers the id that the
   * event will have.
   *
   * @throws HubError `bad_request`, `too_large` or `forbidden` for a row that no hub would publish; nothing is written then.
   */
  add(database: SqliteOutboxDatabase, row: OutboxRow): string;
}

/** An outbox whose rows a drainer publishes: an `[[outbox]]` of a hub, or `event-hub outbox drain`. `event-hub outbox init` makes the table. */
export function sqliteOutbox({ table = "outbox", ...limits }: SqliteOutboxOptions = {}): SqliteOutbox {
  const into = quotedTable(table);
  return {
    add(database, row) {
      refuseOutsideOfTransaction(database);
      const { id, topic, key, ord, payload, headers } = checkedRow(row, limits);
      const written = headers.length === 0 ? undefined : JSON.stringify(Object.fromEntries(headers));
      const columns = Object.entries({ id, topic, key, ord, payload, headers: written }).filter((column): column is [string, string | bigint] => column[1] !== undefined);
      const names = columns.map(([name]) => name).join(", ");
      const places = columns.map(() => "?").join(", ");
      database.prepare(`INSERT INTO ${into} (${names}) VALUES (${places})`).run(...columns.map(([, value]) => value));
      return id;
    },
  };
}

/** Where the driver can tell. */
function refuseOutsideOfTransaction(database: SqliteOutboxDatabase): void {
  const { inTransaction, isTransaction }: { inTransaction?: unknown; isTransaction?: unknown } = database as object;
  if ((inTransaction ?? isTransaction) === false) {
    throw wrong("the connection has no transaction; BEGIN IMMEDIATE one first, so that the row is there if and only if your change is");
  }
}
