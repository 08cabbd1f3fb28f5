//! The port to storage: one trait, its promises, and the plain data that crosses it.
//!
//! [`MemoryStore`](memory::MemoryStore) is the simplest that keeps every promise but durability; the conformance suite
//! in [`testkit`](crate::testkit) checks them for each store.

mod files;
mod health;
pub mod memory;
mod record;
mod shared;
mod words;

pub use crate::group::ranges::RangeSet;
pub use crate::group::state::{GroupState, Progress, Tries};
pub use files::{LogEnd, PinnedFiles};
pub use health::{DiskUsage, Health};
pub use hub_proto::{Draft, Durability};
pub use record::{GroupRecord, Record, StoredGroup, SubscriptionRecord};
pub use shared::{Changes, Claim, Estate, Heartbeat, HubId, HubInfo, Ownership, Shared, SharedStore};
pub use words::{Secrets, shortened};

use crate::Millis;
use futures_core::future::BoxFuture;
use hub_proto::{Event, EventId, Key, TopicName};
use std::borrow::Cow;
use std::sync::Arc;

/// The answer of a store that could not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Unreachable, full, or interrupted in mid-commit. Whether a write took place is **unknown**; asking again is safe
    /// because ids are unique.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// What was read is not what was written.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// Nothing was written: another hub owns the group by now, under a higher epoch.
    #[error("another hub owns group {0} by now")]
    Fenced(String),
}

impl StoreError {
    /// What anybody may hear of it: without paths, hosts and what a driver says. The whole text is for logs and for
    /// [`EventStore::health`].
    pub fn brief(&self) -> Cow<'static, str> {
        match self {
            Self::Unavailable(_) => "the store is unavailable".into(),
            Self::Damaged(_) => "the store is damaged".into(),
            Self::Fenced(_) => self.to_string().into(),
        }
    }
}

/// The result of a call to a store.
pub type StoreResult<T> = Result<T, StoreError>;

/// Everything that waits to be made durable, in the order it came.
#[derive(Debug, Default)]
pub struct Commit {
    /// The hub's wall clock, for commit times.
    pub now: Millis,
    /// Events of any topics.
    pub events: Vec<Draft>,
    /// Groups, cursors and subscriptions.
    pub records: Vec<Record>,
    /// The epoch under which the hub owns the group of each record; empty for a hub that is alone on its store, which is
    /// the same as 0 for each.
    pub epochs: Vec<u64>,
}

/// The outcome of a [`Commit`], each part in the order of its request.
#[derive(Debug)]
pub struct Committed {
    /// One result per event.
    pub events: Vec<StoreResult<Appended>>,
    /// One result per record.
    pub records: Vec<StoreResult<()>>,
}

impl Committed {
    /// Whether its events had to be brought to a disk, as far as can be seen.
    pub(crate) fn is_on_disk(&self) -> bool {
        let on_disk = |appended: &StoreResult<Appended>| {
            matches!(appended, Ok(Appended::New { durability: Durability::Fsync, .. }))
        };
        !self.records.is_empty() || self.events.iter().any(on_disk)
    }

