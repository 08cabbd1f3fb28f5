//! Looks at the bus once a second, and keeps what it has seen as rows.
//!
//! A look at everything would cost what the hub holds. So each sample looks at the topics on which something happened in the last
//! minute, at those whose groups have something to do, at those that a viewer asked for by name, and at the next
//! [`ROTATION`] of all others: what is idle costs the same however much of it there is, and is seen within a second on a
//! hub with no more topics than that.

use super::rows::{GroupRow, TopicRow};
use super::snapshot::{BusyRow, GivenUp, Snapshot};
use futures_util::FutureExt;
use hub_core::store::Bounds;
use hub_core::{Bus, BusyGroup, BusyTopic, GroupSample, GroupStatus, MeasuredRates, TopicSample};
use hub_proto::{GroupName, TopicName};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// Topics that are looked at in turn, in each sample.
const ROTATION: usize = 1024;
/// Topics under one lock of the bus's index.
const PAGE: usize = 256;
/// Topics whose groups have something to do, that are looked at again in the next sample.
const RESTLESS: usize = 2048;
/// Topics that are looked at before others get their turn.
const STRIDE: usize = 32;
/// Topics of which a store that does not answer at once is asked for the extent, in each sample, and how long it has.
const ASKED: usize = 64;
const PATIENCE: Duration = Duration::from_millis(500);

/// A topic's place, once it has one, and those of its groups.
#[derive(Default)]
struct Known {
    at: Option<u32>,
    groups: BTreeMap<GroupName, u32>,
}

/// See the module.
pub(super) struct Collector {
    bus: Bus,
    generation: u64,
    number: u64,
    known: BTreeMap<TopicName, Known>,
    now: Snapshot,
    /// The last topic that was looked at in turn.
    turn: Option<TopicName>,
    /// Topics that were busy in the last sample, or whose groups have something to do.
    restless: HashSet<TopicName>,
    topic_rates: HashMap<TopicName, MeasuredRates<TopicSample>>,
    group_rates: HashMap<TopicName, HashMap<GroupName, MeasuredRates<GroupSample>>>,
    /// Topics whose extent the store did not tell at once.
    unknown_bounds: Vec<TopicName>,
}

impl Collector {
    pub fn new(bus: Bus) -> Self {
        Self {
            bus,
            generation: 0,
            number: 0,
            known: BTreeMap::new(),
            now: Snapshot::new(0, 0, 0),
            turn: None,
            restless: HashSet::new(),
            topic_rates: HashMap::new(),
            group_rates: HashMap::new(),
            unknown_bounds: Vec::new(),
        }
    }

    /// Forgets everything, and looks at every topic there is.
    pub async fn begin(&mut self) -> Arc<Snapshot> {
        self.forget();
        self.generation += 1;
        self.number += 1;
        self.now = Snapshot::new(self.generation, self.number, self.bus.now());
        let busy = self.measure();
        let mut after: Option<TopicName> = None;
        loop {
            let page = self.bus.topics_after("", after.as_deref(), PAGE);
            let Some(last) = page.last() else { break };
            after = Some(last.clone());
            self.look_at(page).await;
        }
        self.finish(busy)
    }

    /// Gives back what it has in memory.
    pub fn forget(&mut self) {
        let (bus, generation, number) = (self.bus.clone(), self.generation, self.number);
        *self = Self { generation, number, ..Self::new(bus) };
    }

    /// Looks at what may have changed. `watched` are the topics that viewers have asked for by name.
    pub async fn sample(&mut self, watched: Vec<TopicName>) -> Arc<Snapshot> {
        if self.now.topics.is_sparse() || self.now.groups.is_sparse() {
            return self.begin().await;
        }
        self.number += 1;
        self.now.number = self.number;
        self.now.ts = self.bus.now();
        let busy = self.measure();
        let mut names = std::mem::take(&mut self.restless);
        names.extend(watched);
        names.extend(self.topic_rates.keys().cloned());
        names.extend(self.group_rates.keys().cloned());
        names.extend(self.next_in_turn());
        self.look_at(names).await;
        self.ask_for_bounds().await;
        self.finish(busy)
    }

    /// What the bus has counted since the last sample.
    fn measure(&mut self) -> (Vec<BusyTopic>, Vec<BusyGroup>) {
        let (mut topics, mut groups) = (self.bus.busy_topics(), self.bus.busy_groups());
        topics.retain(|busy| !busy.topic.is_system());
        groups.retain(|busy| !busy.topic.is_system());
        self.topic_rates = topics.iter().map(|busy| (busy.topic.clone(), busy.rates)).collect();
        self.group_rates.clear();
        for busy in &groups {
            self.group_rates.entry(busy.topic.clone()).or_default().insert(busy.group.clone(), busy.rates);
        }
        (topics, groups)
    }

