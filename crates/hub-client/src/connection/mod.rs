//! One connection to a hub, until it ends. Who wants a connection that comes back takes a [`Client`](crate::Client).
//!
//! A [`Connection`] is a handle that can be cloned. One task owns the socket and takes commands over a bounded queue; it is
//! gone when the connection ends, or when the last handle and the last [`Deliveries`] are.
//!
//! Everything is bounded: frames that wait to be written by their bytes, requests without an answer by their number,
//! events by their subscription (see [`WhenFull`](crate::WhenFull)). What finds no room waits.

mod answer;
mod closed;
mod deliveries;
mod in_order;
mod later;
mod queue;
mod settle;
mod socket;
mod task;
mod waiting;

pub use answer::{Acked, Answer, Answering, Identity, Returned};
pub use closed::Closed;
pub use deliveries::Deliveries;
pub use queue::{Arrival, Delivered};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hub_proto::{EventId, NewEvent};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, broadcast, mpsc, oneshot, watch};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::frame::Outgoing;
use crate::{Error, ErrorKind, Name, Receipt, Result, SubscribeRequest, Target};
use closed::Ended;
use later::Later;
use queue::Queue;
use task::{Command, Task};
use waiting::Waiter;

/// The feature of hubs that [`Connection::publish_in_order`] needs.
pub const ORDERED: &str = "ordered";
/// The feature of hubs that [`Connection::ping`] needs.
pub const PING: &str = "ping";
/// The feature of hubs that [`Connection::give_back`] needs.
pub const RETURN: &str = "return";
/// The feature of hubs that keep the leases of a [member](crate::SubscribeOptions::member) that loses its connection.
pub const MEMBER: &str = "member";

/// Commands that wait for the task.
const COMMANDS: usize = 1024;
/// Bytes of frames that wait for the task: the queue of commands alone could hold gigabytes.
const ROOM: u32 = 16 << 20;
/// Notices that nobody has looked at; older ones are forgotten.
const NOTICES: usize = 64;

/// A connection to a hub. Cloning shares it.
///
/// ```no_run
/// # async fn f() -> Result<(), hub_client::Error> {
/// use hub_client::{Arrival, Connection, NewEvent, Payload, SubscribeRequest, Target, TopicName};
///
/// let connection = Connection::connect(&Target::new("ws://127.0.0.1:8090/")?).await?;
/// connection.authenticate("eyJhbGciOiJIUzI1NiJ9…").await?;
///
/// let mut orders = connection.subscribe(SubscribeRequest::new("orders", Some("billing"))).await?;
/// let event = NewEvent::new(TopicName::parse("orders")?, Payload::of(&"tea")?);
/// println!("stored as {}", connection.publish(&event).await?.seq);
///
/// while let Arrival::Event(delivered) = orders.recv().await? {
///     println!("{}", String::from_utf8_lossy(delivered.event.payload()));
///     connection.ack(&delivered.name, &[delivered.event.id()], Some(delivered.attempt))?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Connection {
    inner: Arc<Inner>,
}

struct Inner {
    commands: mpsc::Sender<Command>,
    room: Arc<Semaphore>,
    corr: AtomicU64,
    later: Arc<Later>,
    ended: Ended,
    notices: broadcast::Sender<Error>,
    /// What the hub said with its answer to AUTH that it has.
    features: RwLock<Vec<String>>,
}

/// The part of the answer to SUBSCRIBE that says what a member that has come back goes on holding.
#[derive(Deserialize)]
struct Resumed {
    #[serde(default)]
    held: Vec<EventId>,
}

/// The part of the answer to AUTH that says what the hub has. Older hubs say nothing.
#[derive(Deserialize)]
struct Features {
    #[serde(default)]
    features: Vec<String>,
}