    /// The outcome of a commit of which nothing is known.
    pub fn failed(commit: &Commit, error: &StoreError) -> Self {
        Self {
            events: commit.events.iter().map(|_| Err(error.clone())).collect(),
            records: commit.records.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

/// What became of one event.
#[derive(Clone, Debug)]
pub enum Appended {
    /// It has its place in the log.
    New {
        /// The record as readers will see it.
        event: Arc<Event>,
        /// How safe it is.
        durability: Durability,
    },
    /// The topic has its id already; nothing was appended.
    Known {
        /// The place of the first one.
        seq: u64,
        /// Its timestamp.
        ts: Millis,
        /// Whether key and payload are the same, compared as JSON.
        same: bool,
        /// How safe it is.
        durability: Durability,
    },
    /// The topic has its id already; whether it is the same event is still to be looked at, which may take a while and is
    /// nothing for the one that commits.
    Twin {
        /// The first one.
        first: First,
        /// What was to be appended.
        draft: Box<Draft>,
        /// How safe the first one is.
        durability: Durability,
    },
}

/// What a store has of the first event with an id.
#[derive(Clone, Debug)]
pub enum First {
    /// Its record.
    Record(Arc<Event>),
    /// Its place, timestamp and [content](Event::content): the record was cleaned away.
    Remembered(u64, Millis, EventId),
}

impl First {
    /// The place and the timestamp.
    pub fn place(&self) -> (u64, Millis) {
        match self {
            Self::Record(event) => (event.seq(), event.ts()),
            Self::Remembered(seq, ts, _) => (*seq, *ts),
        }
    }

    /// Whether key and payload are the same, compared as JSON. It takes time with the size of both.
    pub fn is(&self, draft: &Draft) -> bool {
        match self {
            Self::Record(event) => event.same_content(draft.key().map(|key| &**key), draft.payload()),
            Self::Remembered(_, _, content) => *content == draft.content(),
        }
    }

    /// The same where it can be told at once.
    fn is_at_once(&self, draft: &Draft) -> Option<bool> {
        if let Self::Record(event) = self {
            if event.key() != draft.key() {
                return Some(false);
            }
            if event.payload() == draft.payload() {
                return Some(true);
            }
        }
        let theirs = if let Self::Record(event) = self { event.payload().len() } else { 0 };
        (draft.payload().len().max(theirs) <= COMPARED_AT_ONCE).then(|| self.is(draft))
    }
}

/// Payloads up to this size are compared by the one that commits, in bytes.
const COMPARED_AT_ONCE: usize = 4 << 10;

impl Appended {
    /// The answer to an event whose id the topic has.
    pub fn known(first: First, draft: Draft, durability: Durability) -> Self {
        let (seq, ts) = first.place();
        match first.is_at_once(&draft) {
            Some(same) => Self::Known { seq, ts, same, durability },
            None => Self::Twin { first, draft: Box::new(draft), durability },
        }
    }

    /// The same with every question answered. It takes time with the size of the payloads.
    #[must_use]
    pub fn decided(self) -> Self {
        match self {
            Self::Twin { first, draft, durability } => {
                let (seq, ts) = first.place();
                Self::Known { seq, ts, same: first.is(&draft), durability }
            }
            other => other,
        }
    }
}

/// The extent of a topic's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The lowest seq that a reader can still find is at least this; `last + 1` when there is none.
    pub first: u64,
    /// The highest seq ever given; 0 for a topic without events.
    pub last: u64,
    /// Records kept.
    pub events: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The commit time of `last`; 0 without one.
    pub last_committed: Millis,
}

/// How much one read may bring: it stops at whichever comes first, but never before one event.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimit {
    /// At most so many events.
    pub events: usize,
    /// About so many bytes.
    pub bytes: usize,
}

impl ReadLimit {
    /// Says for one event after the other, by its size, whether it still fits.
    pub fn gate(self) -> impl FnMut(usize) -> bool {
        let (mut events, mut bytes) = (0, 0);
        move |size| {
            let fits = events < self.events && (bytes == 0 || bytes < self.bytes);
            events += 1;
            bytes += size;
            fits
        }
    }
}

/// What a topic keeps. Everything absent: everything, for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanPolicy {
    /// Records committed before this time go.
    pub committed_before: Option<Millis>,
    /// The oldest go until the rest is at most this large.
    pub max_bytes: Option<u64>,
    /// Keyed records go when a newer one of their key is there.
    pub compact: bool,
    /// With `compact`: a tombstone that is its key's newest goes once committed before this time.
    pub tombstones_before: Millis,
    /// Nothing above this seq goes: what the snapshot has not seen yet, for one.
    pub keep_above: Option<u64>,
    /// Ids of what goes are remembered at least for events committed since this time.
    pub ids_since: Millis,
}

impl CleanPolicy {
    /// Keeps nothing up to a seq.
    pub fn everything(upto: u64, ids_since: Millis) -> Self {
        Self { committed_before: Some(Millis::MAX), keep_above: Some(upto), ids_since, ..Self::default() }
    }
}

/// What cleaning did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Records removed.
    pub removed: u64,
    /// The extent afterwards.
    pub bounds: Bounds,
    /// More is to be removed: call again soon, also if nothing has changed.
    pub is_partial: bool,
}

/// What [`EventStore::delete`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Events that readers do not see any more.
    pub removed: u64,
    /// Nothing is left to be removed; else the call has to be repeated later.
    pub is_complete: bool,
}

