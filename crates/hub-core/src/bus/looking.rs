//! For those who look at a running hub: where an event stands, a closer look at a group, rates.

use super::Bus;
use crate::Millis;
use crate::config::TopicSettings;
use crate::dead_letter;
use crate::engine::Engine;
use crate::group::look::{EventInGroup, EventState, GroupDetail};
use crate::group::options::GroupOptions;
use crate::letters;
use crate::position::refused;
use crate::rates::{BusyGroup, BusyTopic, GroupSample, MeasuredRates, Range, Rated, TopicSample};
use crate::store::{ReadLimit, StoredGroup};
use crate::topic::Topic;
use hub_proto::{Event, EventId, GroupName, Result, TopicName};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many seeks back the dead letters of a group are looked for.
const EPOCHS: u64 = 4;

impl Bus {
    // ---- one topic ----

    /// What a topic keeps, by the rules as they are now; `None` if there is no such topic.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// let week = TopicSettings { retention_days: Some(7), ..TopicSettings::default() };
    /// let config = Config::default().topic("orders.*", week)?;
    /// let bus = Bus::builder(MemoryStore::new()).config(config).open().await?;
    /// bus.publish("orders.new", json!(1)).await?;
    /// assert_eq!(bus.topic_settings("orders.new").and_then(|settings| settings.retention_days), Some(7));
    /// # bus.stop().await }
    /// ```
    pub fn topic_settings(&self, topic: &str) -> Option<Arc<TopicSettings>> {
        self.engine().find(topic).map(|topic| topic.settings())
    }

    /// How long ids are remembered at least: [`Config::dedupe_window`](crate::Config).
    pub fn dedupe_window(&self) -> Millis {
        self.engine().config.dedupe_window
    }

    /// The newest seq of a topic, from memory; `None` if there is no such topic.
    pub fn last_seq(&self, topic: &str) -> Option<u64> {
        self.engine().find(topic).map(|topic| topic.last())
    }

    // ---- one event ----

    /// The seq of an id on a topic; also of an event that was cleaned away, while its id is remembered.
    pub async fn seq_of(&self, topic: &str, id: EventId) -> Result<Option<u64>> {
        let topic = self.engine().known(topic)?;
        self.engine().store.seq_of(&topic.name, id).await.map_err(refused)
    }

    /// The event at a seq; `None` if it was cleaned away, or is not there yet.
    pub async fn event_at(&self, topic: &str, seq: u64) -> Result<Option<Arc<Event>>> {
        let topic = self.engine().known(topic)?;
        event_at(self.engine(), &topic, seq).await
    }

    /// Where the event at a seq stands in each of these groups. A group that another hub serves is looked at as it was last saved;
    /// one that is not there is left out.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// let mut group = bus.subscribe("t").group("g").open().await?;
    /// bus.publish("t", json!(1)).await?;
    /// let names = bus.group_names("t");
    /// let delivery = group.recv().await?;
    /// assert!(matches!(bus.event_in_groups("t", 1, &names).await?[0].state, EventState::Leased { .. }));
    /// delivery.ack()?;
    /// assert_eq!(bus.event_in_groups("t", 1, &names).await?[0].state, EventState::Settled);
    /// # bus.stop().await }
    /// ```
    ///
    /// # Errors
    /// `bad_request` if there is no such topic, `unavailable` if the store does not answer.
    pub async fn event_in_groups(
        &self,
        topic: &str,
        seq: u64,
        groups: &[GroupName],
    ) -> Result<Vec<EventInGroup>> {
        let engine = self.engine();
        let topic = engine.known(topic)?;
        let event = event_at(engine, &topic, seq).await?;
        let is_filtered = |options: &GroupOptions, group: &GroupName| {
            event.as_ref().is_some_and(|event| {
                event.audience().is_some_and(|audience| audience != group.as_str())
                    || !options.filter.matches(event)
            })
        };
        let has_letters = engine.find(&topic.name.dead_letter()).is_some();
        let mut elsewhere = elsewhere(engine, &topic, groups).await?;
        let mut found = Vec::new();
        for name in groups {
            let (mut place, born, epoch) = match topic.group(name) {
                Some(group) => {
                    let record = group.record();
                    let (state, tries, epoch) = group.look(seq);
                    let place = EventInGroup {
                        group: name.clone(),
                        state,
                        attempts: tries.attempts,
                        failures: tries.failures,
                        is_filtered: is_filtered(&record.options, name),
                        is_saved: false,
                        letter: None,
                    };
                    (place, record.born, epoch)
                }
                None => match elsewhere.remove(name) {
                    Some(StoredGroup { record, state: saved }) => {
                        let (state, tries) = EventState::saved(&saved, seq);
                        let place = EventInGroup {
                            group: name.clone(),
                            state,
                            attempts: tries.attempts,
                            failures: tries.failures,
                            is_filtered: is_filtered(&record.options, name),
                            is_saved: true,
                            letter: None,
                        };
                        (place, record.born, saved.epoch)
                    }
                    None => continue,
                },
            };
            if has_letters && place.state == EventState::Settled && !place.is_filtered {
                place.letter = letter_of(engine, &topic.name, name, born, epoch, seq).await?;
            }
            found.push(place);
        }
        Ok(found)
    }