    /// The next topics in the order of their names, and those that were known among them and are gone.
    fn next_in_turn(&mut self) -> Vec<TopicName> {
        let mut names = Vec::new();
        for _ in 0..ROTATION / PAGE {
            let page = self.bus.topics_after("", self.turn.as_deref(), PAGE);
            let start = self.turn.take().map_or(Bound::Unbounded, Bound::Excluded);
            let end = match page.last() {
                Some(last) if page.len() == PAGE => Bound::Included(last.clone()),
                _ => Bound::Unbounded,
            };
            names.extend(
                self.known
                    .range::<TopicName, _>((start.as_ref(), end.as_ref()))
                    .map(|(name, _)| name.clone()),
            );
            let is_last = page.len() < PAGE;
            self.turn = page.last().filter(|_| !is_last).cloned();
            names.extend(page);
            if is_last {
                break;
            }
        }
        names
    }

    async fn look_at(&mut self, names: impl IntoIterator<Item = TopicName>) {
        let mut vanished = Vec::new();
        for (count, name) in names.into_iter().enumerate() {
            if count % STRIDE == STRIDE - 1 {
                tokio::task::yield_now().await;
            }
            self.look(name, &mut vanished);
        }
        if self.bus.hub().is_some() {
            self.find_elsewhere(&mut vanished).await;
        }
        for (topic, group) in vanished {
            self.remove_group(&topic, &group);
        }
    }

    /// Looks at one topic with its groups. Groups that are not there any more are added to `vanished`.
    fn look(&mut self, name: TopicName, vanished: &mut Vec<(TopicName, GroupName)>) {
        let Some(last) = self.bus.last_seq(&name) else { return self.remove_topic(&name) };
        let rates = self.topic_rates.get(&name).copied().unwrap_or_default();
        let groups = self.look_at_groups(&name, vanished);
        let (known, number) = (self.known.entry(name.clone()).or_default(), self.number);
        let before = known.at.and_then(|at| Some((at, self.now.topics.get(at)?.row.clone())));
        let known_bounds = before.as_ref().and_then(|(_, row)| row.bounds);
        let bounds = match self.bus.bounds(&name).now_or_never() {
            Some(bounds) => bounds.ok().or(known_bounds),
            None => {
                if known_bounds.is_none_or(|bounds| bounds.last != last) {
                    self.unknown_bounds.push(name.clone());
                }
                known_bounds.map(|bounds| grown(bounds, last, self.now.ts))
            }
        };
        let row = TopicRow::new(name, last, bounds, rates, groups);
        match before {
            None => known.at = Some(self.now.topics.push(row, number)),
            Some((at, before)) if row.differs(&before) => self.now.topics.set(at, row, number),
            Some(_) => {}
        }
    }

    /// Answers the places of a topic's groups.
    fn look_at_groups(&mut self, topic: &TopicName, vanished: &mut Vec<(TopicName, GroupName)>) -> Vec<u32> {
        let statuses = self.bus.groups(topic);
        if statuses.is_empty() && self.known.get(topic).is_none_or(|known| known.groups.is_empty()) {
            return Vec::new();
        }
        let mut missing: HashSet<GroupName> =
            self.known.get(topic).map(|known| known.groups.keys().cloned().collect()).unwrap_or_default();
        let has_work = |status: &GroupStatus| status.inflight > 0 || status.lag > 0 && status.members > 0;
        if self.restless.len() < RESTLESS && statuses.iter().any(has_work) {
            self.restless.insert(topic.clone());
        }
        for status in statuses {
            missing.remove(&status.group);
            self.put_group(status);
        }
        vanished.extend(missing.into_iter().map(|group| (topic.clone(), group)));
        let known = self.known.get(topic);
        known.map(|known| known.groups.values().copied().collect()).unwrap_or_default()
    }

    fn put_group(&mut self, status: GroupStatus) {
        let of_topic = self.group_rates.get(&status.topic);
        let rates = of_topic.and_then(|rates| rates.get(&status.group)).copied().unwrap_or_default();
        let (topic, group) = (status.topic.clone(), status.group.clone());
        let row = GroupRow::new(status, rates, self.now.ts);
        let (groups, number) = (&mut self.now.groups, self.number);
        let known = self.known.entry(topic).or_default();
        match known.groups.get(&group) {
            None => {
                let at = groups.push(row, number);
                known.groups.insert(group, at);
            }
            Some(at) if groups.get(*at).is_some_and(|slot| row.differs(&slot.row)) => {
                groups.set(*at, row, number);
            }
            Some(_) => {}
        }
    }