/// [`EventStore::delete`] for a store whose [`clean`](EventStore::clean) hides and removes at once.
///
/// # Errors
/// Those of `clean`.
pub async fn delete_by_cleaning(
    store: &dyn EventStore,
    topic: &TopicName,
    upto: u64,
    ids_since: Millis,
) -> StoreResult<Deleted> {
    let cleaned = store.clean(topic, CleanPolicy::everything(upto, ids_since)).await?;
    Ok(Deleted { removed: cleaned.removed, is_complete: true })
}

/// As [`EventStore::newest`], with an answer of its own for a key whose newest record is damaged: the other keys do not
/// wait for it.
pub(crate) async fn newest_of_each(
    store: &dyn EventStore,
    topic: &TopicName,
    keys: &[Key],
) -> StoreResult<Vec<StoreResult<Option<Arc<Event>>>>> {
    match store.newest(topic, keys).await {
        Ok(newest) => return Ok(newest.into_iter().map(Ok).collect()),
        Err(StoreError::Damaged(_)) => {}
        Err(error) => return Err(error),
    }
    let mut each = Vec::with_capacity(keys.len());
    for key in keys {
        each.push(match store.newest(topic, std::slice::from_ref(key)).await {
            Ok(newest) => Ok(newest.into_iter().next().flatten()),
            Err(StoreError::Damaged(what)) => Err(StoreError::Damaged(what)),
            Err(error) => return Err(error),
        });
    }
    Ok(each)
}

/// Everything a hub needs to know to start.
#[derive(Debug, Default)]
pub struct Image {
    /// Every topic that has or had an event.
    pub topics: Vec<(TopicName, Bounds)>,
    /// Every group.
    pub groups: Vec<StoredGroup>,
    /// Every subscription to a pattern or to several topics.
    pub subscriptions: Vec<SubscriptionRecord>,
}

/// A store that a thread can commit to without the help of others. When events keep coming, one thread that does nothing
/// else gets further than several that hand each batch on.
pub trait CommitHere {
    /// As [`EventStore::commit`]: makes a batch durable, and keeps the thread until it is. `meanwhile` is for the time in
    /// which there is nothing to do but to wait for the disk; it is called once at most.
    fn commit_here(&self, commit: Commit, meanwhile: &mut dyn FnMut()) -> Committed;
}

