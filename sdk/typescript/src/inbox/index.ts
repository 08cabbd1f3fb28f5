/**
 * Effects that happen exactly once: handlers that know which events they have handled. See docs/exactly-once.md.
 *
 * @module
 */

export { groupCursor, type GroupCursorOptions } from "./cursor.ts";
export { exactlyOnce, exactlyOnceTx, type InboxOptions, type SynchronousHandler, type TransactionalHandler } from "./exactly-once.ts";
export { memoryInbox, type MemoryInboxOptions } from "./memory.ts";
export type { InboxStore, Mark, PurgeOptions, StoreFault, SynchronousInbox, TransactionalInbox } from "./store.ts";