impl Connection {
    /// Connects. The hub expects [`Connection::authenticate`] within 10 s.
    ///
    /// # Errors
    /// `Connect`, `NotAHub` or `TimedOut`: there is no hub. `Usage`: TLS cannot be set up.
    pub async fn connect(target: &Target) -> Result<Self> {
        let socket = socket::open(target).await?;
        let (give, take) = mpsc::channel(COMMANDS);
        let (tell, ended) = watch::channel(None);
        let (notices, _) = broadcast::channel(NOTICES);
        let later = Arc::new(Later::default());
        let patience = (target.answer_timeout, target.idle_timeout);
        let task = Task::new(socket, take, later.clone(), notices.clone(), patience);
        // It ends with the last handle; `close` waits for it.
        tokio::spawn(task.run(tell));
        let inner = Inner {
            commands: give,
            room: Arc::new(Semaphore::new(ROOM as usize)),
            corr: AtomicU64::new(1),
            later,
            ended: Ended(ended),
            notices,
            features: RwLock::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Says who this is. Again, at any time, to renew the token; it has to speak for the same subject.
    ///
    /// # Errors
    /// What the hub refused, or the end of the connection.
    pub async fn authenticate(&self, token: &str) -> Result<Identity> {
        self.send_auth(Some(token)).await
    }

    /// Has the hub know this client by its [certificate](Target::client_certificate), without a token.
    ///
    /// # Errors
    /// What the hub refused, or the end of the connection.
    pub async fn authenticate_by_certificate(&self) -> Result<Identity> {
        self.send_auth(None).await
    }

    pub(crate) async fn send_auth(&self, token: Option<&str>) -> Result<Identity> {
        let corr = self.corr();
        let frame = Outgoing::new("AUTH", Some(corr));
        let frame = match token {
            Some(token) => frame.text("token", token),
            None => frame,
        };
        let answer = self.ask(frame.done(), corr, None).await?.await?;
        let identity = answer.read()?;
        *self.inner.features.write() = answer.read::<Features>()?.features;
        Ok(identity)
    }

    /// Whether the hub has a feature that not every hub has, such as [`ORDERED`]. Known once the hub has answered
    /// [`Connection::authenticate`].
    pub fn has_feature(&self, name: &str) -> bool {
        self.inner.features.read().iter().any(|feature| feature == name)
    }

    /// Asks the hub for a sign of life, which costs nothing of any rate; answers its clock, in milliseconds since 1970.
    ///
    /// # Errors
    /// `Unsupported` if the hub does not have [`PING`], what it refused, or the end of the connection.
    pub async fn ping(&self) -> Result<u64> {
        #[derive(Deserialize)]
        struct Pong {
            ts: u64,
        }
        self.needs(PING)?;
        let corr = self.corr();
        let answer = self.ask(Outgoing::new("PING", Some(corr)).done(), corr, None).await?.await?;
        Ok(answer.read::<Pong>()?.ts)
    }

    /// Refuses what a hub of another version would not understand.
    pub(crate) fn needs(&self, feature: &'static str) -> Result<()> {
        if self.has_feature(feature) {
            return Ok(());
        }
        let text = format!("the hub does not have the feature \"{feature}\"; update the hub");
        Err(Error::new(ErrorKind::Unsupported, text))
    }

    /// Publishes an event, and waits until it is safe.
    ///
    /// # Errors
    /// What the hub refused, or the end of the connection. After `TimedOut`, `Closed` and the code `unavailable` the
    /// outcome is not known: it is safe to send the event again if it has an id.
    pub async fn publish(&self, event: &NewEvent) -> Result<Receipt> {
        self.submit(event).await?.await?.read()
    }

    /// Publishes an event; the answer, a [`Receipt`], comes later. Events are stored in the order in which they were
    /// submitted.
    ///
    /// # Errors
    /// The end of the connection.
    pub async fn submit(&self, event: &NewEvent) -> Result<Answering> {
        let corr = self.corr();
        self.ask(Outgoing::publish(corr, event).done(), corr, None).await
    }

    /// Publishes several events (at most 1,000) in one frame. Each has its own result, in their order.
    ///
    /// # Errors
    /// As [`Connection::publish`], if the hub refused all of them at once.
    pub async fn publish_batch(&self, events: &[NewEvent]) -> Result<Vec<Result<Receipt, hub_proto::Error>>> {
        batch_results(&self.submit_batch(events).await?.await?)
    }

    /// Publishes several events in one frame; [`batch_results`] reads the answer.
    ///
    /// # Errors
    /// The end of the connection.
    pub async fn submit_batch(&self, events: &[NewEvent]) -> Result<Answering> {
        let corr = self.corr();
        self.ask(Outgoing::publish_batch(corr, events).done(), corr, None).await
    }

    /// Publishes events in their order: none is stored unless all before it are. Each has its own result, in their order;
    /// those behind the first that failed were not published, and have the code `unavailable`. More than one frame takes
    /// (1,000 events, 4 MiB) go in several frames, each when the one before it is stored.
    ///
    /// # Errors
    /// `Unsupported` if the hub does not have [`ORDERED`]: publish them one at a time then, each when the one before it is
    /// stored. Else as [`Connection::publish`], if the first frame was refused or has no answer. What a later frame ends with
    /// is in the results, as `unavailable`.
    pub async fn publish_in_order(
        &self,
        events: &[NewEvent],
    ) -> Result<Vec<Result<Receipt, hub_proto::Error>>> {
        if !self.has_feature(ORDERED) {
            let text = "the hub cannot publish a batch in order: publish the events one at a time, or update the hub";
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        in_order::publish(self, events).await
    }

    /// Subscribes.
    ///
    /// # Errors
    /// What the hub refused, or the end of the connection.
    pub async fn subscribe(&self, request: SubscribeRequest) -> Result<Deliveries> {
        self.subscribe_with(request, &Map::new()).await
    }

    /// Subscribes, with further members of the frame beside `opts`: what hubs say to each other.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub async fn subscribe_with(
        &self,
        request: SubscribeRequest,
        members: &Map<String, Value>,
    ) -> Result<Deliveries> {
        let corr = self.corr();
        let SubscribeRequest { topic, group, options } = request;
        let name = Arc::new(Name::new(&topic, group.as_deref()));
        let frame = Outgoing::new("SUBSCRIBE", Some(corr)).name(&name);
        let frame = frame.value("opts", &options)?.members(members)?;
        let queue = Arc::new(Queue::new(name, &options));
        let (give, take) = oneshot::channel();
        self.command(frame.done(), corr, Waiter::Subscribes(queue.clone(), give), None).await?;
        let answer = Answering { answer: take, ended: self.inner.ended.clone() }.await?;
        let Resumed { held } = answer.read()?;
        Ok(Deliveries { queue, connection: self.clone(), resumed: held, aloud: true, told: false })
    }

    /// Sends any request, made of its `op` and an object with its other members, and waits for the answer. `corr` is
    /// added.
    ///
    /// # Errors
    /// What the hub refused, or the end of the connection. `Usage` if `members` is no object.
    pub async fn request(&self, op: &str, members: &impl Serialize) -> Result<Answer> {
        let corr = self.corr();
        let text = Outgoing::new(op, Some(corr)).members(members)?.done();
        self.ask(text, corr, None).await?.await
    }

    /// Sends any request without waiting, neither for room nor for an answer: for NACK and MODACK, which are answered only
    /// if they fail. That is a [notice](Connection::notices) then.
    ///
    /// # Errors
    /// `Busy` if there is no room, `Usage` if `members` is no object, or the end of the connection.
    pub fn tell(&self, op: &str, members: &impl Serialize) -> Result<()> {
        let text = Outgoing::new(op, None).members(members)?.done();
        let busy = || Error::new(ErrorKind::Busy, "too much waits to be sent to the hub");
        let room = self.inner.room.clone().try_acquire_many_owned(room_for(&text)).map_err(|_| busy())?;
        self.inner.commands.try_send(Command::Tell { text, room }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => busy(),
            mpsc::error::TrySendError::Closed(_) => self.inner.ended.error(),
        })
    }

    /// Errors of the hub that answer nothing anybody waits for: acks that it does not know, a token that has run out.
    /// Whoever is slow misses the oldest.
    pub fn notices(&self) -> broadcast::Receiver<Error> {
        self.inner.notices.subscribe()
    }

    /// Waits until the connection has ended; why it has.
    pub async fn closed(&self) -> Closed {
        self.inner.ended.clone().wait().await
    }

    /// Why the connection has ended; `None` while it is open.
    pub fn is_closed(&self) -> Option<Closed> {
        self.inner.ended.get()
    }

    /// Says goodbye, after everything that was asked for before was sent. What has no answer yet gets none: wait for it
    /// first.
    pub async fn close(&self) {
        let _ = self.inner.commands.send(Command::Close).await;
        self.inner.ended.clone().wait_for_all().await;
    }

    fn corr(&self) -> u64 {
        self.inner.corr.fetch_add(1, Relaxed)
    }

    fn later(&self) -> &Later {
        &self.inner.later
    }

    async fn ask(&self, text: Utf8Bytes, corr: u64, leaves: Option<Arc<Queue>>) -> Result<Answering> {
        let (give, take) = oneshot::channel();
        self.command(text, corr, Waiter::Asked(give), leaves).await?;
        Ok(Answering { answer: take, ended: self.inner.ended.clone() })
    }

    async fn command(
        &self,
        text: Utf8Bytes,
        corr: u64,
        waiter: Waiter,
        leaves: Option<Arc<Queue>>,
    ) -> Result<()> {
        let inner = &self.inner;
        let ended = || inner.ended.error();
        let room = inner.room.clone().acquire_many_owned(room_for(&text)).await.map_err(|_| ended())?;
        let command = Command::Ask { text, corr, waiter, leaves, room };
        inner.commands.send(command).await.map_err(|_| ended())
    }
}

/// Reads the answer to [`Connection::submit_batch`].
///
/// # Errors
/// `Protocol` if it is another answer.
pub fn batch_results(answer: &Answer) -> Result<Vec<Result<Receipt, hub_proto::Error>>> {
    #[derive(Deserialize)]
    struct Results {
        results: Vec<Outcome>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Outcome {
        Stored(Receipt),
        Refused {
            code: String,
            #[serde(default)]
            msg: String,
            #[serde(default)]
            id: Option<hub_proto::EventId>,
            #[serde(default)]
            retry_after_ms: Option<u64>,
        },
    }
    let outcome = |outcome| match outcome {
        Outcome::Stored(receipt) => Ok(receipt),
        Outcome::Refused { code, msg, id, retry_after_ms } => {
            let mut error = hub_proto::Error::new(code.parse().unwrap_or(hub_proto::Code::Internal), msg);
            (error.id, error.retry_after_ms) = (id, retry_after_ms);
            Err(error)
        }
    };
    let read: Results = answer.read()?;
    Ok(read.results.into_iter().map(outcome).collect())
}

/// What a frame takes of [`ROOM`]; one that is larger takes all of it.
fn room_for(text: &Utf8Bytes) -> u32 {
    u32::try_from(text.len()).unwrap_or(ROOM).min(ROOM)
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("ended", &self.is_closed()).finish_non_exhaustive()
    }
}
