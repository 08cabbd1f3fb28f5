//! What a hub answers to a publish.

use hub_proto::EventId;
use serde::{Deserialize, Serialize};

/// Where an event is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Receipt {
    /// The event's id.
    pub id: EventId,
    /// Its place in its topic.
    pub seq: u64,
    /// Its time, in milliseconds since 1970.
    pub ts: u64,
    /// How safe it is.
    pub durable: Durability,
    /// The topic had this id already; `seq` and `ts` are those of the first one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
}

/// How safe an event is that was taken.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// On disk: it survives a loss of power.
    Fsync,
    /// On the disks of most nodes of a database.
    Majority,
    /// With the operating system, and on disk in a moment: it survives the end of the hub.
    Interval,
    /// In memory: it does not survive the end of the hub.
    Memory,
    /// Something that this client does not know yet.
    #[serde(other)]
    Other,
}
