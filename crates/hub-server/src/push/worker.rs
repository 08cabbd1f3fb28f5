//! Delivers the events of one endpoint.
//!
//! One task per endpoint and hub. It joins the endpoint's group as any member does, and holds as many events as there are
//! requests under way: what waits, waits in the log. If another hub serves the group, it waits for that one to go.

use super::breaker::{Breaker, Failure, ProbeTimes, Verdict};
use super::definition::{PushEndpoint, PushTarget};
use super::pace::Pace;
use super::request::{Clients, Outcome, deliver};
use super::status::{PushState, Status};
use crate::limits::Meter;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use hub_core::{Bus, Delivery, Millis, Owner, Reason, Subscription};
use hub_proto::{Code, Error};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often to look again who serves the group, should nobody say so.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Before the group is joined again after a failure; it doubles up to the longest.
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(15);
/// How long requests that are under way have to end when the worker stops. What is not settled by then is delivered again.
const STOP_GRACE: Duration = Duration::from_secs(3);
/// How much longer than a request a lease lasts.
const LEASE_MARGIN: Millis = 30_000;
/// How long an endpoint is left alone that answers 429 or 503 without `Retry-After`; it doubles up to the longest.
const FIRST_DEFERRAL: Millis = 1_000;
const LONGEST_DEFERRAL: Millis = 60_000;
/// Bytes of the events under way from which on no further one is sent: an endpoint that takes long holds no more memory than this
/// and one event, whatever its `concurrency`.
const IN_FLIGHT_BYTES: usize = 8 << 20;
/// The most that `Retry-After` is obeyed.
const LONGEST_RETRY_AFTER: Millis = 60 * 60 * 1000;

/// Why an endpoint is paused, if it is, and how often somebody has resumed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Switch {
    pub paused: Option<String>,
    pub resumed: u64,
}

/// What a worker goes by.
pub(super) struct Worker {
    pub bus: Bus,
    pub endpoint: Arc<PushEndpoint>,
    pub status: Arc<Status>,
    pub clients: Arc<Clients>,
    pub times: ProbeTimes,
    pub switch: watch::Receiver<Switch>,
    /// What the topics, and the subject that made the endpoint, may be sent.
    pub meter: Meter,
    /// Says that the endpoint has answered 410.
    pub gone: Box<dyn Fn(String) + Send + Sync>,
    pub stop: CancellationToken,
}

/// A request that has ended.
struct Ended {
    delivery: Delivery,
    outcome: Outcome,
    took: Duration,
}

impl Worker {
    /// Delivers until it is stopped.
    pub async fn run(mut self) {
        let stop = self.stop.clone();
        let mut retry = FIRST_RETRY;
        loop {
            let joined = tokio::select! {
                () = stop.cancelled() => return,
                joined = self.join() => joined,
            };
            let error = match joined {
                Ok(subscription) => {
                    retry = FIRST_RETRY;
                    match self.deliver_all(subscription).await {
                        Some(error) => error,
                        None => return,
                    }
                }
                Err(error) => error,
            };
            let name = &self.endpoint.name;
            match error.code {
                Code::NotOwner => {}
                // The group or the topic was deleted. It is made again when there is something to be delivered.
                Code::NotSubscribed => tracing::info!(push = name, "the group of an endpoint was deleted"),
                _ => {
                    tracing::warn!(push = name, error = %error.msg, "an endpoint is not served; trying again");
                }
            }
            if error.code != Code::NotOwner {
                self.status.set_state(PushState::Trouble(error.msg.into_owned()));
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(retry) => {}
            }
            retry = (retry * 2).min(LONGEST_RETRY);
        }
    }

