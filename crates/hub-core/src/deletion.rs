//! Deleting topics.
//!
//! A deletion is an entry of the system topic `_hub.deleted`: it survives a crash, and all hubs on a store hear of it. It goes
//! through three [steps](Step):
//!
//! 1. **Groups.** Publishes to the topic and new groups on it are refused. Each hub deletes the groups that it owns; the hub that
//!    deletes the topic takes over groups without an owner, and waits until none is left.
//! 2. **Events.** The hub that deletes the topic has the store remove the events up to the seq that the entry names, and each hub
//!    drops the topic from memory. From here on the name is free: a publish creates the topic again.
//! 3. **Done.** The store has removed the events. MongoDB takes at least ten minutes for that; readers do not see them meanwhile.
//!
//! The deletion is decided once its first entry is stored. A hub that crashes after that resumes when it starts, and the hub that
//! cleans resumes for hubs that are gone.
//!
//! A topic that is created again continues the numbering of the deleted one, and ids stay remembered for the dedupe window. So a
//! reader never sees a seq twice, and a publisher that resends an id of before the deletion does not bring that event back.

use crate::cluster::Cluster;
use crate::engine::{By, Engine};
use crate::letters;
use crate::position::refused;
use crate::subscribe::delete_groups_of;
use crate::system::{self, SystemEntry, SystemTopic, SystemWatch};
use crate::topic::Topic;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_proto::{Error, GroupName, Position, Result, TopicName};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long the groups of other hubs are waited for. A hub that does not answer is found dead before that.
const OTHER_HUBS_TIMEOUT: Duration = Duration::from_secs(15);
/// How often the store is asked whether groups of other hubs are left.
const OTHER_HUBS_INTERVAL: Duration = Duration::from_millis(50);
/// How long to wait before a store that failed is asked again.
const RETRY: Duration = Duration::from_millis(500);

/// What the deletion of a topic removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletedTopic {
    /// The topic and those derived from it.
    pub topics: usize,
    /// Groups on them.
    pub groups: usize,
    /// Events on them.
    pub events: u64,
}

/// How far a deletion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Step {
    Groups,
    Events,
    Done,
}

/// The value of an entry; its key is the name of the topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Deletion {
    step: Step,
    /// The seq up to which the topic, and each topic derived from it, is deleted.
    upto: BTreeMap<TopicName, u64>,
}

/// The deletions that this hub knows of.
#[derive(Default)]
pub(crate) struct Deletions {
    /// By the name of the topic that is not derived.
    known: Mutex<HashMap<TopicName, Deletion, RandomState>>,
    /// One deletion at a time.
    turn: tokio::sync::Mutex<()>,
}

impl Deletions {
    /// The seq up to which a topic is deleted; 0 if it never was.
    pub fn upto(&self, name: &TopicName) -> u64 {
        let known = self.known.lock();
        known.get(name.root()).and_then(|deletion| deletion.upto.get(name)).copied().unwrap_or(0)
    }

    /// Whether groups of the topic are still to be deleted.
    pub fn has_groups_left(&self, name: &TopicName) -> bool {
        let known = self.known.lock();
        let deletion = known.get(name.root()).filter(|deletion| deletion.step == Step::Groups);
        deletion.is_some_and(|deletion| deletion.upto.contains_key(name))
    }

    fn get(&self, name: &str) -> Option<Deletion> {
        self.known.lock().get(name).cloned()
    }

    /// Notes an entry; `false` if it is known already.
    fn set(&self, name: &TopicName, deletion: &Deletion) -> bool {
        self.known.lock().insert(name.clone(), deletion.clone()).as_ref() != Some(deletion)
    }

    fn unfinished(&self) -> Vec<TopicName> {
        let known = self.known.lock();
        known
            .iter()
            .filter(|(_, deletion)| deletion.step != Step::Done)
            .map(|(name, _)| name.clone())
            .collect()
    }
}

/// Takes over the deletions that are stored; before topics are restored.
pub(crate) async fn load(engine: &Engine) -> Result<()> {
    for entry in system::load(engine, SystemTopic::Deleted).await? {
        if let Some((name, deletion)) = parse(&entry) {
            engine.deletions.set(&name, &deletion);
        }
    }
    Ok(())
}

fn parse(entry: &SystemEntry) -> Option<(TopicName, Deletion)> {
    let name = TopicName::stored(&entry.key).ok()?;
    let deletion = serde_json::from_value(entry.value.clone()?).ok()?;
    Some((name, deletion))
}

