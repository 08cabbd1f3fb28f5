//! Bytes per second, in and out: of a subject, and of the topics of a pattern.
//!
//! Bytes are charged after they came in or went out, so no frame is too large to pass. Once a second's worth is used up, what is sent
//! is `rate_limited` and what is read is held back.

use super::buckets::Table;
use super::gcra::{self, Refused};
use super::{SubjectQuota, TopicQuota};
use hub_proto::Pattern;
use parking_lot::Mutex;
use std::hash::Hash;
use std::sync::Arc;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    In,
    Out,
}

/// The byte rates of one subject or pattern; `None`: no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ByteRates {
    pub bytes_in: Option<u32>,
    pub bytes_out: Option<u32>,
}

impl ByteRates {
    /// Those of a subject; the empty one is that of tokens without.
    pub fn of(quotas: &[SubjectQuota], subject: Option<&str>) -> Self {
        let quota = SubjectQuota::find(quotas, subject.unwrap_or_default());
        quota
            .map_or_else(Self::default, |quota| Self { bytes_in: quota.bytes_in, bytes_out: quota.bytes_out })
    }

    /// Those of a pattern.
    pub fn of_pattern(quota: &TopicQuota) -> Self {
        Self { bytes_in: quota.bytes_in, bytes_out: quota.bytes_out }
    }

    pub fn of_direction(self, direction: Direction) -> Option<u32> {
        match direction {
            Direction::In => self.bytes_in,
            Direction::Out => self.bytes_out,
        }
    }
}

/// The buckets of all subjects, and of all patterns with a quota.
#[derive(Debug, Default)]
pub(super) struct ByteBuckets {
    subjects_in: ByteTable<Option<Arc<str>>>,
    subjects_out: ByteTable<Option<Arc<str>>>,
    patterns_in: ByteTable<Pattern>,
    patterns_out: ByteTable<Pattern>,
}

impl ByteBuckets {
    /// By subject; `None` is that of tokens without one.
    pub fn subjects(&self, direction: Direction) -> &ByteTable<Option<Arc<str>>> {
        match direction {
            Direction::In => &self.subjects_in,
            Direction::Out => &self.subjects_out,
        }
    }

    /// By the pattern of a quota.
    pub fn patterns(&self, direction: Direction) -> &ByteTable<Pattern> {
        match direction {
            Direction::In => &self.patterns_in,
            Direction::Out => &self.patterns_out,
        }
    }
}

/// Buckets of one kind in one direction.
#[derive(Debug)]
pub(super) struct ByteTable<K>(Mutex<Table<K>>);

impl<K> Default for ByteTable<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash + Clone> ByteTable<K> {
    /// How long it takes until there is room for another byte, in nanoseconds; 0: there is.
    pub fn wait(&self, key: &K, rate: u32, now: u64) -> u64 {
        match gcra::after(self.0.lock().get(key), now, rate, 1) {
            Ok(_) => 0,
            Err(Refused::Wait(nanos) | Refused::Never(nanos)) => nanos.max(1),
        }
    }

    /// Charges bytes that passed.
    pub fn owe(&self, key: &K, rate: u32, now: u64, bytes: u64) {
        let mut table = self.0.lock();
        let full_at = gcra::owing(table.get(key), now, rate, bytes);
        table.set(key, full_at, now);
    }
}
