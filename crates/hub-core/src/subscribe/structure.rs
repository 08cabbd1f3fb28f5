//! Making, changing and deleting groups and subscriptions. Stored before anybody joins.

use crate::Millis;
use crate::deletion::{being_deleted, topic_deleted};
use crate::engine::Engine;
use crate::fan::{Cover, Fan, yield_between};
use crate::group::dispatch::MemberId;
use crate::group::mailbox::Mailbox;
use crate::group::options::{GroupOptions, GroupRequest};
use crate::group::state::GroupState;
use crate::group::{Carried, Group, deleted};
use crate::position::{check_for_several, refused, resolve};
use crate::quota::Made;
use crate::store::{GroupRecord, Record, StoredGroup, SubscriptionRecord};
use crate::topic::Topic;
use hub_proto::{Code, Error, GroupName, Position, Result, TopicName, shown};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Groups that are stored with one commit: others' events wait for it.
const COMMITTED_GROUPS: usize = 128;
/// How often a group may be deleted under somebody who is about to join it.
const TRIES: usize = 3;

/// A member on its way into a group.
#[derive(Clone)]
pub(super) struct Joining {
    pub engine: Arc<Engine>,
    pub request: GroupRequest,
    pub from: Position,
    /// Whom what is made counts for.
    pub subject: Option<Arc<str>>,
    /// Only groups that the subject made are joined, or that nobody made.
    pub own_groups: bool,
    /// What the member brings along from another owner, by topic.
    pub carried: Arc<BTreeMap<TopicName, Carried>>,
}

impl Joining {
    /// Joins a group on one topic, making it if need be.
    pub async fn one(
        &self,
        topic: &Arc<Topic>,
        name: &GroupName,
        id: MemberId,
        mailbox: &Arc<Mailbox>,
        ack_timeout: Millis,
    ) -> Result<Arc<Group>> {
        let nothing = Carried::default();
        let carried = self.carried.get(&topic.name).unwrap_or(&nothing);
        // Joined here and not where the group is made: whoever is dropped on the way leaves no member behind.
        for _ in 0..TRIES {
            let there = topic.group(name);
            if let Some(group) = &there {
                self.check_maker(name, group.maker.as_ref())?;
            }
            if let Some(group) = there
                && self.request.conflicts(&group.record().options).is_empty()
                && group.join(id, mailbox.clone(), ack_timeout, carried).is_ok()
            {
                return Ok(group);
            }
            let (this, topic, name) = (self.clone(), topic.clone(), name.clone());
            self.engine.unbroken(async move { this.make_one(&topic, &name).await }).await?;
        }
        Err(deleted(name))
    }

    /// Makes a group on one topic, or changes it into what is asked for.
    async fn make_one(&self, topic: &Arc<Topic>, name: &GroupName) -> Result<()> {
        let _turn = self.engine.structure.lock().await;
        if let Some(group) = topic.group(name) {
            self.check_maker(name, group.maker.as_ref())?;
            return self.adapt(&group);
        }
        if topic.is_deleting() {
            return Err(being_deleted(&topic.name));
        }
        self.engine.check_groups(self.subject.as_deref(), &[&topic.name], 0)?;
        let options = self.request.over(&GroupOptions::default());
        let stored = self.new_group(topic, name, &options, false).await?;
        self.engine.write(records_of(&stored)).await?;
        self.engine.remember(Made::Group(topic.name.clone(), name.clone()), self.subject.as_deref());
        insert(&self.engine, topic, stored);
        Ok(())
    }

    /// Joins a subscription to several topics, making it if need be. Answers how many topics there are.
    pub async fn many(
        &self,
        label: &str,
        cover: Cover,
        name: &GroupName,
        id: MemberId,
        mailbox: &Arc<Mailbox>,
        ack_timeout: Millis,
    ) -> Result<usize> {
        let at = (label, name);
        let unchanged =
            |fan: &mut Fan| fan.cover == cover && self.request.conflicts(&fan.record.options).is_empty();
        for _ in 0..TRIES {
            // A group of a topic that is born later would be shared with every subscription that has its name.
            for maker in self.engine.fans.makers_of(name) {
                self.check_maker(name, Some(&maker))?;
            }
            if self.engine.fans.with(label, name, unchanged) == Some(true) {
                let joined =
                    self.engine.fans.join(&self.engine, at, id, mailbox, ack_timeout, &self.carried).await?;
                if let Some(topics) = joined {
                    return Ok(topics);
                }
            }
            let (this, label, cover, name) = (self.clone(), label.to_owned(), cover.clone(), name.clone());
            let make = async move {
                let _turn = this.engine.structure.lock().await;
                let made = this.make(&label, cover, &name).await;
                this.engine.fans.with(&label, &name, Fan::stay);
                made
            };
            self.engine.unbroken(make).await?;
        }
        Err(deleted(name))
    }

