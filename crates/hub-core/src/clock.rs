//! Time comes in from outside, so that tests can hold it still.

use crate::Millis;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The two clocks of the bus. Timers are tokio's; under a paused tokio clock a `Clock` has to follow that one.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch. May jump. Used for timestamps, commit times and retention.
    fn wall(&self) -> Millis;

    /// Milliseconds since some fixed moment. Never goes back. Used for leases, backoff and saves.
    fn steady(&self) -> Millis;
}

/// The operating system's clocks. On Linux the steady one counts the time in which the machine sleeps, too: a hub that wakes
/// up has to know that others may have taken it for dead.
#[derive(Debug)]
pub struct SystemClock(Duration);

impl SystemClock {
    /// Starts the steady clock.
    pub fn new() -> Self {
        Self(uptime())
    }
}

#[cfg(target_os = "linux")]
fn uptime() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(not(target_os = "linux"))]
fn uptime() -> Duration {
    static STARTED: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    STARTED.elapsed()
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
        uptime().saturating_sub(self.0).as_millis() as Millis
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_clock_starts_at_nothing_and_goes_on() {
        let clock = SystemClock::new();
        assert!(clock.steady() < 60_000);
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock.steady() >= 2);
    }
}