    /// Joins the group, once this hub serves it.
    async fn join(&self) -> Result<Subscription, Error> {
        let Self { bus, endpoint, .. } = self;
        let definition = &endpoint.definition;
        while let Owner::There(hub) = bus.owner_of(&endpoint.group).await? {
            self.status.set_state(PushState::Elsewhere(hub.address.clone()));
            tokio::select! {
                () = bus.gone(hub.id) => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
        if let PushTarget::Topic(topic) = &endpoint.target
            && matches!(self.status.state(), PushState::Trouble(_))
            && !bus.has_topic(topic)
        {
            // Joining would make a topic again that somebody has just deleted.
            return Err(Error::new(Code::NotSubscribed, "the topic was deleted"));
        }
        let mut subscribe = bus.subscribe(&definition.topic).from(definition.from.into());
        if let Some(maker) = &definition.maker {
            subscribe = subscribe.on_behalf_of(maker);
        }
        let concurrency = usize::from(definition.concurrency);
        let group = subscribe.group(&endpoint.group).options(endpoint.request());
        // As many again are ready when a request ends.
        let group = group.max_in_flight(2 * concurrency).ack_timeout(definition.timeout_ms + LEASE_MARGIN);
        group.open().await
    }

    /// Delivers until it is stopped (`None`), or the subscription ends.
    async fn deliver_all(&mut self, mut subscription: Subscription) -> Option<Error> {
        let client = match self.clients.get(&self.endpoint) {
            Ok(client) => client,
            Err(error) => return Some(Error::internal(format!("no HTTP client can be made: {error}"))),
        };
        let mut gate = Gate::new(&self.endpoint, self.times);
        let mut in_flight: FuturesUnordered<BoxFuture<'static, Ended>> = FuturesUnordered::new();
        let concurrency = usize::from(self.endpoint.definition.concurrency);
        let mut in_flight_bytes = 0;
        let mut resumed = self.switch.borrow_and_update().resumed;
        loop {
            let now = gate.now();
            let is_paused = self.switch.borrow().paused.is_some();
            let (closed, wake) = gate.closed(is_paused, now);
            gate.apply(closed, &subscription, &self.status);
            let slow = gate.pace.wait_until(now).max(Some(gate.quota_until).filter(|until| *until > now));
            let room = gate.breaker.allowed(concurrency, now);
            let has_room = in_flight.len() < room && in_flight_bytes < IN_FLIGHT_BYTES;
            let may_take = closed.is_none() && slow.is_none() && has_room;
            let wake = wake.or(slow).map(|at| gate.started + Duration::from_millis(at));
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                Some(ended) = in_flight.next(), if !in_flight.is_empty() => {
                    in_flight_bytes -= ended.delivery.event().json().len();
                    self.settle(&mut gate, ended);
                    self.status.set_in_flight(in_flight.len());
                }
                received = subscription.recv(), if may_take => match received {
                    Ok(delivery) => {
                        gate.pace.take(gate.now());
                        gate.quota_until = gate.now() + self.charge(&delivery);
                        in_flight_bytes += delivery.event().json().len();
                        let (client, endpoint, now) = (client.clone(), self.endpoint.clone(), self.bus.now());
                        in_flight.push(Box::pin(async move {
                            let began = Instant::now();
                            let trace = delivery.trace_context();
                            let outcome = deliver(&client, &endpoint, delivery.event(), trace, now).await;
                            Ended { delivery, outcome, took: began.elapsed() }
                        }));
                        self.status.set_in_flight(in_flight.len());
                    }
                    Err(error) => {
                        // The leases are gone: what is under way is delivered again, by the hub that serves the group then.
                        self.status.set_in_flight(0);
                        return Some(error);
                    }
                },
                Ok(()) = self.switch.changed() => {
                    let switched = self.switch.borrow_and_update().resumed;
                    if switched != resumed {
                        resumed = switched;
                        gate.open_early();
                    }
                }
                () = sleep_until(wake), if wake.is_some() => {}
            }
        }
        // Nothing more is taken; what is under way may end.
        subscription.pause();
        let rest = async {
            while let Some(ended) = in_flight.next().await {
                self.settle(&mut gate, ended);
            }
        };
        let _ = tokio::time::timeout(STOP_GRACE, rest).await;
        self.status.set_in_flight(0);
        subscription.close();
        None
    }

    /// Charges an event to the quotas of bytes per second. Answers for how many milliseconds the next one has to wait.
    fn charge(&mut self, delivery: &Delivery) -> Millis {
        let (topic, bytes) = (delivery.event().topic(), delivery.event().json().len());
        self.meter.owe_bytes_out(bytes);
        self.meter.owe_topic_bytes_out(topic, bytes);
        let of_topic = self.meter.wait_topic_bytes_out(|pattern| pattern.matches(topic));
        let wait = self.meter.wait_bytes_out().max(of_topic).unwrap_or_default();
        u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
    }

    /// Settles an event by what its endpoint said.
    fn settle(&self, gate: &mut Gate, Ended { delivery, outcome, took }: Ended) {
        self.status.count(&outcome, took.as_secs_f64(), self.bus.now());
        let (now, concurrency) = (gate.now(), usize::from(self.endpoint.definition.concurrency));
        let failure = match outcome {
            Outcome::BadGateway(_) | Outcome::Unreachable(_) => Some(Failure::Unreachable),
            Outcome::ServerError(_) | Outcome::TimedOut(_) | Outcome::Interrupted(_) => Some(Failure::Broken),
            _ => None,
        };
        let Some(failure) = failure else {
            gate.breaker.answered(concurrency);
            let settled = match outcome {
                Outcome::Gone => {
                    tracing::warn!(
                        push = self.endpoint.name,
                        host = self.endpoint.host(),
                        "an endpoint is gone; paused"
                    );
                    (self.gone)(outcome.reason());
                    delivery.return_after(0)
                }
                Outcome::Later(_, after) => {
                    // It is the first again when the wait is over, however that ends.
                    gate.defer(after, now);
                    delivery.return_after(0)
                }
                Outcome::Refused(_) => delivery.nack(&outcome.reason()),
                _ => {
                    gate.deferrals = 0;
                    delivery.ack()
                }
            };
            return ignore_ended(settled);
        };
        let was_open = gate.breaker.is_open();
        let is_last_attempt = delivery.attempt() >= delivery.max_attempts();
        let settled = match gate.breaker.failed(failure, is_last_attempt, now) {
            Verdict::Failed => delivery.nack(&outcome.reason()),
            Verdict::FailedAfter(wait) => delivery.nack_after(wait, &outcome.reason()),
            Verdict::Unjudged(wait) => delivery.return_after(wait),
        };
        ignore_ended(settled);
        if !was_open && gate.breaker.is_open() {
            let (name, host) = (&self.endpoint.name, self.endpoint.host());
            tracing::warn!(
                push = name,
                host,
                reason = outcome.reason(),
                "an endpoint fails; it is probed now and then"
            );
        }
    }
}

/// A lease that has ended meanwhile is nobody's fault: the event comes again.
fn ignore_ended(settled: Result<(), Error>) {
    drop(settled);
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// When something may be sent.
struct Gate {
    started: Instant,
    breaker: Breaker,
    pace: Pace,
    /// Quotas of bytes let nothing through until then.
    quota_until: Millis,
    /// The endpoint wants to be left alone until then.
    deferred_until: Millis,
    /// How often in a row it wanted to, without saying for how long.
    deferrals: u32,
    /// What was last told to the subscription and to the status.
    applied: Option<(bool, PushState)>,
}

impl Gate {
    fn new(endpoint: &PushEndpoint, times: ProbeTimes) -> Self {
        Self {
            started: Instant::now(),
            breaker: Breaker::new(times),
            pace: Pace::new(endpoint.definition.rate),
            quota_until: 0,
            deferred_until: 0,
            deferrals: 0,
            applied: None,
        }
    }

    /// Milliseconds since it was made.
    fn now(&self) -> Millis {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Why nothing may be sent, and when that is over.
    fn closed(&self, is_paused: bool, now: Millis) -> (Option<Reason>, Option<Millis>) {
        if is_paused {
            (Some(Reason::Paused), None)
        } else if self.deferred_until > now {
            (Some(Reason::RateLimited), Some(self.deferred_until))
        } else {
            let until = self.breaker.open_until(now);
            (until.map(|_| Reason::EndpointFailing), until)
        }
    }

    /// Pauses or resumes the subscription, and tells its group and the status why.
    fn apply(&mut self, closed: Option<Reason>, subscription: &Subscription, status: &Status) {
        // An endpoint that is probed is still one that fails.
        let reason = closed.or_else(|| self.breaker.is_open().then_some(Reason::EndpointFailing));
        let state = match reason {
            Some(Reason::Paused) => PushState::Paused,
            Some(Reason::RateLimited) => PushState::Deferred,
            Some(_) => PushState::Failing,
            None => PushState::Active,
        };
        let applied = Some((closed.is_some(), state.clone()));
        if applied == self.applied {
            return;
        }
        match closed {
            Some(_) => subscription.pause(),
            None => subscription.resume(),
        }
        subscription.show_reason(reason);
        status.set_state(state);
        self.applied = applied;
    }

    /// The endpoint wants to be left alone.
    fn defer(&mut self, after: Option<Millis>, now: Millis) {
        let wait = after.map(|after| after.min(LONGEST_RETRY_AFTER)).unwrap_or_else(|| {
            let wait = FIRST_DEFERRAL << self.deferrals.min(10);
            wait.min(LONGEST_DEFERRAL)
        });
        if now >= self.deferred_until {
            self.deferrals = self.deferrals.saturating_add(1);
        }
        self.deferred_until = self.deferred_until.max(now + wait);
    }

    /// Somebody says that the endpoint is well again.
    fn open_early(&mut self) {
        (self.deferred_until, self.deferrals) = (0, 0);
        let now = self.now();
        self.breaker.close_early(now);
    }
}
