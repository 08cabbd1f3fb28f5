//! The clock by which knowledge grows old.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A clock that never goes back, and that goes on while the machine sleeps: a hub that wakes up after an hour must not
/// believe that what it knew is still true.
#[derive(Clone)]
pub struct SteadyClock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl SteadyClock {
    /// A clock that reads whatever `now` answers: for tests.
    pub fn of(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(crate) fn now(&self) -> Duration {
        (self.0)()
    }

    /// How long ago `then` was.
    pub(crate) fn since(&self, then: Duration) -> Duration {
        self.now().saturating_sub(then)
    }
}

impl Default for SteadyClock {
    fn default() -> Self {
        Self::of(boot_time)
    }
}

impl fmt::Debug for SteadyClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SteadyClock").field(&self.now()).finish()
    }
}

fn boot_time() -> Duration {
    #[cfg(target_os = "linux")]
    let id = rustix::time::ClockId::Boottime;
    // Elsewhere the monotonic clock is the best there is; on macOS it goes on during sleep.
    #[cfg(not(target_os = "linux"))]
    let id = rustix::time::ClockId::Monotonic;
    let now = rustix::time::clock_gettime(id);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_does_not_go_back() {
        let clock = SteadyClock::default();
        let before = clock.now();
        assert!(before > Duration::ZERO);
        assert!(clock.now() >= before);
        assert_eq!(clock.since(before + Duration::from_secs(100)), Duration::ZERO);
    }
}
