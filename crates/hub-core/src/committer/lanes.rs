//! One line per topic, before a store that commits topics independently of each other
//! ([`EventStore::lanes`](crate::store::EventStore::lanes)).
//!
//! A topic has one commit under way at a time; what comes meanwhile is its next one. A bounded number of topics commit at once, in
//! the order in which they got something to commit. Groups and subscriptions have a lane of their own.
//!
//! A topic is **held up** when its commit takes longer than [`HELD_UP_AFTER`] or has failed, until one succeeds: the shard that has it
//! does not answer, for example. Topics that are held up must not hold up the others. So they have their own places among those that
//! commit at once, and their own [room](super::room).

use super::queue::{Batch, Queue};
use super::room::{Room, Rooms};
use super::{Aboard, Committer, Left, Target};
use crate::Millis;
use crate::store::{Committed, StoreError};
use crate::topic::Topic;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_proto::{Error, Result, TopicName};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// A commit that takes longer holds its topic up.
const HELD_UP_AFTER: Duration = Duration::from_secs(1);
/// Topics that are held up and whose commits are under way. Beyond that, they take the places of topics that are not.
const MAX_HELD_UP: usize = 64;

/// A lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LaneId {
    Topic(TopicName),
    /// Groups and subscriptions.
    Records,
}

/// Which places a lane commits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Steady,
    HeldUp,
    Records,
}

/// The places of a class.
#[derive(Default)]
struct Places {
    /// Lanes that have something to commit and nothing under way, in the order in which they commit.
    waiting: VecDeque<LaneId>,
    taken: usize,
}

#[derive(Default)]
struct AllPlaces {
    steady: Places,
    held_up: Places,
    records: Places,
}

impl AllPlaces {
    fn of(&mut self, class: Class) -> &mut Places {
        match class {
            Class::Steady => &mut self.steady,
            Class::HeldUp => &mut self.held_up,
            Class::Records => &mut self.records,
        }
    }
}

struct Lane {
    queue: Queue,
    /// `None` for records.
    topic: Option<Arc<Topic>>,
    class: Class,
    /// When the lane was given its place; `None` while it has none.
    began: Option<Instant>,
    /// The commit that is under way.
    in_flight: Option<Aboard>,
}

/// See the module.
pub struct Lanes {
    lanes: HashMap<LaneId, Lane, RandomState>,
    places: AllPlaces,
    /// Steady lanes in the order in which they were given their places. Some may have given them back.
    began: VecDeque<(Instant, LaneId)>,
    at_once: usize,
    /// Nothing more is taken.
    pub closed: bool,
}

impl Lanes {
    pub fn new(at_once: usize) -> Self {
        Self {
            lanes: HashMap::default(),
            places: AllPlaces::default(),
            began: VecDeque::new(),
            at_once: at_once.max(1),
            closed: false,
        }
    }

    /// The batch that so many more events of a topic, or records, go to. Room that they have is moved if the topic is held up.
    pub fn batch(
        &mut self,
        topic: Option<&Arc<Topic>>,
        more: usize,
        room: &mut Room,
        rooms: &Rooms,
    ) -> Result<&mut Batch> {
        if topic.is_some_and(|topic| topic.is_held_up()) && !rooms.hold_up(room) {
            return Err(Error::unavailable(
                "the store does not answer for this topic, and too much waits for it: the event was not stored, try again later",
            ));
        }
        let id = topic.map_or(LaneId::Records, |topic| LaneId::Topic(topic.name.clone()));
        let lane = self.lanes.entry(id.clone()).or_insert_with(|| Lane::new(topic.cloned()));
        if lane.began.is_none() && lane.queue.is_empty() {
            self.places.of(lane.class).waiting.push_back(id);
        }
        Ok(lane.queue.batch(more, room.bytes()))
    }

