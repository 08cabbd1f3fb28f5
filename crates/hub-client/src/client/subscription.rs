//! A subscription that outlives connections.
//!
//! On every new connection the client's task subscribes again and puts the new [`Deliveries`] where the program finds them.
//! Events go straight from there to the program: there is no queue and no task in between.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

use super::in_hand::InHand;
use super::message::{Message, Received};
use super::{Client, Shared};
use crate::connection::RETURN;
use crate::{
    Arrival, Code, Connection, Delivered, Deliveries, Error, ErrorKind, Name, Position, Result,
    SubscribeRequest,
};

/// What the client's task and the program know of a subscription.
pub(super) struct Line {
    pub name: Name,
    request: SubscribeRequest,
    state: Mutex<LineState>,
    waker: AtomicWaker,
}

/// Deliveries, and the number of the request that they are the answer to.
type Numbered = (u64, Deliveries);

#[derive(Default)]
struct LineState {
    /// What the program has not taken over yet.
    next: Option<Result<Numbered>>,
    /// How often the hub was asked for it.
    begun: u64,
    /// The hub has ended it for a reason that passes: it is to be asked again.
    again: bool,
    /// The program wants no events at the moment.
    paused: bool,
    /// The program has left.
    gone: bool,
    /// The last event of a subscription without a group: where the next connection goes on.
    last_seq: Option<u64>,
    /// Connections so far.
    connections: u64,
    /// How often the hub has refused it for a reason that passes.
    tries: u32,
    /// Of a member: what the program has in hand, and the connection over which that is settled.
    in_hand: InHand,
    connection: Option<Connection>,
}

impl Line {
    pub fn new(request: SubscribeRequest) -> Self {
        let name = Name::new(&request.topic, request.group.as_deref());
        Self { name, request, state: Mutex::default(), waker: AtomicWaker::new() }
    }

    /// What to ask the next hub for.
    pub fn request(&self) -> SubscribeRequest {
        let mut request = self.request.clone();
        let mut state = self.state.lock();
        if let Some(seq) = state.last_seq {
            request.options.from = Some(Position::AfterSeq(seq));
        }
        if self.is_member() && state.connections > 0 {
            request.options.held = state.in_hand.named();
        }
        drop(state);
        request
    }

    /// Whether what is in hand outlives a connection.
    pub fn is_member(&self) -> bool {
        self.request.options.member.is_some() && self.request.group.is_some()
    }

    /// Of a member: the connection over which its events are settled now, if there is one.
    pub fn connection(&self) -> Option<Connection> {
        self.state.lock().connection.clone()
    }

    /// Of a member: looks at what the program has in hand.
    pub fn with_in_hand<T>(&self, look: impl FnOnce(&mut InHand) -> T) -> T {
        look(&mut self.state.lock().in_hand)
    }

    /// A member goes on over a new connection, with what the hub says that it still holds.
    fn resume(&self, state: &mut LineState, deliveries: &Deliveries) {
        let connection = deliveries.connection();
        for id in state.in_hand.resume(deliveries.resumed()) {
            // One that finds no room comes again.
            if let Err(error) = connection.ack(deliveries.name(), &[id], None) {
                tracing::debug!(%error, "an ack was not said again");
            }
        }
        state.connection = Some(connection.clone());
    }

    /// The program has left.
    fn leave(&self) -> Option<Result<Numbered>> {
        let mut state = self.state.lock();
        state.gone = true;
        state.connection = None;
        state.in_hand = InHand::default();
        state.next.take()
    }

    /// The hub is asked for it; the number of the request.
    pub fn begin(&self) -> u64 {
        let mut state = self.state.lock();
        state.begun += 1;
        state.begun
    }

    /// The program gets this next.
    pub fn put(&self, next: Result<Numbered>) {
        let mut state = self.state.lock();
        if state.gone {
            return;
        }
        if let (true, Ok((_, deliveries))) = (state.paused, &next) {
            // The answer tells nobody anything.
            let _ = deliveries.connection().tell("PAUSE", &naming(deliveries.name()));
        }
        if let (true, Ok((_, deliveries))) = (self.is_member(), &next) {
            self.resume(&mut state, deliveries);
        }
        let before = state.next.replace(next);
        drop(state);
        // Not under the lock: it says goodbye.
        drop(before);
        self.waker.wake();
    }

    /// Whether the program has left.
    pub fn is_gone(&self) -> bool {
        self.state.lock().gone
    }

    /// Counts one more try; how many there were before.
    pub fn tried(&self) -> u32 {
        let mut state = self.state.lock();
        state.tries += 1;
        state.tries - 1
    }

