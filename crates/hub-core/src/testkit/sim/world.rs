//! Carries the steps out on the real engine, and tells the model.

use super::model::{Broken, Group, Known, Lease, Log, Model};
use super::op::Op;
use super::rng::Rng;
use super::{SimStore, Stats};
use crate::bus::Bus;
use crate::clock::Clock;
use crate::committer::Receipt;
use crate::config::{Config, TopicSettings};
use crate::group::delivery::Delivery;
use crate::group::options::{Filter, GroupOptions, GroupRequest, Ordering};
use crate::position::Position;
use crate::store::{EventStore, ReadLimit};
use crate::subscribe::Subscription;
use crate::testkit::{Fault, FaultyStore, ManualClock};
use crate::{Millis, Reason};
use hub_proto::{
    Code, Event, EventId, GroupName, IdGenerator, NewEvent, Payload, Result as HubResult, TopicName,
};
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The topics that are there from the start. `c.state` is compacted, `r.log` keeps little.
const TOPICS: [&str; 4] = ["a.one", "a.two", "c.state", "r.log"];
/// How many topics the pattern can cover.
const BORN: u64 = 5;
/// How long tombstones stay.
const GRACE: Millis = 5_000;

type At = (TopicName, GroupName);
type Step = Result<(), Broken>;

/// A subscription that members can join.
struct Target {
    label: &'static str,
    topics: &'static [&'static str],
    group: &'static str,
    request: GroupRequest,
    from: Position,
}

fn targets() -> Vec<Target> {
    let key = Some(Ordering::Key);
    let target = |label, group, max_attempts, from| Target {
        label,
        topics: &[],
        group,
        request: GroupRequest { max_attempts: Some(max_attempts), ..Default::default() },
        from,
    };
    let mut targets = vec![
        target("a.one", "plain", 3, Position::Latest),
        target("a.one", "keyed", 2, Position::Earliest),
        target("c.state", "latest", 3, Position::Earliest),
        target("a.two", "some", 3, Position::Earliest),
        target("p.*", "pattern", 2, Position::Latest),
        target("r.log", "lagging", 3, Position::Earliest),
        target("both", "list", 2, Position::Latest),
        target("dlq.a.one", "morgue", 2, Position::Earliest),
    ];
    targets[1].request.ordering = key;
    targets[2].request.coalesce = Some(true);
    targets[3].request.filter = Some(Filter { key: Some("k1".into()), ..Default::default() });
    targets[6].topics = &["a.one", "a.two"];
    targets[6].request.ordering = key;
    targets
}

impl Target {
    fn covers(&self, topic: &str) -> bool {
        match self.label {
            "p.*" => topic.starts_with("p."),
            label if self.topics.is_empty() => label == topic,
            _ => self.topics.contains(&topic),
        }
    }
}

struct Member {
    id: u64,
    target: usize,
    subscription: Subscription,
    window: u64,
    ack_timeout: Millis,
    paused: bool,
    hand: Vec<Held>,
}

/// A delivery somebody has, or had, in hand.
struct Held {
    delivery: Delivery,
    at: At,
    lease: Lease,
    /// When it came.
    since: Millis,
}

impl Held {
    fn seq(&self) -> u64 {
        self.delivery.lease.seq
    }
}

/// What goes wrong with the store, and until when it is felt.
#[derive(Default)]
struct Faults {
    kind: Option<Fault>,
    left: u64,
    felt_until: Millis,
    count: u64,
}

/// A publish whose answer is still out.
struct Sent {
    ids: Vec<(EventId, NewEvent)>,
    answer: JoinHandle<Vec<HubResult<Receipt>>>,
}

struct World<'a, S> {
    /// What happens, in words, if anybody wants to know.
    story: &'a mut Option<Vec<String>>,
    seed: u64,
    store: S,
    truth: Arc<dyn EventStore>,
    model: Model,
    targets: Vec<Target>,
    /// Events as they were committed, before cleaning could take them.
    seen: Arc<Mutex<Vec<Arc<Event>>>>,
    /// Targets that exist as a durable subscription or group.
    existing: BTreeSet<usize>,
    config: Config,
    faults: Arc<Mutex<Faults>>,
    rng: Rng,
    stats: Stats,
    /// The model's time at the start of this life.
    base: Millis,
    wall: Millis,
    next_member: u64,
    next_payload: u64,
    /// Events whose outcome is unknown.
    unknown: Vec<(EventId, NewEvent)>,
    published: Vec<(EventId, NewEvent)>,
}

