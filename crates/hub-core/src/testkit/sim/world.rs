//! Carries the steps out on the real engine, and tells the model.

use super::member::{Held, Member};
use super::model::{Broken, Known, Model};
use super::op::Op;
use super::rng::Rng;
use super::target::{Target, targets};
use super::watching::Watcher;
use super::{SimStore, Stats};
use crate::Millis;
use crate::bus::Bus;
use crate::clock::Clock;
use crate::config::{Config, TopicSettings};
use crate::store::EventStore;
use crate::testkit::{Fault, FaultyStore, ManualClock};
use hub_proto::{Event, EventId, GroupName, IdGenerator, NewEvent, Receipt, Result as HubResult, TopicName};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The topics that are there from the start. `c.state` is compacted, `r.log` keeps little.
pub(super) const TOPICS: [&str; 4] = ["a.one", "a.two", "c.state", "r.log"];
/// How many topics the pattern can cover.
pub(super) const BORN: u64 = 5;
/// How long tombstones stay.
pub(super) const GRACE: Millis = 5_000;

pub(super) type At = (TopicName, GroupName);
pub(super) type Step = Result<(), Broken>;
/// What goes wrong with the store, and until when it is felt.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) kind: Option<Fault>,
    pub(super) left: u64,
    pub(super) felt_until: Millis,
    pub(super) count: u64,
}

/// A publish whose answer is still out.
pub(super) struct Sent {
    pub(super) ids: Vec<(EventId, NewEvent)>,
    pub(super) answer: JoinHandle<Vec<HubResult<Receipt>>>,
}

pub(super) struct World<'a, S> {
    /// What happens, in words, if anybody wants to know.
    pub(super) story: &'a mut Option<Vec<String>>,
    pub(super) seed: u64,
    pub(super) store: S,
    pub(super) truth: Arc<dyn EventStore>,
    pub(super) model: Model,
    pub(super) targets: Vec<Target>,
    /// Events as they were committed, before cleaning could take them.
    pub(super) seen: Arc<Mutex<Vec<Arc<Event>>>>,
    /// Targets that exist as a durable subscription or group.
    pub(super) existing: BTreeSet<usize>,
    pub(super) config: Config,
    pub(super) faults: Arc<Mutex<Faults>>,
    pub(super) rng: Rng,
    pub(super) stats: Stats,
    /// The model's time at the start of this life.
    pub(super) base: Millis,
    pub(super) wall: Millis,
    pub(super) next_member: u64,
    pub(super) next_payload: u64,
    /// Events whose outcome is unknown.
    pub(super) unknown: Vec<(EventId, NewEvent)>,
    pub(super) published: Vec<(EventId, NewEvent)>,
}

/// One life of the hub, from opening to crash or stop.
pub(super) struct Life {
    pub(super) bus: Bus,
    pub(super) clock: ManualClock,
    pub(super) members: Vec<Member>,
    pub(super) stale: Vec<Held>,
    pub(super) sent: Vec<Sent>,
    /// Readers without a group, which coalesce.
    pub(super) watchers: Vec<Watcher>,
}

/// How a life ends.
pub(super) enum End {
    Crash(u64),
    Stop,
    Done,
}

/// Runs the steps; an error names the step and what was wrong.
pub(super) fn run(
    seed: u64,
    ops: &[Op],
    mut store: impl SimStore,
    story: &mut Option<Vec<String>>,
) -> Result<Stats, (usize, Broken)> {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let config = Config {
        tail_bytes: [0, 3_000, 1 << 20][rng.below(3) as usize],
        max_parked: if rng.chance(25) { 4 } else { 10_000 },
        ..Config::default()
    };
    let compacted = TopicSettings { compaction: true, tombstone_grace: GRACE, ..Default::default() };
    let small = TopicSettings { retention_bytes: Some(4_000), ..Default::default() };
    let config = config.topic("c.state", compacted).and_then(|config| config.topic("r.log", small));
    let mut world = World {
        story,
        seed,
        truth: store.open(),
        store,
        model: Model::default(),
        targets: targets(),
        seen: Arc::default(),
        existing: BTreeSet::new(),
        config: config.expect("the names are valid"),
        faults: Arc::default(),
        rng,
        stats: Stats::default(),
        base: 0,
        wall: ManualClock::START,
        next_member: 1,
        next_payload: 0,
        unknown: Vec::new(),
        published: Vec::new(),
    };
    let mut step = 0;
    loop {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime needs nothing that could fail here");
        // Without a budget: a member that is told to look looks.
        let life = tokio::task::coop::unconstrained(Box::pin(world.life(ops, &mut step)));
        let end = runtime.block_on(life).map_err(|what| (step, what))?;
        drop(runtime);
        match end {
            End::Done => break,
            End::Stop => world.model.down(true),
            End::Crash(luck) => {
                world.model.down(false);
                world.store.crash(luck);
            }
        }
        world.truth = world.store.open();
        world.stats.restarts += 1;
    }
    world.stats.steps = ops.len() as u64;
    world.stats.faults = world.faults.lock().count;
    Ok(world.stats)
}

