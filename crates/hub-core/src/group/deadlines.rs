//! When leases run out.
//!
//! Members choose few different ack timeouts, and with one timeout deadlines come in the order of the leases, so each
//! timeout has a queue and leasing is a push. A deadline only ever moves later (taken in hand, extended), which is seen
//! when the queue's front falls due: it is then filed under its new time. Leases that ended leave lazily.

use crate::Millis;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A lease: seq and attempt.
type Lease = (u64, u32);

#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// By timeout: (look at it then, lease), ascending.
    lanes: BTreeMap<Millis, VecDeque<(Millis, Lease)>>,
    /// Leases whose deadline was moved.
    moved: BTreeSet<(Millis, Lease)>,
    len: usize,
    /// What the last sweep left.
    kept: usize,
}

impl Deadlines {
    pub fn push(&mut self, timeout: Millis, deadline: Millis, lease: Lease) {
        let lane = self.lanes.entry(timeout).or_default();
        if lane.back().is_some_and(|&(last, _)| last > deadline) {
            // The clock stood still or the lease is odd: order matters more than the lane.
            self.moved.insert((deadline, lease));
        } else {
            lane.push_back((deadline, lease));
        }
        self.len += 1;
    }

    /// The next moment worth waking up for: a lower bound of the first deadline.
    pub fn next(&self) -> Option<Millis> {
        let lanes = self.lanes.values().filter_map(|lane| lane.front().map(|&(at, _)| at)).min();
        lanes.into_iter().chain(self.moved.first().map(|&(at, _)| at)).min()
    }

    /// Takes out one candidate that falls due by `now`.
    pub fn pop_due(&mut self, now: Millis) -> Option<Lease> {
        if let Some(&(at, lease)) = self.moved.first()
            && at <= now
        {
            self.moved.pop_first();
            self.len -= 1;
            return Some(lease);
        }
        let lane = self.lanes.values_mut().find(|lane| lane.front().is_some_and(|&(at, _)| at <= now))?;
        self.len -= 1;
        lane.pop_front().map(|(_, lease)| lease)
    }

    /// Files a candidate that was popped too early under its real deadline.
    pub fn refile(&mut self, deadline: Millis, lease: Lease) {
        if self.moved.insert((deadline, lease)) {
            self.len += 1;
        }
    }

    /// Drops leases that have ended, when there are twice as many candidates as the last sweep left.
    pub fn sweep(&mut self, is_in_force: impl Fn(Lease) -> bool) {
        if self.len <= 2 * self.kept + 1024 {
            return;
        }
        for lane in self.lanes.values_mut() {
            lane.retain(|&(_, lease)| is_in_force(lease));
        }
        self.lanes.retain(|_, lane| !lane.is_empty());
        self.moved.retain(|&(_, lease)| is_in_force(lease));
        self.len = self.lanes.values().map(VecDeque::len).sum::<usize>() + self.moved.len();
        self.kept = self.len;
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
