//! Bytes per second of a subject, in and out.
//!
//! What came in, or went out, is charged afterwards, so no frame is too large to pass. A subject that has used up its second waits:
//! what it sends is `rate_limited`, what it reads is held back.

use super::SubjectQuota;
use super::buckets::Table;
use super::gcra::{self, Refused};
use parking_lot::Mutex;
use std::sync::Arc;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    In,
    Out,
}

/// The byte rates of one subject; `None`: no bound.
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

    pub fn of_direction(self, direction: Direction) -> Option<u32> {
        match direction {
            Direction::In => self.bytes_in,
            Direction::Out => self.bytes_out,
        }
    }
}

/// The buckets of all subjects.
#[derive(Debug, Default)]
pub(super) struct ByteBuckets {
    bytes_in: Mutex<Table<Option<Arc<str>>>>,
    bytes_out: Mutex<Table<Option<Arc<str>>>>,
}

impl ByteBuckets {
    fn table(&self, direction: Direction) -> &Mutex<Table<Option<Arc<str>>>> {
        match direction {
            Direction::In => &self.bytes_in,
            Direction::Out => &self.bytes_out,
        }
    }

    /// How long a subject has to wait until there is room for another byte, in nanoseconds; 0: there is.
    pub fn wait(&self, direction: Direction, subject: &Option<Arc<str>>, rate: u32, now: u64) -> u64 {
        match gcra::after(self.table(direction).lock().get(subject), now, rate, 1) {
            Ok(_) => 0,
            Err(Refused::Wait(nanos) | Refused::Never(nanos)) => nanos.max(1),
        }
    }

    /// Charges bytes that passed.
    pub fn owe(&self, direction: Direction, subject: &Option<Arc<str>>, rate: u32, now: u64, bytes: u64) {
        let mut table = self.table(direction).lock();
        let full_at = gcra::owing(table.get(subject), now, rate, bytes);
        table.set(subject, full_at, now);
    }
}