    /// Makes a subscription to several topics, or changes it into what is asked for.
    async fn make(&self, label: &str, cover: Cover, name: &GroupName) -> Result<()> {
        let engine = &self.engine;
        let stored = engine.fans.with(label, name, |fan| {
            let mut differs = self.request.conflicts(&fan.record.options);
            if fan.cover != cover {
                differs.push("topics is another list".into());
            }
            // Who joins from here on waits for the change.
            let goes = differs.is_empty() || fan.go(true);
            (fan.record.clone(), fan.cover.clone(), differs, goes)
        });
        let (old, old_cover) = match stored {
            Some((_, _, differs, _)) if differs.is_empty() => return Ok(()),
            Some((_, _, differs, false)) => return Err(conflict(name, &differs)),
            Some((record, old_cover, _, true)) => (Some(record), Some(old_cover)),
            None => {
                // Also where no topic is covered yet.
                check_for_several(self.from)?;
                if let Some(cluster) = &engine.cluster {
                    // A topic that is not known here would pass for one that is born later.
                    cluster.ask(engine).await.map_err(refused)?;
                }
                (None, None)
            }
        };
        let options =
            self.request.over(old.as_ref().map_or(&GroupOptions::default(), |record| &record.options));
        let now = engine.clock.wall();
        let record = SubscriptionRecord {
            label: label.to_owned(),
            group: name.clone(),
            topics: if let Cover::List(topics) = &cover { topics.clone() } else { Vec::new() },
            options: options.clone(),
            created: old.as_ref().map_or(now, |record| record.created),
            idle_since: Some(engine.now_unset()),
        };
        // First everything that can refuse, then everything that changes.
        let mut groups = Vec::new();
        let mut new = Vec::new();
        for (count, topic) in cover.topics(engine).enumerate() {
            yield_between(count).await;
            match topic.group(name) {
                Some(group) => {
                    self.check_maker(name, group.maker.as_ref())?;
                    self.check(&group)?;
                    groups.push(group);
                }
                None => new.push((topic.clone(), self.new_group(&topic, name, &options, true).await?)),
            }
        }
        let new_topics: Vec<&TopicName> = new.iter().map(|(topic, _)| &topic.name).collect();
        engine.check_groups(self.subject.as_deref(), &new_topics, usize::from(old.is_none()))?;
        let mut chunks = new.chunks(COMMITTED_GROUPS).peekable();
        // The subscription comes last: without it, groups that were stored before a crash are ordinary ones.
        while let Some(chunk) = chunks.next_if(|chunk| chunk.len() == COMMITTED_GROUPS) {
            engine.write(chunk.iter().flat_map(|(_, stored)| records_of(stored)).collect()).await?;
        }
        let rest = chunks.next().into_iter().flatten().flat_map(|(_, stored)| records_of(stored));
        engine.write(rest.chain([Record::Subscription(record.clone())]).collect()).await?;
        if old.is_none() {
            engine.remember(Made::Subscription(label.to_owned(), name.clone()), self.subject.as_deref());
        }
        for group in groups {
            group.set_options(self.request.over(&group.record().options))?;
        }
        for (count, (topic, stored)) in new.into_iter().enumerate() {
            yield_between(count).await;
            insert(engine, &topic, stored);
        }
        let maker = engine.quotas.maker_of_subscription(label, name);
        engine.fans.insert(engine, Fan::new(record, cover, maker));
        if let Some(old) = old_cover {
            let mut left: Vec<_> = old.topics(engine).collect();
            left.retain(|topic| engine.fans.driver(&topic.name, name).is_none());
            delete_driven(engine, left, name).await?;
        }
        Ok(())
    }

    /// Refuses a group of another subject. Tokens without a subject have none to be told apart by: what they made is for all.
    fn check_maker(&self, name: &GroupName, maker: Option<&Arc<str>>) -> Result<()> {
        let is_others = maker.is_some_and(|maker| !maker.is_empty() && Some(maker) != self.subject.as_ref());
        match self.own_groups && is_others {
            true => Err(Error::new(
                Code::Forbidden,
                format!(
                    "group {name} belongs to another subject; use a group of your own, or have a rule that names it in \
                     `groups`"
                ),
            )),
            false => Ok(()),
        }
    }

