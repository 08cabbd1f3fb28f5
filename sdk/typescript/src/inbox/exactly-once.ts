// Handlers whose effects happen once, however often their events are delivered.

import { createRunContext } from "./context.ts";
import { BoundedMap } from "./bounded.ts";
import { type Fault, Hold, type Log, Outage, untilAborted } from "./hold.ts";
import { keyOf } from "./memory.ts";
import { Retry } from "../consume/outcome.ts";
import type { Context, Handler } from "../consume/types.ts";
import type { AnyTopics } from "../topics.ts";
import type { EventRecord } from "../types.ts";
import { consumerText, type InboxStore, type Mark, markOf, type StoreFault, type SynchronousInbox, type TransactionalInbox } from "./store.ts";

/** Of {@link exactlyOnce} and {@link exactlyOnceTx}. */
export interface InboxOptions {
  /** Whose effects these are: what two subscriptions do for the same event are two consumers. The group's name is a good one. */
  consumer: string;
  /** Raise it to have events handled again, after a group was placed anew; 0 unless given. */
  generation?: number;
  /** While the store cannot be used, events are held here for so long, and are then given back without a failure; 5 minutes. */
  holdMs?: number;
  /** Told when the store cannot be used, and when it can again. Left out, warnings go to the console. */
  log?: Log;
}

/** A handler with a transaction. What it writes with `tx` is committed together with the mark, or not at all. */
export type TransactionalHandler<Tx, Event extends EventRecord = EventRecord, Topics extends object = AnyTopics> = (
  event: Event,
  ctx: Context<Topics>,
  tx: Tx,
) => unknown;

/** A handler for a database whose driver blocks: what takes time comes first, and the transaction is a function that awaits nothing. */
export interface SynchronousHandler<Tx, Event extends EventRecord = EventRecord, Topics extends object = AnyTopics, Prepared = unknown> {
  /** Runs outside of the transaction, and again if the event comes again before the transaction is committed. */
  prepare?(event: Event, ctx: Context<Topics>): Prepared | PromiseLike<Prepared>;
  /** Runs within the transaction, and must not be `async`. */
  commit(event: Event, ctx: Context<Topics>, tx: Tx, prepared: Prepared): unknown;
}

const HOLD_MS = 300_000;
/** Events that have been handled and could not be marked yet. */
const MOST_UNMARKED = 10_000;

/**
 * A handler that runs once for each event, as far as the marks of the store tell: look, run, mark. A crash between the run and the mark lets it run
 * again; with `exactlyOnceTx` none does.
 */
export function exactlyOnce<Event extends EventRecord = EventRecord, Topics extends object = AnyTopics>(
  handler: Handler<Event, Topics>,
  store: InboxStore,
  options: InboxOptions,
): Handler<Event, Topics> {
  const unmarked = new BoundedMap<true>(MOST_UNMARKED);
  return guarded(store, options, async (mark, hold, event: Event, ctx: Context<Topics>) => {
    const key = keyOf(mark);
    if (unmarked.get(key) === undefined) {
      if (await ask(store, hold, ctx.signal, () => store.has(mark))) return undefined;
      const result = await hold.released(() => handler(event, ctx));
      if (result instanceof Retry) return result;
      unmarked.set(key, true);
    }
    await ask(store, hold, ctx.signal, () => store.add(mark));
    unmarked.delete(key);
    return undefined;
  });
}

/**
 * A handler that writes to a database in one transaction with the mark: its changes, and rows of an outbox, are there once, whatever is killed in
 * between. Effects outside of the transaction are not: write them as rows of an outbox.
 */
export function exactlyOnceTx<Tx, Event extends EventRecord = EventRecord, Topics extends object = AnyTopics>(
  store: TransactionalInbox<Tx>,
  handler: TransactionalHandler<Tx, Event, Topics>,
  options: InboxOptions,
): Handler<Event, Topics>;
export function exactlyOnceTx<Tx, Event extends EventRecord = EventRecord, Topics extends object = AnyTopics, Prepared = unknown>(
  store: SynchronousInbox<Tx>,
  handler: SynchronousHandler<Tx, Event, Topics, Prepared> | TransactionalHandler<Tx, Event, Topics>,
  options: InboxOptions,
): Handler<Event, Topics>;
export function exactlyOnceTx<Tx, Event extends EventRecord = EventRecord, Topics extends object = AnyTopics, Prepared = unknown>(
  store: TransactionalInbox<Tx> | SynchronousInbox<Tx>,
  handler: SynchronousHandler<Tx, Event, Topics, Prepared> | TransactionalHandler<Tx, Event, Topics>,
  options: InboxOptions,
): Handler<Event, Topics> {
  if ("onceSync" in store) return synchronous(store, typeof handler === "function" ? { commit: handler } : handler, options);
  if (typeof handler !== "function") throw new TypeError("prepare and commit are for SQLite; give a function (event, ctx, tx)");
  return guarded(store, options, async (mark, hold, event: Event, ctx: Context<Topics>) => {
    let hasRun = false;
    await hold.through(
      () => {
        hasRun = false;
        const run = async (tx: Tx): Promise<void> => {
          hasRun = true;
          throwRetry(await hold.released(() => handler(event, createRunContext(ctx, event), tx)));
        };
        return store.once(mark, run, ctx.signal);
      },
      (error) => faultIn(store, error, hasRun),
    );
    return undefined;
  });
}

