//! Time for the buckets: it only goes forward, and in tests by hand.

use std::time::Instant;

#[derive(Debug)]
pub(super) enum Clock {
    Since(Instant),
    #[cfg(test)]
    Manual(std::sync::Arc<std::sync::atomic::AtomicU64>),
}

impl Clock {
    /// Nanoseconds since it was made.
    pub fn now(&self) -> u64 {
        match self {
            // 584 years fit.
            Self::Since(start) => start.elapsed().as_nanos() as u64,
            #[cfg(test)]
            Self::Manual(now) => now.load(std::sync::atomic::Ordering::Relaxed),
        }
    }
}
