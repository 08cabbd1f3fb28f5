//! The vocabulary of event-hub: the event record and its bytes, ids, topic and group names, patterns, limits
//! and error codes; and the traits of a bus. No I/O and no runtime.
//!
//! | to know about | look at |
//! | --- | --- |
//! | what a publisher hands in | [`NewEvent`], [`PublishOptions`], [`Payload`] |
//! | how it becomes a record | [`Draft`], then [`Event`] |
//! | which record it is | [`EventId`], [`IdGenerator`] |
//! | where it goes | [`TopicName`], [`GroupName`], [`Pattern`] |
//! | which trace it belongs to | [`TraceContext`] |
//! | what can go wrong | [`Error`], [`Code`] |
//! | how much is too much | [`limits`] |
//! | how programs publish and consume, in one process or over a socket | [`bus`] |
//!
//! An event's JSON is built once, by [`Draft::encode`]; from there on only its bytes travel.
//!
//! ```
//! use hub_proto::{Draft, IdGenerator, NewEvent, limits};
//!
//! let event = NewEvent::from_wire(br#"{"topic":"orders.placed","payload":{"total":12},"opts":{"key":"o-1"}}"#)?;
//! event.check(limits::PAYLOAD_BYTES)?;
//!
//! let now = 1_700_000_000_000;
//! let draft = Draft::encode(event, IdGenerator::new().next(now), now);
//! let record = draft.commit(1, now);
//!
//! assert_eq!(record.seq(), 1);
//! assert_eq!(record.payload(), br#"{"total":12}"#);
//! assert!(record.json().ends_with(br#""payload":{"total":12},"seq":1}"#));
//! # Ok::<(), hub_proto::Error>(())
//! ```

#[cfg(test)]
mod arbitrary;
pub mod bus;
mod draft;
mod error;
mod event;
mod filter;
pub mod header;
mod id;
pub mod json;
pub mod limits;
mod name;
mod new_event;
mod options;
mod pattern;
mod payload;
mod receipt;
mod subscribe;
pub mod trace;

pub use draft::Draft;
pub use error::{Code, Error, Result, shown};
pub use event::Event;
pub use filter::Filter;
pub use id::{EventId, IdGenerator};
pub use name::{Derivation, Derived, GroupName, Key, TopicName};
pub use new_event::NewEvent;
pub use options::PublishOptions;
pub use pattern::Pattern;
pub use payload::Payload;
pub use receipt::{Durability, Receipt};
pub use subscribe::{Ordering, Position, SubscribeOptions, SubscribeRequest, WhenFull};
pub use trace::{PublishTrace, TraceContext};
