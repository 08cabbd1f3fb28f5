//! Time that a test holds in its hands.

use crate::Millis;
use crate::clock::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;
use tokio::time::Instant;

/// A clock over tokio's paused one. Needs a current-thread runtime built with `start_paused(true)`.
///
/// Timers of the engine are tokio's, so that one has to be held still; this only reads it. While every task waits, a
/// test that sleeps moves time to the next timer: nothing depends on the speed of the machine.
#[derive(Clone, Debug)]
pub struct ManualClock {
    started: Instant,
    base: Millis,
    offset: Arc<AtomicI64>,
}

impl ManualClock {
    /// The wall clock of a new [`ManualClock`]: some day in 2026.
    pub const START: Millis = 1_780_000_000_000;

    /// Starts at [`START`](Self::START).
    pub fn new() -> Self {
        Self::starting_at(Self::START)
    }

    /// Starts with the wall clock at `wall`.
    pub fn starting_at(wall: Millis) -> Self {
        Self { started: Instant::now(), base: wall, offset: Arc::default() }
    }

    /// Lets `millis` pass: every task runs as far as it can, timers fire in order.
    pub async fn advance(&self, millis: Millis) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    /// Sets the wall clock forward, or back. Timers do not notice.
    pub fn jump(&self, millis: i64) {
        self.offset.fetch_add(millis, SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> Millis {
        (self.base + self.steady()).saturating_add_signed(self.offset.load(SeqCst))
    }

    fn steady(&self) -> Millis {
        self.started.elapsed().as_millis() as Millis
    }
}
