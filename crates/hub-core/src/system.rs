//! What hubs remember beside events and groups, on topics of their own.
//!
//! A system topic is a compacted log like any other: every store keeps it, it survives what events survive, and all hubs on a
//! store hear of what is written to it. The newest record of a key is what holds; one without a value ends it. Their names begin
//! with `_hub`, which no user's topic does: they are in no list, and no pattern covers them.
use crate::engine::{By, Engine};
use crate::position::refused;
use crate::store::ReadLimit;
use crate::subscribe::{Checked, Watch, Watched};
use hub_proto::{Draft, EventId, Key, NewEvent, Payload, Position, Receipt, Result, TopicName};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// A topic that is the hub's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SystemTopic {
    /// Who made which topic, group and subscription.
    Makers,
    /// Tokens that were taken back.
    Revoked,
    /// Topics that were deleted.
    Deleted,
    /// The time that cleaning trusts.
    Clock,
    /// Push subscriptions, and which of them are paused.
    Push,
    /// Dead letters that were replayed or discarded.
    Letters,
    /// What payloads are checked against.
    Schemas,
}

impl SystemTopic {
    pub(crate) const ALL: [Self; 7] =
        [Self::Makers, Self::Revoked, Self::Deleted, Self::Clock, Self::Push, Self::Letters, Self::Schemas];

    /// Its name.
    pub fn name(self) -> TopicName {
        let name = match self {
            Self::Makers => "_hub.makers",
            Self::Revoked => "_hub.revoked",
            Self::Deleted => "_hub.deleted",
            Self::Clock => "_hub.clock",
            Self::Push => "_hub.push",
            Self::Letters => "_hub.letters",
            Self::Schemas => "_hub.schemas",
        };
        TopicName::stored(name).expect("a name")
    }
}

/// Something that holds, or does not hold any longer.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemEntry {
    /// What it is about.
    pub key: Key,
    /// `None`: it is over.
    pub value: Option<Value>,
}

const PAGE: ReadLimit = ReadLimit { events: 1000, bytes: 4 << 20 };

fn draft(engine: &Engine, topic: SystemTopic, entry: &SystemEntry) -> Draft {
    let now = engine.clock.wall();
    let payload = entry.value.clone().map_or_else(Payload::null, Payload::from);
    let event = NewEvent::new(topic.name(), payload).with_key(&*entry.key);
    Draft::encode(event, engine.new_id(), now)
}

/// Writes an entry, and waits until it is safe.
pub(crate) async fn write(engine: &Arc<Engine>, topic: SystemTopic, entry: &SystemEntry) -> Result<Receipt> {
    let written = write_all(engine, topic, std::slice::from_ref(entry)).await?;
    written.into_iter().next().unwrap_or_else(|| Err(hub_proto::Error::internal("an entry was not answered")))
}

/// Writes an entry under an id that only one entry may have, and waits until it is safe.
pub(crate) async fn write_once(
    engine: &Arc<Engine>,
    topic: SystemTopic,
    entry: &SystemEntry,
    id: EventId,
) -> Result<Receipt> {
    engine.check_running()?;
    let to = engine.topic(&topic.name(), By::Hub)?;
    let payload = entry.value.clone().map_or_else(Payload::null, Payload::from);
    let event = NewEvent::new(topic.name(), payload).with_key(&*entry.key);
    let draft = Draft::encode(event, id, engine.clock.wall());
    let written = engine.committer.publish_all(vec![(to, draft)], engine.clock.steady()).await;
    written.into_iter().next().unwrap_or_else(|| Err(hub_proto::Error::internal("an entry was not answered")))
}

/// Writes entries with one commit, and waits until they are safe. Each has a result of its own, in the order given.
pub(crate) async fn write_all(
    engine: &Arc<Engine>,
    topic: SystemTopic,
    entries: &[SystemEntry],
) -> Result<Vec<Result<Receipt>>> {
    engine.check_running()?;
    let to = engine.topic(&topic.name(), By::Hub)?;
    let drafts = entries.iter().map(|entry| (to.clone(), draft(engine, topic, entry))).collect();
    Ok(engine.committer.publish_all(drafts, engine.clock.steady()).await)
}

/// Entries that nobody waits for; they are written one after the other, in their order.
#[derive(Default)]
pub(crate) struct Notes {
    /// `None` while nobody writes.
    waiting: Mutex<Option<VecDeque<(SystemTopic, SystemEntry)>>>,
}

/// How long to wait before the store is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// Writes an entry that nobody waits for, behind those before it.
pub(crate) fn note(engine: &Arc<Engine>, topic: SystemTopic, entry: SystemEntry) {
    let mut waiting = engine.notes.waiting.lock();
    match &mut *waiting {
        Some(waiting) => waiting.push_back((topic, entry)),
        idle => {
            *idle = Some(VecDeque::from([(topic, entry)]));
            let this = engine.clone();
            engine.spawn(async move { write_notes(&this).await });
        }
    }
}

async fn write_notes(engine: &Arc<Engine>) {
    loop {
        let next = {
            let mut waiting = engine.notes.waiting.lock();
            let next = waiting.as_mut().and_then(VecDeque::pop_front);
            if next.is_none() {
                *waiting = None;
            }
            next
        };
        let Some((topic, entry)) = next else { return };
        while let Err(error) = write(engine, topic, &entry).await {
            tracing::warn!(topic = %topic.name(), key = %entry.key, %error, "an entry of a system topic is not written yet");
            tokio::select! {
                () = engine.stopping.cancelled() => return,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }
}

/// Everything that holds.
pub(crate) async fn load(engine: &Engine, topic: SystemTopic) -> Result<Vec<SystemEntry>> {
    let (name, mut entries) = (topic.name(), Vec::new());
    let mut after: Option<Key> = None;
    loop {
        let page = engine.store.newest_page(&name, after.as_deref(), PAGE).await.map_err(refused)?;
        let Some(last) = page.last() else { return Ok(entries) };
        after = last.key().cloned();
        for event in page {
            let Some(key) = event.key().cloned() else { continue };
            entries.push(SystemEntry { key, value: Some(event.decode()?) });
        }
        if after.is_none() {
            return Ok(entries);
        }
    }
}

/// What is written to a system topic, as it comes.
pub struct SystemWatch(Watch);

impl SystemWatch {
    pub(crate) async fn open(engine: &Arc<Engine>, topic: SystemTopic, from: Position) -> Result<Self> {
        let target = Checked::One(topic.name());
        Ok(Self(Watch::open(engine.clone(), target, from, Default::default(), PAGE.bytes).await?))
    }

    /// The next entry; waits for one. `None` if some were missed: load them all again.
    ///
    /// Cancel safe.
    pub async fn recv(&mut self) -> Result<Option<SystemEntry>> {
        loop {
            match self.0.recv().await? {
                Watched::Lagged { .. } => return Ok(None),
                Watched::Event(event) => {
                    let Some(key) = event.key().cloned() else { continue };
                    let value = if event.is_tombstone() { None } else { event.decode().ok() };
                    return Ok(Some(SystemEntry { key, value }));
                }
            }
        }
    }
}