    /// With several hubs, a group that is not here any more may be on another one: it stays, as that one has saved it.
    async fn find_elsewhere(&mut self, vanished: &mut Vec<(TopicName, GroupName)>) {
        let topics: HashSet<TopicName> = vanished.iter().map(|(topic, _)| topic.clone()).collect();
        if topics.is_empty() {
            return;
        }
        let topics: Vec<TopicName> = topics.into_iter().collect();
        // Without an answer they stay as they are.
        let Ok(Ok(elsewhere)) = tokio::time::timeout(PATIENCE, self.bus.elsewhere(&topics)).await else {
            return vanished.clear();
        };
        let found: HashSet<(TopicName, GroupName)> =
            elsewhere.iter().map(|group| (group.status.topic.clone(), group.status.group.clone())).collect();
        for group in elsewhere {
            let key = (group.status.topic.clone(), group.status.group.clone());
            if vanished.contains(&key) {
                self.put_group(group.status);
            }
        }
        vanished.retain(|key| !found.contains(key));
    }

    fn remove_topic(&mut self, name: &TopicName) {
        let Some(known) = self.known.remove(name) else { return };
        if let Some(at) = known.at {
            self.now.topics.remove(at, self.number);
        }
        for at in known.groups.into_values() {
            self.now.groups.remove(at, self.number);
        }
    }

    fn remove_group(&mut self, topic: &TopicName, group: &GroupName) {
        let Some(known) = self.known.get_mut(topic) else { return };
        let Some(at) = known.groups.remove(group) else { return };
        self.now.groups.remove(at, self.number);
        let Some((at, row)) = known.at.and_then(|at| Some((at, self.now.topics.get(at)?.row.clone()))) else {
            return;
        };
        let groups = known.groups.values().copied().collect();
        let row = TopicRow::new(topic.clone(), row.last, row.bounds, row.rates, groups);
        self.now.topics.set(at, row, self.number);
    }

    /// Asks a store that does not answer at once for some of the extents that are not known.
    async fn ask_for_bounds(&mut self) {
        let mut names = std::mem::take(&mut self.unknown_bounds);
        names.truncate(ASKED);
        if names.is_empty() {
            return;
        }
        let bus = self.bus.clone();
        let asked = names.iter().map(|name| bus.bounds(name));
        let asked = futures_util::future::join_all(asked);
        // They are estimated until the store answers.
        let Ok(answers) = tokio::time::timeout(PATIENCE, asked).await else { return };
        for (name, bounds) in names.into_iter().zip(answers) {
            let (Ok(bounds), Some(at)) = (bounds, self.known.get(&name).and_then(|known| known.at)) else {
                continue;
            };
            let Some(row) = self.now.topics.get(at).map(|slot| slot.row.clone()) else { continue };
            let row = TopicRow::new(name, row.last, Some(bounds), row.rates, row.groups.clone());
            self.now.topics.set(at, row, self.number);
        }
    }

    /// The sample for the viewers.
    fn finish(&mut self, (topics, groups): (Vec<BusyTopic>, Vec<BusyGroup>)) -> Arc<Snapshot> {
        let mut snapshot = Snapshot::new(self.generation, self.number, self.now.ts);
        snapshot.topics = self.now.topics.clone();
        snapshot.groups = self.now.groups.clone();
        snapshot.health = self.bus.health();
        // What is busy now is looked at once more when it is not.
        self.restless.extend(topics.iter().map(|busy| busy.topic.clone()));
        self.restless.extend(groups.iter().map(|busy| busy.topic.clone()));
        snapshot.busy_topics = topics
            .into_iter()
            .filter_map(|busy| Some((self.known.get(&busy.topic)?.at?, busy.rates.second)))
            .collect();
        for BusyGroup { topic, group, rates, latency, handler, given_up } in groups {
            let Some(at) = self.known.get(&topic).and_then(|known| known.groups.get(&group)) else {
                continue;
            };
            snapshot.busy_groups.push(BusyRow { at: *at, second: rates.second, latency, handler });
            if let Some((count, last)) = given_up {
                snapshot.given_up.push(GivenUp { topic, group, count, last });
            }
        }
        snapshot.given_up.sort_unstable_by_key(|given_up| Reverse(given_up.count));
        Arc::new(snapshot)
    }
}

/// The extent of a log that has grown, as far as it can be told without the store.
fn grown(bounds: Bounds, last: u64, now: hub_core::Millis) -> Bounds {
    let more = last.saturating_sub(bounds.last);
    if more == 0 {
        return bounds;
    }
    let bytes = bounds.bytes.checked_div(bounds.events).unwrap_or_default().saturating_mul(more);
    Bounds {
        last,
        events: bounds.events + more,
        bytes: bounds.bytes + bytes,
        last_committed: bounds.last_committed.max(now),
        ..bounds
    }
}
