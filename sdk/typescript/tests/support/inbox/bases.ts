// The databases with an inbox, as the consumers under test and their tests use them: effects are rows that no constraint keeps apart.

import { randomUUID } from "node:crypto";
import { DatabaseSync } from "@photostructure/sqlite";
import BetterSqlite from "libsql";
import { ClientSession, Collection, MongoClient } from "mongodb";
import pg from "pg";
import { exactlyOnce, exactlyOnceTx, type InboxOptions, type InboxStore } from "../../../src/inbox/index.ts";
import { mongoInbox } from "../../../src/inbox/mongodb.ts";
import { postgresInbox } from "../../../src/inbox/postgres.ts";
import { type SqliteDatabase, sqliteInbox } from "../../../src/inbox/sqlite.ts";
import type { Context, EventRecord, Handler } from "../../../src/node.ts";
import { mongoOutbox } from "../../../src/outbox/mongodb.ts";
import { postgresOutbox } from "../../../src/outbox/postgres.ts";
import type { OutboxRow } from "../../../src/outbox/row.ts";
import { sqliteOutbox } from "../../../src/outbox/sqlite.ts";

/** `sqlite`: a driver shaped like better-sqlite3; `node-sqlite`: one shaped like node:sqlite. */
export type BaseKind = "postgres" | "mongodb" | "sqlite" | "node-sqlite";

/** Where a consumer of {@link Base} can be stopped. */
export type Step = "mark" | "run" | "commit" | "ack";

/** What a consumer does with an event. */
export interface Work {
  /** Called at each step, before it is taken. */
  step(step: Step): void;
  /** Rows for the outbox. */
  rows(event: EventRecord): OutboxRow[];
}

export interface Base {
  readonly store: InboxStore;
  /** Makes the tables of effects and marks. */
  init(): Promise<void>;
  /** A handler that writes an effect in the transaction of the mark. */
  transactional(options: InboxOptions, work: Work): Handler;
  /** A handler that writes an effect by itself, before the mark. */
  plain(options: InboxOptions, work: Work): Handler;
  /** How often each event has had its effect. */
  effects(): Promise<Map<string, number>>;
  /** Writes rows of the outbox in a transaction. */
  write(rows: OutboxRow[]): Promise<void>;
  /** Whether `write` has failed because the rows are there. */
  isDuplicate(error: unknown): boolean;
  close(): Promise<void>;
}

const INTO_INBOX = /^INSERT INTO "inbox"/;
const EFFECT = "INSERT INTO effects (event, worker) VALUES";

export function openBase(kind: BaseKind, url: string): Base {
  switch (kind) {
    case "postgres":
      return postgresBase(url);
    case "mongodb":
      return mongoBase(url);
    case "sqlite":
    case "node-sqlite":
      return sqliteBase(kind, url);
  }
}

/** Who has written an effect. */
const worker = randomUUID();

function postgresBase(url: string): Base {
  const pool = new pg.Pool({ connectionString: url, max: 20, connectionTimeoutMillis: 5_000 });
  pool.on("error", () => undefined);
  const store = postgresInbox(pool);
  const outbox = postgresOutbox();
  return {
    store,
    async init() {
      await store.init();
      await pool.query("CREATE TABLE effects (event uuid, worker uuid)");
    },
    transactional(options, work) {
      const query = Reflect.get(pg.Client.prototype, "query") as (...args: unknown[]) => unknown;
      Reflect.set(pg.Client.prototype, "query", function (this: unknown, ...args: unknown[]) {
        if (typeof args[0] === "string" && INTO_INBOX.test(args[0])) work.step("mark");
        if (args[0] === "COMMIT") work.step("commit");
        return query.apply(this, args);
      });
      return exactlyOnceTx(store, async (event, _, tx) => {
        work.step("run");
        await tx.query(`${EFFECT} ($1, $2)`, [event.id, worker]);
        for (const row of work.rows(event)) await outbox.add(tx, row);
      }, options);
    },
    plain: (options, work) =>
      stepped(store, options, work, async (event) => {
        await pool.query(`${EFFECT} ($1, $2)`, [event.id, worker]);
      }),
    async effects() {
      const { rows } = await pool.query<{ event: string; count: string }>("SELECT event, count(*) FROM effects GROUP BY event");
      return new Map(rows.map(({ event, count }) => [event, Number(count)]));
    },
    async write(rows) {
      const client = new pg.Client({ connectionString: url });
      client.on("error", () => undefined);
      try {
        await client.connect();
        await client.query("BEGIN");
        for (const row of rows) await outbox.add(client, row);
        await client.query("COMMIT");
      } finally {
        await client.end().catch(() => undefined);
      }
    },
    isDuplicate: (error) => (error as { code?: unknown }).code === "23505",
    close: () => pool.end(),
  };
}

