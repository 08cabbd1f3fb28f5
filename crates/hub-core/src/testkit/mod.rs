//! What tests of the bus and of its stores are made of.
//!
//! - [`ManualClock`]: time that stands still until a test moves it.
//! - [`FaultyStore`]: any store, failing on demand.
//! - [`conformance`]: what every store has to keep, written once.
//! - [`sim`]: the engine against a model, seeded, with crashes and a failing store.

mod clock;
pub mod conformance;
mod faulty;
mod faulty_shared;
pub mod sim;

pub use clock::ManualClock;
pub use faulty::{Fault, FaultyStore};