    /// Gives a place to the next lane, if there is one.
    fn start(&mut self, now: Instant) -> Option<LaneId> {
        let at_once = self.at_once;
        for (class, most) in [(Class::Records, 1), (Class::Steady, at_once), (Class::HeldUp, at_once)] {
            while self.places.of(class).taken < most
                && let Some(id) = self.places.of(class).waiting.pop_front()
            {
                let Some(lane) = self.lanes.get_mut(&id) else { continue };
                if lane.queue.is_empty() {
                    // Those who waited have waited too long, and were answered.
                    self.remove_idle(&id);
                    continue;
                }
                lane.began = Some(now);
                self.places.of(class).taken += 1;
                if class == Class::Steady {
                    self.began.push_back((now, id.clone()));
                }
                return Some(id);
            }
        }
        None
    }

    /// What a lane that has a place commits next.
    fn take(&mut self, id: &LaneId) -> Option<Batch> {
        self.lanes.get_mut(id)?.queue.take()
    }

    fn set_in_flight(&mut self, id: &LaneId, commit: Aboard) {
        if let Some(lane) = self.lanes.get_mut(id) {
            lane.in_flight = Some(commit);
        }
    }

    /// A lane gives its place back. Its topic is held up from now on if the commit has failed; `None`: there was none.
    fn finish(&mut self, id: &LaneId, failed: Option<bool>) -> Option<Aboard> {
        let lane = self.lanes.get_mut(id)?;
        let (commit, before) = (lane.in_flight.take(), lane.class);
        lane.began = None;
        if let (Some(topic), Some(failed)) = (&lane.topic, failed) {
            topic.set_held_up(failed);
            lane.class = if failed { Class::HeldUp } else { Class::Steady };
        }
        let (class, is_empty) = (lane.class, lane.queue.is_empty());
        self.places.of(before).taken -= 1;
        match is_empty {
            true => self.remove_idle(id),
            false => self.places.of(class).waiting.push_back(id.clone()),
        }
        commit
    }

    /// A lane with nothing to do is not kept, unless its topic is held up.
    fn remove_idle(&mut self, id: &LaneId) {
        if self.lanes.get(id).is_some_and(|lane| lane.class != Class::HeldUp) {
            self.lanes.remove(id);
        }
    }

    /// When the next topic will be held up, if its commit is not over by then.
    fn next_held_up(&mut self) -> Option<Instant> {
        while let Some((began, id)) = self.began.front() {
            let is_under_way = |lane: &Lane| lane.class == Class::Steady && lane.began == Some(*began);
            if self.lanes.get(id).is_some_and(is_under_way) {
                return (self.places.held_up.taken < MAX_HELD_UP).then_some(*began + HELD_UP_AFTER);
            }
            self.began.pop_front();
        }
        None
    }

    /// Holds up the topics whose commits take too long. Answers what there is no room for among those that are held up.
    fn hold_up(&mut self, now: Instant, rooms: &Rooms) -> Vec<Batch> {
        let mut refused = Vec::new();
        while self.next_held_up().is_some_and(|at| at <= now) {
            let Some((_, id)) = self.began.pop_front() else { break };
            let Some(lane) = self.lanes.get_mut(&id) else { continue };
            lane.class = Class::HeldUp;
            if let Some(topic) = &lane.topic {
                topic.set_held_up(true);
                tracing::warn!(topic = %topic.name, "commit takes long, topic is held up");
            }
            if let Some(commit) = &mut lane.in_flight {
                // If there is no room, it is bounded by the size of a commit.
                rooms.hold_up(&mut commit.room);
            }
            refused.append(&mut lane.queue.retain(|batch| rooms.hold_up(&mut batch.room)));
            self.places.steady.taken -= 1;
            self.places.held_up.taken += 1;
        }
        refused
    }

    /// Since when the oldest event or record waits.
    pub fn oldest(&self) -> Option<Millis> {
        self.lanes.values().filter_map(|lane| lane.queue.oldest()).min()
    }

    /// Takes out those that have waited too long, with all that is theirs.
    pub fn take_late(&mut self, late: impl Fn(Millis) -> bool) -> Vec<Batch> {
        self.lanes.values_mut().flat_map(|lane| lane.queue.take_late(&late)).collect()
    }

    /// Takes everything out.
    pub fn clear(&mut self) -> impl Sized + use<> {
        std::mem::take(&mut self.lanes)
    }

