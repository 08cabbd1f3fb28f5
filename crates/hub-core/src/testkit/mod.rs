//! What tests of the bus and of its stores are made of.
//!
//! - [`ManualClock`]: time that stands still until a test moves it.
//! - [`FaultyStore`]: any store, failing on demand.
//! - [`FaultyOutbox`]: any outbox, failing on demand.
//! - [`outbox`]: what every outbox has to keep, written once.
//! - [`conformance`]: what every store has to keep, written once.
//! - [`sim`]: the engine against a model, seeded, with crashes and a failing store.

mod clock;
pub mod conformance;
mod faulty;
mod faulty_outbox;
mod faulty_shared;
pub mod outbox;
pub mod sim;

pub use clock::ManualClock;
pub use faulty::{Fault, FaultyStore};
pub use faulty_outbox::{FaultyOutbox, OutboxFault};
