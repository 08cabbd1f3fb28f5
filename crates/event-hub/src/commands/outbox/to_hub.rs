//! A hub behind a socket, as a drainer sees it.

use super::batch_size::BatchSize;
use crate::client::{self, Target, plain};
use anyhow::{Result, bail};
use hub_client::{Closed, Connection, ErrorKind};
use hub_proto::bus::Publisher;
use hub_proto::{Code, Error, NewEvent, Receipt};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;
use tokio::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore};

/// The code of a close frame after a frame that was too large.
const TOO_LARGE: u16 = 1009;
/// Events that go one at a time after a frame was too large. One that is too large by itself is found among them, because
/// everything that was on the connection is sent again.
const ALONE: usize = 1_000;
/// Batches in order that are under way at once. A hub looks up the ids of each before it reads the next frame: many keys with
/// few rows each are faster as single events, which the hub commits together.
const ORDERED_AT_ONCE: usize = 8;

/// One connection, made anew when it is lost. Who publishes meanwhile hears that the hub is away, and tries again.
pub struct ToHub {
    inner: Arc<Inner>,
}

struct Inner {
    target: Target,
    link: Mutex<Link>,
    /// How many events still go one at a time. A frame was larger than the hub takes, which ends a connection with everything
    /// on it: which one is found by sending them one by one.
    alone: AtomicUsize,
    /// Held by everything that is on the connection; an event that goes alone has it for itself, so that no other frame can be
    /// the one that is too large.
    turn: RwLock<()>,
    ordered: Semaphore,
    batch_size: BatchSize,
}

#[derive(Default)]
struct Link {
    connection: Option<Connection>,
    /// When the last try to connect failed, and why: those who have waited for it need not try themselves.
    failed: Option<(Instant, String)>,
}

impl ToHub {
    pub fn new(target: Target) -> Self {
        let (link, alone, turn, batch_size) = Default::default();
        let ordered = Semaphore::new(ORDERED_AT_ONCE);
        Self { inner: Arc::new(Inner { target, link, alone, turn, ordered, batch_size }) }
    }

    pub async fn connect(&self) -> Result<()> {
        self.inner.connection().await.map(drop)
    }
}

impl Inner {
    async fn connection(&self) -> Result<Connection> {
        let asked = Instant::now();
        let mut link = self.link.lock().await;
        if let Some(open) = link.connection.as_ref().filter(|open| open.is_closed().is_none()) {
            return Ok(open.clone());
        }
        if let Some((_, why)) = link.failed.as_ref().filter(|(at, _)| *at > asked) {
            bail!("{why}");
        }
        match client::connect(&self.target).await {
            Ok(open) => {
                *link = Link { connection: Some(open.clone()), failed: None };
                Ok(open)
            }
            Err(error) => {
                link.failed = Some((Instant::now(), format!("{error:#}")));
                Err(error)
            }
        }
    }

    async fn publish(&self, event: NewEvent) -> Result<Receipt, Error> {
        let turn = self.turn.read().await;
        let is_alone = self.alone.load(Relaxed) > 0;
        let _turn = match is_alone {
            true => {
                drop(turn);
                Turn::Alone(self.turn.write().await)
            }
            false => Turn::Shared(turn),
        };
        let connection = self.connection().await.map_err(away)?;
        let error = match connection.publish(&event).await {
            Ok(receipt) => {
                if is_alone {
                    // `Err` if the one that was too large is found already.
                    let _ = self.alone.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
                }
                return Ok(receipt);
            }
            Err(error) => error,
        };
        if is_too_large(&connection) {
            self.alone.store(if is_alone { 0 } else { ALONE }, Relaxed);
            return Err(match is_alone {
                true => Error::too_large("the event is larger than a frame that the hub takes"),
                false => too_large_together(),
            });
        }
        Err(refusal(&connection, error).await)
    }

