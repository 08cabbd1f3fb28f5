//! How many events a hub takes in one frame.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A hub may have limits of its own: a batch that is over one of them is refused whole, however often it comes. So batches
/// become smaller when one is refused, and larger again when full ones are taken.
pub struct BatchSize(AtomicUsize);

impl BatchSize {
    pub const MAX: usize = hub_proto::limits::BATCH_EVENTS;

    /// The most events of the next batch, at least one.
    pub fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// A batch was refused whole. One of two events is followed by single ones.
    pub fn refused(&self, events: usize) {
        self.0.fetch_min((events / 2).max(1), Relaxed);
    }

    /// A batch was taken, or a single event in the place of one.
    pub fn taken(&self, events: usize) {
        let grown = |size: usize| (events >= size).then(|| (size + size.div_ceil(8)).min(Self::MAX));
        // `Err` if it was smaller than what may go: that says nothing.
        let _ = self.0.fetch_update(Relaxed, Relaxed, grown);
    }
}

impl Default for BatchSize {
    fn default() -> Self {
        Self(AtomicUsize::new(Self::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_shrink_when_they_are_refused_and_grow_when_they_are_taken() {
        let size = BatchSize::default();
        size.refused(256);
        assert_eq!(size.get(), 128);
        size.taken(127);
        assert_eq!(size.get(), 128, "a small batch says nothing of larger ones");
        size.taken(128);
        assert_eq!(size.get(), 144);
        for _ in 0..20 {
            size.refused(size.get());
        }
        assert_eq!(size.get(), 1, "at least one event goes");
        for _ in 0..100 {
            size.taken(size.get());
        }
        assert_eq!(size.get(), BatchSize::MAX);
    }
}
