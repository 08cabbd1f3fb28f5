//! The answer to a publish.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::EventId;

/// Where an event is stored, and how safely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Receipt {
    /// The event's id.
    pub id: EventId,
    /// Its number in the topic.
    pub seq: u64,
    /// Its timestamp, in milliseconds since 1970.
    pub ts: u64,
    /// What it survives.
    pub durable: Durability,
    /// The topic had this id already; `seq` and `ts` are those of the first event.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
}

/// What a stored event survives.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// It is on disk, after an fdatasync: it survives a loss of power.
    Fsync,
    /// It is journaled on a majority of the nodes of a replica set: it survives the loss of one.
    Majority,
    /// The operating system has it, and syncs it within milliseconds: it survives the end of the hub's process.
    Interval,
    /// It is in the memory of the hub: it does not survive the end of its process.
    Memory,
    /// A value that this version does not know.
    #[serde(other)]
    Other,
}

impl Durability {
    /// The word on the wire.
    ///
    /// ```
    /// assert_eq!(hub_proto::Durability::Fsync.as_str(), "fsync");
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Majority => "majority",
            Self::Interval => "interval",
            Self::Memory => "memory",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
