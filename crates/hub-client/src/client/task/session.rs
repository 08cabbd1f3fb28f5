//! What a client does over one connection.

use std::collections::{BTreeSet, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use hub_proto::{Code, TopicName};
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::{Task, closing, until};
use crate::client::Command;
use crate::client::backoff::Backoff;
use crate::client::credentials::{Credentials, renew_after};
use crate::client::subscription::Line;
use crate::connection::{Answering, Identity};
use crate::{Answer, Closed, Connection, Deliveries, Error, ErrorKind, Receipt, Result};

/// Commands that are taken before somebody else has a turn.
const ROUND: usize = 256;
/// The least time until something that was too much is tried again.
const LEAST_WAIT: Duration = Duration::from_millis(50);
/// How long the goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

pub(super) struct Session<'a> {
    task: &'a mut Task,
    connection: Connection,
    /// Events that were sent on this connection.
    sent: FuturesUnordered<Sent>,
    subscribing: FuturesUnordered<BoxFuture<'static, Begun>>,
    /// What the hub refused for a reason that passes.
    later: FuturesUnordered<BoxFuture<'static, Retry>>,
    /// Topics with an event that is to be sent again.
    held: HashMap<TopicName, HeldTopic>,
    pace: Backoff,
    notices: broadcast::Receiver<Error>,
    /// Ready with the next token that the hub has taken.
    renewal: BoxFuture<'static, Identity>,
}

/// A subscription, the number of the request for it, and the answer to that.
type Begun = (Arc<Line>, u64, Result<Deliveries>);

/// Something to be tried again.
enum Retry {
    Publish(TopicName),
    Subscribe(Arc<Line>),
}

/// A topic of which the hub refused an event for a reason that passes. It is tried with the first of its events, alone; the
/// others follow in their order once the hub has taken that one, so that none overtakes it.
#[derive(Default)]
struct HeldTopic {
    /// The events that wait, by their numbers.
    waiting: BTreeSet<u64>,
    /// The event that is tried.
    trying: Option<u64>,
    /// Whether a time is set for the next try.
    paused: bool,
}

/// An event that was sent, by its number.
struct Sent {
    number: u64,
    topic: TopicName,
    answering: Answering,
}

impl Future for Sent {
    type Output = (u64, TopicName, Result<Answer>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = std::task::ready!(Pin::new(&mut self.answering).poll(context));
        Poll::Ready((self.number, self.topic.clone(), answer))
    }
}

impl<'a> Session<'a> {
    pub fn new(task: &'a mut Task, connection: Connection, identity: &Identity) -> Self {
        Self {
            sent: FuturesUnordered::new(),
            subscribing: FuturesUnordered::new(),
            later: FuturesUnordered::new(),
            held: HashMap::new(),
            pace: Backoff::new(task.pace.0, task.pace.1),
            notices: connection.notices(),
            renewal: renewal(&connection, &task.credentials, identity.exp.map(renew_after)),
            task,
            connection,
        }
    }

    /// Works until the connection has ended, or the client is closed.
    pub async fn run(mut self) -> Closed {
        for number in self.task.outbox.numbers() {
            self.send(number).await;
        }
        for line in self.task.shared.lines() {
            line.take_again();
            self.subscribe(line);
        }
        loop {
            if self.task.can_end() {
                return self.say_goodbye().await;
            }
            let task = &mut *self.task;
            tokio::select! {
                Some((number, topic, answer)) = self.sent.next() => {
                    let goes_on = self.answered(number, topic, answer);
                    self.send_held(goes_on).await;
                }
                Some(command) = task.commands.recv() => self.take(command).await,
                Some((line, number, begun)) = self.subscribing.next() => self.subscribed(line, number, begun),
                Some(retry) = self.later.next() => match retry {
                    Retry::Publish(topic) => self.try_held(topic).await,
                    Retry::Subscribe(line) => self.subscribe(line),
                },
                identity = &mut self.renewal => {
                    let after = identity.exp.map(renew_after);
                    self.renewal = renewal(&self.connection, &self.task.credentials, after);
                }
                notice = self.notices.recv() => self.noticed(notice),
                () = task.shared.again.notified() => self.ask_again(),
                () = until(task.outbox.deadline()) => task.outbox.expire(Instant::now()),
                () = closing(&mut task.closing, task.close_by) => task.begin_to_close(),
                Ok(()) = task.at_work.changed() => {}
                () = until(task.close_by) => return self.say_goodbye().await,
                closed = self.connection.closed() => return self.ended(closed).await,
            }
        }
    }