    /// Refuses a request that differs from what a group with members has.
    fn check(&self, group: &Group) -> Result<()> {
        let differs = self.request.conflicts(&group.record().options);
        if !differs.is_empty() && group.has_members() {
            return Err(conflict(&group.name, &differs));
        }
        Ok(())
    }

    fn adapt(&self, group: &Arc<Group>) -> Result<()> {
        self.check(group)?;
        group.set_options(self.request.over(&group.record().options))
    }

    async fn new_group(
        &self,
        topic: &Topic,
        name: &GroupName,
        options: &GroupOptions,
        driven: bool,
    ) -> Result<StoredGroup> {
        let start = match (self.from, driven) {
            (from, true) => {
                check_for_several(from)?;
                resolve(from, &self.engine, topic).await?
            }
            (from, _) => resolve(from, &self.engine, topic).await?,
        };
        let now = self.engine.clock.wall();
        let record = GroupRecord {
            topic: topic.name.clone(),
            name: name.clone(),
            options: options.clone(),
            created: now,
            idle_since: Some(self.engine.now_unset()),
            driven,
            born: self.engine.find(&topic.name.dead_letter()).map_or(0, |dlq| dlq.last()),
        };
        Ok(StoredGroup { record, state: GroupState::at(start) })
    }
}

fn conflict(name: &GroupName, differs: &[String]) -> Error {
    Error::group_conflict(format!(
        "group {name} has members and other options: {}; leave them out to take the stored values, or wait until the \
         group has no members",
        differs.join(", ")
    ))
}

fn records_of(stored: &StoredGroup) -> Vec<Record> {
    let StoredGroup { record, state } = stored;
    // Whatever an earlier group of this name left behind is replaced.
    let progress = state.since(&GroupState::unknown());
    let progress =
        progress.map(|progress| Record::Progress(record.topic.clone(), record.name.clone(), progress));
    std::iter::once(Record::Group(record.clone())).chain(progress).collect()
}

fn insert(engine: &Arc<Engine>, topic: &Arc<Topic>, stored: StoredGroup) {
    engine.add_group(&Group::new(engine.clone(), topic.clone(), stored, false));
}

/// What is deleted. Topics and labels are written alike, so it has to be said.
#[derive(Clone, Debug)]
pub(crate) enum Doomed {
    /// The ordinary group on a topic.
    Group(TopicName),
    /// The subscription with this pattern or label, with all its groups.
    Subscription(String),
}

impl std::fmt::Display for Doomed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Group(topic) => write!(f, "topic {topic}"),
            Self::Subscription(label) => write!(f, "the subscription to {label}"),
        }
    }
}

/// Deletes a group on one topic, or a subscription with all its groups. Answers how many groups went.
///
/// Stored first: if that fails, everything is as it was, and can be tried again. With `only_if_idle`, one that has got a
/// member stays.
pub(crate) async fn delete(
    engine: &Arc<Engine>,
    what: Doomed,
    name: &GroupName,
    only_if_idle: bool,
) -> Result<usize> {
    let (this, name) = (engine.clone(), name.clone());
    let act = async move {
        let _stay = this.own(&name).await?;
        let _turn = this.structure.lock().await;
        let _held = this.saver.hold().await;
        let label = match what {
            Doomed::Group(topic) => return delete_one(&this, &topic, &name, only_if_idle).await,
            Doomed::Subscription(label) => label,
        };
        match this.fans.with(&label, &name, |fan| fan.go(only_if_idle)) {
            Some(true) => {
                let deleted = delete_fan(&this, &label, &name, only_if_idle).await;
                this.fans.with(&label, &name, Fan::stay);
                deleted
            }
            Some(false) => Ok(0),
            None => Err(Error::bad_request(format!(
                "there is no subscription to {} with group {name}",
                shown(&label)
            ))),
        }
    };
    engine.unbroken(act).await
}

async fn delete_fan(
    engine: &Arc<Engine>,
    label: &str,
    name: &GroupName,
    only_if_idle: bool,
) -> Result<usize> {
    let mut groups = engine.fans.driven(engine, label, name).unwrap_or_default();
    // A group that somebody uses by itself becomes an ordinary one.
    let kept: Vec<_> = groups.extract_if(.., |group| !group.go(only_if_idle)).collect();
    let gone = Record::SubscriptionGone(label.to_owned(), name.clone());
    if let Err(error) = write_gone(engine, vec![gone], &groups).await {
        engine.saver.mark_subscription(label, name);
        return Err(error);
    }
    // Groups of topics born meanwhile are among them; those were never saved, as saves are held up.
    let mut driven = engine.fans.remove(engine, label, name, &deleted(name));
    engine.forget(&Made::Subscription(label.to_owned(), name.clone()));
    driven.retain(|group| !kept.iter().any(|kept| Arc::ptr_eq(kept, group)));
    kept.iter().for_each(|group| group.set_free());
    Ok(remove(engine, &driven))
}

