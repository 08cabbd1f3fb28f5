//! Settling by id, for consumers that hold ids and no deliveries: the other end of a socket.

use super::Subscription;
use crate::Millis;
use crate::cluster::Held;
use crate::group::Group;
use crate::group::delivery::{Delivery, check_delay};
use crate::group::dispatch::Lease;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_proto::{Error, Event, EventId, Result, TopicName, limits};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

/// A subscription whose events are settled by id. The same id is never in hand twice: ids are unique per topic, so over
/// several topics a second one waits until the first is settled.
#[derive(Debug)]
pub struct ById {
    subscription: Subscription,
    in_hand: HashMap<EventId, InHand, RandomState>,
    /// Deliveries whose id is in hand from another topic.
    held: HashMap<EventId, VecDeque<Delivery>, RandomState>,
    /// Deliveries whose id has become free.
    freed: VecDeque<Delivery>,
    /// Who waits for the next event while some are held: an ack of their twin frees them.
    waiting: Option<Waker>,
    /// What the consumer had in hand with another owner of the group, until this one has come by it.
    brought: HashMap<EventId, Brought, RandomState>,
    /// How many events were handed out.
    handed_out: u64,
    /// Sweep what was not settled in time when there is more than this.
    sweep_at: usize,
}

/// An event from another owner, and what the consumer said about it meanwhile.
#[derive(Debug)]
struct Brought {
    held: Held,
    word: Option<Word>,
}

#[derive(Debug)]
enum Word {
    Ack,
    Nack(Option<Millis>, String),
    Extend(Millis),
    GiveBack(Millis),
    Unsent,
}

/// What is kept of an event that was handed out: not the event, which may be large and stay out for hours.
struct InHand {
    group: Arc<Group>,
    lease: Lease,
    /// Its place among all that were handed out.
    order: u64,
}

impl InHand {
    fn as_held(&self, id: EventId) -> Held {
        let topic = self.group.topic.name.clone();
        let Lease { seq, attempt, epoch, .. } = self.lease;
        Held { topic, id, seq, attempt, epoch, left: None }
    }
}

impl Brought {
    /// Whether the consumer still has it.
    fn is_held(&self) -> bool {
        matches!(self.word, None | Some(Word::Extend(_)))
    }

    fn as_held(&self) -> Held {
        let left = match self.word {
            Some(Word::Extend(extend_ms)) => self.held.left.max(Some(extend_ms)),
            _ => self.held.left,
        };
        Held { left, ..self.held.clone() }
    }
}

impl std::fmt::Debug for InHand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("InHand").field(&self.lease).finish()
    }
}

/// An event handed out.
#[derive(Clone, Debug)]
pub struct Handed {
    /// The event.
    pub event: Arc<Event>,
    /// Which delivery this is, from 1.
    pub attempt: u32,
    /// After how many failures the event becomes a dead letter.
    pub max_attempts: u32,
    /// The group's epoch, which a seek raises: the event is wanted again, though it may have been handed out before.
    pub epoch: u64,
}

/// Where sweeping starts.
const SWEEP: usize = 4096;

impl ById {
    pub(super) fn new(subscription: Subscription, brought: Vec<Held>) -> Self {
        Self {
            subscription,
            brought: brought.into_iter().map(|held| (held.id, Brought { held, word: None })).collect(),
            in_hand: HashMap::default(),
            held: HashMap::default(),
            freed: VecDeque::new(),
            waiting: None,
            handed_out: 0,
            sweep_at: SWEEP,
        }
    }

    /// The subscription itself, to pause it or to end it.
    pub fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    /// The next event; see [`Subscription::recv`].
    pub async fn recv(&mut self) -> Result<Handed> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// See [`recv`](Self::recv).
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Handed>> {
        let budget = ready!(tokio::task::coop::poll_proceed(cx));
        loop {
            let delivery = match self.freed.pop_front() {
                Some(delivery) => delivery,
                None => match self.subscription.poll_queued(cx) {
                    Poll::Ready(Ok(delivery)) => delivery,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {
                        self.waiting = (!self.held.is_empty()).then(|| cx.waker().clone());
                        return Poll::Pending;
                    }
                },
            };
            if let Some(handed) = self.hand_out(delivery) {
                budget.made_progress();
                return Poll::Ready(Ok(handed));
            }
        }
    }

