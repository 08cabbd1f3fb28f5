//! A member that another hub serves.
//!
//! What the owner delivers is taken from the connection as it comes, also while the user takes nothing: answers and the
//! end of the subscription have to be seen. A user that is slow has the owner pause, and what waits for it too long is
//! returned as never delivered, so nothing counts against an event that nobody saw.

use super::confirm::Confirmer;
use super::hand::Hand;
use super::link::Trouble;
use super::moving::Word;
use futures_util::future::BoxFuture;
use hub_client::{Arrival, Connection, Delivered, Deliveries, ErrorKind, Name};
use hub_core::store::HubId;
use hub_core::{Event, Held, Millis};
use hub_proto::{EventId, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// When the connection has no room, it is tried again after this.
const RETRY: Duration = Duration::from_millis(5);

/// See the module.
pub(super) struct Remote {
    deliveries: Deliveries,
    connection: Connection,
    name: Arc<Name>,
    pub owner: HubId,
    /// It is dead.
    gone: BoxFuture<'static, ()>,
    hand: Hand,
    /// What came and the user does not have yet, and when each has waited for too long.
    arrived: VecDeque<(Instant, Delivered)>,
    arrived_bytes: usize,
    /// More has the owner pause.
    most_bytes: usize,
    /// The user wants nothing for now.
    resting: bool,
    /// The user is slow.
    flooded: bool,
    /// What the owner was told last.
    paused: bool,
    /// What could not be said yet, in its order.
    unsaid: VecDeque<(&'static str, Value)>,
    timer: Option<Pin<Box<Sleep>>>,
    confirmer: Confirmer,
    /// Ends with this member: whoever waits for an answer need not wait any longer.
    over: CancellationToken,
    _over: DropGuard,
}

/// An event for the user.
pub(super) struct Came {
    pub event: Arc<Event>,
    pub attempt: u32,
    pub max_attempts: u32,
    pub epoch: u64,
    /// What is left of its time.
    pub left: Millis,
}

impl Remote {
    pub fn new(
        (owner, gone): (HubId, BoxFuture<'static, ()>),
        (connection, deliveries): (Connection, Deliveries),
        hand: Hand,
        most_bytes: usize,
        resting: bool,
        tracker: TaskTracker,
    ) -> Self {
        let over = CancellationToken::new();
        let name = deliveries.name().clone();
        Self {
            confirmer: Confirmer::new(tracker, connection.clone(), name.clone(), over.clone()),
            name,
            deliveries,
            connection,
            owner,
            gone,
            hand,
            arrived: VecDeque::new(),
            arrived_bytes: 0,
            most_bytes,
            resting,
            flooded: false,
            paused: resting,
            unsaid: VecDeque::new(),
            timer: None,
            _over: over.clone().drop_guard(),
            over,
        }
    }

    // ---- events ----

    /// The next event for the user.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<Came, Trouble>> {
        if let Poll::Ready(trouble) = self.tend(context) {
            return Poll::Ready(Err(trouble));
        }
        if self.resting {
            return Poll::Pending;
        }
        let now = Instant::now();
        while let Some((_, delivered)) = self.arrived.pop_front() {
            self.arrived_bytes -= delivered.event.size();
            let until = delivered.ack_deadline.unwrap_or(now);
            self.ebb();
            if until <= now {
                // Somebody else has it by now.
                continue;
            }
            self.hand.add(held(&delivered), until);
            let Delivered { event, attempt, max_attempts, epoch, .. } = delivered;
            let left = until.duration_since(now).as_millis();
            let left = Millis::try_from(left).unwrap_or(Millis::MAX).max(1);
            return Poll::Ready(Ok(Came { event: Arc::new(event), attempt, max_attempts, epoch, left }));
        }
        Poll::Pending
    }

    /// Takes what has come, and says what is to be said; ready when the member has to look for another owner, or has ended.
    pub fn tend(&mut self, context: &mut Context<'_>) -> Poll<Trouble> {
        if self.gone.as_mut().poll(context).is_ready() {
            return Poll::Ready(Trouble::Again("the hub that served the group is gone".into()));
        }
        while let Poll::Ready(arrival) = self.deliveries.poll_recv(context) {
            match arrival {
                Ok(Arrival::Event(delivered)) => self.came(delivered),
                Ok(Arrival::Lagged { .. }) => {}
                Err(error) => return Poll::Ready(error.into()),
            }
        }
        self.return_stale();
        self.flood();
        loop {
            self.speak();
            let next = match (self.unsaid.is_empty(), self.arrived.front()) {
                (false, _) => Instant::now() + RETRY,
                (true, Some((at, _))) => *at,
                (true, None) => {
                    self.timer = None;
                    return Poll::Pending;
                }
            };
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(next)));
            if timer.deadline() != next {
                timer.as_mut().reset(next);
            }
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.return_stale();
        }
    }

    fn came(&mut self, delivered: Delivered) {
        if self.resting {
            return self.unsent([held(&delivered)]);
        }
        let now = Instant::now();
        let left =
            delivered.ack_deadline.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        self.arrived_bytes += delivered.event.size();
        self.arrived.push_back((now + left * 3 / 4, delivered));
    }

    /// What the user will hardly get in time goes back, before it counts as failed.
    fn return_stale(&mut self) {
        let now = Instant::now();
        let mut stale = Vec::new();
        while let Some((_, delivered)) = self.arrived.pop_front_if(|(at, _)| *at <= now) {
            self.arrived_bytes -= delivered.event.size();
            stale.push(held(&delivered));
        }
        self.unsent(stale);
        self.ebb();
    }

    /// There is room again, whoever took what was here: the owner may go on.
    fn ebb(&mut self) {
        if self.flooded && self.arrived_bytes <= self.most_bytes / 2 {
            self.flooded = false;
            self.say_pause();
        }
    }

    fn flood(&mut self) {
        if !self.flooded && self.arrived_bytes > self.most_bytes {
            self.flooded = true;
            self.say_pause();
        }
    }

    /// Events that the user never had go back.
    fn unsent(&mut self, events: impl IntoIterator<Item = Held>) {
        let mut by_attempt: BTreeMap<u32, Vec<EventId>> = BTreeMap::new();
        for held in events {
            by_attempt.entry(held.attempt).or_default().push(held.id);
        }
        for (attempt, ids) in by_attempt {
            self.say("RETURN", json!({"ids": ids, "attempt": attempt}));
        }
    }

    pub fn rest(&mut self, resting: bool) {
        self.resting = resting;
        if !resting {
            return self.say_pause();
        }
        let arrived = std::mem::take(&mut self.arrived);
        (self.arrived_bytes, self.flooded) = (0, false);
        // First of all it is not given them again.
        self.say_pause();
        self.unsent(arrived.iter().map(|(_, delivered)| held(delivered)));
    }

    fn say_pause(&mut self) {
        let wanted = self.resting || self.flooded;
        if wanted == self.paused {
            return;
        }
        self.paused = wanted;
        // A word that was not said yet is taken back.
        match self.unsaid.back() {
            Some(("PAUSE" | "RESUME", _)) => drop(self.unsaid.pop_back()),
            _ => self.say(if wanted { "PAUSE" } else { "RESUME" }, json!({})),
        }
    }

    // ---- saying ----

    fn say(&mut self, op: &'static str, mut members: Value) {
        members["topic"] = json!(self.name.topic);
        members["group"] = json!(self.name.group);
        self.unsaid.push_back((op, members));
        self.speak();
    }

    /// Says what there is to say, as far as there is room.
    fn speak(&mut self) {
        while let Some((op, members)) = self.unsaid.front() {
            match self.connection.tell(op, members) {
                Err(error) if error.kind() == ErrorKind::Busy => return,
                // The end of the connection is seen where it is read.
                Ok(()) | Err(_) => drop(self.unsaid.pop_front()),
            }
        }
    }

    // ---- settling ----

    pub fn hand(&self) -> &Hand {
        &self.hand
    }

    /// The user goes on through another connection, whose owner waits for what was said by this one. It hears all of that, and
    /// then the end of the connection.
    pub fn hang_up(mut self) {
        self.speak();
        self.deliveries.detach();
    }

    /// What the user has in hand, to be brought along.
    pub fn into_hand(self) -> Hand {
        // The owner is told nothing: it is gone, or has ended this already.
        self.deliveries.detach();
        self.hand
    }

    pub fn ack(&mut self, id: EventId, attempt: Option<u32>) -> Result<Held> {
        let held = self.hand.take(id, attempt)?;
        // One that finds no room comes again, or is settled with the next owner.
        if let Err(error) = self.connection.ack(&self.name, &[id], Some(held.attempt)) {
            tracing::debug!(%error, "an ack was not sent");
        }
        Ok(held)
    }

    /// An ack with this number was said, here or on the way here.
    pub fn acked(&self, number: u64) {
        self.confirmer.sent(number);
    }

    /// All acks up to this number are saved.
    pub fn saved(&self) -> u64 {
        self.confirmer.saved()
    }

    pub fn nack(
        &mut self,
        id: EventId,
        attempt: Option<u32>,
        delay: Option<Millis>,
        reason: &str,
    ) -> Result<()> {
        let held = self.hand.take(id, attempt)?;
        let mut members = json!({"id": id, "attempt": held.attempt, "reason": reason});
        if let Some(delay) = delay {
            members["delay_ms"] = json!(delay);
        }
        self.say("NACK", members);
        Ok(())
    }

    pub fn give_back(&mut self, id: EventId, attempt: Option<u32>, delay: Millis) -> Result<()> {
        let held = self.hand.take(id, attempt)?;
        self.say("RETURN", json!({"ids": [id], "attempt": held.attempt, "delay_ms": delay}));
        Ok(())
    }

    /// Asks the owner for more time; answers what is left. If it is gone meanwhile, its successor hears of what
    /// is left.
    pub fn extend(
        &mut self,
        id: EventId,
        attempt: Option<u32>,
        extend: Millis,
    ) -> Result<BoxFuture<'static, Result<Millis>>> {
        let attempt = self.hand.check(id, attempt)?.attempt;
        let time = Duration::from_millis(extend);
        self.hand.extend(id, Instant::now() + time);
        let (connection, name, over) = (self.connection.clone(), self.name.clone(), self.over.clone());
        Ok(Box::pin(async move {
            let asked = async {
                match connection.modack(&name, id, Some(attempt), time).await {
                    Ok(left) => Ok(Millis::try_from(left.as_millis()).unwrap_or(Millis::MAX)),
                    Err(error) => match error.refusal() {
                        Some(refusal) => Err(refusal.clone()),
                        None => Ok(extend),
                    },
                }
            };
            tokio::select! {
                answer = asked => answer,
                () = over.cancelled() => Ok(extend),
            }
        }))
    }

    /// What the user said before the member came here.
    pub fn repeat(&mut self, id: EventId, word: Word) {
        // Events that are not held any more are nobody's fault.
        let _ = match word {
            Word::Ack(attempt) => self.ack(id, attempt).map(drop),
            Word::Nack(attempt, delay, reason) => self.nack(id, attempt, delay, &reason),
            Word::Extend(attempt, extend) => {
                self.hand.check(id, attempt).map(|held| held.attempt).map(|attempt| {
                    self.hand.extend(id, Instant::now() + Duration::from_millis(extend));
                    self.say("MODACK", json!({"id": id, "attempt": attempt, "extend_ms": extend}));
                })
            }
            Word::GiveBack(attempt, delay) => self.give_back(id, attempt, delay),
        };
    }

    // ---- the end ----

    /// The user has left. Nothing counts as failed. Answers whether the owner knows, and so all that was said before.
    pub async fn unsubscribe(mut self) -> bool {
        self.speak();
        let Self { deliveries, connection, .. } = self;
        let left = deliveries.unsubscribe().await;
        if let Err(error) = &left {
            tracing::debug!(%error, "a subscription at another hub ended by itself");
        }
        connection.close().await;
        left.is_ok()
    }

    /// The user has vanished; the event `blame` may be what killed it. The owner keeps its leases for a while if its client can
    /// resume it. Answers as [`Remote::unsubscribe`].
    pub async fn release(mut self, can_resume: bool, blame: Option<EventId>) -> bool {
        // What the user does not have yet goes to others.
        self.rest(true);
        let Self { deliveries, connection, name, .. } = self;
        deliveries.detach();
        let mut members = json!({"topic": name.topic, "group": name.group});
        if let Some(id) = blame {
            members["blame"] = json!(id);
        }
        let released = connection.request(if can_resume { "DETACH" } else { "RELEASE" }, &members).await;
        if let Err(error) = &released {
            tracing::debug!(%error, "a member at another hub was gone already");
        }
        connection.close().await;
        released.is_ok()
    }
}

fn held(delivered: &Delivered) -> Held {
    let &Delivered { ref event, attempt, epoch, .. } = delivered;
    Held { topic: event.topic().clone(), id: event.id(), seq: event.seq(), attempt, epoch, left: None }
}
