//! The task of a handler: takes events, starts handlers, extends leases.

use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use hub_proto::bus::{Delivery, EventStream, Publisher, Received};
use hub_proto::{Code, EventId, Key, Result, TopicName};
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::context::{HandlerContext, Held};
use crate::failure::Failure;
use crate::finished::Finished;

/// How soon it is tried again to extend a lease, if that could not be said.
const EXTEND_AGAIN: Duration = Duration::from_secs(1);

/// Takes events of a subscription and runs `handler` on them.
pub(crate) struct Runner<H> {
    stream: Option<EventStream>,
    handler: Arc<H>,
    publisher: Arc<dyn Publisher>,
    group: Option<Arc<str>>,
    concurrency: usize,
    /// How many events are held at most, without a group: with one, it is the hub that gives no more.
    most_held: usize,
    extend_up_to: Duration,
    /// Events whose handlers can be started.
    ready: VecDeque<Arc<Held>>,
    /// Of a subscription with key order: what waits behind the event of its key that is ready or at work.
    behind: Option<WaitingByKey>,
    leases: HashMap<EventId, Vec<HeldLease>>,
    held: usize,
    finished: Finished,
    at_work: JoinSet<()>,
    running: HashMap<Id, Arc<Held>>,
    extending: JoinSet<(Arc<Held>, Result<Duration>)>,
    /// When leases are looked at.
    look_at: Option<Instant>,
    /// While this is held, a bus that stops waits.
    _work: Option<Box<dyn Send>>,
}

/// What waits behind the event of its topic and key.
type WaitingByKey = HashMap<(TopicName, Key), VecDeque<Arc<Held>>>;

/// An event that is held, and when its lease is extended.
struct HeldLease {
    held: Arc<Held>,
    since: Instant,
    /// The time that each extension asks for.
    time: Duration,
    extend_at: Option<Instant>,
}