/// Deletes a topic with its groups and the topics derived from it. It goes on if the caller does not wait for it any longer.
pub(crate) async fn delete(engine: &Arc<Engine>, name: &TopicName) -> Result<DeletedTopic> {
    let (this, name) = (engine.clone(), name.clone());
    let act = async move {
        let _turn = this.deletions.turn.lock().await;
        let begun = begin(&this, &name).await?;
        let deleted = advance(&this, &name).await?;
        Ok(DeletedTopic { topics: begun.topics, groups: begun.groups.max(deleted.groups), ..deleted })
    };
    engine.unbroken(act).await
}

/// Continues the deletions that are not done: those of hubs that crashed, and those that the store takes its time for.
pub(crate) async fn resume(engine: &Arc<Engine>) {
    for name in engine.deletions.unfinished() {
        let _turn = engine.deletions.turn.lock().await;
        if let Err(error) = advance(engine, &name).await {
            tracing::warn!(topic = %name, %error, "topic deletion not finished, trying again later");
        }
    }
}

/// What a deletion is about when it begins.
struct Begun {
    topics: usize,
    /// Groups that are stored, in a cluster. Counted before other hubs hear of the deletion, because each deletes its own at once.
    groups: usize,
}

/// Decides the deletion: stores its first entry.
async fn begin(engine: &Arc<Engine>, name: &TopicName) -> Result<Begun> {
    let topic = engine.known(name)?;
    let derived = [name.dead_letter(), name.snapshot(), name.snapshot().dead_letter()];
    let topics: Vec<Arc<Topic>> =
        std::iter::once(topic).chain(derived.iter().filter_map(|name| engine.find(name))).collect();
    topics.iter().for_each(|topic| topic.set_deleting(true));
    let begun = async {
        let names: Vec<TopicName> = topics.iter().map(|topic| topic.name.clone()).collect();
        let groups = match &engine.cluster {
            Some(cluster) => cluster.groups_on(&names).await?.len(),
            None => 0,
        };
        store_begun(engine, name, &topics).await?;
        Ok(Begun { topics: topics.len(), groups })
    };
    let begun = begun.await;
    if begun.is_err() {
        // If the entry was stored all the same, the deletion happens with the next start.
        topics.iter().for_each(|topic| topic.set_deleting(false));
    }
    begun
}

async fn store_begun(engine: &Arc<Engine>, name: &TopicName, topics: &[Arc<Topic>]) -> Result<()> {
    let mut upto = engine.deletions.get(name).map(|deletion| deletion.upto).unwrap_or_default();
    for topic in topics {
        let bounds = engine.store.bounds(&topic.name).await.map_err(refused)?;
        upto.insert(topic.name.clone(), bounds.last);
    }
    store(engine, name, Deletion { step: Step::Groups, upto }).await
}

/// Stores an entry and notes it.
async fn store(engine: &Arc<Engine>, name: &TopicName, deletion: Deletion) -> Result<()> {
    let value = serde_json::to_value(&deletion).map_err(|error| Error::internal(error.to_string()))?;
    let entry = SystemEntry { key: name.as_str().into(), value: Some(value) };
    system::write(engine, SystemTopic::Deleted, &entry).await?;
    engine.deletions.set(name, &deletion);
    Ok(())
}

/// Brings a deletion that is decided as far as it goes.
async fn advance(engine: &Arc<Engine>, name: &TopicName) -> Result<DeletedTopic> {
    let Some(mut deletion) = engine.deletions.get(name) else { return Ok(DeletedTopic::default()) };
    let mut deleted = DeletedTopic::default();
    if deletion.step == Step::Groups {
        deleted.groups = delete_groups(engine, &deletion).await?;
        // Groups may have written dead letters until now. Nothing of a derived topic outlives its source.
        for (derived, upto) in deletion.upto.iter_mut().filter(|(derived, _)| *derived != name) {
            *upto = engine.store.bounds(derived).await.map_err(refused)?.last.max(*upto);
        }
        deletion.step = Step::Events;
        store(engine, name, deletion.clone()).await?;
    }
    if deletion.step == Step::Events {
        let mut is_complete = true;
        for (name, &upto) in &deletion.upto {
            // A snapshot is written under this lock.
            let topic = engine.find(name);
            let _cleaning = match &topic {
                Some(topic) => Some(topic.cleaning.lock().await),
                None => None,
            };
            let now = engine.cleaning_time.now(engine).await?;
            let ids_since = now.saturating_sub(engine.config.dedupe_window);
            let removed = engine.store.delete(name, upto, ids_since).await.map_err(refused)?;
            deleted.events += removed.removed;
            is_complete &= removed.is_complete;
            if let Some(source) = letters::source_of(name) {
                letters::forget_marks(engine, &source, upto + 1).await?;
            }
            forget(engine, name, upto, Forget::Everywhere).await?;
        }
        if is_complete {
            deletion.step = Step::Done;
            store(engine, name, deletion).await?;
        }
    }
    Ok(deleted)
}