function mongoBase(url: string): Base {
  const client = new MongoClient(url, { serverSelectionTimeoutMS: 5_000 });
  const store = mongoInbox(client);
  const outbox = mongoOutbox(client.db());
  const effects = client.db().collection<{ event: string; worker: string }>("effects");
  return {
    store,
    async init() {
      await store.init();
      await client.db().createCollection("effects");
      await client.db().createCollection("outbox");
    },
    transactional(options, work) {
      const commit = Reflect.get(ClientSession.prototype, "commitTransaction") as (...args: unknown[]) => Promise<void>;
      const update = Reflect.get(Collection.prototype, "updateOne") as (...args: unknown[]) => unknown;
      ClientSession.prototype.commitTransaction = function (...args) {
        work.step("commit");
        return commit.apply(this, args);
      };
      Reflect.set(Collection.prototype, "updateOne", function (this: Collection, ...args: unknown[]) {
        if (this.collectionName === "inbox") work.step("mark");
        return update.apply(this, args);
      });
      return exactlyOnceTx(store, async (event, _, session) => {
        work.step("run");
        await effects.insertOne({ event: event.id, worker }, { session });
        for (const row of work.rows(event)) await outbox.add(session, row);
      }, options);
    },
    plain: (options, work) =>
      stepped(store, options, work, async (event) => {
        await effects.insertOne({ event: event.id, worker });
      }),
    async effects() {
      const found = await effects.aggregate<{ _id: string; count: number }>([{ $group: { _id: "$event", count: { $sum: 1 } } }]).toArray();
      return new Map(found.map(({ _id: id, count }) => [id, count]));
    },
    write: (rows) =>
      client.withSession(async (session) => {
        session.startTransaction({ writeConcern: { w: "majority" } });
        for (const row of rows) await outbox.add(session, row);
        await session.commitTransaction();
      }),
    isDuplicate: (error) => (error as { code?: unknown }).code === 11000,
    close: () => client.close(),
  };
}

interface SqliteConnection extends SqliteDatabase {
  close(): unknown;
  prepare(sql: string): { run(...values: (string | number | bigint)[]): { changes: number | bigint }; get(...values: (string | number)[]): unknown; all(): unknown };
}

/** Drivers may forbid to assign their methods. */
function override<T, Name extends keyof T>(target: T, name: Name, value: T[Name]): void {
  Object.defineProperty(target, name, { value });
}

function sqliteBase(kind: "sqlite" | "node-sqlite", url: string): Base {
  const path = url.replace(/^sqlite:/, "");
  const database = (kind === "sqlite" ? new BetterSqlite(path) : new DatabaseSync(path)) as unknown as SqliteConnection;
  // The inbox waits by itself, without blocking the program.
  database.exec("PRAGMA busy_timeout = 50");
  const store = sqliteInbox(database);
  const outbox = sqliteOutbox();
  return {
    store,
    init() {
      database.exec("PRAGMA journal_mode = WAL");
      store.init();
      database.exec("CREATE TABLE effects (event TEXT, worker TEXT)");
      return Promise.resolve();
    },
    transactional(options, work) {
      const exec = database.exec.bind(database);
      const prepare = database.prepare.bind(database);
      override(database, "exec", (sql) => {
        if (sql === "COMMIT") work.step("commit");
        return exec(sql);
      });
      override(database, "prepare", (sql) => {
        const statement = prepare(sql);
        if (INTO_INBOX.test(sql)) {
          const run = statement.run.bind(statement);
          override(statement, "run", (...values) => {
            work.step("mark");
            return run(...values);
          });
        }
        return statement;
      });
      return exactlyOnceTx(store, (event, _, tx) => {
        work.step("run");
        tx.prepare(`${EFFECT} (?, ?)`).run(event.id, worker);
        for (const row of work.rows(event)) outbox.add(tx, row);
      }, options);
    },
    plain: (options, work) =>
      stepped(store, options, work, (event) => {
        database.prepare(`${EFFECT} (?, ?)`).run(event.id, worker);
        return Promise.resolve();
      }),
    effects() {
      const rows = database.prepare("SELECT event, count(*) AS count FROM effects GROUP BY event").all() as { event: string; count: number }[];
      return Promise.resolve(new Map(rows.map(({ event, count }) => [event, count])));
    },
    write(rows) {
      return new Promise((resolve) => {
        database.exec("BEGIN IMMEDIATE");
        try {
          for (const row of rows) outbox.add(database, row);
          database.exec("COMMIT");
        } catch (error) {
          database.exec("ROLLBACK");
          throw error;
        }
        resolve();
      });
    },
    isDuplicate: (error) => /UNIQUE/.test(String(error)),
    close: () => Promise.resolve(void database.close()),
  };
}

/** A plain handler with the steps of a {@link Work}. */
function stepped(store: InboxStore, options: InboxOptions, work: Work, effect: (event: EventRecord, ctx: Context) => Promise<void>): Handler {
  const watched: InboxStore = {
    has: (mark) => store.has(mark),
    add: (mark) => {
      work.step("mark");
      return store.add(mark);
    },
    purge: (range) => store.purge(range),
  };
  return exactlyOnce(async (event, ctx) => {
    work.step("run");
    await effect(event, ctx);
  }, watched, options);
}
