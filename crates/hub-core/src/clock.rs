//! Time comes in from outside, so that tests can hold it still.

use crate::Millis;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The two clocks of the bus. Timers are tokio's; under a paused tokio clock a `Clock` has to follow that one.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch. May jump. Used for timestamps, commit times and retention.
    fn wall(&self) -> Millis;

    /// Milliseconds since some fixed moment. Never goes back. Used for leases, backoff and saves.
    fn steady(&self) -> Millis;
}

/// The operating system's clocks.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl SystemClock {
    /// Starts the steady clock.
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> Millis {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as Millis)
    }

    fn steady(&self) -> Millis {
        self.0.elapsed().as_millis() as Millis
    }
}
