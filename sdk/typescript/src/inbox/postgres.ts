/**
 * An inbox on PostgreSQL, in the transaction of the handler's own changes. The driver is yours: nothing is imported from it.
 *
 * @module
 */

import { Retry } from "../consume/outcome.ts";
import { HubError } from "../errors.ts";
import { quotedTable } from "../outbox/table.ts";
import { untilAborted } from "./hold.ts";
import { ConnectionLost, type Mark, purgeRange, type StoreFault, type TransactionalInbox } from "./store.ts";

/** What is needed of a `PoolClient` of the package `pg`, version 8 or later. */
export interface PostgresInboxClient {
  query(text: string, values?: unknown[]): Promise<unknown>;
  release(error?: Error | boolean): void;
  on(event: "error", listener: (error: Error) => void): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
}

/** What is needed of a `Pool`. */
export interface PostgresPool {
  connect(callback: (error: Error | undefined, client: PostgresInboxClient | undefined) => void): void;
  query(text: string, values?: unknown[]): Promise<unknown>;
}

/** The clients of a pool, by the form of `connect` that answers a promise. */
export type ClientOf<Pool extends PostgresPool> = Pool extends { connect: { (): Promise<infer Client>; (callback: never): void } }
  ? Client
  : PostgresInboxClient;

export interface PostgresInboxOptions {
  /** The table, perhaps with its schema: `shop.inbox`. `inbox` unless given; then the connection's `search_path` says where it is. */
  table?: string;
  /** Of the transactions; unless given, what the server has as its default. */
  isolation?: "read committed" | "repeatable read" | "serializable";
}

/** An inbox on PostgreSQL. */
export interface PostgresInbox<Client> extends TransactionalInbox<Client> {
  /** Makes the table unless it is there. */
  init(): Promise<void>;
}

interface Result {
  readonly rowCount: number | null;
  readonly command: string;
}

const ISOLATION = ["read committed", "repeatable read", "serializable"];
const PURGED_AT_ONCE = 10_000;
/** Of SQLSTATE: no resources, shut down or not started yet, a server that only reads. */
const UNAVAILABLE = /^(?:08|53|57P|25006)/;
/** Serialisation failures and deadlocks, an unknown completion, and a lock that was not waited for. */
const CONFLICT = /^(?:40001|40003|40P01|55P03)$/;

