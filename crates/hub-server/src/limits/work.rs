//! What a request costs beside being one: the work that it makes for the hub, in events.
//!
//! Rates are written in events per second, so everything else is weighed against an event. A request that turns out to be more
//! work than one event is carried out and paid for afterwards: its buckets are emptied further, and what follows waits longer.
//! So no request is too large to be ever carried out, and nobody gets more done by asking for more at once.

/// Bytes that weigh as much as an event.
const EVENT_BYTES: usize = 4 << 10;
/// Topics that are looked at for about as much as an event costs.
const LOOKED_AT: usize = 16;
/// Groups that are joined, left or changed for about as much.
const TOUCHED: usize = 4;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes that were sent or read.
    pub bytes: usize,
    /// Topics that were looked at.
    pub topics: usize,
    /// Groups that were made, joined, left or changed.
    pub groups: usize,
}

impl Work {
    /// The work of so many bytes.
    pub fn bytes(bytes: usize) -> Self {
        Self { bytes, ..Self::default() }
    }

    /// The work of a walk over so many topics.
    pub fn topics(topics: usize) -> Self {
        Self { topics, ..Self::default() }
    }

    /// The work of so many groups.
    pub fn groups(groups: usize) -> Self {
        Self { groups, ..Self::default() }
    }

    /// The work of so many events that a request publishes without sending them.
    pub fn publishes(events: usize) -> Self {
        Self::groups(events * TOUCHED)
    }

    /// What it weighs.
    pub fn events(self) -> u64 {
        (self.bytes / EVENT_BYTES + self.topics / LOOKED_AT + self.groups / TOUCHED) as u64
    }
}