/// Where events, groups and subscriptions live.
///
/// # Promises
/// - **Order.** `commit` gives each new event of a topic the next `seq`, from 1, without gaps, in the order of the
///   batch. Once `read` has answered `seq` n, nothing with a smaller one ever appears.
/// - **Durability.** An event is answered [`Appended::New`] only when it survives what its [`Durability`] says. The
///   records of a commit are at least as safe as its events.
/// - **Ids** are unique per topic, also within one batch, and are remembered while the record is there and as long as
///   [`CleanPolicy::ids_since`] asks for.
/// - **Commit times** never decrease within a topic, whatever [`Commit::now`] says.
/// - **Errors.** After [`StoreError::Unavailable`] the outcome of a write is unknown and nothing else changes: the next
///   call may succeed. A read that fails has no effect. Nothing that is damaged is ever answered as an event.
///
/// All calls may be made concurrently, except `commit`: one at a time, [`commit_here`](CommitHere::commit_here) included, but for
/// a store with [lanes](EventStore::lanes). A
/// future that is dropped in mid-call leaves the outcome unknown, as an error does.
pub trait EventStore: Send + Sync + 'static {
    /// What the store calls itself in logs.
    fn name(&self) -> &'static str;

    /// Makes a batch durable.
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Committed>;

    /// A way to commit by waiting, if the store has one.
    fn here(&self) -> Option<&dyn CommitHere> {
        None
    }

    /// The largest payload of an event that the store can hold, also as a dead letter; `None` if there is no limit. A bus that
    /// allows larger ones is not opened. A store that wraps another passes on what that one says.
    fn max_payload(&self) -> Option<usize> {
        None
    }

    /// How many commits are made at once, for a store that commits topics independently of each other. Each has the events of one
    /// topic, or records; no topic is in two that overlap, and records are in one at a time. Topics that are held up may be
    /// in 64 more. `None`: one commit at a time, with whatever waits.
    fn lanes(&self) -> Option<usize> {
        None
    }

    /// What to wait for before the next commit of a topic is gathered, so that another hub on the same store has its turn: what is
    /// published meanwhile goes along. Asked before each [`commit`](EventStore::commit) of a store with [lanes](EventStore::lanes).
    fn give_way<'a>(&'a self, _topic: &'a TopicName) -> Option<BoxFuture<'a, ()>> {
        None
    }

    /// Reads what is stored about topics, groups and subscriptions.
    fn load(&self) -> BoxFuture<'_, StoreResult<Image>>;

    /// Events above `after` in ascending order, holes left out; empty at the end of the log. Readers go on above what is not there,
    /// so a store whose reads may lag behind its commits makes sure before it answers with nothing.
    fn read<'a>(
        &'a self,
        topic: &'a TopicName,
        after: u64,
        limit: ReadLimit,
    ) -> BoxFuture<'a, StoreResult<Vec<Arc<Event>>>>;

    /// The extent of a topic; the default for one that is not known.
    fn bounds<'a>(&'a self, topic: &'a TopicName) -> BoxFuture<'a, StoreResult<Bounds>>;

    /// The seq of an id, also of one that was cleaned away and is still remembered.
    fn seq_of<'a>(&'a self, topic: &'a TopicName, id: EventId) -> BoxFuture<'a, StoreResult<Option<u64>>>;

    /// The highest seq whose commit time is before `time`: reading after it starts at `time`.
    fn seq_before<'a>(&'a self, topic: &'a TopicName, time: Millis) -> BoxFuture<'a, StoreResult<u64>>;

    /// The newest record of each key, tombstones included, `None` for keys without one. Records replayed for one group
    /// ([`Event::audience`]) are passed over.
    fn newest<'a>(
        &'a self,
        topic: &'a TopicName,
        keys: &'a [Key],
    ) -> BoxFuture<'a, StoreResult<Vec<Option<Arc<Event>>>>>;

    /// The newest records of all keys after `after` in byte order of the keys, tombstones left out.
    fn newest_page<'a>(
        &'a self,
        topic: &'a TopicName,
        after: Option<&'a str>,
        limit: ReadLimit,
    ) -> BoxFuture<'a, StoreResult<Vec<Arc<Event>>>>;

    /// Removes what `policy` does not keep; readers go on meanwhile. May do a part and be called again.
    fn clean<'a>(&'a self, topic: &'a TopicName, policy: CleanPolicy) -> BoxFuture<'a, StoreResult<Cleaned>>;

    /// Removes every event of a topic up to `upto`. From the answer on no read by this store has one of them, also after a restart.
    /// The numbering continues above the highest seq ever given, and ids are remembered as [`CleanPolicy::ids_since`] says. Calling
    /// it again changes nothing more.
    fn delete<'a>(
        &'a self,
        topic: &'a TopicName,
        upto: u64,
        ids_since: Millis,
    ) -> BoxFuture<'a, StoreResult<Deleted>>;

    /// Another hub on the same store has deleted a topic up to `upto`: from now on no read by this store has one of those events.
    fn learn_deleted(&self, topic: &TopicName, upto: u64);

    /// What time it is for the store, if it has a clock of its own that all hubs on it share. Nothing is removed for its age before it
    /// is that old by this clock, whatever a hub's own clock shows.
    fn time(&self) -> BoxFuture<'_, StoreResult<Option<Millis>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// How the store is doing. Cheap, may be called at any time, also while a commit is under way and after
    /// [`close`](Self::close), and never waits for the disk. A store that can say nothing about itself is well; one
    /// that wraps another passes on what that one says.
    fn health(&self) -> Health {
        Health::default()
    }

    /// What the store takes of its disk; `None` for a store without files of its own. Asked by scrapes of the metrics: it may look at
    /// every topic, and never reads an event. A store that wraps another passes on what that one says.
    fn disk_usage(&self) -> Option<DiskUsage> {
        None
    }

    /// Holds the store's files in place, for a backup that copies them while the store is used; `None` for a store without files of
    /// its own. Everything that was acknowledged before the call is in the files that are held. Commits do not wait for it. A store
    /// that wraps another passes on what that one says.
    fn pin_files(&self) -> BoxFuture<'_, StoreResult<Option<PinnedFiles>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// What it has for several hubs that use it at once; `None` if it is for one only.
    fn shared(&self) -> Option<SharedStore> {
        None
    }

    /// Called once, after the last commit.
    fn close(&self) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
