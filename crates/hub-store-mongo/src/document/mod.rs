//! What events look like in the database.
//!
//! ```text
//! { _id: ObjectId,          ours: tells our own insert from somebody else's with the same id
//!   topic, seq, committed,  the place in the log, and when it got it
//!   size, end,              bytes of its JSON, and of all JSON of the topic's log up to its end
//!   id: UUID, ts,
//!   key?,                   replay_key? instead for a record that is for one group alone: it is no state of its topic
//!   sid?, headers?, caused_by?: [UUID], tags?,
//!   payload?, payload_json? see `payload` }
//! ```
//! Numbers are 64-bit integers, times milliseconds since 1970. `headers` is a document in the order published, or, if a
//! name has a NUL or is there twice, an array of `[name, value]`.

pub mod bson;
pub mod payload;
mod read;
mod write;

pub use read::{event, place};
pub use write::{Entry, signed};

/// The largest document the server takes.
pub const DOCUMENT_BYTES: usize = 16 << 20;