/// Deletes the groups on the topics, with the help of the hubs that own them. Answers how many this hub has deleted.
async fn delete_groups(engine: &Arc<Engine>, deletion: &Deletion) -> Result<usize> {
    let names: Vec<TopicName> = deletion.upto.keys().cloned().collect();
    let Some(cluster) = &engine.cluster else { return delete_groups_of(engine, &names).await };
    let deadline = Instant::now() + OTHER_HUBS_TIMEOUT;
    let mut deleted = 0;
    loop {
        deleted += delete_groups_of(engine, &names).await?;
        let left: BTreeSet<GroupName> = cluster.groups_on(&names).await?.into_iter().collect();
        let Some(group) = left.first() else { return Ok(deleted) };
        if Instant::now() >= deadline {
            return Err(Error::unavailable(format!(
                "group {group} is served by another hub, which has not deleted it yet; the deletion goes on, ask again later"
            )));
        }
        for group in &left {
            // A group that no hub serves becomes this hub's. One that another hub serves is deleted there.
            let _ = engine.own(group).await;
        }
        tokio::time::sleep(OTHER_HUBS_INTERVAL).await;
    }
}

/// Where the maker of a topic is forgotten.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Forget {
    /// In this hub: another one has told all hubs.
    Here,
    /// In all hubs.
    Everywhere,
}

/// Drops a topic from memory whose events are deleted.
async fn forget(engine: &Arc<Engine>, name: &TopicName, upto: u64, who: Forget) -> Result<()> {
    if let Some(topic) = engine.find(name)
        && (topic.is_deleting() || topic.last() <= upto)
    {
        engine.remove_topic(&topic, who == Forget::Everywhere);
    }
    // What was published while the deletion was under way is kept: the topic is there again.
    let bounds = engine.store.bounds(name).await.map_err(refused)?;
    if bounds.last > upto && engine.find(name).is_none() {
        engine.topic(name, By::Hub)?.learn(bounds);
    }
    Ok(())
}

/// Hears of the deletions of other hubs, for as long as the hub runs.
pub(crate) async fn follow(engine: &Arc<Engine>) {
    let mut watch = loop {
        match SystemWatch::open(engine, SystemTopic::Deleted, Position::Latest).await {
            Ok(watch) => break watch,
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    };
    // What was stored between the start and the watch.
    hear_all(engine).await;
    loop {
        match watch.recv().await {
            Ok(Some(entry)) => hear(engine, &entry).await,
            Ok(None) => hear_all(engine).await,
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

async fn hear_all(engine: &Arc<Engine>) {
    loop {
        match system::load(engine, SystemTopic::Deleted).await {
            Ok(entries) => {
                for entry in &entries {
                    hear(engine, entry).await;
                }
                return;
            }
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

/// Does this hub's part of a step that another hub has stored, and repeats it until the store takes it.
async fn hear(engine: &Arc<Engine>, entry: &SystemEntry) {
    let Some((name, deletion)) = parse(entry) else { return };
    if !engine.deletions.set(&name, &deletion) {
        return;
    }
    while let Err(error) = do_part(engine, &deletion).await {
        tracing::warn!(topic = %name, %error, "topic deletion of another hub not carried out yet, trying again");
        tokio::time::sleep(RETRY).await;
    }
}

async fn do_part(engine: &Arc<Engine>, deletion: &Deletion) -> Result<()> {
    match deletion.step {
        Step::Groups => {
            let names: Vec<TopicName> = deletion.upto.keys().cloned().collect();
            names.iter().filter_map(|name| engine.find(name)).for_each(|topic| topic.set_deleting(true));
            delete_groups_of(engine, &names).await.map(drop)
        }
        Step::Events | Step::Done => {
            for (name, &upto) in &deletion.upto {
                engine.store.learn_deleted(name, upto);
                forget(engine, name, upto, Forget::Here).await?;
            }
            Ok(())
        }
    }
}

impl Cluster {
    /// The names of the groups on these topics, served by any hub or by none.
    async fn groups_on(&self, topics: &[TopicName]) -> Result<Vec<GroupName>> {
        let stored = self.stored_groups(topics).await.map_err(refused)?;
        Ok(stored.into_iter().map(|stored| stored.record.name).collect())
    }
}

/// What a publish or a subscribe to a topic that is being deleted is answered.
pub(crate) fn being_deleted(name: &TopicName) -> Error {
    Error::unavailable(format!("topic {name} is being deleted; try again in a moment"))
}

/// What subscriptions to a topic that was deleted end with.
pub(crate) fn topic_deleted(name: &TopicName) -> Error {
    Error::new(
        hub_proto::Code::NotSubscribed,
        format!("topic {name} was deleted with its groups; subscribe again when it is published to anew"),
    )
}