    /// Publishes the first events with one frame, if the hub can publish a batch in order; else the first event.
    async fn publish_in_order(&self, mut events: Vec<NewEvent>) -> Vec<Result<Receipt, Error>> {
        events.truncate(self.batch_size.get());
        let count = events.len();
        let batch = self.publish_batch(&events).await;
        if let Batch::Answered(answers) = batch {
            return answers;
        }
        let Some(first) = events.into_iter().next() else { return Vec::new() };
        let published = self.publish(first).await;
        if published.is_ok() {
            match batch {
                // The hub takes an event, but not as many together.
                Batch::Refused => self.batch_size.refused(count),
                _ if count == 1 => self.batch_size.taken(1),
                _ => {}
            }
        }
        vec![published]
    }

    async fn publish_batch(&self, events: &[NewEvent]) -> Batch {
        let turn = self.turn.try_read();
        if events.len() < 2 || turn.is_err() || self.alone.load(Relaxed) > 0 {
            return Batch::NotSent;
        }
        let Ok(_ordered) = self.ordered.try_acquire() else { return Batch::NotSent };
        let connection = match self.connection().await {
            Ok(connection) => connection,
            Err(error) => return Batch::Answered(vec![Err(away(error))]),
        };
        let error = match connection.publish_in_order(events).await {
            Ok(results) => {
                self.batch_size.taken(results.len());
                let failed = results.iter().position(Result::is_err);
                let answered = failed.map_or(results.len(), |at| at + 1);
                return Batch::Answered(results.into_iter().take(answered).collect());
            }
            Err(error) => error,
        };
        if is_too_large(&connection) {
            self.batch_size.refused(events.len());
            self.alone.store(ALONE, Relaxed);
            return Batch::Answered(vec![Err(too_large_together())]);
        }
        match error.refusal() {
            Some(refusal) if !is_of_connection(refusal) => Batch::Refused,
            None if error.kind() == ErrorKind::Unsupported => Batch::NotSent,
            _ => Batch::Answered(vec![Err(refusal(&connection, error).await)]),
        }
    }
}

/// How an event has the connection, until this is dropped.
#[expect(dead_code, reason = "held, and not looked at")]
enum Turn<'a> {
    Shared(RwLockReadGuard<'a, ()>),
    Alone(RwLockWriteGuard<'a, ()>),
}

/// What became of events that were to go with one frame.
enum Batch {
    /// What became of the first ones: an error is the last answer, and nothing behind it was published.
    Answered(Vec<Result<Receipt, Error>>),
    /// The hub has refused the frame. That says nothing of its first event, and nothing was published.
    Refused,
    /// They cannot go together at the moment, or the hub cannot publish a batch in order.
    NotSent,
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn away(error: anyhow::Error) -> Error {
    Error::unavailable(format!("{error:#}"))
}

/// Whether a hub has closed a connection because of a frame that was too large.
fn is_too_large(connection: &Connection) -> bool {
    matches!(connection.is_closed(), Some(Closed::Hub { code: TOO_LARGE, .. }))
}

fn too_large_together() -> Error {
    Error::unavailable("a frame was too large for the hub; events go one by one now")
}

/// Whether a refusal is about the connection, and not about what was published.
fn is_of_connection(refusal: &Error) -> bool {
    matches!(refusal.code, Code::Unauthorized | Code::NoToken | Code::JwtInvalid | Code::TokenExpired)
}

/// What the hub said to an event; or that it is away.
async fn refusal(connection: &Connection, error: hub_client::Error) -> Error {
    match error.refusal() {
        Some(refusal) if !is_of_connection(refusal) => refusal.clone(),
        _ => {
            // The next connection may be better, and the row is not to blame.
            connection.close().await;
            away(plain(error))
        }
    }
}

impl Publisher for ToHub {
    fn send(&self, event: NewEvent) -> Pin<Box<dyn Future<Output = Result<Receipt, Error>> + Send>> {
        let inner = self.inner.clone();
        Box::pin(async move { inner.publish(event).await })
    }

    fn send_in_order(
        &self,
        events: Vec<NewEvent>,
    ) -> Pin<Box<dyn Future<Output = Vec<Result<Receipt, Error>>> + Send>> {
        let inner = self.inner.clone();
        Box::pin(async move { inner.publish_in_order(events).await })
    }

    fn is_available(&self) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let inner = self.inner.clone();
        Box::pin(async move { inner.connection().await.is_ok() })
    }
}