/// One life of the hub, from opening to crash or stop.
struct Life {
    bus: Bus,
    clock: ManualClock,
    members: Vec<Member>,
    stale: Vec<Held>,
    sent: Vec<Sent>,
}

/// How a life ends.
enum End {
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
        let end = runtime.block_on(Box::pin(world.life(ops, &mut step))).map_err(|what| (step, what))?;
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
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

impl<S: SimStore> World<'_, S> {
    async fn life(&mut self, ops: &[Op], step: &mut usize) -> Result<End, Broken> {
        let clock = ManualClock::starting_at(self.wall);
        let store = FaultyStore::new(self.truth.clone());
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
        let mut life = Life { bus, clock, members: Vec::new(), stale: Vec::new(), sent: Vec::new() };
        while *step < ops.len() {
            let op = &ops[*step];
            self.say(|| format!("step {step}: {op:?}"));
            let end = match op {
                Op::Crash { luck } => Some(End::Crash(*luck)),
                Op::Restart if self.healthy(&life) && life.sent.is_empty() => {
                    life.members.drain(..).for_each(|member| member.subscription.close());
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
    fn end(&mut self, life: Life, end: End) -> End {
        self.model.now = self.base + life.clock.steady();
        self.base = self.model.now;
        self.wall = life.clock.wall();
        let Life { bus, members, stale, sent, .. } = life;
        self.unknown.extend(sent.into_iter().flat_map(|sent| sent.ids));
        // The bus first: a crash gives members no chance to leave.
        drop(bus);
        drop((members, stale));
        end
    }

    fn healthy(&self, life: &Life) -> bool {
        let faults = self.faults.lock();
        faults.left == 0 && self.base + life.clock.steady() > faults.felt_until + 500
    }

    // ---- steps ----

    async fn carry_out(&mut self, op: &Op, life: &mut Life) -> Step {
        self.tick(life);
        match *op {
            Op::Publish { topic, key, count } => {
                let topic = TOPICS[(topic % TOPICS.len() as u64) as usize];
                let events = (0..count).map(|_| self.event(topic, key)).collect();
                self.publish(life, events).await
            }
            Op::Birth { topic } => {
                let event = self.event(&format!("p.{}", topic % BORN), topic % 3);
                self.publish(life, vec![event]).await
            }
            Op::Republish { which } => {
                let known = self.unknown.len() + self.published.len();
                if known == 0 {
                    return Ok(());
                }
                let at = (which % known as u64) as usize;
                let event = match at.checked_sub(self.unknown.len()) {
                    None => self.unknown.swap_remove(at).1,
                    Some(at) => self.published[at].1.clone(),
                };
                self.publish(life, vec![event]).await
            }
            Op::Conflict { which } => self.conflict(life, which).await,
            Op::Join { group, window, ack_timeout } => self.join(life, group, window, ack_timeout).await,
            Op::Receive { member, count } => self.receive(life, member, count).await,
            Op::Ack { member, which } => self.settle_one(
                life,
                member,
                which,
                |held| held.delivery.ack(),
                |model, held| {
                    model.acked(&held.at, held.seq());
                },
            ),
            Op::AckAll { member } => {
                let Some(at) = pick(&life.members, member) else { return Ok(()) };
                for _ in 0..life.members[at].hand.len() {
                    self.settle_one(
                        life,
                        member,
                        0,
                        |held| held.delivery.ack(),
                        |model, held| {
                            model.acked(&held.at, held.seq());
                        },
                    )?;
                }
                Ok(())
            }
            Op::Nack { member, which, delay } => {
                let delay = (delay > 0).then_some(delay);
                let nack = |held: &Held| match delay {
                    Some(delay) => held.delivery.nack_after(delay, "simulated"),
                    None => held.delivery.nack("simulated"),
                };
                self.settle_one(life, member, which, nack, |model, held| {
                    model.nacked(&held.at, held.seq(), delay)
                })
            }
            Op::Extend { member, which, millis } => self.extend(life, member, which, millis),
            Op::AckStale { which } => match pick(&life.stale, which) {
                Some(at) => self.refused(&life.stale[at], life.stale[at].delivery.ack()),
                None => Ok(()),
            },
            Op::AckOther { member, other } => self.ack_other(life, member, other),
            Op::Disconnect { member } => self.leave(life, member, true),
            Op::Leave { member } => self.leave(life, member, false),
            Op::Pause { member } => {
                if let Some(at) = pick(&life.members, member) {
                    let member = &mut life.members[at];
                    member.paused = !member.paused;
                    if member.paused { member.subscription.pause() } else { member.subscription.resume() }
                }
                Ok(())
            }
            Op::Wait { millis } => {
                life.clock.advance(millis).await;
                Ok(())
            }
            Op::Jump { millis } => {
                life.clock.jump(millis);
                Ok(())
            }
            Op::Fault { kind, calls } => {
                let millis = 10 + kind % 700;
                let kinds = [Fault::Refuse, Fault::LoseAnswer, Fault::Delay(millis), Fault::Stall(millis)];
                let mut faults = self.faults.lock();
                (faults.kind, faults.left) = (Some(kinds[(kind % 4) as usize]), calls);
                Ok(())
            }
            Op::Clean { topic } => {
                // A failing store is allowed to fail.
                let _ = life.bus.clean(TOPICS[(topic % TOPICS.len() as u64) as usize]).await;
                Ok(())
            }
            Op::SetCursor { group, to } => self.set_cursor(life, group, to).await,
            Op::Delete { group } => self.delete(life, group).await,
            Op::Crash { .. } | Op::Restart => Ok(()),
        }
    }

    fn event(&mut self, topic: &str, key: u64) -> NewEvent {
        self.next_payload += 1;
        let tombstone = topic == "c.state" && key > 0 && self.rng.chance(15);
        let payload = if tombstone {
            Payload::null()
        } else {
            Payload::from(serde_json::json!({"n": self.next_payload}))
        };
        let mut event = NewEvent::new(topic.parse().expect("a valid name"), payload);
        event.options.key = (key > 0).then(|| format!("k{key}"));
        event
    }

    async fn publish(&mut self, life: &mut Life, mut events: Vec<NewEvent>) -> Step {
        let mut ids = Vec::new();
        for event in &mut events {
            // Chosen here, so that an event whose answer is lost can be sent again.
            let id = event.options.id.unwrap_or_else(|| {
                EventId::derived(&[b"sim", &self.next_payload.to_be_bytes(), &ids.len().to_be_bytes()])
            });
            event.options.id = Some(id);
            ids.push((id, event.clone()));
        }
        let bus = life.bus.clone();
        let answer = tokio::spawn(async move { bus.publish_batch(events).await });
        life.sent.push(Sent { ids, answer });
        settle().await;
        Ok(())
    }

    /// Looks at the answers that have come.
    async fn answers(&mut self, life: &mut Life) -> Step {
        let (done, rest): (Vec<_>, Vec<_>) = life.sent.drain(..).partition(|sent| sent.answer.is_finished());
        life.sent = rest;
        for sent in done {
            let results = sent.answer.await.map_err(|error| format!("a publish panicked: {error}"))?;
            for ((id, event), result) in sent.ids.into_iter().zip(results) {
                match result {
                    Ok(receipt) => {
                        let log = self.model.topics.get(&event.topic);
                        let known = log.and_then(|log| log.events.get(receipt.seq as usize - 1));
                        if known.is_none_or(|known| known.id != id) {
                            return Err(format!(
                                "{id} was answered with seq {} and is not there",
                                receipt.seq
                            ));
                        }
                        self.published.push((id, event));
                    }
                    Err(error) if error.code == Code::Unavailable => self.unknown.push((id, event)),
                    Err(error) => return Err(format!("a publish was refused: {error}")),
                }
            }
        }
        Ok(())
    }

    async fn conflict(&mut self, life: &mut Life, which: u64) -> Step {
        let Some(at) = pick(&self.published, which).filter(|_| self.healthy(life)) else { return Ok(()) };
        let mut event = self.published[at].1.clone();
        event.payload = Payload::from(serde_json::json!("another"));
        match life.bus.send(event).await {
            Err(error) if error.code == Code::IdConflict => Ok(()),
            other => Err(format!("a conflicting id was answered with {other:?}")),
        }
    }

    async fn join(&mut self, life: &mut Life, group: u64, window: u64, ack_timeout: Millis) -> Step {
        let at = (group % self.targets.len() as u64) as usize;
        if !self.existing.contains(&at) && !self.healthy(life) {
            return Ok(());
        }
        let target = &self.targets[at];
        let subscribe = match target.topics {
            [] => life.bus.subscribe(target.label),
            topics => life.bus.subscribe_all(target.label, topics.iter().copied()),
        };
        let subscribe = subscribe.group(target.group).options(target.request.clone()).from(target.from);
        let subscription = subscribe.max_in_flight(window as usize).ack_timeout(ack_timeout).open().await;
        let subscription = subscription.map_err(|error| format!("joining {}: {error}", target.group))?;
        if self.existing.insert(at) {
            let covered: Vec<_> = self.model.topics.iter().filter(|(name, _)| target.covers(name)).collect();
            let starts: Vec<_> =
                covered.iter().map(|(name, log)| ((*name).clone(), start(target, log))).collect();
            for (topic, start) in starts {
                self.found(at, topic, start);
            }
        }
        let id = self.next_member;
        self.next_member += 1;
        life.members.push(Member {
            id,
            target: at,
            subscription,
            window,
            ack_timeout,
            paused: false,
            hand: Vec::new(),
        });
        Ok(())
    }

    /// The model gets a group.
    fn found(&mut self, target: usize, topic: TopicName, start: u64) {
        let target = &self.targets[target];
        let options = target.request.over(&GroupOptions::default());
        let group = Group::new(&topic, options, start);
        self.model.groups.insert((topic, group_name(target)), group);
    }

    async fn receive(&mut self, life: &mut Life, member: u64, count: u64) -> Step {
        let Some(at) = pick(&life.members, member) else { return Ok(()) };
        let mut patience = 3;
        let mut left = count;
        while left > 0 {
            self.tick(life);
            match life.members[at].subscription.try_recv() {
                Some(Ok(delivery)) => {
                    self.sync().await?;
                    self.delivered(&mut life.members[at], delivery)?;
                    left -= 1;
                }
                Some(Err(error)) => return Err(format!("a subscription ended: {error}")),
                None if patience > 0 => {
                    patience -= 1;
                    settle().await;
                }
                None => return self.nothing_owed(life, at),
            }
        }
        Ok(())
    }

    fn delivered(&mut self, member: &mut Member, delivery: Delivery) -> Step {
        let target = &self.targets[member.target];
        let event = delivery.event();
        let at = (event.topic().clone(), group_name(target));
        let attempt = delivery.attempt();
        let now = self.model.now;
        let epoch = delivery.lease.epoch;
        let lease = Lease { member: member.id, attempt, epoch, deadline: now + member.ack_timeout };
        self.model.delivered(&at, event.seq(), &known(event), lease)?;
        self.stats.deliveries += 1;
        self.stats.redeliveries += u64::from(attempt > 1);
        self.note(event.seq() << 8 | u64::from(attempt));
        self.say(|| format!("{now}: {at:?} gives {} to {lease:?}", delivery.event().seq()));
        member.hand.push(Held { delivery, at, lease, since: now });
        let held = member.hand.iter().filter(|held| self.holds(held)).count() as u64;
        if held > member.window {
            return Err(format!(
                "member {} holds {held} events with a window of {}",
                member.id, member.window
            ));
        }
        Ok(())
    }

    /// A member got nothing: then there must be nothing for it.
    fn nothing_owed(&mut self, life: &Life, at: usize) -> Step {
        let member = &life.members[at];
        let alone = life.members.iter().filter(|other| other.target == member.target).count() == 1;
        let held = member.hand.iter().filter(|held| self.holds(held)).count() as u64;
        if member.paused || !alone || held >= member.window || !self.healthy(life) {
            return Ok(());
        }
        let group = group_name(&self.targets[member.target]);
        for at in self.model.groups.keys().filter(|at| at.1 == group).cloned().collect::<Vec<_>>() {
            if let Some(seq) = self.model.owed(&at, self.config.max_parked / 2) {
                let status = life.bus.group(&at.0, &at.1);
                return Err(format!(
                    "member {} gets nothing, though {seq} of {at:?} is due: {status:?}",
                    member.id
                ));
            }
        }
        Ok(())
    }

    fn holds(&self, held: &Held) -> bool {
        self.model.holds(&held.at, held.seq(), held.lease)
    }

    /// Acks or nacks something in hand; whether that is allowed is the model's to say.
    fn settle_one(
        &mut self,
        life: &mut Life,
        member: u64,
        which: u64,
        how: impl Fn(&Held) -> HubResult<()>,
        tell: impl Fn(&mut Model, &Held),
    ) -> Step {
        let Some(member) = pick(&life.members, member) else { return Ok(()) };
        let member = &mut life.members[member];
        let Some(at) = pick(&member.hand, which) else { return Ok(()) };
        let held = member.hand.swap_remove(at);
        let answer = how(&held);
        let now = self.model.now;
        self.say(|| format!("{now}: {} of {:?} by {:?}: {answer:?}", held.seq(), held.at, held.lease));
        match self.holds(&held) {
            true => {
                answer.map_err(|error| {
                    format!("the holder of {} of {:?} was refused: {error}", held.seq(), held.at)
                })?;
                tell(&mut self.model, &held);
                self.stats.acks += 1;
            }
            false => self.refused(&held, answer)?,
        }
        if life.stale.len() >= 20 {
            life.stale.remove(0);
        }
        life.stale.push(held);
        Ok(())
    }

    fn refused(&mut self, held: &Held, answer: HubResult<()>) -> Step {
        match answer {
            Err(error) if error.code == Code::UnknownId => {
                self.stats.refused += 1;
                Ok(())
            }
            other => Err(format!("{} of {:?} is not held and got {other:?}", held.seq(), held.at)),
        }
    }

    fn extend(&mut self, life: &mut Life, member: u64, which: u64, millis: Millis) -> Step {
        let Some(member) = pick(&life.members, member) else { return Ok(()) };
        let Some(at) = pick(&life.members[member].hand, which) else { return Ok(()) };
        let held = &life.members[member].hand[at];
        match (self.holds(held), held.delivery.extend(millis)) {
            (true, Ok(_)) => self.model.extended(&held.at, held.seq(), self.model.now + millis),
            (false, Err(error)) if error.code == Code::UnknownId => {}
            (holds, answer) => return Err(format!("extending a lease (held: {holds}) got {answer:?}")),
        }
        Ok(())
    }

    fn ack_other(&mut self, life: &Life, member: u64, other: u64) -> Step {
        let (Some(a), Some(b)) = (pick(&life.members, member), pick(&life.members, other)) else {
            return Ok(());
        };
        let (Some(mine), Some(theirs)) = (life.members[a].hand.first(), life.members[b].hand.first()) else {
            return Ok(());
        };
        if mine.delivery.lease.member == theirs.delivery.lease.member {
            return Ok(());
        }
        let lease =
            crate::group::delivery::Lease { member: mine.delivery.lease.member, ..theirs.delivery.lease };
        self.refused(theirs, theirs.delivery.group.ack(lease))
    }

    fn leave(&mut self, life: &mut Life, member: u64, vanish: bool) -> Step {
        let Some(at) = pick(&life.members, member) else { return Ok(()) };
        let member = life.members.swap_remove(at);
        let mut blamed: Vec<(At, u64)> = Vec::new();
        if vanish {
            let mut oldest: BTreeMap<&At, &Held> = BTreeMap::new();
            for held in member.hand.iter().filter(|held| self.holds(held)) {
                let first = oldest.entry(&held.at).or_insert(held);
                if held.seq() < first.seq() {
                    *first = held;
                }
            }
            let earliest = oldest.values().map(|held| held.since).min();
            let to_blame = oldest.values().filter(|held| Some(held.since) == earliest);
            blamed = to_blame.map(|held| (held.at.clone(), held.seq())).collect();
            drop(member.subscription);
        } else {
            member.subscription.close();
        }
        self.model.left(member.id, &blamed);
        Ok(())
    }

    async fn set_cursor(&mut self, life: &mut Life, group: u64, to: u64) -> Step {
        if !self.healthy(life) {
            return Ok(());
        }
        let groups: Vec<At> = self.model.groups.keys().cloned().collect();
        let Some(at) = pick(&groups, group).map(|at| &groups[at]) else { return Ok(()) };
        let seq = to % (self.model.topics[&at.0].last() + 1);
        let set = life.bus.set_cursor(&at.0, &at.1, Position::AfterSeq(seq)).await;
        set.map_err(|error| format!("setting the cursor of {at:?} to {seq}: {error}"))?;
        self.model.set_cursor(at, seq);
        Ok(())
    }

    async fn delete(&mut self, life: &mut Life, group: u64) -> Step {
        let at = (group % self.targets.len() as u64) as usize;
        if !self.healthy(life) || !self.existing.remove(&at) {
            return Ok(());
        }
        let target = &self.targets[at];
        let deleted = life.bus.delete_group(target.label, target.group).await;
        deleted.map_err(|error| format!("deleting {}: {error}", target.group))?;
        let name = group_name(target);
        self.model.groups.retain(|at, _| at.1 != name);
        life.members.retain(|member| member.target != at);
        life.stale.retain(|held| held.at.1 != name);
        Ok(())
    }

    // ---- checks ----

    /// The model's clock follows.
    fn tick(&mut self, life: &Life) {
        self.model.now = self.base + life.clock.steady();
        self.model.healthy_since = self.model.healthy_since.max(self.faults.lock().felt_until);
        self.model.expire();
    }

    async fn check(&mut self, life: &mut Life) -> Step {
        self.tick(life);
        self.sync().await?;
        self.answers(life).await?;
        for at in self.model.groups.keys().cloned().collect::<Vec<_>>() {
            let status = life.bus.group(&at.0, &at.1);
            match status {
                Some(status) => self.model.floor(&at, status.floor)?,
                // The engine is down, or a topic was seen whose commit it has not heard of yet.
                None if life.bus.topics().is_empty() || !self.healthy(life) => {}
                None => return Err(format!("{at:?} is gone")),
            }
        }
        Ok(())
    }

    /// Takes note of what was committed and of what was cleaned away: the truth about the log.
    async fn sync(&mut self) -> Step {
        let all = ReadLimit { events: usize::MAX, bytes: usize::MAX };
        let seen = std::mem::take(&mut *self.seen.lock());
        seen.iter().try_for_each(|event| self.committed(event))?;
        let image = self.truth.load().await.map_err(|error| error.to_string())?;
        for (topic, bounds) in image.topics {
            // What a crash cut off was committed without anybody seeing it.
            let last = self.model.topics.get(&topic).map_or(0, Log::last);
            if last < bounds.last {
                let read = self.truth.read(&topic, last, all).await.map_err(|error| error.to_string())?;
                read.iter().try_for_each(|event| self.committed(event))?;
            }
            let Some(log) = self.model.topics.get_mut(&topic) else { continue };
            if bounds.events as usize != log.present.len() {
                let kept = self.truth.read(&topic, 0, all).await.map_err(|error| error.to_string())?;
                cleaned(&topic, log, &kept)?;
            }
        }
        Ok(())
    }

    fn committed(&mut self, event: &Event) -> Step {
        let topic = event.topic();
        if !self.model.topics.contains_key(topic) {
            self.model.topics.insert(topic.clone(), Log::default());
            for at in self.existing.clone() {
                if self.targets[at].covers(topic) {
                    self.found(at, topic.clone(), 0);
                }
            }
        }
        let log = self.model.topics.get_mut(topic).expect("inserted above");
        if event.seq() != log.last() + 1 {
            return Err(format!("{topic} has {} after {}", event.seq(), log.last()));
        }
        log.events.push(known(event));
        log.present.insert(event.seq());
        if let Some(story) = &mut self.story {
            story.push(format!("{}: {topic} gets {} key {:?}", self.model.now, event.seq(), event.key()));
        }
        self.stats.events += 1;
        if topic.is_dead_letter() {
            let letter: Letter = event.decode().map_err(|error| error.to_string())?;
            self.stats.dead_letters += 1;
            self.model.buried(&(letter.topic, letter.group), letter.original.seq)?;
        }
        Ok(())
    }

    fn say(&mut self, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(what());
        }
    }

    fn note(&mut self, what: u64) {
        self.stats.digest = (self.stats.digest ^ what).wrapping_mul(0x0100_0000_01b3).rotate_left(5);
    }

    // ---- the end ----

    /// Everybody consumes until nothing is left; then everything must be accounted for.
    async fn drain(&mut self, life: &mut Life) -> Step {
        self.faults.lock().left = 0;
        life.clock.advance(2_000).await;
        self.check(life).await?;
        while let Some(member) = life.members.pop() {
            let id = member.id;
            member.subscription.close();
            self.model.left(id, &[]);
        }
        for at in 0..self.targets.len() as u64 {
            self.join(life, at, 100, 3_600_000).await?;
        }
        let open = |life: &Life, model: &Model| {
            let statuses = model.groups.keys().filter_map(|at| life.bus.group(&at.0, &at.1));
            statuses
                .filter(|status| status.reason != Some(Reason::CaughtUp) || status.lag > 0)
                .collect::<Vec<_>>()
        };
        for _ in 0..200 {
            for member in 0..life.members.len() as u64 {
                self.receive(life, member, 50).await?;
                self.carry_out(&Op::AckAll { member }, life).await?;
            }
            settle().await;
            self.check(life).await?;
            if open(life, &self.model).is_empty() {
                break;
            }
            life.clock.advance(500).await;
        }
        let open = open(life, &self.model);
        if !open.is_empty() {
            return Err(format!("some groups do not come to their end: {open:?}"));
        }
        for at in self.model.groups.keys() {
            self.model.drained(at)?;
        }
        self.snapshot(life).await
    }

    /// The snapshot of the compacted topic says what its newest events say.
    async fn snapshot(&mut self, life: &Life) -> Step {
        if self.model.topics.get("c.state").is_none_or(|log| log.last() == 0) {
            return Ok(());
        }
        life.bus.clean("c.state").await.map_err(|error| error.to_string())?;
        let text = |error: hub_proto::Error| error.to_string();
        let newest = life.bus.latest_page("c.state", None, None).await.map_err(text)?;
        let snapshot = life.bus.latest_page("c.state.snapshot", None, None).await.map_err(text)?;
        let newest: Vec<_> = newest.iter().map(|event| (event.key().cloned(), event.seq())).collect();
        let mut written = Vec::new();
        for entry in
            snapshot.iter().filter(|event| event.key().is_some_and(|key| &**key != crate::snapshot::UPTO))
        {
            let value: serde_json::Value = entry.decode().map_err(text)?;
            written.push((entry.key().cloned(), value["seq"].as_u64().unwrap_or(0)));
        }
        if newest != written {
            return Err(format!("the snapshot says {written:?}, the topic {newest:?}"));
        }
        Ok(())
    }
}

/// Where a new group starts.
fn start(target: &Target, log: &Log) -> u64 {
    match target.from {
        Position::Latest => log.last(),
        // Whatever is gone counts as settled anyway.
        _ => log.present.first().map_or(log.last(), |first| first - 1),
    }
}

fn group_name(target: &Target) -> GroupName {
    target.group.parse().expect("a valid name")
}

fn known(event: &Event) -> Known {
    Known { id: event.id(), key: event.key().cloned(), payload: event.payload().to_vec() }
}

/// Cleaning removed something: only what the settings let go.
fn cleaned(topic: &TopicName, log: &mut Log, kept: &[Arc<Event>]) -> Step {
    let kept: BTreeSet<u64> = kept.iter().map(|event| event.seq()).collect();
    if let Some(back) = kept.difference(&log.present).next() {
        return Err(format!("{topic} has {back} again after it was cleaned away"));
    }
    let first = kept.first().copied().unwrap_or(u64::MAX);
    for &seq in log.present.difference(&kept) {
        let known = &log.events[seq as usize - 1];
        let newer =
            log.events[seq as usize..].iter().any(|newer| newer.key.is_some() && newer.key == known.key);
        let allowed = match topic.as_str() {
            "r.log" => seq < first,
            "c.state" => known.key.is_some() && (newer || known.payload == b"null"),
            name => name.ends_with(".snapshot"),
        };
        if !allowed {
            return Err(format!("{topic} lost {seq}"));
        }
    }
    log.present = kept;
    Ok(())
}

/// What a dead letter says.
#[derive(Deserialize)]
struct Letter {
    topic: TopicName,
    group: GroupName,
    original: Original,
}

#[derive(Deserialize)]
struct Original {
    seq: u64,
}

/// An index into `items`, chosen by remainder.
fn pick<T>(items: &[T], which: u64) -> Option<usize> {
    (!items.is_empty()).then(|| (which % items.len() as u64) as usize)
}
