//! A hub from its start to its end: what `event-hub serve` runs.
//!
//! | to know about | look at |
//! | --- | --- |
//! | ports, bus, tokens: everything that can go wrong at the start | `start` |
//! | the store: the data directory, or MongoDB, which may have to be waited for | `embedded`, `mongo` |
//! | draining the outboxes of services | `outbox` |
//! | the audit log | `audit` |
//! | spans of traced events, to a collector | `spans`, `otlp` |
//! | what SIGHUP changes | [`reload`] |
//! | signals, and the way out | `run` |

mod audit;
mod embedded;
mod mongo;
#[cfg(feature = "otlp")]
mod otlp;
mod outbox;
mod reload;
mod run;
mod spans;
mod start;

pub use run::{Signals, run};
pub use start::{Running, start};