    // ---- one group ----

    /// A closer look at a group that this hub serves.
    pub async fn group_detail(&self, topic: &str, group: &str) -> Result<Option<GroupDetail>> {
        let engine = self.engine();
        let Some(topic) = engine.find(topic) else { return Ok(None) };
        let Some(group) = topic.group(group) else { return Ok(None) };
        let mut detail = group.detail();
        if let Some(oldest) = detail.status.oldest.as_mut().filter(|oldest| oldest.age.is_none()) {
            // The first that is kept: there may be holes before it.
            let one = ReadLimit { events: 1, bytes: 1 };
            let read = engine.store.read(&topic.name, oldest.seq - 1, one).await.map_err(refused)?;
            if let Some(event) = read.first() {
                oldest.seq = event.seq();
                oldest.age = Some(engine.clock.wall().saturating_sub(event.committed()));
            }
        }
        if let Some(blocking) = &mut detail.blocking
            && let Some(event) = event_at(engine, &topic, blocking.seq).await?
        {
            blocking.id = Some(event.id());
            blocking.key = event.key().cloned();
        }
        Ok(Some(detail))
    }

    // ---- rates ----

    /// Takes a sample of what topics and groups did since the last one. Called once a second by a program that shows rates; until the
    /// first call nothing is counted. It costs what has changed.
    pub fn sample_rates(&self) {
        let engine = self.engine();
        engine.rates.sample(engine.clock.wall(), engine.clock.steady());
    }

    /// What is published to a topic through this hub; `None` if nothing was for long, or there are too many busy topics.
    pub fn topic_rates(&self, topic: &TopicName) -> Option<MeasuredRates<TopicSample>> {
        self.engine().rates.of_topic(topic, self.now())
    }

    /// What a group of this hub does; `None` as for topics.
    pub fn group_rates(&self, topic: &TopicName, group: &GroupName) -> Option<MeasuredRates<GroupSample>> {
        self.engine().rates.of_group(topic, group, self.now())
    }

    /// The topics to which something was published through this hub in the last minute, at most 1,000, in no order. One call answers
    /// what a call of [`topic_rates`](Self::topic_rates) for each would.
    pub fn busy_topics(&self) -> Vec<BusyTopic> {
        self.engine().rates.busy_topics(self.now())
    }

    /// The groups of this hub that did something in the last minute, or have given up events in the last hour; at most 1,000, in no order.
    pub fn busy_groups(&self) -> Vec<BusyGroup> {
        self.engine().rates.busy_groups(self.now())
    }

    /// The topics that have samples, at most 1,000, in no order.
    pub fn measured_topics(&self) -> Vec<TopicName> {
        self.engine().rates.topics()
    }

    /// The groups of this hub that have samples, at most 1,000, in no order.
    pub fn measured_groups(&self) -> Vec<(TopicName, GroupName)> {
        self.engine().rates.groups()
    }

    /// Samples of a topic, oldest first. Times in which nothing happened have none.
    pub fn topic_history(&self, topic: &TopicName, range: Range) -> Vec<Rated<TopicSample>> {
        self.engine().rates.topic_history(topic, range, self.now())
    }

    /// Samples of a group, oldest first.
    pub fn group_history(
        &self,
        topic: &TopicName,
        group: &GroupName,
        range: Range,
    ) -> Vec<Rated<GroupSample>> {
        self.engine().rates.group_history(topic, group, range, self.now())
    }
}

async fn event_at(engine: &Engine, topic: &Topic, seq: u64) -> Result<Option<Arc<Event>>> {
    // Not from memory, which may have what was cleaned away.
    let Some(before) = seq.checked_sub(1) else { return Ok(None) };
    let one = ReadLimit { events: 1, bytes: 1 };
    let read = engine.store.read(&topic.name, before, one).await.map_err(refused)?;
    Ok(read.into_iter().find(|event| event.seq() == seq))
}

/// Those of the groups that this hub does not serve, as they were last saved.
async fn elsewhere(
    engine: &Engine,
    topic: &Topic,
    groups: &[GroupName],
) -> Result<BTreeMap<GroupName, StoredGroup>> {
    let Some(cluster) = &engine.cluster else { return Ok(BTreeMap::new()) };
    if groups.iter().all(|group| topic.group(group).is_some()) {
        return Ok(BTreeMap::new());
    }
    let stored = cluster.stored_groups(std::slice::from_ref(&topic.name)).await.map_err(refused)?;
    Ok(stored.into_iter().map(|stored| (stored.record.name.clone(), stored)).collect())
}

/// The letter that a group wrote of an event, since one of its last seeks.
async fn letter_of(
    engine: &Engine,
    topic: &TopicName,
    group: &GroupName,
    born: u64,
    epoch: u64,
    seq: u64,
) -> Result<Option<letters::DeadLetter>> {
    for epoch in (epoch.saturating_sub(EPOCHS - 1)..=epoch).rev() {
        let id = dead_letter::id_of(topic, group, born, epoch, seq);
        if let Some(letter) = letters::find_any(engine, topic, id).await? {
            return Ok(Some(letter));
        }
    }
    Ok(None)
}
