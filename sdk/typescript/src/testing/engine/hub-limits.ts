// The limits that a test may change.

import { BATCH_EVENTS, PAYLOAD_BYTES } from "../../rules/limits.ts";

/** The limits that `new MemoryHub({ limits })` can change; the defaults are those of a hub on loopback. */
export interface HubLimits {
  payloadBytes: number;
  frameBytes: number;
  /** Events in one PUBLISH. */
  batchEvents: number;
  /** Subscriptions of one connection. */
  subscriptions: number;
  /** Events per second of one connection; undefined: as many as it likes. */
  connectionRate: number | undefined;
  /** Events per second of one subject over all its connections. */
  subjectRate: number | undefined;
  /** Topics that a subject may make. */
  subjectTopics: number | undefined;
  /** Groups that a subject may make. */
  subjectGroups: number | undefined;
  authTimeoutMs: number;
  /** How long acks are taken after a token has run out, before the connection is closed. */
  expiryGraceMs: number;
  /** How long the leases of a member stay that can come back. */
  reconnectGraceMs: number;
  /** How much later than its `exp` a token runs out. */
  clockToleranceMs: number;
  /** Bytes of a topic's newest events that a reader without a group can always catch up with. */
  tailBytes: number;
  /** Events of a group that wait for a delay or behind their key. */
  maxParked: number;
}

export const DEFAULT_LIMITS: HubLimits = {
  payloadBytes: PAYLOAD_BYTES,
  frameBytes: 4 * 1024 * 1024,
  batchEvents: BATCH_EVENTS,
  subscriptions: 1000,
  connectionRate: undefined,
  subjectRate: undefined,
  subjectTopics: undefined,
  subjectGroups: undefined,
  authTimeoutMs: 10_000,
  expiryGraceMs: 30_000,
  reconnectGraceMs: 10_000,
  clockToleranceMs: 5_000,
  tailBytes: 32 * 1024 * 1024,
  maxParked: 100_000,
};
