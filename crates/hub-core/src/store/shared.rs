//! The port to what several hubs have in common: who is alive, who owns which groups, and what others have committed.
//!
//! A hub alone on its store needs none of this. Hubs that share one find each other here; the rules they follow are in
//! `cluster`, the store only keeps what they say and compares epochs.

use super::{StoreResult, StoredGroup, SubscriptionRecord};
use crate::Millis;
use futures_core::future::BoxFuture;
use hub_proto::TopicName;
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// A hub, for one life of its process: a restart is another hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HubId(pub Uuid);

impl HubId {
    /// A new one.
    pub fn random() -> Self {
        Self(Uuid::now_v7())
    }

    /// Reads what [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self)
    }
}

impl fmt::Display for HubId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a hub says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubInfo {
    /// Which one it is.
    pub id: HubId,
    /// Where other hubs reach its gateway; empty for one that cannot be reached.
    pub address: String,
    /// When it started, by its own wall clock.
    pub started: Millis,
    /// Its version.
    pub version: String,
}

/// A hub's sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Whose.
    pub hub: HubInfo,
    /// Goes up with each. Clocks of different machines are never compared, only this.
    pub count: u64,
}

/// Who owns a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// The owner; `None`: it was given up, or never had one.
    pub hub: Option<HubId>,
    /// Goes up with each claim; 0: never claimed.
    pub epoch: u64,
    /// Hubs with members that the owner serves. They report to a new owner what those hold.
    pub edges: Vec<HubId>,
}

/// How a claim went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The name is the hub's, under this epoch. `edges` are those of the owner before.
    Won {
        /// The new epoch.
        epoch: u64,
        /// See [`Ownership::edges`].
        edges: Vec<HubId>,
    },
    /// It changed hands since it was looked at.
    Lost(Ownership),
}

/// Everything that belongs to one group name.
#[derive(Debug, Default)]
pub struct Estate {
    /// Its groups.
    pub groups: Vec<StoredGroup>,
    /// Its subscriptions to patterns and lists.
    pub subscriptions: Vec<SubscriptionRecord>,
}

/// News of what others have committed.
pub trait Changes: Send {
    /// Waits for the next ones: topics and the highest seq known of each. Own commits may be among them. After an error
    /// the news are lost: ask for [`Shared::tails`] and for new ones.
    ///
    /// Cancel safe: what was not answered is answered by the next call.
    fn next(&mut self) -> BoxFuture<'_, StoreResult<Vec<(TopicName, u64)>>>;
}

/// A store that several hubs use at once.
///
/// # Promises
/// - What one call has answered, a later call sees, whichever hub makes it.
/// - A **name** (of groups, or of a duty such as cleaning) has one owner at a time. Each claim that is won has a higher
///   epoch than any before it.
/// - **The fence.** Once [`estate`](Shared::estate) was called with an epoch, no record of that group name whose
///   [`Commit::epochs`](super::Commit::epochs) has a lower one changes anything that the estate has; it is answered
///   [`StoreError::Fenced`](super::StoreError::Fenced). Epoch 0 is not checked: it is for a hub alone on its store.
pub trait Shared: Send + Sync {
    /// Counts the hub's heartbeat up and answers everybody's, its own included.
    fn beat<'a>(&'a self, me: &'a HubInfo) -> BoxFuture<'a, StoreResult<Vec<Heartbeat>>>;

    /// Removes heartbeats: the hub's own at its end, and those of hubs long dead.
    fn forget<'a>(&'a self, hubs: &'a [HubId]) -> BoxFuture<'a, StoreResult<()>>;

    /// Who owns a name.
    fn owner<'a>(&'a self, name: &'a str) -> BoxFuture<'a, StoreResult<Ownership>>;

    /// Everything that a hub owns: names and epochs.
    fn owned(&self, hub: HubId) -> BoxFuture<'_, StoreResult<Vec<(String, u64)>>>;

    /// Every name that has an owner. For people.
    fn owners(&self) -> BoxFuture<'_, StoreResult<Vec<(String, Ownership)>>>;

    /// Takes a name over, if its epoch still is `seen`.
    fn claim<'a>(&'a self, name: &'a str, seen: u64, me: HubId) -> BoxFuture<'a, StoreResult<Claim>>;

    /// Claims names again that the hub owns: raises the epoch of each of them. Names that it does not own are left alone.
    /// Answers those that it owns, with their new epochs. The number of round trips does not depend on the number of names,
    /// of which there are at most a thousand.
    fn renew<'a>(&'a self, names: &'a [&'a str], me: HubId)
    -> BoxFuture<'a, StoreResult<Vec<(String, u64)>>>;

    /// Notes at which hubs members are served, if the name is still held under `epoch`; else it is
    /// [`StoreError::Fenced`](super::StoreError::Fenced).
    fn set_edges<'a>(
        &'a self,
        name: &'a str,
        epoch: u64,
        edges: &'a [HubId],
    ) -> BoxFuture<'a, StoreResult<()>>;

    /// Gives names up that are held under these epochs; their edges stay noted. Others are left alone.
    fn release<'a>(&'a self, names: &'a [(String, u64)]) -> BoxFuture<'a, StoreResult<()>>;

    /// Raises the fence of a group name to `epoch`, then reads all that belongs to it.
    fn estate<'a>(&'a self, group: &'a str, epoch: u64) -> BoxFuture<'a, StoreResult<Estate>>;

    /// The groups of these topics, owned by any hub; of all topics with `None`.
    fn groups<'a>(&'a self, topics: Option<&'a [TopicName]>) -> BoxFuture<'a, StoreResult<Vec<StoredGroup>>>;

    /// Group names that have a group or a subscription without members since before `time`.
    fn idle_since(&self, time: Millis) -> BoxFuture<'_, StoreResult<Vec<String>>>;

    /// The highest seq of each of these topics, or of every topic there is.
    fn tails<'a>(&'a self, of: Option<&'a [TopicName]>) -> BoxFuture<'a, StoreResult<Vec<(TopicName, u64)>>>;

    /// Starts to listen to what is committed from now on.
    fn changes(&self) -> BoxFuture<'_, StoreResult<Box<dyn Changes>>>;
}

/// A shared store, as a hub holds it.
pub type SharedStore = Arc<dyn Shared>;