    /// Carries out a command, and those that wait behind it.
    async fn take(&mut self, command: Command) {
        let mut next = Some(command);
        for taken in 1.. {
            match next {
                None => return,
                Some(Command::Publish(entry)) => {
                    let number = self.task.outbox.add(*entry);
                    self.send(number).await;
                }
                Some(Command::Subscribe(line)) => {
                    self.task.shared.add(line.clone());
                    self.subscribe(line);
                }
            }
            if taken == ROUND {
                return;
            }
            next = self.task.commands.try_recv().ok();
        }
    }

    // ---- publishing ----

    /// Sends an event of the outbox, if it is still there, behind those of its topic that wait.
    async fn send(&mut self, number: u64) {
        let Some(event) = self.task.outbox.event(number) else { return };
        if let Some(held) = self.held.get_mut(&event.topic) {
            held.waiting.insert(number);
            return;
        }
        self.send_now(number).await;
    }

    async fn send_now(&mut self, number: u64) {
        let Some(event) = self.task.outbox.event(number) else { return };
        // If the connection is at its end the event goes over the next one.
        let topic = event.topic.clone();
        if let Ok(answering) = self.connection.submit(event).await {
            self.sent.push(Sent { number, topic, answering });
        }
    }

    /// Takes the answer to an event. Answers a topic whose waiting events can be sent now.
    fn answered(&mut self, number: u64, topic: TopicName, answer: Result<Answer>) -> Option<TopicName> {
        let outbox = &mut self.task.outbox;
        match answer {
            Ok(answer) => outbox.settle(number, answer.read::<Receipt>()),
            Err(error) if passes(&error) => {
                let wait = self.pace.wait(outbox.tried(number));
                let held = self.held.entry(topic.clone()).or_default();
                held.waiting.insert(number);
                held.trying.take_if(|trying| *trying == number);
                if held.trying.is_none() && !std::mem::replace(&mut held.paused, true) {
                    self.try_later(Retry::Publish(topic), &error, wait);
                }
                return None;
            }
            Err(error) if error.kind() == ErrorKind::Refused => outbox.settle(number, Err(error)),
            // The connection has ended; the event goes over the next one.
            Err(_) => return None,
        }
        let held = self.held.get(&topic)?;
        (held.trying == Some(number)).then_some(topic)
    }

    /// Sends the first event of a topic that waits.
    async fn try_held(&mut self, topic: TopicName) {
        let Some(held) = self.held.get_mut(&topic) else { return };
        held.paused = false;
        while let Some(number) = held.waiting.pop_first() {
            if self.task.outbox.event(number).is_some() {
                held.trying = Some(number);
                return self.send_now(number).await;
            }
        }
        self.held.remove(&topic);
    }

    /// Sends all events of a topic that wait.
    async fn send_held(&mut self, topic: Option<TopicName>) {
        let Some(held) = topic.and_then(|topic| self.held.remove(&topic)) else { return };
        for number in held.waiting {
            self.send_now(number).await;
        }
    }

    fn try_later(&mut self, what: Retry, error: &Error, wait: Duration) {
        let asked = error.refusal().and_then(|refusal| refusal.retry_after_ms);
        let wait = asked.map_or(wait, |millis| Duration::from_millis(millis).max(LEAST_WAIT));
        self.later.push(Box::pin(async move {
            tokio::time::sleep(wait).await;
            what
        }));
    }

