//! The rates of the hub and the buckets that connections share.

use super::bytes::{ByteBuckets, ByteRates, Direction};
use super::clock::Clock;
use super::gcra::FullAt;
use super::meter::From;
use super::{Limits, SubjectQuota, TopicQuota};
use hashbrown::{Equivalent, HashMap};
use hub_proto::{Pattern, TopicName};
use parking_lot::{Mutex, MutexGuard};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The rates of subjects and topics, over all connections.
#[derive(Debug)]
pub struct Buckets {
    /// Counts changes of `rates`, so that a meter sees with one load whether its copy still holds.
    version: AtomicU64,
    rates: Mutex<Arc<Rates>>,
    shared: Mutex<Shared>,
    pub(super) bytes: ByteBuckets,
    pub(super) clock: Clock,
}

/// The rates of [`Limits`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rates {
    connection: Option<u32>,
    subject: Option<u32>,
    forwarded_connection: Option<u32>,
    forwarded_subject: Option<u32>,
    topics: Vec<(Pattern, u32)>,
    subject_quotas: Vec<SubjectQuota>,
    topic_quotas: Vec<TopicQuota>,
}

/// The buckets that are not one connection's. One lock: whoever takes from several takes from all of them or from none,
/// and others never see half of it.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// By subject; `None` are all that have none.
    pub subjects: Table<Option<Arc<str>>>,
    pub topics: Table<TopicName>,
}

impl Buckets {
    /// Rates as in `limits`.
    pub fn new(limits: &Limits) -> Self {
        Self::with_clock(limits, Clock::Since(Instant::now()))
    }

    pub(super) fn with_clock(limits: &Limits, clock: Clock) -> Self {
        Self {
            version: AtomicU64::new(0),
            rates: Mutex::new(Arc::new(Rates::of(limits))),
            shared: Mutex::default(),
            bytes: ByteBuckets::default(),
            clock,
        }
    }

    /// Changes the rates. Connections see it with their next request; what they have taken stays taken.
    pub fn apply(&self, limits: &Limits) {
        let rates = Rates::of(limits);
        let mut current = self.rates.lock();
        if **current != rates {
            *current = Arc::new(rates);
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The rates with a version that they are at least as new as.
    pub(super) fn rates(&self) -> (u64, Arc<Rates>) {
        let rates = self.rates.lock();
        (self.version(), rates.clone())
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock()
    }
}

impl Rates {
    fn of(limits: &Limits) -> Self {
        Self {
            connection: limits.connection_rate,
            subject: limits.subject_rate,
            forwarded_connection: limits.forwarded_connection_rate,
            forwarded_subject: limits.forwarded_subject_rate,
            topics: limits.topic_rates.clone(),
            subject_quotas: limits.subject_quotas.clone(),
            topic_quotas: limits.topic_quotas.clone(),
        }
    }

    /// Of a connection.
    pub fn connection(&self, from: From) -> Option<u32> {
        match from {
            From::Peer => self.connection,
            From::Proxy => self.forwarded_connection,
        }
    }

    /// Of a subject.
    pub fn subject(&self, from: From) -> Option<u32> {
        match from {
            From::Peer => self.subject,
            From::Proxy => self.forwarded_subject,
        }
    }

    /// Whether anything is limited at all.
    pub fn any(&self, from: From) -> bool {
        self.connection(from).is_some() || self.subject(from).is_some() || self.of_topics()
    }

    /// Whether some topic is limited.
    pub fn of_topics(&self) -> bool {
        !self.topics.is_empty()
    }

    /// The byte rates of a subject.
    pub fn bytes(&self, subject: Option<&str>) -> ByteRates {
        ByteRates::of(&self.subject_quotas, subject)
    }

    /// The patterns whose topics have a byte rate in this direction, with that rate.
    pub fn pattern_bytes(&self, direction: Direction) -> impl Iterator<Item = (&Pattern, u32)> {
        self.topic_quotas.iter().filter_map(move |quota| {
            let rate = ByteRates::of_pattern(quota).of_direction(direction)?;
            Some((&quota.pattern, rate))
        })
    }

    /// The rate of one topic.
    pub fn topic(&self, topic: &TopicName) -> Option<u32> {
        self.topics.iter().find(|(pattern, _)| pattern.matches(topic)).map(|(_, rate)| *rate)
    }
}

/// Buckets by name. One that is full is the same as none, so they are swept out when the table has doubled: it stays
/// within twice of what was used in the last second.
///
/// Not counted by who holds them: a subject that comes back, or sends each request alone, would begin with a full bucket.
#[derive(Debug)]
pub(super) struct Table<K> {
    full_at: HashMap<K, FullAt, foldhash::fast::RandomState>,
    sweep_at: usize,
}

/// Not worth a sweep below this.
const FEW: usize = 1024;

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self { full_at: HashMap::default(), sweep_at: FEW }
    }
}

impl<K: Eq + Hash + Clone> Table<K> {
    /// When the bucket is full; the past if nobody took from it.
    pub fn get<Q: Hash + Equivalent<K>>(&self, key: &Q) -> FullAt {
        self.full_at.get(key).copied().unwrap_or(0)
    }

    pub fn set(&mut self, key: &K, full_at: FullAt, now: u64) {
        if let Some(entry) = self.full_at.get_mut(key) {
            *entry = full_at;
            return;
        }
        if self.full_at.len() >= self.sweep_at {
            self.full_at.retain(|_, full_at| *full_at > now);
            self.sweep_at = (self.full_at.len() * 2).max(FEW);
            self.full_at.shrink_to(self.sweep_at);
        }
        self.full_at.insert(key.clone(), full_at);
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.full_at.len()
    }
}
