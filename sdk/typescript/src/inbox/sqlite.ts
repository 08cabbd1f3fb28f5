/**
 * An inbox on SQLite, in the transaction of the handler's own changes. The driver is yours, and has to block: `better-sqlite3`, `node:sqlite` or one
 * like these. Nothing is imported from it.
 *
 * @module
 */

import { Retry } from "../consume/outcome.ts";
import { HubError } from "../errors.ts";
import { quotedTable } from "../outbox/table.ts";
import { ConnectionLost, purgeRange, type StoreFault, type SynchronousInbox } from "./store.ts";

/** What is needed of a connection. */
export interface SqliteDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
}

export interface SqliteStatement {
  run(...values: (string | number)[]): { changes: number | bigint };
  get(...values: (string | number)[]): unknown;
}

export interface SqliteInboxOptions {
  /** The table; `inbox` unless given. */
  table?: string;
}

/** An inbox on SQLite. */
export interface SqliteInbox<Database> extends SynchronousInbox<Database> {
  /** Makes the table unless it is there. */
  init(): void;
}

const PURGED_AT_ONCE = 1_000;
/** Results of SQLite, by their names and numbers. */
const CONFLICT = { names: /^SQLITE_(?:BUSY|LOCKED)/, numbers: [5, 6] };
const UNAVAILABLE = { names: /^SQLITE_(?:NOMEM|IOERR|FULL|CANTOPEN|PROTOCOL)/, numbers: [7, 10, 13, 14, 15] };

/**
 * An inbox for `exactlyOnce` and `exactlyOnceTx`. `init` makes its table. Give it a connection with a short busy timeout: the driver blocks the
 * program while it waits, and the inbox tries again by itself.
 */
export function sqliteInbox<Database extends SqliteDatabase>(database: Database, { table = "inbox" }: SqliteInboxOptions = {}): SqliteInbox<Database> {
  const quoted = quotedTable(table);
  const prepared = new Map<string, SqliteStatement>();
  /** The table may be made after the inbox. */
  function statement(sql: string): SqliteStatement {
    let found = prepared.get(sql);
    if (found === undefined) prepared.set(sql, (found = database.prepare(sql)));
    return found;
  }
  const insert = `INSERT INTO ${quoted} (consumer, topic, id, seq) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`;
  const select = `SELECT 1 AS found FROM ${quoted} WHERE consumer = ? AND topic = ? AND id = ?`;
  const remove =
    `DELETE FROM ${quoted} WHERE (consumer, topic, id) IN (SELECT consumer, topic, id FROM ${quoted} ` +
    `WHERE consumer = ? AND topic = ? AND seq < ? AND done_at <= ? LIMIT ${PURGED_AT_ONCE})`;

  return {
    init() {
      database.exec(
        `CREATE TABLE IF NOT EXISTS ${quoted} (consumer TEXT NOT NULL, topic TEXT NOT NULL, id TEXT NOT NULL, seq INTEGER NOT NULL, ` +
          "done_at INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)), " +
          "PRIMARY KEY (consumer, topic, id)) WITHOUT ROWID",
      );
    },
    // An error of the driver is a rejection.
    has: ({ consumer, topic, id }) => soon(() => (statement(select).get(consumer, topic, id) ?? null) !== null),
    add: ({ consumer, topic, id, seq }) => soon(() => void statement(insert).run(consumer, topic, id, seq)),
    async purge(options) {
      const { consumer, topic, below, before } = purgeRange(options);
      let removed = 0;
      for (let some = PURGED_AT_ONCE; some === PURGED_AT_ONCE; removed += some) {
        some = await soon(() => Number(statement(remove).run(consumer, topic, below, before).changes));
      }
      return removed;
    },
    onceSync({ consumer, topic, id, seq }, run) {
      if (isInTransaction(database) === true) throw new OpenTransaction();
      database.exec("BEGIN IMMEDIATE");
      try {
        const isNew = Number(statement(insert).run(consumer, topic, id, seq).changes) > 0;
        if (isNew) run(database);
        if (isInTransaction(database) === false) {
          throw new HubError("bad_request", "the handler has ended the transaction; leave COMMIT and ROLLBACK to exactlyOnceTx, and throw to roll back");
        }
        database.exec(isNew ? "COMMIT" : "ROLLBACK");
        return isNew;
      } catch (error) {
        // Some errors of SQLite have ended the transaction.
        if (isInTransaction(database) !== false) {
          try {
            database.exec("ROLLBACK");
          } catch (lost) {
            if (isInTransaction(database) === true && !(error instanceof Retry)) throw new ConnectionLost(lost);
          }
        }
        throw error;
      }
    },
    faultOf(error): StoreFault | undefined {
      if (error instanceof ConnectionLost) return "unavailable";
      if (error instanceof OpenTransaction || is(error, CONFLICT)) return "conflict";
      return is(error, UNAVAILABLE) ? "unavailable" : undefined;
    },
  };
}

/** Somebody else works with the same connection, and awaits something within a transaction. */
class OpenTransaction extends Error {
  constructor() {
    super("the connection has a transaction open; give the inbox a connection of its own");
  }
}

function soon<T>(run: () => T): Promise<T> {
  return new Promise((resolve) => resolve(run()));
}

/** Undefined if the driver does not say. */
function isInTransaction(database: SqliteDatabase): boolean | undefined {
  const { inTransaction, isTransaction }: { inTransaction?: unknown; isTransaction?: unknown } = database as object;
  const found = inTransaction ?? isTransaction;
  return typeof found === "boolean" ? found : undefined;
}

/** `better-sqlite3` has names in `code`, `node:sqlite` numbers in `errcode`, whose lowest byte is the primary one. */
function is(error: unknown, { names, numbers }: { names: RegExp; numbers: number[] }): boolean {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 8; cause = cause.cause, depth++) {
    const { code, errcode }: { code?: unknown; errcode?: unknown } = cause as object;
    if (typeof errcode === "number" ? numbers.includes(errcode & 0xff) : typeof code === "string" && names.test(code)) return true;
  }
  return false;
}
