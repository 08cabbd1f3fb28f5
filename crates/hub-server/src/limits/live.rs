//! What subjects have open: connections, and the topics that their subscriptions cover.

use super::{Limits, SubjectQuota};
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_proto::{Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// What all subjects have open on this hub. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Live {
    subjects: Arc<Mutex<HashMap<Arc<str>, Open, RandomState>>>,
}

/// What one subject has open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Open {
    /// WebSocket connections.
    pub connections: usize,
    /// Topics that subscriptions cover, each subscription at least one.
    pub subscriptions: usize,
}

/// A connection of a subject, with its subscriptions; closed when it is dropped.
#[derive(Debug)]
pub(crate) struct LiveConnection {
    live: Live,
    subject: Arc<str>,
    subscriptions: usize,
}

impl Live {
    /// Counts a connection.
    ///
    /// # Errors
    /// `quota_exceeded`.
    pub fn connect(&self, subject: &str, limits: &Limits) -> Result<LiveConnection> {
        let max = limits.quota_of(subject).and_then(|quota| quota.connections);
        let mut subjects = self.subjects.lock();
        let connections = subjects.get(subject).map_or(0, |open| open.connections);
        if let Some(max) = max.filter(|max| connections >= *max) {
            return Err(Error::quota_exceeded(format!(
                "this subject has {max} connections, which is its quota; close one first"
            )));
        }
        let subject: Arc<str> = subject.into();
        subjects.entry(subject.clone()).or_default().connections += 1;
        Ok(LiveConnection { live: self.clone(), subject, subscriptions: 0 })
    }

    /// The subjects that have the largest share open of what their quota bounds, the largest share first.
    pub fn fullest(&self, limits: &Limits, most: usize) -> Vec<(Arc<str>, Open)> {
        let subjects = self.subjects.lock();
        let mut found: Vec<_> = subjects
            .iter()
            .filter_map(|(name, open)| Some((open.share_of(limits.quota_of(name)?)?, name, open)))
            .collect();
        let order = |a: &(f64, &Arc<str>, _), b: &(f64, &Arc<str>, _)| b.0.total_cmp(&a.0).then(a.1.cmp(b.1));
        if found.len() > most {
            found.select_nth_unstable_by(most, order);
            found.truncate(most);
        }
        found.sort_unstable_by(order);
        found.into_iter().map(|(_, name, open)| (name.clone(), *open)).collect()
    }

    /// What a subject has open.
    pub fn of(&self, subject: &str) -> Open {
        self.subjects.lock().get(subject).copied().unwrap_or_default()
    }
}

impl Open {
    /// The largest share of anything that `quota` bounds; `None` if it bounds nothing. A quota of either is at least 1.
    fn share_of(&self, quota: &SubjectQuota) -> Option<f64> {
        let share = |used: usize, max: usize| used as f64 / max.max(1) as f64;
        let connections = quota.connections.map(|max| share(self.connections, max));
        let subscriptions = quota.subscriptions.map(|max| share(self.subscriptions, max));
        connections.into_iter().chain(subscriptions).reduce(f64::max)
    }
}

impl LiveConnection {
    /// Counts a subscription that covers so many topics.
    ///
    /// # Errors
    /// `quota_exceeded`; then nothing is counted.
    pub fn subscribe(&mut self, topics: usize, limits: &Limits) -> Result<()> {
        let topics = topics.max(1);
        let max = limits.quota_of(&self.subject).and_then(|quota| quota.subscriptions);
        let mut subjects = self.live.subjects.lock();
        let Some(open) = subjects.get_mut(&self.subject) else { return Ok(()) };
        if let Some(max) = max.filter(|max| open.subscriptions + topics > *max) {
            return Err(Error::quota_exceeded(format!(
                "this subject's subscriptions cover {} topics, and this one would cover {topics} more: its quota is {max}; \
                 unsubscribe from some first",
                open.subscriptions
            )));
        }
        open.subscriptions += topics;
        self.subscriptions += topics;
        Ok(())
    }

    /// It is over.
    pub fn unsubscribe(&mut self, topics: usize) {
        let topics = topics.max(1).min(self.subscriptions);
        self.subscriptions -= topics;
        if let Some(open) = self.live.subjects.lock().get_mut(&self.subject) {
            open.subscriptions -= topics;
        }
    }
}

impl Drop for LiveConnection {
    fn drop(&mut self) {
        let mut subjects = self.live.subjects.lock();
        if let Some(open) = subjects.get_mut(&self.subject) {
            open.connections -= 1;
            open.subscriptions -= self.subscriptions;
            if *open == Open::default() {
                subjects.remove(&self.subject);
            }
        }
    }
}

impl Limits {
    /// The quota of what a subject may have open: the first that names it.
    pub(crate) fn quota_of(&self, subject: &str) -> Option<&SubjectQuota> {
        SubjectQuota::find(&self.subject_quotas, subject)
    }
}

impl SubjectQuota {
    /// The first quota that names a subject.
    pub(super) fn find<'a>(quotas: &'a [Self], subject: &str) -> Option<&'a Self> {
        quotas.iter().find(|quota| quota.subject.as_deref().is_none_or(|name| name == subject))
    }
}
