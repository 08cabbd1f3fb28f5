//! A hub from its start to its end: what `event-hub serve` runs.
//!
//! | to know about | look at |
//! | --- | --- |
//! | ports, store, bus, tokens: everything that can go wrong at the start | `start` |
//! | what SIGHUP changes | [`reload`] |
//! | signals, and the way out | `run` |

mod reload;
mod run;
mod start;

pub use run::{Signals, run};
pub use start::{Running, start};
