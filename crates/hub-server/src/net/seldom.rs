//! What may happen ten thousand times a second is logged once a second.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Default)]
pub(super) struct Seldom {
    last: Option<Instant>,
    skipped: u64,
}

impl Seldom {
    /// Whether to log now: how many were passed over since the last time.
    pub fn due(&mut self) -> Option<u64> {
        self.due_at(Instant::now())
    }

    fn due_at(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.duration_since(last) < Duration::from_secs(1)) {
            self.skipped += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.skipped))
    }
}

/// One for many tasks. Clones count together.
#[derive(Clone, Default)]
pub(super) struct SharedSeldom(Arc<Mutex<Seldom>>);

impl SharedSeldom {
    /// As [`Seldom::due`].
    pub fn due(&self) -> Option<u64> {
        self.0.lock().due()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_a_second_and_with_the_number_of_those_between() {
        let (mut seldom, start) = (Seldom::default(), Instant::now());
        assert_eq!(seldom.due_at(start), Some(0));
        for ms in [0, 1, 999] {
            assert_eq!(seldom.due_at(start + Duration::from_millis(ms)), None);
        }
        assert_eq!(seldom.due_at(start + Duration::from_secs(1)), Some(3));
        assert_eq!(seldom.due_at(start + Duration::from_secs(5)), Some(0));
    }
}