function synchronous<Tx, Event extends EventRecord, Topics extends object, Prepared>(
  store: SynchronousInbox<Tx>,
  handler: SynchronousHandler<Tx, Event, Topics, Prepared>,
  options: InboxOptions,
): Handler<Event, Topics> {
  return guarded(store, options, async (mark, hold, event: Event, given: Context<Topics>) => {
    const { signal } = given;
    // Spares what is handled already the preparation; the transaction asks again.
    if (await ask(store, hold, signal, () => store.has(mark))) return undefined;
    const ctx = createRunContext(given, event);
    const prepared = await hold.released(() => handler.prepare?.(event, ctx));
    if (prepared instanceof Retry) return prepared;
    let hasRun = false;
    const transact = async (): Promise<boolean> => {
      hasRun = false;
      return Promise.resolve(
        store.onceSync(mark, (tx) => {
          hasRun = true;
          throwRetry(refuseAsync(handler.commit(event, ctx, tx, prepared as Prepared)));
        }),
      );
    };
    await inTurn(store, signal, () => hold.through(transact, (error) => faultIn(store, error, hasRun)));
    return undefined;
  });
}

/** The last of those that work with a store, by store. */
const lastTurns = new WeakMap<InboxStore, Promise<unknown>>();

/** Runs pieces of work one after the other: each of them would block the program while another process has the lock. */
async function inTurn<T>(store: InboxStore, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  const before = lastTurns.get(store) ?? Promise.resolve();
  const waited = untilAborted(before, signal);
  const working = waited.then(work);
  // Behind both: one that gives up its turn does not end that of the one before it.
  lastTurns.set(store, Promise.allSettled([before, working]));
  return working;
}

type AnyStore = InboxStore & { readonly onceSync?: unknown; faultOf?(error: unknown): StoreFault | undefined };

/** Asks the store for something. No handler is involved, so an error is never the event's. */
function ask<T>(store: AnyStore, hold: Hold, signal: AbortSignal, question: () => Promise<T>): Promise<T> {
  const answered = (): Promise<T> => hold.through(question, (error) => faultIn({ faultOf: (one) => store.faultOf?.(one) }, error, false));
  return store.onceSync === undefined ? answered() : inTurn(store, signal, answered);
}

/** An error before the handler has run is not the event's: another writer is waited for, and everything else is an outage. */
function faultIn({ faultOf }: Pick<TransactionalInbox<unknown>, "faultOf">, error: unknown, hasRun: boolean): Fault | undefined {
  if (error instanceof Retry) return undefined;
  const fault = faultOf(error);
  if (hasRun) return fault;
  return fault === "conflict" ? "busy" : "unavailable";
}

/** A `Retry` or a `Return` that is returned rolls the transaction back as one that is thrown. */
function throwRetry(result: unknown): void {
  if (result instanceof Retry) throw result;
}

function refuseAsync(result: unknown): unknown {
  if (typeof result !== "object" || result === null || !("then" in result) || typeof result.then !== "function") return result;
  // The promise may be rejected later, when nothing handles that.
  void Promise.resolve(result).catch(() => undefined);
  throw new TypeError("commit has returned a promise: the transaction would end before it does. Await what takes time in prepare");
}

/** The ends of the copies that this process is handling, by store and mark. */
const running = new WeakMap<InboxStore, Map<string, Promise<unknown>>>();

/** A handler for one copy of an event at a time. */
function guarded<Event extends EventRecord, Topics extends object>(
  store: InboxStore,
  { consumer: name, generation, holdMs = HOLD_MS, log = toConsole }: InboxOptions,
  handle: (mark: Mark, hold: Hold, event: Event, ctx: Context<Topics>) => Promise<unknown>,
): Handler<Event, Topics> {
  const consumer = consumerText(name, generation);
  if (!(holdMs >= 0)) throw new TypeError(`holdMs ${String(holdMs)}: a number from 0 is allowed`);
  const outage = new Outage({ consumer, holdMs, log });
  const copies = running.get(store) ?? new Map<string, Promise<unknown>>();
  running.set(store, copies);

  return async (event, ctx) => {
    const mark = markOf(consumer, event);
    const key = keyOf(mark);
    const hold = new Hold(ctx as Context, outage);
    try {
      for (let copy = copies.get(key); copy !== undefined; copy = copies.get(key)) await untilAborted(copy, ctx.signal);
      const handled = handle(mark, hold, event, ctx);
      const ended = handled.then(
        () => undefined,
        () => undefined,
      );
      copies.set(key, ended);
      void ended.then(() => copies.delete(key));
      return await handled;
    } finally {
      hold.end();
    }
  };
}

function toConsole(level: Parameters<Log>[0], message: string, fields: Parameters<Log>[2]): void {
  if (level === "warn" || level === "error") console.warn(`event-hub: ${message}`, fields);
}