/** An inbox for `exactlyOnce` and `exactlyOnceTx`. `init` makes its table. */
export function postgresInbox<Pool extends PostgresPool>(
  pool: Pool,
  { table = "inbox", isolation }: PostgresInboxOptions = {},
): PostgresInbox<ClientOf<Pool>> {
  if (isolation !== undefined && !ISOLATION.includes(isolation)) throw new TypeError(`isolation ${JSON.stringify(isolation)}: one of ${ISOLATION.join(", ")} is allowed`);
  const quoted = quotedTable(table);
  const begin = isolation === undefined ? "BEGIN" : `BEGIN ISOLATION LEVEL ${isolation.toUpperCase()}`;
  const insert = `INSERT INTO ${quoted} (consumer, topic, id, seq) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`;
  const select = `SELECT 1 FROM ${quoted} WHERE consumer = $1 AND topic = $2 AND id = $3`;
  const remove =
    `DELETE FROM ${quoted} WHERE (consumer, topic, id) IN (SELECT consumer, topic, id FROM ${quoted} ` +
    `WHERE consumer = $1 AND topic = $2 AND seq < $3 AND done_at <= clock_timestamp() - $4 * interval '1 millisecond' LIMIT ${PURGED_AT_ONCE})`;

  const ask = async (text: string, values: unknown[]): Promise<number> => ((await pool.query(text, values)) as Result).rowCount ?? 0;

  return {
    async init() {
      await pool.query(
        `CREATE TABLE IF NOT EXISTS ${quoted} (consumer text, topic text, id uuid, seq bigint NOT NULL, ` +
          "done_at timestamptz DEFAULT clock_timestamp(), PRIMARY KEY (consumer, topic, id))",
      );
    },
    async has({ consumer, topic, id }) {
      return (await ask(select, [consumer, topic, id])) > 0;
    },
    async add(mark) {
      await ask(insert, valuesOf(mark));
    },
    async purge(options) {
      const { consumer, topic, below, keepMs } = purgeRange(options);
      let removed = 0;
      for (let some = PURGED_AT_ONCE; some === PURGED_AT_ONCE; removed += some) some = await ask(remove, [consumer, topic, below, keepMs]);
      return removed;
    },
    async once(mark, run, signal) {
      const client = await connected(pool, signal);
      const state = { isWaiting: false, lost: undefined as unknown };
      try {
        await client.query(begin);
        // Before anything else: a transaction elsewhere with the same mark is waited for here, on the index.
        state.isWaiting = true;
        const { rowCount } = (await untilAborted(client.query(insert, valuesOf(mark)), signal)) as Result;
        state.isWaiting = false;
        if (rowCount === 0) {
          await client.query("ROLLBACK");
          return false;
        }
        await run(client as ClientOf<Pool>);
        refuseEndedTransaction(client);
        const { command } = (await client.query("COMMIT")) as Result;
        if (command === "ROLLBACK") {
          throw new HubError("bad_request", "a statement of the handler has failed, and the handler went on: PostgreSQL has rolled the transaction back");
        }
        return true;
      } catch (error) {
        // A connection whose query waits for a lock is closed: it would take the ROLLBACK only after that.
        state.lost = state.isWaiting && signal.aborted ? error : await rollback(client);
        if (state.lost !== undefined && !(error instanceof Retry) && !signal.aborted) throw new ConnectionLost(state.lost);
        throw error;
      } finally {
        release(client, state.lost !== undefined);
      }
    },
    faultOf(error): StoreFault | undefined {
      if (error instanceof ConnectionLost) return "unavailable";
      const state = sqlStateOf(error);
      if (state === undefined) return undefined;
      return CONFLICT.test(state) ? "conflict" : UNAVAILABLE.test(state) ? "unavailable" : undefined;
    },
  };
}

function valuesOf({ consumer, topic, id, seq }: Mark): unknown[] {
  return [consumer, topic, id, seq];
}

/** A connection that is lost says so between queries, and ends a program that does not listen. The next query fails. */
const ignore = (): void => undefined;

/** A client of the pool. One that comes after the signal goes back. */
function connected(pool: PostgresPool, signal: AbortSignal): Promise<PostgresInboxClient> {
  const connecting = new Promise<PostgresInboxClient>((resolve, reject) => {
    // With a callback: a connection that is lost before the continuation of a promise runs would emit its error without a listener.
    pool.connect((error, client) => {
      if (client === undefined) return reject(error ?? new Error("the pool has no client"));
      client.on("error", ignore);
      resolve(client);
    });
  });
  return untilAborted(connecting, signal).catch((error: unknown) => {
    if (signal.aborted) void connecting.then((client) => release(client)).catch(() => undefined);
    throw error;
  });
}

/** Gives a client back, to be closed if it cannot be used again. */
function release(client: PostgresInboxClient, isLost = false): void {
  client.release(isLost);
  // The pool listens to clients that are idle.
  if (!isLost) client.removeListener("error", ignore);
}

/** Why that was not possible; undefined if it was. */
async function rollback(client: PostgresInboxClient): Promise<unknown> {
  try {
    await client.query("ROLLBACK");
    return undefined;
  } catch (error) {
    return error ?? new Error("ROLLBACK has failed");
  }
}

function refuseEndedTransaction(client: PostgresInboxClient): void {
  const { getTransactionStatus }: { getTransactionStatus?: unknown } = client as object;
  const status: unknown = typeof getTransactionStatus === "function" ? getTransactionStatus.call(client) : undefined;
  if (status === "I") throw new HubError("bad_request", "the handler has ended the transaction; leave COMMIT and ROLLBACK to exactlyOnceTx, and throw to roll back");
}

/** The SQLSTATE of an error of the server, also of one that the handler has thrown another error for. */
function sqlStateOf(error: unknown): string | undefined {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 8; cause = cause.cause, depth++) {
    const { code, severity }: { code?: unknown; severity?: unknown } = cause as object;
    if (typeof code === "string" && code.length === 5 && severity !== undefined) return code;
  }
  return undefined;
}
