/**
 * Rows for the outbox of a service on MongoDB, in the service's own transaction. The driver is yours: nothing is imported from it.
 *
 * @module
 */

import { HubError } from "../errors.ts";
import { bsonOf } from "./bson.ts";
import { type OutboxRow, type RowLimits, checkedRow } from "./row.ts";
import { uuidOf } from "./uuid.ts";

export { type OutboxRow } from "./row.ts";

/** What is needed of a `ClientSession` of the package `mongodb`, version 6 or later. */
export interface MongoSession {
  /** The session's id; its class is that of the driver's binary values. */
  readonly id?: { readonly id: unknown } | undefined;
  inTransaction(): boolean;
}

/** What is needed of a `Db`: the database with the service's data, or another one of the same servers. */
export interface MongoDatabase<Session extends MongoSession = MongoSession> {
  collection(name: string): { insertOne(document: object, options: { session: Session }): Promise<unknown> };
}

/** The document of a row, as docs/outbox.md describes it. */
export interface MongoRow {
  _id: unknown;
  topic: string;
  payload?: unknown;
  payload_json?: string;
  key?: string;
  headers?: Record<string, string>;
  ord?: bigint;
  status: "pending";
  ts: Date;
  attempts: 0;
}

export interface MongoOutboxOptions extends RowLimits {
  /** The collection; `outbox` unless given. */
  collection?: string;
}

/** An outbox on MongoDB. */
export interface MongoOutbox<Session extends MongoSession = MongoSession> {
  /**
   * Writes a row in the session's transaction: it is published if that is committed, and gone if not. Answers the id that the event will have.
   *
   * @throws HubError `bad_request`, `too_large` or `forbidden` for a row that no hub would publish; nothing is written then.
   */
  add(session: Session, row: OutboxRow): Promise<string>;
}

/** An outbox whose rows a drainer publishes: a hub with `MONGO_URL`, an `[[outbox]]`, or `event-hub outbox drain`. */
export function mongoOutbox<Session extends MongoSession>(
  database: MongoDatabase<Session>,
  { collection = "outbox", ...limits }: MongoOutboxOptions = {},
): MongoOutbox<Session> {
  return {
    async add(session, row) {
      if (!session.inTransaction()) {
        throw new HubError(
          "bad_request",
          "the session has no transaction; add the row within session.withTransaction, so that it is there if and only if your change is",
        );
      }
      const checked = checkedRow(row, limits);
      const { id, topic, key, headers, ord } = checked;
      const payload = bsonOf(checked.payload);
      const document: MongoRow = {
        _id: uuidOf(session, id),
        topic,
        ...(payload ? { payload: payload.value } : { payload_json: checked.payload }),
        ...(key === undefined ? {} : { key }),
        ...(headers.length === 0 ? {} : { headers: Object.fromEntries(headers) }),
        // An integer of 64 bits, whatever a number would become.
        ...(ord === undefined ? {} : { ord }),
        status: "pending",
        ts: new Date(),
        attempts: 0,
      };
      await database.collection(collection).insertOne(document, { session });
      return id;
    },
  };
}