    /// Nothing waits, and nothing is under way.
    fn is_over(&self) -> bool {
        self.closed && self.lanes.values().all(|lane| lane.began.is_none() && lane.queue.is_empty())
    }
}

impl Lane {
    fn new(topic: Option<Arc<Topic>>) -> Self {
        let class = match &topic {
            None => Class::Records,
            Some(topic) if topic.is_held_up() => Class::HeldUp,
            Some(_) => Class::Steady,
        };
        Self { queue: Queue::default(), topic, class, began: None, in_flight: None }
    }
}

/// What a lane has waited for.
enum Step {
    /// Other hubs had their turn.
    Turn(LaneId),
    /// The end of its commit.
    Committed(LaneId, Committed),
}

impl Committer {
    /// Commits lane by lane until they are closed and empty.
    pub(super) async fn run_lanes(&self, lanes: &Mutex<Lanes>, target: &Target) -> Left {
        let mut steps = JoinSet::new();
        loop {
            loop {
                let next = lanes.lock().start(Instant::now());
                let Some(id) = next else { break };
                self.give_way(id, lanes, target, &mut steps);
            }
            let held_up = {
                let mut lanes = lanes.lock();
                if lanes.is_over() {
                    return Left::Closed;
                }
                lanes.next_held_up()
            };
            let patience = tokio::time::sleep_until(held_up.unwrap_or_else(Instant::now));
            tokio::select! {
                biased;
                Some(step) = steps.join_next() => match step {
                    Ok(Step::Turn(id)) => self.commit_lane(id, lanes, target, &mut steps),
                    Ok(Step::Committed(id, committed)) => self.finish_lane(&id, committed, lanes, target),
                    // A store that panics takes the committer with it.
                    Err(error) => if let Ok(panic) = error.try_into_panic() { std::panic::resume_unwind(panic) },
                },
                () = self.wake.notified() => {}
                () = patience, if held_up.is_some() => {
                    let refused = lanes.lock().hold_up(Instant::now(), &self.rooms);
                    answer_all(refused, &StoreError::Unavailable("too much waits for a topic that is held up".into()));
                }
            }
        }
    }

    /// Lets other hubs have their turn on a topic, if they want it; then the lane commits.
    fn give_way(&self, id: LaneId, lanes: &Mutex<Lanes>, target: &Target, steps: &mut JoinSet<Step>) {
        if let LaneId::Topic(topic) = &id
            && target.store.give_way(topic).is_some()
        {
            let (store, topic) = (target.store.clone(), topic.clone());
            steps.spawn(async move {
                if let Some(turn_of_others) = store.give_way(&topic) {
                    turn_of_others.await;
                }
                Step::Turn(id)
            });
            return;
        }
        self.commit_lane(id, lanes, target, steps);
    }

    fn commit_lane(&self, id: LaneId, lanes: &Mutex<Lanes>, target: &Target, steps: &mut JoinSet<Step>) {
        let Some(mut batch) = lanes.lock().take(&id) else {
            lanes.lock().finish(&id, None);
            return;
        };
        batch.commit.now = target.clock.wall();
        let (commit, in_flight) = self.board(batch, target);
        lanes.lock().set_in_flight(&id, in_flight);
        if self.idle.swap(false, SeqCst) {
            self.began.notify_one();
        }
        let store = target.store.clone();
        steps.spawn(async move { Step::Committed(id, store.commit(commit).await) });
    }

    fn finish_lane(&self, id: &LaneId, committed: Committed, lanes: &Mutex<Lanes>, target: &Target) {
        let failed = committed.events.iter().any(|event| matches!(event, Err(StoreError::Unavailable(_))));
        let finished = lanes.lock().finish(id, Some(failed));
        if let Some(mut commit) = finished {
            commit.complete(target);
            self.land(commit, committed, target);
        }
    }
}

/// Tells those who wait for batches that will not be committed.
pub(super) fn answer_all(mut batches: Vec<Batch>, error: &StoreError) {
    batches.iter_mut().flat_map(|batch| &mut batch.answers).for_each(|answer| answer.fail(error));
}
