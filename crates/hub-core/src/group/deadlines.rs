//! When leases run out.
//!
//! Members choose few different ack timeouts, and with one timeout deadlines come in the order of the leases, so each
//! timeout has a queue and leasing is a push. A deadline only ever moves later (taken in hand, extended), which is seen
//! when the queue's front falls due: it is then filed under its new time. Settled leases leave lazily.

use crate::Millis;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// By timeout: (look at it then, seq), ascending.
    lanes: BTreeMap<Millis, VecDeque<(Millis, u64)>>,
    /// Leases whose deadline was moved.
    moved: BTreeSet<(Millis, u64)>,
    len: usize,
}

impl Deadlines {
    pub fn push(&mut self, timeout: Millis, deadline: Millis, seq: u64) {
        let lane = self.lanes.entry(timeout).or_default();
        if lane.back().is_some_and(|&(last, _)| last > deadline) {
            // The clock stood still or the lease is odd: order matters more than the lane.
            self.moved.insert((deadline, seq));
        } else {
            lane.push_back((deadline, seq));
        }
        self.len += 1;
    }

    /// The next moment worth waking up for: a lower bound of the first deadline.
    pub fn next(&self) -> Option<Millis> {
        let lanes = self.lanes.values().filter_map(|lane| lane.front().map(|&(at, _)| at)).min();
        lanes.into_iter().chain(self.moved.first().map(|&(at, _)| at)).min()
    }

    /// Takes out one candidate that falls due by `now`.
    pub fn pop_due(&mut self, now: Millis) -> Option<u64> {
        if let Some(&(at, seq)) = self.moved.first()
            && at <= now
        {
            self.moved.pop_first();
            self.len -= 1;
            return Some(seq);
        }
        let lane = self.lanes.values_mut().find(|lane| lane.front().is_some_and(|&(at, _)| at <= now))?;
        self.len -= 1;
        lane.pop_front().map(|(_, seq)| seq)
    }

    /// Files a candidate that was popped too early under its real deadline.
    pub fn refile(&mut self, deadline: Millis, seq: u64) {
        if self.moved.insert((deadline, seq)) {
            self.len += 1;
        }
    }

    /// Drops candidates that are no longer leased, when they have become many.
    pub fn sweep(&mut self, leased: usize, is_leased: impl Fn(u64) -> bool) {
        if self.len <= 2 * leased + 256 {
            return;
        }
        for lane in self.lanes.values_mut() {
            lane.retain(|&(_, seq)| is_leased(seq));
        }
        self.lanes.retain(|_, lane| !lane.is_empty());
        self.moved.retain(|&(_, seq)| is_leased(seq));
        self.len = self.lanes.values().map(VecDeque::len).sum::<usize>() + self.moved.len();
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