    // ---- subscriptions ----

    fn subscribe(&mut self, line: Arc<Line>) {
        if line.is_gone() {
            return;
        }
        let connection = self.connection.clone();
        let number = line.begin();
        self.subscribing.push(Box::pin(async move {
            let begun = connection.subscribe(line.request()).await;
            (line, number, begun)
        }));
    }

    fn subscribed(&mut self, line: Arc<Line>, number: u64, begun: Result<Deliveries>) {
        match begun {
            Err(error) if passes(&error) || self.is_left_over(&line, &error) => {
                let wait = self.pace.wait(line.tried());
                self.try_later(Retry::Subscribe(line), &error, wait);
            }
            Err(error) if matches!(error.kind(), ErrorKind::Refused | ErrorKind::Usage) => {
                self.task.shared.remove(&line);
                line.put(Err(error));
            }
            // It goes over the next connection.
            Err(_) => {}
            begun => line.put(begun.map(|deliveries| (number, deliveries))),
        }
    }

    /// Whether the hub still has a subscription of that name which nobody here reads any more. It is about to end.
    fn is_left_over(&self, line: &Arc<Line>, error: &Error) -> bool {
        let is_rival = |other: &Arc<Line>| !Arc::ptr_eq(other, line) && other.name == line.name;
        error.code() == Some(Code::AlreadySubscribed) && !self.task.shared.lines().iter().any(is_rival)
    }

    /// Subscribes again to what the hub has ended for a reason that passes.
    fn ask_again(&mut self) {
        for line in self.task.shared.lines().into_iter().filter(|line| line.take_again()) {
            let wait = self.pace.wait(line.tried()).max(LEAST_WAIT);
            self.later.push(Box::pin(async move {
                tokio::time::sleep(wait).await;
                Retry::Subscribe(line)
            }));
        }
    }

    // ---- the connection ----

    fn noticed(&mut self, notice: Result<Error, broadcast::error::RecvError>) {
        if notice.is_ok_and(|error| error.code() == Some(Code::TokenExpired)) {
            self.renewal = renewal(&self.connection, &self.task.credentials, Some(Duration::ZERO));
        }
    }

    /// The connection has ended. Answers that came before its end count.
    async fn ended(mut self, closed: Closed) -> Closed {
        while let Some((number, topic, answer)) = self.sent.next().await {
            // What waits goes over the next connection.
            let _ = self.answered(number, topic, answer);
        }
        // Not closed by us: somebody else's handle cannot be closed without this task.
        match closed {
            Closed::Here => Closed::Lost(Error::new(ErrorKind::Closed, "the connection was closed")),
            closed => closed,
        }
    }

    async fn say_goodbye(self) -> Closed {
        let _ = tokio::time::timeout(GOODBYE, self.connection.close()).await;
        Closed::Here
    }
}

/// Whether a refusal is of a kind that passes: the store is away, it was too much at once, the token is about to be renewed.
fn passes(error: &Error) -> bool {
    let codes = [Code::Unavailable, Code::RateLimited, Code::TokenExpired, Code::Unauthorized];
    error.code().is_some_and(|code| codes.contains(&code))
}

/// Shows the hub another token after this time, and again until it takes it. Never, if there is no other.
fn renewal(
    connection: &Connection,
    credentials: &Credentials,
    after: Option<Duration>,
) -> BoxFuture<'static, Identity> {
    let Some(after) = after.filter(|_| credentials.renewable()) else {
        return Box::pin(std::future::pending());
    };
    let (connection, credentials) = (connection.clone(), credentials.clone());
    Box::pin(async move {
        let mut pace = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        tokio::time::sleep(after).await;
        loop {
            let renewed = async { connection.send_auth(credentials.token().await?.as_deref()).await };
            match renewed.await {
                Ok(identity) => return identity,
                Err(error) => tracing::warn!(%error, "the token could not be renewed, trying again"),
            }
            tokio::time::sleep(pace.next()).await;
        }
    })
}
