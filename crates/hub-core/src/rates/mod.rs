//! How much happens on topics and in groups: per second, per minute, and over the last day.
//!
//! A program that shows rates calls [`Bus::sample_rates`](crate::Bus::sample_rates) once a second. One sample serves all viewers, and looks
//! at what has changed: a topic or a group is on the list from its first event on, and leaves it after a minute without one. Counting is
//! an addition under a lock that is held anyway, or one per commit. Without anybody who samples, nothing is counted.
//!
//! What is kept is bounded: so many [series](MAX_SERIES) of topics and of groups, each with so many samples. When all are in use, the one
//! that was idle for longest makes room; one that is busy never does, and the newcomer is not counted.

mod activity;
mod busy;
mod quantile;
mod series;

pub(crate) use activity::{Activity, TopicCounters};
pub use activity::{GroupSample, TopicSample};
pub use busy::{BusyGroup, BusyTopic};
pub use quantile::{Buckets as DurationBuckets, Quantiles};
pub use series::{Range, Rated, Rates as MeasuredRates};

use crate::Millis;
use crate::group::Group;
use crate::topic::Topic;
use activity::TopicActivity;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_proto::{GroupName, TopicName};
use parking_lot::Mutex;
use series::{Counts, Series};
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Series of topics that are kept, and as many of groups.
const MAX_SERIES: usize = 1000;
/// What wakes up between two samples; more than this is counted from the next sample on.
const MAX_WOKEN: usize = 4096;
/// After so many samples without an event, a topic or a group leaves the list.
const IDLE_SAMPLES: u32 = 60;

/// See the module.
#[derive(Default)]
pub(crate) struct Rates {
    /// Somebody samples.
    is_on: AtomicBool,
    topics: Table<Topic, TopicName, TopicActivity>,
    groups: Table<Group, (TopicName, GroupName), Activity>,
    /// When the last sample was taken, by the steady clock.
    sampled: Mutex<Option<Millis>>,
}

/// Topics, or groups.
struct Table<S, K, C: Counts> {
    /// There is no room for another series.
    is_full: AtomicBool,
    woken: Mutex<Vec<Weak<S>>>,
    inner: Mutex<Inner<S, K, C>>,
}

struct Inner<S, K, C: Counts> {
    active: Vec<(Weak<S>, K, u32)>,
    series: HashMap<K, Series<C>, RandomState>,
}

impl<S, K, C: Counts> Default for Table<S, K, C> {
    fn default() -> Self {
        let inner = Inner { active: Vec::new(), series: HashMap::default() };
        Self { is_full: AtomicBool::new(false), woken: Mutex::default(), inner: Mutex::new(inner) }
    }
}

/// What is counted until the next sample.
trait Source<K, C> {
    fn name(&self) -> K;
    /// Takes what was counted since the last sample.
    fn take(&self) -> C;
    /// Nothing is counted until it is woken again.
    fn sleep(&self);
}

impl<S: Source<K, C>, K: Clone + Eq + Hash, C: Counts> Table<S, K, C> {
    /// Puts something on the list. False if there is no room.
    fn wake(&self, source: Weak<S>) -> bool {
        if self.is_full.load(Relaxed) {
            return false;
        }
        let mut woken = self.woken.lock();
        let has_room = woken.len() < MAX_WOKEN;
        if has_room {
            woken.push(source);
        }
        has_room
    }

    fn sample(&self, now: Millis, elapsed: Millis) {
        let woken = std::mem::take(&mut *self.woken.lock());
        let mut inner = self.inner.lock();
        let Inner { active, series } = &mut *inner;
        let mut has_room = true;
        for source in woken {
            let Some(strong) = source.upgrade() else { continue };
            let name = strong.name();
            // Once no series is idle, none is for the others that woke up.
            has_room = has_room && (series.contains_key(&name) || make_room(series, now));
            match has_room || series.contains_key(&name) {
                true => {
                    series.entry(name.clone()).or_default();
                    active.push((source, name, 0));
                }
                false => strong.sleep(),
            }
        }
        active.retain_mut(|(source, name, idle)| {
            let Some(source) = source.upgrade() else { return false };
            let counted = source.take();
            *idle = if counted.is_zero() { *idle + 1 } else { 0 };
            if let Some(series) = series.get_mut(name) {
                series.add(&counted, now, elapsed);
            }
            let is_idle = *idle >= IDLE_SAMPLES;
            if is_idle {
                source.sleep();
            }
            !is_idle
        });
        self.is_full.store(series.len() >= MAX_SERIES && active.len() >= MAX_SERIES, Relaxed);
    }

