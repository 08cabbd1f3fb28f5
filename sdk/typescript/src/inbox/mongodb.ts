/**
 * An inbox on MongoDB, in the transaction of the handler's own changes. The driver is yours: nothing is imported from it.
 *
 * @module
 */

import { HubError } from "../errors.ts";
import { uuidOf } from "../outbox/uuid.ts";
import { untilAborted } from "./hold.ts";
import { type Mark, purgeRange, type StoreFault, type TransactionalInbox } from "./store.ts";

/** What is needed of a `ClientSession` of the package `mongodb`, version 6 or later. */
export interface MongoInboxSession {
  /** The session's id; its class is that of the driver's binary values. */
  readonly id?: { readonly id: unknown } | undefined;
  inTransaction(): boolean;
  startTransaction(options?: object): void;
  commitTransaction(): Promise<unknown>;
  abortTransaction(): Promise<unknown>;
  endSession(): Promise<unknown>;
}

/** What is needed of a `Collection`. */
export interface MongoInboxCollection<Session> {
  findOne(filter: object, options: { session: Session }): Promise<unknown>;
  updateOne(filter: object, update: object, options: { session: Session; upsert: true }): Promise<{ upsertedCount: number }>;
  deleteMany(filter: object): Promise<{ deletedCount: number }>;
  createIndex(keys: Record<string, 1>, options: { name: string }): Promise<string>;
}

/** What is needed of a `MongoClient`. */
export interface MongoInboxConnection {
  startSession(): MongoInboxSession;
  db(name?: string): { collection(name: string, options?: object): object };
}

export interface MongoInboxOptions {
  /** The database; unless given, the one of the client's address. */
  database?: string;
  /** The collection; `inbox` unless given. */
  collection?: string;
}

/** An inbox on MongoDB. */
export interface MongoInbox<Session> extends TransactionalInbox<Session> {
  /** Makes the index that `purge` uses, and with it the collection, unless they are there. */
  init(): Promise<void>;
}

const MAJORITY = { writeConcern: { w: "majority" }, readConcern: { level: "majority" }, readPreference: "primary" };
const COMMITS = 6;
const FIRST_COMMIT_WAIT_MS = 50;
/** Labels that drivers give to errors in transactions. */
const TRANSIENT = "TransientTransactionError";
const UNKNOWN_COMMIT = "UnknownTransactionCommitResult";
/** Names of errors of the driver for a server that it cannot reach. */
const NETWORK = /^Mongo(?:Network|ServerSelection|PoolCleared|PoolClosed|ServerClosed|TopologyClosed|NotConnected)/;
/** The server is no primary, steps down or ends. */
const NO_PRIMARY = [6, 7, 89, 91, 189, 262, 9001, 10058, 10107, 11600, 11602, 13435, 13436];

/** An inbox for `exactlyOnce` and `exactlyOnceTx`: a replica set, and a client of yours. `init` makes its collection. */
export function mongoInbox<Connection extends MongoInboxConnection>(
  client: Connection,
  { database, collection = "inbox" }: MongoInboxOptions = {},
): MongoInbox<ReturnType<Connection["startSession"]>> {
  type Session = ReturnType<Connection["startSession"]>;
  const marks = client.db(database).collection(collection, MAJORITY) as MongoInboxCollection<Session>;

  async function inSession<T>(run: (session: Session) => Promise<T>): Promise<T> {
    const session = client.startSession() as Session;
    try {
      return await run(session);
    } finally {
      // Aborts a transaction that is open.
      await session.endSession().catch(() => undefined);
    }
  }

  /** Whether the mark is new. */
  async function upsert(session: Session, { seq, ...mark }: Mark): Promise<boolean> {
    const added = { seq: BigInt(seq), at: new Date() };
    const { upsertedCount } = await marks.updateOne({ _id: keyOf(session, mark) }, { $setOnInsert: added }, { session, upsert: true });
    return upsertedCount > 0;
  }

  return {
    async init() {
      await marks.createIndex({ "_id.c": 1, "_id.t": 1, seq: 1 }, { name: "inbox_purge" });
    },
    has: (mark) => inSession(async (session) => (await marks.findOne({ _id: keyOf(session, mark) }, { session })) !== null),
    add: (mark) => inSession(async (session) => void (await upsert(session, mark))),
    async purge(options) {
      const { consumer, topic, below, before } = purgeRange(options);
      const { deletedCount } = await marks.deleteMany({ "_id.c": consumer, "_id.t": topic, seq: { $lt: below }, at: { $lte: new Date(before) } });
      return deletedCount;
    },
    once: (mark, run, signal) =>
      inSession(async (session) => {
        session.startTransaction(MAJORITY);
        // Before anything else: a transaction elsewhere with the same mark is a write conflict here.
        const isNew = await untilAborted(upsert(session, mark), signal);
        if (!isNew) {
          await session.abortTransaction();
          return false;
        }
        await run(session);
        if (!session.inTransaction()) {
          throw new HubError("bad_request", "the handler has ended the transaction; leave that to exactlyOnceTx, and throw to roll back");
        }
        await commit(session);
        return true;
      }),
    faultOf(error): StoreFault | undefined {
      for (let cause = error, depth = 0; cause instanceof Error && depth < 8; cause = cause.cause, depth++) {
        if (hasLabel(cause, UNKNOWN_COMMIT)) return "unavailable";
        // Only errors within a transaction have it: a handler may use other servers, too.
        if (hasLabel(cause, TRANSIENT)) return isUnreachable(cause) ? "unavailable" : "conflict";
      }
      return undefined;
    },
  };
}

/** One whose outcome is unknown is repeated: the driver sends the same commit. */
async function commit(session: MongoInboxSession): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await session.commitTransaction();
      return;
    } catch (error) {
      if (tries === COMMITS || !hasLabel(error, UNKNOWN_COMMIT)) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, FIRST_COMMIT_WAIT_MS * 2 ** (tries - 1)));
  }
}

/** Of a mark. The fields of such a value are compared in their order. */
function keyOf(session: MongoInboxSession, { consumer, topic, id }: Omit<Mark, "seq">): object {
  const uuid = uuidOf(session, id);
  if (typeof uuid === "string") throw new HubError("bad_request", "the sessions of this driver have no id, whose class ids of marks are made of; mongodb 6 or later is needed");
  return { c: consumer, t: topic, id: uuid };
}

function hasLabel(error: unknown, label: string): boolean {
  const { errorLabels, hasErrorLabel }: { errorLabels?: unknown; hasErrorLabel?: unknown } = Object(error) as object;
  if (typeof hasErrorLabel === "function") return hasErrorLabel.call(error, label) === true;
  return Array.isArray(errorLabels) && errorLabels.includes(label);
}

function isUnreachable(error: Error): boolean {
  const { code }: { code?: unknown } = error as object;
  return NETWORK.test(error.name) || (typeof code === "number" && NO_PRIMARY.includes(code));
}
