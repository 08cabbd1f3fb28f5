//! The outbox: events that a service wrote into its own database, in the transaction of its change, are published from
//! there: each once, those of one key in their order, whatever dies in between.
//!
//! A [`Drainer`] claims rows of an [`OutboxStore`], gives them to a [`Publisher`], and settles them by what came of it. An
//! event's id is its row's, so a drainer that dies between publishing and marking leaves no second event. The rest is
//! order and fences:
//!
//! - Keys are shared by **slots** ([`slot_of`]): a slot has one drainer at a time ([`Shares`]), which claims its rows from
//!   the oldest on. A row that commits late is found by the next claim: there is no position to be behind.
//! - In a drainer a key is a queue ([`book`](self)): its next rows go out when those before are in the log, together if the
//!   [`Publisher`] can do that in order. Rows of different keys, and rows without one, go out side by side.
//! - A row that failed **waits** a while, one that failed for good is **parked**. Later rows of its key are put **behind**
//!   it, out of the way of claims, until it was sent; see [`OnError`].
//! - A claim has a number and a lease, and settling asks for both. A drainer that finds itself late, or fenced, lets go of
//!   everything and begins anew under another name.

mod book;
mod drainer;
mod memory;
mod options;
mod row;
mod shares;
mod store;

pub use drainer::{Drained, Drainer, Progress};
pub use hub_proto::bus::Publisher;
pub use memory::MemoryOutbox;
pub use options::{DrainerOptions, OnError};
pub use row::{Micros, NewRow, Place, Ready, Row, RowId, RowStatus, Shown, Stage};
pub use shares::{SLOTS, Shares, slot_of};
pub use store::{Claim, Counts, Holding, OutboxStore, Outcome, Settled, Woken};