    /// Whether the hub is to be asked again; once.
    pub fn take_again(&self) -> bool {
        std::mem::take(&mut self.state.lock().again)
    }

    /// Where a subscription without a group goes on. Only the places of one topic can be compared.
    fn seen(&self, delivered: &Delivered) {
        if self.is_member() {
            self.state.lock().in_hand.add(delivered);
        }
        let one_topic =
            self.request.options.topics.is_empty() && *delivered.name.topic == **delivered.event.topic();
        if delivered.name.group.is_none() && one_topic {
            self.state.lock().last_seq = Some(delivered.event.seq());
        }
    }
}

/// Gives back an event that the program has not seen. If that cannot be said, the event comes again when its time is up.
fn give_back(connection: &Connection, delivered: &Delivered) {
    let mut members = naming(&delivered.name);
    members["ids"] = serde_json::json!([delivered.event.id()]);
    members["attempt"] = delivered.attempt.into();
    if connection.has_feature(RETURN) {
        let _ = connection.tell("RETURN", &members);
    }
}

fn naming(name: &Name) -> serde_json::Value {
    match &name.group {
        Some(group) => serde_json::json!({ "topic": name.topic, "group": group }),
        None => serde_json::json!({ "topic": name.topic }),
    }
}

/// Events of a topic, a pattern or a list. Dropping it ends the subscription, and hands back what is in hand.
///
/// When the connection was away, a group goes on where it was: what was in hand comes again. Without a group a topic goes on
/// behind the last event that was taken. A [member](crate::SubscribeOptions::member) goes on with what is in hand, as far as the hub
/// still knows of it. A pattern or a list, of which places cannot be compared, begins again where it
/// began: with [`Position::Earliest`] events come again, with [`Position::Latest`] some may be missed, which is told as
/// [`Received::Lagged`].
#[must_use = "a subscription that is dropped ends"]
pub struct Subscription {
    line: Arc<Line>,
    current: Option<Numbered>,
    ended: Option<Error>,
    /// Whether a stream has said how it ended.
    told: bool,
    /// Keeps the client alive.
    client: Client,
}

impl Subscription {
    pub(super) fn new(line: Arc<Line>, client: Client) -> Self {
        Self { line, current: None, ended: None, told: false, client }
    }

    /// What it is called.
    pub fn name(&self) -> &Name {
        &self.line.name
    }

    /// The next event, over as many connections as it takes.
    ///
    /// # Errors
    /// Why it has ended: what the hub refused, or the end of the client. From then on always the same.
    pub async fn recv(&mut self) -> Result<Received> {
        std::future::poll_fn(|context| self.poll_recv(context)).await
    }

    /// As [`Subscription::recv`], for those who write their own futures.
    ///
    /// # Errors
    /// As [`Subscription::recv`].
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<Received>> {
        loop {
            if let Some(error) = &self.ended {
                return Poll::Ready(Err(error.clone()));
            }
            let Some((number, current)) = &mut self.current else {
                match std::task::ready!(self.poll_next_connection(context)) {
                    Ok(None) => continue,
                    Ok(Some(lagged)) => return Poll::Ready(Ok(lagged)),
                    Err(error) => {
                        self.ended = Some(error);
                        continue;
                    }
                }
            };
            let is_paused = self.line.state.lock().paused;
            if is_paused && self.line.request.group.is_none() {
                // Who resumes polls again.
                return Poll::Pending;
            }
            match std::task::ready!(current.poll_recv(context)) {
                // It was on its way when the hub was told to pause.
                Ok(Arrival::Event(delivered)) if is_paused => give_back(current.connection(), &delivered),
                Ok(Arrival::Event(delivered)) => {
                    // What the connection before had delivered already.
                    let known = self.line.state.lock().last_seq;
                    if known.is_some_and(|seq| delivered.event.seq() <= seq) {
                        continue;
                    }
                    self.line.seen(&delivered);
                    let connection = current.connection().clone();
                    let line = self.line.is_member().then(|| self.line.clone());
                    return Poll::Ready(Ok(Received::Event(Message { delivered, connection, line })));
                }
                Ok(Arrival::Lagged { topic, missed }) => {
                    return Poll::Ready(Ok(Received::Lagged { topic, missed }));
                }
                Err(error) => {
                    let number = *number;
                    self.interrupted(number, error);
                }
            }
        }
    }

    /// Waits until it has begun.
    pub(super) async fn begun(&mut self) -> Result<()> {
        std::future::poll_fn(|context| self.poll_next_connection(context)).await.map(drop)
    }