/// Lets everything that can run, run, and one millisecond pass.
pub(super) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

impl<S: SimStore> World<'_, S> {
    pub(super) async fn life(&mut self, ops: &[Op], step: &mut usize) -> Result<End, Broken> {
        let clock = ManualClock::starting_at(self.wall);
        // Memory commits topics independently of each other, in every other run.
        let lanes = (self.seed % 2 == 1 && self.truth.name() == "memory").then_some(2);
        let store = FaultyStore::new(self.truth.clone()).with_lanes(lanes);
        {
            let mut faults = self.faults.lock();
            (faults.left, faults.felt_until) = (0, self.base);
        }
        let (faults, base, watch) = (self.faults.clone(), self.base, clock.clone());
        store.script(move |_| {
            let mut faults = faults.lock();
            faults.left = faults.left.checked_sub(1)?;
            faults.count += 1;
            let lasts = match faults.kind? {
                Fault::Delay(millis) | Fault::Stall(millis) => millis,
                Fault::Refuse | Fault::LoseAnswer => 0,
            };
            faults.felt_until = faults.felt_until.max(base + watch.steady() + lasts + 1);
            faults.kind
        });
        let seen = self.seen.clone();
        store.witness(move |event| seen.lock().push(event.clone()));
        let bus = Bus::builder(store).clock(clock.clone()).config(self.config.clone());
        let ids = IdGenerator::seeded(self.seed ^ (self.stats.restarts << 32));
        let bus = bus.ids(ids).open().await.map_err(|error| format!("the hub does not open: {error}"))?;
        let (members, stale, sent, watchers) = Default::default();
        let mut life = Life { bus, clock, members, stale, sent, watchers };
        while *step < ops.len() {
            let op = &ops[*step];
            self.say(|| format!("step {step}: {op:?}"));
            let end = match op {
                Op::Crash { luck } => Some(End::Crash(*luck)),
                Op::Restart if self.healthy(&life) && life.sent.is_empty() => {
                    life.members.drain(..).for_each(|member| member.feed.close());
                    self.model.now = self.base + life.clock.steady();
                    life.bus.stop().await.map_err(|error| format!("the hub does not stop: {error}"))?;
                    Some(End::Stop)
                }
                op => {
                    self.carry_out(op, &mut life).await?;
                    None
                }
            };
            if end.is_none() {
                settle().await;
            }
            self.check(&mut life).await?;
            *step += 1;
            if let Some(end) = end {
                return Ok(self.end(life, end));
            }
        }
        self.drain(&mut life).await?;
        Ok(self.end(life, End::Done))
    }

    /// The hub is gone; what was under way has an unknown outcome.
    pub(super) fn end(&mut self, life: Life, end: End) -> End {
        self.model.now = self.base + life.clock.steady();
        self.base = self.model.now;
        self.wall = life.clock.wall();
        let Life { bus, members, stale, sent, watchers, .. } = life;
        self.unknown.extend(sent.into_iter().flat_map(|sent| sent.ids));
        // The bus first: a crash gives members no chance to leave.
        drop(bus);
        drop((members, stale, watchers));
        end
    }

    pub(super) fn healthy(&self, life: &Life) -> bool {
        let faults = self.faults.lock();
        faults.left == 0 && self.base + life.clock.steady() > faults.felt_until + 500
    }
}

pub(super) fn known(event: &Event) -> Known {
    Known { id: event.id(), key: event.key().cloned(), payload: event.payload().to_vec() }
}