    fn read<T>(&self, name: &K, read: impl FnOnce(&Series<C>) -> T) -> Option<T> {
        self.inner.lock().series.get(name).map(read)
    }

    /// What `read` makes of each series that it is about.
    fn read_all<T>(&self, read: impl Fn(&K, &Series<C>) -> Option<T>) -> Vec<T> {
        self.inner.lock().series.iter().filter_map(|(name, series)| read(name, series)).collect()
    }

    fn names(&self) -> Vec<K> {
        self.inner.lock().series.keys().cloned().collect()
    }

    fn forget(&self, name: &K) {
        let mut inner = self.inner.lock();
        inner.series.remove(name);
        inner.active.retain(|(_, active, _)| active != name);
    }
}

/// Makes room for one more series, if there is none, by dropping the one that was idle for longest.
fn make_room<K: Clone + Eq + Hash, C: Counts>(
    series: &mut HashMap<K, Series<C>, RandomState>,
    now: Millis,
) -> bool {
    if series.len() < MAX_SERIES {
        return true;
    }
    let oldest = series.iter().min_by_key(|(_, series)| series.last_active());
    let oldest = oldest.filter(|(_, series)| series.is_idle(now)).map(|(name, _)| name.clone());
    oldest.is_some_and(|name| series.remove(&name).is_some())
}

impl Rates {
    /// Whether anything is counted.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// A group counts from now on; false if there is no room for it.
    pub fn wake_group(&self, group: &Arc<Group>) -> bool {
        self.groups.wake(Arc::downgrade(group))
    }

    /// A topic got events.
    pub fn published(&self, topic: &Arc<Topic>, events: u64, bytes: u64) {
        if topic.activity.add(events, bytes) && !self.topics.wake(Arc::downgrade(topic)) {
            topic.activity.sleep();
        }
    }

    /// Takes a sample. `wall` is what it is stamped with, `steady` what its duration goes by.
    pub fn sample(&self, wall: Millis, steady: Millis) {
        let before = self.sampled.lock().replace(steady);
        self.is_on.store(true, Relaxed);
        let elapsed = before.map_or(1000, |before| steady.saturating_sub(before)).max(1);
        self.topics.sample(wall, elapsed);
        self.groups.sample(wall, elapsed);
    }

    pub fn of_topic(&self, topic: &TopicName, now: Millis) -> Option<MeasuredRates<TopicSample>> {
        self.topics.read(topic, |series| series.rates(now))
    }

    pub fn of_group(
        &self,
        topic: &TopicName,
        group: &GroupName,
        now: Millis,
    ) -> Option<MeasuredRates<GroupSample>> {
        self.groups.read(&(topic.clone(), group.clone()), |series| series.rates(now))
    }

    pub fn topic_history(&self, topic: &TopicName, range: Range, now: Millis) -> Vec<Rated<TopicSample>> {
        self.topics.read(topic, |series| series.history(range, now)).unwrap_or_default()
    }

    pub fn group_history(
        &self,
        topic: &TopicName,
        group: &GroupName,
        range: Range,
        now: Millis,
    ) -> Vec<Rated<GroupSample>> {
        self.groups
            .read(&(topic.clone(), group.clone()), |series| series.history(range, now))
            .unwrap_or_default()
    }

    /// The topics that have samples.
    pub fn topics(&self) -> Vec<TopicName> {
        self.topics.names()
    }

    /// The groups that have samples.
    pub fn groups(&self) -> Vec<(TopicName, GroupName)> {
        self.groups.names()
    }

    /// A topic was deleted.
    pub fn forget_topic(&self, topic: &TopicName) {
        self.topics.forget(topic);
    }

    /// A group was deleted, or another hub has it.
    pub fn forget_group(&self, topic: &TopicName, group: &GroupName) {
        self.groups.forget(&(topic.clone(), group.clone()));
    }
}

impl Source<TopicName, TopicActivity> for Topic {
    fn name(&self) -> TopicName {
        self.name.clone()
    }

    fn take(&self) -> TopicActivity {
        self.activity.take()
    }

    fn sleep(&self) {
        self.activity.sleep();
    }
}

impl Source<(TopicName, GroupName), Activity> for Group {
    fn name(&self) -> (TopicName, GroupName) {
        (self.topic.name.clone(), self.name.clone())
    }

    fn take(&self) -> Activity {
        self.take_activity()
    }

    fn sleep(&self) {
        self.sleep_activity();
    }
}

#[cfg(test)]
mod tests;
