// How much is too much: the limits of the protocol. Sizes are bytes of UTF-8, times milliseconds.

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
/** A payload, unless the hub is told otherwise. */
export const PAYLOAD_BYTES = 1024 * 1024;
/** Events in one `EVENTS`. */
export const BATCH_EVENTS = 1000;
/** Topics in one list. */
export const LISTED_TOPICS = 1000;
export const MAX_IN_FLIGHT = 100_000;
/** Ids in one frame. */
export const IDS = 10_000;
