// How much is too much: the limits of the protocol, and those that a test may change. Sizes are bytes of UTF-8, times milliseconds.

export const TOPIC_BYTES = 200;
export const GROUP_BYTES = 200;
export const PATTERN_BYTES = 400;
export const KEY_BYTES = 512;
export const SID_BYTES = 512;
export const TAG_BYTES = 512;
export const HEADERS = 64;
export const HEADERS_BYTES = 8 * 1024;
export const CAUSED_BY = 64;
export const TAGS = 64;
export const NESTING = 128;
export const REASON_BYTES = 4096;
/** The longest delay, and the longest time to ack: 12 hours. */
export const MAX_DELAY_MS = 12 * 60 * 60 * 1000;
/** The end of the year 9999. */
export const MAX_TS = 253_402_300_799_999;
/** Events in one `EVENTS`. */
export const BATCH_EVENTS = 1000;
/** Topics in one list. */
export const LISTED_TOPICS = 1000;
export const MAX_IN_FLIGHT = 100_000;
/** Ids in one frame. */
export const IDS = 10_000;

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
  payloadBytes: 1024 * 1024,
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