impl<H, F, E> Runner<H>
where
    H: Fn(HandlerContext) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Display + Send + 'static,
{
    #[expect(clippy::too_many_arguments, reason = "it is made in one place")]
    pub fn new(
        mut stream: EventStream,
        handler: H,
        publisher: Arc<dyn Publisher>,
        group: Option<Arc<str>>,
        concurrency: usize,
        most_held: usize,
        extend_up_to: Duration,
        is_keyed: bool,
    ) -> Self {
        Self {
            _work: stream.work(),
            stream: Some(stream),
            handler: Arc::new(handler),
            publisher,
            group,
            concurrency,
            most_held,
            extend_up_to,
            ready: VecDeque::new(),
            behind: is_keyed.then(HashMap::new),
            leases: HashMap::new(),
            held: 0,
            finished: Finished::default(),
            at_work: JoinSet::new(),
            running: HashMap::new(),
            extending: JoinSet::new(),
            look_at: None,
        }
    }

    /// Works until it is told to stop, or the subscription is over.
    ///
    /// # Errors
    /// Why the subscription is over.
    pub async fn run(&mut self, mut stopping: watch::Receiver<bool>) -> Result<()> {
        let mut result = Ok(());
        while let Some(stream) = &mut self.stream {
            let has_room = self.group.is_some() || self.held < self.most_held;
            let look_at = self.look_at;
            tokio::select! {
                biased;
                // Also if the handle was dropped.
                _ = stopping.wait_for(|stopping| *stopping) => break,
                Some(ended) = self.at_work.join_next_with_id() => self.ended(&ended),
                Some(extended) = self.extending.join_next() => self.extended(extended),
                () = until(look_at) => self.extend_leases(),
                received = stream.recv(), if has_room => match received {
                    Ok(Received::Event(delivery)) => self.take(delivery),
                    Ok(Received::Lagged { topic, missed }) => {
                        tracing::warn!(topic = topic.as_deref(), missed, "a handler without a group has missed events");
                    }
                    Err(error) => {
                        result = Err(error);
                        break;
                    }
                },
            }
            self.start_handlers();
        }
        self.finish().await;
        result
    }

    /// An event came.
    fn take(&mut self, delivery: Delivery) {
        if self.group.is_some() {
            if let Some(at) = self.lease_of(&delivery).map(|known| known.held.clone()) {
                return self.take_again(&at, delivery);
            }
            if self.finished.has(&delivery) {
                // If this ack is lost, too, the event comes once more.
                let _ = delivery.ack();
                return;
            }
        }
        let now = Instant::now();
        let time = delivery.time_left().unwrap_or_default();
        let event = delivery.event().clone();
        let held = Arc::new(Held::new(delivery));
        let mut lease = HeldLease { held: held.clone(), since: now, time, extend_at: None };
        if self.group.is_some() && self.extend_up_to > Duration::ZERO {
            lease.extend_at = lease.first_extension(now);
            self.look_at = earlier(self.look_at, lease.extend_at);
        }
        self.leases.entry(event.id()).or_default().push(lease);
        self.held += 1;
        if let (Some(behind), Some(key)) = (&mut self.behind, event.key()) {
            match behind.entry((event.topic().clone(), key.clone())) {
                std::collections::hash_map::Entry::Occupied(mut waiting) => {
                    waiting.get_mut().push_back(held);
                    return;
                }
                std::collections::hash_map::Entry::Vacant(entry) => drop(entry.insert(VecDeque::new())),
            }
        }
        self.ready.push_back(held);
    }

    /// An event came again that is held here.
    fn take_again(&mut self, held: &Arc<Held>, delivery: Delivery) {
        if held.is_handled() {
            let _ = delivery.ack();
            return;
        }
        let is_running = self.is_running(held);
        let is_extended = self.extend_up_to > Duration::ZERO;
        let Some(known) = self.lease_of(&delivery) else { return };
        // A handler that was told that its lease is lost may have stopped half-way.
        held.renew(delivery, is_running);
        known.extend_at = known.first_extension(Instant::now()).filter(|_| is_extended);
        let extend_at = known.extend_at;
        self.look_at = earlier(self.look_at, extend_at);
    }

    fn is_running(&self, held: &Arc<Held>) -> bool {
        self.running.values().any(|other| Arc::ptr_eq(other, held))
    }

    fn lease_of(&mut self, delivery: &Delivery) -> Option<&mut HeldLease> {
        let event = delivery.event();
        let leases = self.leases.get_mut(&event.id())?;
        leases.iter_mut().find(|lease| lease.held.first.event().topic() == event.topic())
    }

    fn start_handlers(&mut self) {
        while self.running.len() < self.concurrency {
            let Some(held) = self.ready.pop_front() else { return };
            // Somebody else may have it by now.
            if self.group.is_some() && (held.is_lost() || held.newest().time_left() == Some(Duration::ZERO)) {
                self.let_go(&held);
                continue;
            }
            let context = HandlerContext {
                held: held.clone(),
                group: self.group.clone(),
                publisher: self.publisher.clone(),
            };
            let handler = self.handler.clone();
            let at_work = held.clone();
            let task = self.at_work.spawn(async move {
                let result = handler(context).await;
                settle(&at_work, result).await;
            });
            self.running.insert(task.id(), held);
        }
    }

    /// A handler has ended, and its event is settled unless it has panicked.
    fn ended(&mut self, ended: &Result<(Id, ()), JoinError>) {
        let (id, panicked) = match ended {
            Ok((id, ())) => (*id, false),
            Err(error) => (error.id(), true),
        };
        let Some(held) = self.running.remove(&id) else { return };
        let newest = held.newest();
        if panicked {
            let task = self.at_work.spawn(async move {
                report(newest.nack(None, "the handler panicked").await);
            });
            // It counts as running until the hub has been told.
            self.running.insert(task.id(), held);
            return;
        }
        self.finished_with(&held);
    }

    fn finished_with(&mut self, held: &Arc<Held>) {
        if self.group.is_some() && held.is_handled() {
            self.finished.add(&held.newest());
        }
        self.let_go(held);
    }

    /// The event is not held here any more; the next one of its key can be handled.
    fn let_go(&mut self, held: &Arc<Held>) {
        let event = held.first.event();
        if let Some(leases) = self.leases.get_mut(&event.id()) {
            leases.retain(|lease| !Arc::ptr_eq(&lease.held, held));
            if leases.is_empty() {
                self.leases.remove(&event.id());
            }
        }
        self.held -= 1;
        let (Some(behind), Some(key)) = (&mut self.behind, event.key()) else { return };
        let key = (event.topic().clone(), key.clone());
        match behind.get_mut(&key).and_then(VecDeque::pop_front) {
            Some(next) => self.ready.push_back(next),
            None => drop(behind.remove(&key)),
        }
    }

    /// Extends the leases that are due.
    fn extend_leases(&mut self) {
        let now = Instant::now();
        self.look_at = None;
        for lease in self.leases.values_mut().flatten() {
            let Some(at) = lease.extend_at else { continue };
            if at > now {
                self.look_at = earlier(self.look_at, Some(at));
                continue;
            }
            let left = self.extend_up_to.saturating_sub(now.duration_since(lease.since));
            // Until the answer has come. An event that was held for too long is looked at again when its lease is over.
            lease.extend_at = None;
            let (held, time) = (lease.held.clone(), lease.time.min(left));
            self.extending.spawn(async move {
                let newest = held.newest();
                if time == Duration::ZERO {
                    tokio::time::sleep(newest.time_left().unwrap_or_default()).await;
                }
                let extended = newest.extend(time).await;
                (held, extended)
            });
        }
    }

    fn extended(&mut self, extended: Result<(Arc<Held>, Result<Duration>), JoinError>) {
        let Ok((held, extended)) = extended else { return };
        let leases = self.leases.get_mut(&held.first.event().id()).into_iter().flatten();
        let Some(lease) = leases.into_iter().find(|lease| Arc::ptr_eq(&lease.held, &held)) else { return };
        let now = Instant::now();
        let again = match extended {
            Ok(left) => now + left / 2,
            Err(error)
                if error.code != Code::UnknownId && held.newest().time_left() != Some(Duration::ZERO) =>
            {
                now + EXTEND_AGAIN
            }
            // Unless it came again meanwhile.
            Err(_) if lease.extend_at.is_none() => return held.lose(),
            Err(_) => return,
        };
        lease.extend_at = Some(again);
        self.look_at = earlier(self.look_at, lease.extend_at);
    }

    /// Gives back what waits, and waits for the handlers that are at work.
    async fn finish(&mut self) {
        self.ready.clear();
        let mut waiting = JoinSet::new();
        for lease in self.leases.values().flatten().filter(|lease| !self.is_running(&lease.held)) {
            let newest = lease.held.newest();
            waiting.spawn(async move { report(newest.give_back(Duration::ZERO).await) });
        }
        self.behind = None;
        self.concurrency = 0;
        loop {
            let look_at = self.look_at;
            tokio::select! {
                ended = self.at_work.join_next_with_id() => match ended {
                    Some(ended) => self.ended(&ended),
                    None => break,
                },
                Some(extended) = self.extending.join_next() => self.extended(extended),
                () = until(look_at) => self.extend_leases(),
            }
        }
        while waiting.join_next().await.is_some() {}
        // Not before: with the subscription ends what its handlers hold.
        if let Some(stream) = self.stream.take() {
            report(stream.close().await);
        }
        self._work = None;
    }
}

impl HeldLease {
    fn first_extension(&self, now: Instant) -> Option<Instant> {
        self.held.newest().time_left().map(|left| now + left / 2)
    }
}

/// Settles an event by what its handler has returned.
async fn settle<E: Display + 'static>(held: &Held, result: Result<(), E>) {
    let error = match result {
        Ok(()) => {
            held.handled();
            return report(held.newest().ack());
        }
        Err(error) => error,
    };
    let (newest, failure) = (held.newest(), Failure::of(&error));
    if !failure.counts || held.is_lost() {
        // A handler that stops because it was told to has not failed.
        return report(newest.give_back(failure.delay.unwrap_or_default()).await);
    }
    tracing::debug!(topic = %newest.event().topic(), id = %newest.event().id(), %failure, "a handler failed");
    report(newest.nack(failure.delay, &failure.reason).await);
}

fn report(settled: Result<()>) {
    if let Err(error) = settled {
        tracing::debug!(%error, "an event was not settled; it comes again");
    }
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    a.into_iter().chain(b).min()
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
