//! How much is too much, in one place. Sizes are bytes of UTF-8, times are milliseconds.
//!
//! Records that the hub itself writes are not bound by the limits on sizes, and the names of derived topics (`dlq.…`,
//! `….snapshot`) are longer than their source's by what the hub adds.

/// Longest topic name that a client may publish to. A derived topic's name is longer by its prefix and its suffix.
pub const TOPIC_BYTES: usize = 200;
/// Longest group name.
pub const GROUP_BYTES: usize = 200;
/// Longest entity key.
pub const KEY_BYTES: usize = 512;
/// Most headers on one event.
pub const HEADERS: usize = 64;
/// Names and values of one event's headers together.
pub const HEADERS_BYTES: usize = 8 * 1024;
/// Largest payload, unless the configuration says otherwise.
pub const PAYLOAD_BYTES: usize = 1024 * 1024;
/// Deepest nesting of arrays and objects in a payload.
pub const NESTING: usize = 128;
/// Most causes of one event.
pub const CAUSED_BY: usize = 64;
/// Most tags on one event.
pub const TAGS: usize = 64;
/// Longest tag.
pub const TAG_BYTES: usize = 512;
/// Longest session id of a publisher.
pub const SID_BYTES: usize = 512;
/// Most events in one batch.
pub const BATCH_EVENTS: usize = 1000;
/// A nack's reason is cut here.
pub const REASON_BYTES: usize = 4096;
/// Longest delay of a nack and longest lease: 12 hours.
pub const MAX_DELAY_MS: u64 = 12 * 60 * 60 * 1000;
/// Most topics in one hub.
pub const TOPICS: usize = 100_000;
/// Most groups in one hub, over all topics.
pub const GROUPS: usize = 100_000;
/// Events a scan answers when no limit is given.
pub const SCAN_DEFAULT: usize = 1000;
/// Most events one scan answers.
pub const SCAN_MAX: usize = 10_000;
/// Longest pattern: room for any topic name, those the hub makes included.
pub const PATTERN_BYTES: usize = 400;

/// The latest time of an event, in milliseconds since 1970: the end of the year 9999. Every language's dates reach it.
pub const TS: u64 = 253_402_300_799_999;

/// The deepest payload of a record: what a publisher may send, inside what the hub wraps around it.
pub const STORED_NESTING: usize = NESTING + 16;