async fn delete_one(
    engine: &Arc<Engine>,
    topic: &TopicName,
    name: &GroupName,
    only_if_idle: bool,
) -> Result<usize> {
    let group = engine.find(topic).and_then(|topic| topic.group(name));
    let group = group.ok_or_else(|| Error::bad_request(format!("topic {topic} has no group {name}")))?;
    if let Some(driver) = engine.fans.driver(&group.topic.name, name) {
        return Err(Error::bad_request(format!(
            "group {name} on topic {topic} belongs to the subscription to {driver}; delete that"
        )));
    }
    if !group.go(only_if_idle) {
        return Ok(0);
    }
    write_gone(engine, Vec::new(), std::slice::from_ref(&group)).await?;
    Ok(remove(engine, &[group]))
}

/// Deletes the groups called `name` that a subscription made on `topics` and drives no more. Those that cannot be deleted
/// become ordinary ones.
async fn delete_driven(engine: &Arc<Engine>, topics: Vec<Arc<Topic>>, name: &GroupName) -> Result<()> {
    let _held = engine.saver.hold().await;
    let groups = topics.iter().filter_map(|topic| topic.group(name)).filter(|group| group.record().driven);
    let (go, stay): (Vec<_>, Vec<_>) = groups.partition(|group| group.go(true));
    stay.iter().for_each(|group| group.set_free());
    let written = write_gone(engine, Vec::new(), &go).await;
    match &written {
        Ok(()) => drop(remove(engine, &go)),
        Err(_) => go.iter().for_each(|group| group.set_free()),
    }
    written
}

/// Stores that groups are gone. If it is not known whether that was stored, they are stored again.
async fn write_gone(engine: &Arc<Engine>, mut records: Vec<Record>, groups: &[Arc<Group>]) -> Result<()> {
    records
        .extend(groups.iter().map(|group| Record::GroupGone(group.topic.name.clone(), group.name.clone())));
    if records.is_empty() {
        return Ok(());
    }
    let written = engine.write(records).await;
    if written.is_err() {
        for group in groups {
            group.stay();
            group.saved(GroupState::unknown(), false);
        }
    }
    written
}

/// Deletes all groups on these topics that this hub owns, those that subscriptions drive included. Answers how many.
pub(crate) async fn delete_groups_of(engine: &Arc<Engine>, topics: &[TopicName]) -> Result<usize> {
    let on_topics = || {
        let topics = topics.iter().filter_map(|name| engine.find(name));
        topics.flat_map(|topic| topic.groups.read().values().cloned().collect::<Vec<_>>())
    };
    // Names are not given up while their groups are deleted. A name that was lost is its new owner's matter.
    let mut stays = BTreeMap::new();
    for name in on_topics().map(|group| group.name.clone()).collect::<BTreeSet<_>>() {
        if let Ok(stay) = engine.own(&name).await {
            stays.insert(name, stay);
        }
    }
    let _turn = engine.structure.lock().await;
    let _held = engine.saver.hold().await;
    let owned: Vec<_> =
        on_topics().filter(|group| stays.contains_key(&group.name) && !group.tenure.is_lost()).collect();
    for group in &owned {
        group.go(false);
    }
    let mut count = 0;
    for chunk in owned.chunks(COMMITTED_GROUPS) {
        write_gone(engine, Vec::new(), chunk).await?;
        for group in chunk {
            forget(engine, group);
            // Members of a pattern or a list go on with their other topics.
            let members = engine.fans.members_of(&group.topic.name, &group.name);
            group.delete_with(&topic_deleted(&group.topic.name), |member| members.contains(&member));
        }
        count += chunk.len();
    }
    Ok(count)
}

fn remove(engine: &Arc<Engine>, groups: &[Arc<Group>]) -> usize {
    for group in groups {
        forget(engine, group);
        group.delete(&deleted(&group.name));
    }
    groups.len()
}

/// Takes a group out of its topic, and forgets the subject that made it.
fn forget(engine: &Arc<Engine>, group: &Group) {
    engine.remove_group(group);
    engine.forget(&Made::Group(group.topic.name.clone(), group.name.clone()));
}