    /// Goes over to the next connection; what was missed on the way, if that can be.
    fn poll_next_connection(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Received>>> {
        self.line.waker.register(context.waker());
        let mut state = self.line.state.lock();
        let Some(next) = state.next.take() else {
            drop(state);
            // It may have ended before anybody could put something here.
            return match self.client.ended() {
                Some(error) => Poll::Ready(Err(error)),
                None => Poll::Pending,
            };
        };
        state.connections += 1;
        state.tries = 0;
        let resumed = state.last_seq.is_some() || state.connections == 1;
        drop(state);
        self.current = Some(next?);
        let SubscribeRequest { group, options, .. } = &self.line.request;
        let live = group.is_none() && matches!(options.from, None | Some(Position::Latest));
        let lagged = Received::Lagged { topic: None, missed: 0 };
        Poll::Ready(Ok((live && !resumed).then_some(lagged)))
    }

    /// The connection or the hub has ended what a request began. It goes on if that passes.
    fn interrupted(&mut self, number: u64, error: Error) {
        self.current = None;
        match error.code() {
            None => {}
            Some(Code::Unavailable | Code::TokenExpired | Code::RateLimited) => {
                let mut state = self.line.state.lock();
                // The next connection may have asked for it meanwhile.
                if state.begun == number {
                    state.again = true;
                    self.client.shared().again.notify_one();
                }
            }
            Some(_) => {
                self.line.state.lock().gone = true;
                self.ended = Some(error);
            }
        }
    }

    /// Holds further events back, also on connections to come.
    ///
    /// # Errors
    /// What the hub refused.
    pub async fn pause(&mut self) -> Result<()> {
        self.set_paused(true).await
    }

    /// Lets them come again.
    ///
    /// # Errors
    /// What the hub refused.
    pub async fn resume(&mut self) -> Result<()> {
        self.set_paused(false).await
    }

    async fn set_paused(&mut self, paused: bool) -> Result<()> {
        self.line.state.lock().paused = paused;
        let Some((_, current)) = &self.current else { return Ok(()) };
        let (connection, name) = (current.connection(), current.name());
        let done = if paused { connection.pause(name).await } else { connection.resume(name).await };
        match done {
            // The next connection begins as it should be.
            Err(error) if error.kind() == ErrorKind::Closed => Ok(()),
            Ok(()) if paused && self.line.request.group.is_some() => {
                self.give_back_waiting();
                Ok(())
            }
            done => done,
        }
    }

    /// Gives back what came and was not taken.
    fn give_back_waiting(&mut self) {
        let Some((_, current)) = &mut self.current else { return };
        let mut context = Context::from_waker(std::task::Waker::noop());
        while let Poll::Ready(Ok(Arrival::Event(delivered))) = current.poll_recv(&mut context) {
            give_back(current.connection(), &delivered);
        }
    }

    /// Ends it, and waits until the hub has done so. Acks that were said before are taken before: a
    /// [member](crate::SubscribeOptions::member) that has lost its connection says them over the next one.
    ///
    /// # Errors
    /// What the hub refused.
    pub async fn unsubscribe(mut self) -> Result<()> {
        loop {
            if !self.line.is_member() {
                self.line.state.lock().gone = true;
            } else if self.current.is_none() && self.ended.is_none() && self.begun().await.is_err() {
                // The client was closed, and has said what it could.
                return Ok(());
            }
            let Some((_, current)) = self.current.take() else { return Ok(()) };
            match current.unsubscribe().await {
                Err(error) if error.kind() == ErrorKind::Closed && self.line.is_member() => {}
                Err(error) if error.kind() == ErrorKind::Closed => return Ok(()),
                done => return done,
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // Not under the lock: it says goodbye.
        drop(self.line.leave());
    }
}

/// Ends after the first error.
impl Stream for Subscription {
    type Item = Result<Received>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.told {
            return Poll::Ready(None);
        }
        let next = std::task::ready!(self.poll_recv(context));
        self.told = next.is_err();
        Poll::Ready(Some(next))
    }
}

impl Shared {
    pub(super) fn add(&self, line: Arc<Line>) {
        let mut lines = self.lines.lock();
        lines.retain(|line| !line.is_gone());
        lines.push(line);
    }

    pub(super) fn remove(&self, line: &Arc<Line>) {
        self.lines.lock().retain(|other| !Arc::ptr_eq(other, line));
    }

    /// All subscriptions that somebody reads.
    pub(super) fn lines(&self) -> Vec<Arc<Line>> {
        let mut lines = self.lines.lock();
        lines.retain(|line| !line.is_gone());
        lines.clone()
    }
}
