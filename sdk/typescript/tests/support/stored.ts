import assert from "node:assert/strict";
import type { Hub } from "./hub.ts";

/** Fails unless the log has each event of a keyed load once, and those of each key in order. */
export async function assertStoredOnceInOrder(hub: Hub, events: number): Promise<void> {
  const log = await hub.log("steps");
  assert.equal(log.length, events, "each event is stored once");
  const last = new Map<string, number>();
  for (const { key = "", payload } of log) {
    const { n } = payload as { n: number };
    assert.equal(n, (last.get(key) ?? 0) + 1, `the log has ${key} out of order`);
    last.set(key, n);
  }
}
