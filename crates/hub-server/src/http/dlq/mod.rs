//! `/dlq`: dead letters, listed, shown, counted, replayed and discarded.
//!
//! | to know about | look at |
//! | --- | --- |
//! | which letters somebody means, and on which topics | `which` |
//! | `GET /dlq`, `GET /dlq/show` | `list` |
//! | `GET /dlq/summary` | `summary` |
//! | `POST /dlq/replay` | `replay`, `job` |
//! | `POST /dlq/delete`, `DELETE /dlq` | `discard` |
//! | how a letter is written | `write` |
//!
//! A letter shows an event and an error: it is for those who may read the dead-letter topic, which needs the right on the source, too.
//! Replaying and discarding need the admin right on the source.

mod discard;
mod job;
mod list;
mod replay;
mod summary;
mod which;
mod write;

pub(super) use discard::{delete, discard};
pub(super) use list::{list, show};
pub(crate) use replay::Outcome;
pub(super) use replay::replay;
pub(super) use summary::summary;
pub(super) use which::{Place, sees};