    /// Waits for the end of the subscription, for a consumer that takes no events at the moment. It is woken now and then
    /// in vain; events that come meanwhile are not taken.
    pub fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        self.subscription.poll_ended(cx)
    }

    fn hand_out(&mut self, delivery: Delivery) -> Option<Handed> {
        let id = delivery.event().id();
        if delivery.in_hand {
            self.go_on(id, delivery);
            return None;
        }
        let twin = self.in_hand.get(&id).filter(|twin| !Arc::ptr_eq(&twin.group, &delivery.group));
        if twin.is_some_and(|twin| twin.group.is_held(twin.lease)) {
            // Its lease may run out meanwhile: nobody had it in hand, so it just comes again, here or elsewhere.
            let held = self.held.entry(id).or_default();
            held.retain(|held| !Arc::ptr_eq(&held.group, &delivery.group));
            held.push_back(delivery);
            return None;
        }
        if !delivery.group.take(delivery.lease, delivery.event()) || self.subscription.refuses(&delivery) {
            return None;
        }
        // Should it have been brought along: that delivery has ended, this is another.
        self.brought.remove(&id);
        let event = delivery.event().clone();
        let (attempt, max_attempts) = (delivery.attempt(), delivery.max_attempts());
        let handed = Handed { event, attempt, max_attempts, epoch: delivery.lease.epoch };
        self.hold(id, delivery);
        if self.in_hand.len() > self.sweep_at {
            self.in_hand.retain(|_, held| held.group.is_held(held.lease));
            self.held.retain(|_, held| {
                held.retain(|delivery| delivery.group.is_held(delivery.lease));
                !held.is_empty()
            });
            self.sweep_at = SWEEP.max(2 * self.in_hand.len());
        }
        Some(handed)
    }

    fn hold(&mut self, id: EventId, delivery: Delivery) {
        let Delivery { group, lease, .. } = delivery;
        self.handed_out += 1;
        self.in_hand.insert(id, InHand { group, lease, order: self.handed_out });
    }

    /// The lease of an event that the consumer had in hand before; what it said meanwhile counts now.
    fn go_on(&mut self, id: EventId, delivery: Delivery) {
        let word = self.brought.remove(&id).and_then(|brought| brought.word);
        self.hold(id, delivery);
        // A lease that has ended meanwhile is nobody's fault.
        let _ = match word {
            None | Some(Word::Ack) => Ok(()),
            Some(Word::Nack(delay, reason)) => self.nack(id, None, delay, &reason),
            Some(Word::Extend(extend_ms)) => self.extend(id, None, extend_ms).map(drop),
            Some(Word::GiveBack(delay)) => self.give_back(id, None, delay),
            Some(Word::Unsent) => self.unsent(id, None),
        };
    }

    /// Keeps what the consumer says about an event that this owner has not come by yet.
    fn is_early(&mut self, id: EventId, attempt: Option<u32>, word: impl FnOnce() -> Word) -> bool {
        let brought = self.brought.get_mut(&id).filter(|brought| {
            attempt.is_none_or(|attempt| attempt == brought.held.attempt) && brought.is_held()
        });
        match brought {
            Some(brought) => {
                brought.word = Some(word());
                true
            }
            None => false,
        }
    }

    /// How many events the consumer has in hand. Those whose time ran out count until that is noticed.
    pub fn in_hand(&self) -> usize {
        self.in_hand.len() + self.brought.len()
    }

    /// What the consumer has in hand: what it brings along if another hub takes the group over.
    pub fn held(&self) -> Vec<Held> {
        let here = self.in_hand.iter().filter(|(_, held)| held.group.is_held(held.lease));
        let here =
            here.map(|(&id, held)| Held { left: held.group.more_left(held.lease), ..held.as_held(id) });
        let brought = self.brought.values().filter(|brought| brought.is_held());
        let mut held: Vec<Held> = here.chain(brought.map(Brought::as_held)).collect();
        // About the order in which it got them: the oldest is the one to blame if it vanishes.
        held.sort_unstable_by_key(|held| held.seq);
        held
    }

    /// The same, with what is left of the time of each event, as far as that is known here.
    pub fn leases(&self) -> Vec<Held> {
        let left = |held: &Held| {
            let in_hand = self.in_hand.get(&held.id)?;
            in_hand.group.time_left(in_hand.lease)
        };
        self.held().into_iter().map(|held| Held { left: left(&held).or(held.left), ..held }).collect()
    }

    /// The event `id` as it is in the consumer's hands.
    pub fn held_of(&self, id: EventId) -> Option<Held> {
        let here = self.in_hand.get(&id).map(|held| held.as_held(id));
        here.or_else(|| self.brought.get(&id).map(|brought| brought.held.clone()))
    }

    /// Stands for everything that was acked by now. See [`is_saved`](Self::is_saved).
    pub fn save_mark(&self) -> u64 {
        self.subscription.save_mark()
    }

    /// Whether everything is saved that was acked when this mark was made. Never so again once another hub has the group: what
    /// was not saved by then has to be brought along.
    pub fn is_saved(&self, mark: u64) -> bool {
        self.subscription.is_saved(mark)
    }

    /// The event `id` was handed out, but never reached the consumer: others may have it, and it counts as not delivered.
    pub fn unsent(&mut self, id: EventId, attempt: Option<u32>) -> Result<()> {
        self.settle(id, attempt, |held| held.group.unsent(held.lease))
    }

    /// The consumer has lost its connection, and may be back in a moment. What it has in hand stays leased; what waits for it goes to
    /// others, and takes no memory any more. Nothing is handed out until the subscription is [resumed](Subscription::resume).
    pub fn park(&mut self) {
        self.subscription.pause();
        self.held.clear();
        self.freed.clear();
        for delivery in self.subscription.take_queued() {
            // The lease of an event in hand waits in the queue, too.
            if delivery.in_hand {
                self.go_on(delivery.event().id(), delivery);
            }
        }
    }

    /// Puts off the end of each lease of this consumer that would end before `time` is over.
    pub fn hold_for(&mut self, time: Millis) {
        for held in self.in_hand.values() {
            // A lease that has ended meanwhile is not missed.
            let _ = held.group.extend(held.lease, time);
        }
    }

    /// The event that the consumer has had in hand for longest: if it vanishes, this one may be what killed it.
    pub fn oldest(&self) -> Option<EventId> {
        let held = self.in_hand.iter().filter(|(_, held)| held.group.is_held(held.lease));
        held.min_by_key(|(_, held)| held.order).map(|(&id, _)| id)
    }

    /// The consumer lost its connection and is back. What it says that it holds, it goes on holding; what it acked counts;
    /// the rest was lost on the way to it, and counts as not delivered.
    pub fn come_back(&mut self, held: &[Held], settled: &[Held]) {
        let by_id = |list: &[Held]| -> HashMap<EventId, Held, RandomState> {
            list.iter().map(|held| (held.id, held.clone())).collect()
        };
        let (held, settled) = (by_id(held), by_id(settled));
        let here = self.in_hand.iter().map(|(&id, held)| held.as_held(id));
        let brought = self.brought.values().filter(|brought| brought.is_held());
        let mut here: Vec<Held> = here.chain(brought.map(|brought| brought.held.clone())).collect();
        // Others get them in their order.
        here.sort_unstable_by_key(|held| held.seq);
        for Held { topic, id, seq, attempt, epoch, .. } in here {
            let is_it = |held: &&Held| held.topic == topic && held.seq == seq && held.epoch == epoch;
            let in_hand = held.get(&id).filter(is_it).filter(|held| held.attempt == attempt);
            // A lease that has ended meanwhile is nobody's fault.
            let _ = match (in_hand, settled.get(&id).filter(is_it)) {
                (Some(Held { left: Some(left), .. }), _) => {
                    self.extend(id, None, (*left).min(limits::MAX_DELAY_MS)).map(drop)
                }
                (Some(_), _) => Ok(()),
                (None, Some(_)) => self.ack(id, None),
                (None, None) if self.is_early(id, None, || Word::Unsent) => Ok(()),
                (None, None) => self.unsent(id, None),
            };
        }
    }

    /// The consumer has vanished with these in hand; the event `blame` may be what killed it, and counts a failure.
    pub fn vanish(mut self, blame: Option<EventId>) {
        if let Some(held) = blame.and_then(|id| self.in_hand.remove(&id)) {
            held.group.blame(held.lease);
        }
        self.subscription.close();
    }

    /// The topic of the event `id`, if it was handed out here and is not settled.
    pub fn topic_of(&self, id: EventId) -> Option<&TopicName> {
        let here = self.in_hand.get(&id).map(|held| &held.group.topic.name);
        let brought = self.brought.get(&id).filter(|brought| brought.is_held());
        here.or_else(|| brought.map(|brought| &brought.held.topic))
    }

    /// Settles the event `id`; `attempt` refuses when the event was delivered again since.
    pub fn ack(&mut self, id: EventId, attempt: Option<u32>) -> Result<()> {
        if self.is_early(id, attempt, || Word::Ack) {
            // Not when it comes by: an ack is saved at once.
            let held = self.brought.get(&id).map(|brought| brought.held.clone());
            held.into_iter().for_each(|held| self.subscription.ack_brought(&held));
            return Ok(());
        }
        self.settle(id, attempt, |held| held.group.ack(held.lease))
    }

    /// Hands the event `id` back as failed.
    pub fn nack(
        &mut self,
        id: EventId,
        attempt: Option<u32>,
        delay: Option<Millis>,
        reason: &str,
    ) -> Result<()> {
        if let Some(delay) = delay {
            check_delay("delay_ms", delay)?;
        }
        if self.is_early(id, attempt, || Word::Nack(delay, reason.to_owned())) {
            return Ok(());
        }
        self.settle(id, attempt, |held| held.group.nack(held.lease, delay, reason))
    }

    /// Gives the event `id` back without a failure; it returns after `delay`. See [`Delivery::return_after`].
    pub fn give_back(&mut self, id: EventId, attempt: Option<u32>, delay: Millis) -> Result<()> {
        check_delay("delay_ms", delay)?;
        if self.is_early(id, attempt, || Word::GiveBack(delay)) {
            return Ok(());
        }
        self.settle(id, attempt, |held| held.group.return_after(held.lease, delay))
    }

    /// Gives everything back that the consumer has in hand, but for these events. A consumer that was cut off says so what it still
    /// works on.
    pub fn keep_only(&mut self, ids: &HashSet<EventId>) {
        self.in_hand.retain(|_, held| held.group.is_held(held.lease));
        let here = self.in_hand.iter().map(|(&id, held)| held.as_held(id));
        let brought = self.brought.values().filter(|brought| brought.is_held());
        let here = here.chain(brought.map(|brought| brought.held.clone()));
        let mut dropped: Vec<Held> = here.filter(|held| !ids.contains(&held.id)).collect();
        // Other members get the events in their order.
        dropped.sort_unstable_by_key(|held| held.seq);
        for held in dropped {
            // A lease that has ended meanwhile needs no return.
            let _ = self.give_back(held.id, None, 0);
        }
    }

    /// Puts the deadline of the event `id` off; see [`Delivery::extend`].
    pub fn extend(&mut self, id: EventId, attempt: Option<u32>, extend_ms: Millis) -> Result<Millis> {
        check_delay("extend_ms", extend_ms)?;
        if self.is_early(id, attempt, || Word::Extend(extend_ms)) {
            return Ok(extend_ms);
        }
        let held = self.find(id, attempt)?;
        held.group.extend(held.lease, extend_ms)
    }

    fn find(&self, id: EventId, attempt: Option<u32>) -> Result<&InHand> {
        let held = self.in_hand.get(&id);
        let held = held.filter(|held| attempt.is_none_or(|attempt| attempt == held.lease.attempt));
        held.ok_or_else(|| {
            let attempt = attempt.map(|attempt| format!(" (attempt {attempt})")).unwrap_or_default();
            Error::unknown_id(format!("event {id}{attempt} is not held by this subscription")).with_id(id)
        })
    }

    fn settle(
        &mut self,
        id: EventId,
        attempt: Option<u32>,
        how: impl FnOnce(&InHand) -> Result<()>,
    ) -> Result<()> {
        let settled = how(self.find(id, attempt)?);
        // A request that was bad in itself leaves the lease as it is; everything else ends it.
        if settled.is_ok() || settled.as_ref().is_err_and(|error| error.code == hub_proto::Code::UnknownId) {
            self.in_hand.remove(&id);
            // Those behind the first are held again when their turn comes.
            if let Some(held) = self.held.remove(&id) {
                self.freed.extend(held);
                self.waiting.take().into_iter().for_each(Waker::wake);
            }
        }
        settled
    }

    /// Leaves the group; see [`Subscription::close`].
    pub fn close(self) {
        self.subscription.close();
    }
}
