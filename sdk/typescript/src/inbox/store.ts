// What an inbox keeps, and what the databases that keep it have in common.

import type { EventRecord } from "../types.ts";

/** Says that a consumer has handled an event. */
export interface Mark {
  /** The consumer's name; with a generation above 0 it is `NAME#GENERATION`. */
  readonly consumer: string;
  readonly topic: string;
  /** The event's id; for a replayed dead letter that of the event that was published first. */
  readonly id: string;
  /** The position of the delivered event in its topic. */
  readonly seq: number;
}

/** The marks that {@link InboxStore.purge} removes: those that have both a small `seq` and a high age. */
export interface PurgeOptions {
  /** As given to `exactlyOnce`. */
  consumer: string;
  /** As given to `exactlyOnce`; 0 unless given. */
  generation?: number;
  topic: string;
  /** Marks of this `seq` and of later ones stay. The group's cursor, for which there is `groupCursor`: above it, events may come again. */
  below: number;
  /** Younger marks stay; 7 days unless given. It has to be longer than dead letters are replayed. */
  keepMs?: number;
}

/** Keeps the marks of consumers. */
export interface InboxStore {
  has(mark: Mark): Promise<boolean>;
  /** Adds a mark; one that is there stays as it is. */
  add(mark: Mark): Promise<void>;
  /** Removes marks that no delivery will ask for. Resolves with their number. */
  purge(options: PurgeOptions): Promise<number>;
}

/**
 * Why a run in a transaction has failed, if not by its handler.
 *
 * - `unavailable`: the database cannot be used.
 * - `conflict`: another transaction was in the way; the same one may succeed when it is run again.
 */
export type StoreFault = "unavailable" | "conflict";

/** An inbox whose marks are committed together with what a handler writes. */
export interface TransactionalInbox<Tx> extends InboxStore {
  /**
   * Begins a transaction, adds the mark, runs `run` and commits. Resolves with false if the mark was there: then nothing was run. What `run` throws
   * rolls the transaction back, the mark included, and is thrown. A signal that is aborted ends the wait for the mark, and nothing else.
   */
  once(mark: Mark, run: (tx: Tx) => Promise<void>, signal: AbortSignal): Promise<boolean>;
  /** What an error says that `once` has thrown; undefined if the handler is to blame. */
  faultOf(error: unknown): StoreFault | undefined;
}

/** The same for a database whose driver blocks. */
export interface SynchronousInbox<Tx> extends InboxStore {
  onceSync(mark: Mark, run: (tx: Tx) => void): boolean;
  faultOf(error: unknown): StoreFault | undefined;
}

/** The connection was lost while a handler ran, whatever the handler has thrown because of it. */
export class ConnectionLost extends Error {
  constructor(cause: unknown) {
    super(`the connection to the database was lost: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

const KEEP_MS = 7 * 24 * 3_600_000;
/** The hub's own headers on a replayed dead letter; no publisher can write them. */
const REPLAY_OF = "x-hub-replay-of";
const CONSUMER = /^[A-Za-z0-9_.-]{1,200}$/;

/** How a consumer is written in marks. */
export function consumerText(consumer: string, generation = 0): string {
  if (typeof consumer !== "string" || !CONSUMER.test(consumer)) {
    throw new TypeError(`consumer ${JSON.stringify(consumer)}: 1 to 200 letters, digits, dots, underscores and hyphens are allowed, as in the name of a group`);
  }
  if (!Number.isSafeInteger(generation) || generation < 0) throw new TypeError(`generation ${String(generation)}: an integer from 0 is allowed`);
  return generation === 0 ? consumer : `${consumer}#${generation}`;
}

export function markOf(consumer: string, { topic, id, seq, headers }: EventRecord): Mark {
  return { consumer, topic, id: headers?.[REPLAY_OF] ?? id, seq };
}

/** {@link PurgeOptions} as a store needs them: marks below `below` that were made before `before` (in milliseconds since 1970). */
export function purgeRange(options: PurgeOptions): { consumer: string; topic: string; below: number; before: number; keepMs: number } {
  const { topic, below, keepMs = KEEP_MS } = options;
  if (!Number.isSafeInteger(below) || below < 0) throw new TypeError(`below ${String(below)}: an integer from 0 is allowed, the seq of the group's cursor`);
  if (!(keepMs >= 0 && keepMs < Infinity)) throw new TypeError(`keepMs ${String(keepMs)}: a number from 0 is allowed`);
  return { consumer: consumerText(options.consumer, options.generation), topic, below, before: Date.now() - keepMs, keepMs };
}
