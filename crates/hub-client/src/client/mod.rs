//! A client that comes back: it reconnects, says who it is, subscribes again, and sends again what has no answer.
//!
//! A [`Client`] is a handle that can be cloned; one task owns the connection. Everything it keeps is bounded, and what finds
//! no room waits: see [`Builder::unacknowledged`].
//!
//! **Nothing is lost, and nothing is doubled.** Every event has an id before it is sent, made here if the program gives
//! none. An event without an answer is sent again under the same id, in the order in which all were published, and a hub
//! stores an id once. While the hub refuses an event for a reason that passes, later ones of its topic wait behind it; only what
//! was under way by then can overtake it. When [`Client::publish`] answers, the event is stored; when it fails with `TimedOut` or `Closed`, it
//! may be stored or not, and [`Publishing::id`] is the id to try again with.
//!
//! Consuming is at least once, as everywhere: what was in hand when a connection ended is delivered again, and acks for it
//! are dropped. A subscription with [`SubscribeOptions::member`] keeps what is in hand over a lost connection, and its acks are said
//! again.

mod backoff;
mod builder;
mod credentials;
mod in_hand;
mod message;
mod outbox;
mod state;
mod subscription;
mod task;

pub use builder::Builder;
pub use credentials::BoxError;
pub use message::{Message, Received};
pub use state::State;
pub use subscription::Subscription;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};

use hub_proto::{EventId, IdGenerator, NewEvent, Payload, PublishOptions, TopicName};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot, watch};

use crate::{Error, ErrorKind, Receipt, Result, SubscribeOptions, SubscribeRequest, Target};
use outbox::Entry;
use subscription::Line;

/// What the task is asked to do.
enum Command {
    Publish(Box<Entry>),
    Subscribe(Arc<Line>),
}

/// What handles and the task share.
struct Shared {
    state: watch::Sender<State>,
    closing: watch::Sender<bool>,
    /// Subscriptions, those that were dropped included until somebody looks.
    lines: Mutex<Vec<Arc<Line>>>,
    /// A subscription wants to be asked for again.
    again: Notify,
    /// How many subscriptions run handlers: a client that closes waits for them.
    at_work: watch::Sender<usize>,
}

/// A subscription runs handlers, while this is held.
pub(crate) struct Work(Arc<Shared>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.at_work.send_modify(|at_work| *at_work -= 1);
    }
}

/// A client of a hub. Cloning shares it.
///
/// ```no_run
/// # async fn f() -> Result<(), hub_client::Error> {
/// use hub_client::{Client, PublishOptions, Received, SubscribeOptions, Target};
///
/// let client = Client::builder(Target::new("ws://127.0.0.1:8090/")?).token("eyJhbGciOiJIUzI1NiJ9…").connect().await?;
///
/// let mut orders = client.subscribe("orders", Some("billing"), SubscribeOptions::default()).await?;
/// let receipt = client.publish("orders", &"tea", PublishOptions::default()).await?;
/// println!("stored as {}", receipt.seq);
///
/// while let Received::Event(message) = orders.recv().await? {
///     println!("{}", message.decode::<String>()?);
///     message.ack()?;
/// }
/// client.close().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    commands: mpsc::Sender<Command>,
    shared: Arc<Shared>,
    ids: IdGenerator,
    /// Events without an answer, and the bytes of their payloads.
    room: [Arc<Semaphore>; 2],
    most_bytes: u32,
}

/// The last handle is gone: so is what it was for.
impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.closing.send_replace(true);
    }
}

impl Client {
    /// Begins to set a client up.
    pub fn builder(target: Target) -> Builder {
        Builder::new(target)
    }

    /// Publishes an event, and waits until it is stored, over as many connections as it takes.
    ///
    /// # Errors
    /// What the hub refused; `TimedOut` if there was no answer in time; `Closed` if the client was closed.
    pub async fn publish<T: serde::Serialize + ?Sized>(
        &self,
        topic: &str,
        payload: &T,
        options: PublishOptions,
    ) -> Result<Receipt> {
        let event = NewEvent::new(TopicName::parse(topic)?, Payload::of(payload)?).with_options(options);
        self.submit(event).await?.await
    }

    /// Publishes an event; the receipt comes later. Events that are submitted one after the other are stored in that order.
    /// This waits only if too many have no answer yet.
    ///
    /// # Errors
    /// `Closed` if the client was closed.
    pub async fn submit(&self, mut event: NewEvent) -> Result<Publishing> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
        let id = *event.options.id.get_or_insert_with(|| self.inner.ids.next(now));
        let bytes = u32::try_from(event.payload.len()).unwrap_or(u32::MAX).clamp(1, self.inner.most_bytes);
        let [events, payloads] = &self.inner.room;
        let closed = || self.ended().unwrap_or_else(closed_here);
        let room = [
            events.clone().acquire_owned().await.map_err(|_| closed())?,
            payloads.clone().acquire_many_owned(bytes).await.map_err(|_| closed())?,
        ];
        let (give, take) = oneshot::channel();
        let command = Command::Publish(Box::new(Entry { event, answer: give, room }));
        self.inner.commands.send(command).await.map_err(|_| closed())?;
        Ok(Publishing { id, answer: take })
    }

    /// Subscribes to a topic, a pattern, or a list of topics (then `topic` is a label for it), with a group or without.
    ///
    /// # Errors
    /// What the hub refused; `Closed` if the client was closed.
    pub async fn subscribe(
        &self,
        topic: &str,
        group: Option<&str>,
        options: SubscribeOptions,
    ) -> Result<Subscription> {
        let line = Arc::new(Line::new(SubscribeRequest::new(topic, group).options(options)));
        let mut subscription = Subscription::new(line.clone(), self.clone());
        let sent = self.inner.commands.send(Command::Subscribe(line)).await;
        sent.map_err(|_| self.ended().unwrap_or_else(closed_here))?;
        subscription.begun().await?;
        Ok(subscription)
    }

    /// How it is doing, and what changes.
    pub fn state(&self) -> watch::Receiver<State> {
        self.inner.shared.state.subscribe()
    }

    /// Takes nothing new, waits for handlers that were begun and for the answers of what is under way, though not for longer than
    /// [`Builder::close_timeout`], sends the acks that were said, and says goodbye.
    pub async fn close(&self) {
        self.inner.shared.closing.send_replace(true);
        let _ = self.state().wait_for(State::is_closed).await;
    }

    /// Waits until it begins to close, or has ended.
    pub(crate) async fn closing(&self) {
        let mut closing = self.inner.shared.closing.subscribe();
        let _ = closing.wait_for(|closing| *closing).await;
    }

    /// While this is held, [`close`](Self::close) waits, though not for longer than [`Builder::close_timeout`].
    pub(crate) fn work(&self) -> Work {
        self.inner.shared.at_work.send_modify(|at_work| *at_work += 1);
        Work(self.inner.shared.clone())
    }

    fn shared(&self) -> &Shared {
        &self.inner.shared
    }

    /// Why it is over, if it is.
    fn ended(&self) -> Option<Error> {
        match &*self.inner.shared.state.borrow() {
            State::Closed(error) => Some(error.clone()),
            _ => None,
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("state", &*self.inner.shared.state.borrow()).finish_non_exhaustive()
    }
}

/// A receipt that is on its way. Dropping it takes nothing back.
#[must_use = "the receipt says whether the event is stored"]
#[derive(Debug)]
pub struct Publishing {
    id: EventId,
    answer: oneshot::Receiver<Result<Receipt>>,
}

impl Publishing {
    /// The event's id: to publish it again with that is safe.
    pub fn id(&self) -> EventId {
        self.id
    }
}

impl Future for Publishing {
    type Output = Result<Receipt>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(context).map(|answer| answer.unwrap_or_else(|_| Err(closed_here())))
    }
}

fn closed_here() -> Error {
    Error::new(ErrorKind::Closed, "the client was closed")
}
