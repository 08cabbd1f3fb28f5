//! A hub behind a socket, as a drainer sees it.

use crate::client::{self, Target, plain};
use anyhow::{Result, bail};
use hub_client::{Closed, Connection};
use hub_core::outbox::Publisher;
use hub_proto::{Code, Error, NewEvent};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;
use tokio::sync::Mutex;

/// The code of a close frame after a frame that was too large.
const TOO_LARGE: u16 = 1009;

/// One connection, made anew when it is lost. Who publishes meanwhile hears that the hub is away, and tries again.
pub struct ToHub {
    inner: Arc<Inner>,
}

struct Inner {
    target: Target,
    link: Mutex<Link>,
    /// A frame was larger than the hub takes, which ends a connection with everything on it: which one is found by sending
    /// them one at a time.
    one_by_one: AtomicBool,
    turn: Mutex<()>,
}

#[derive(Default)]
struct Link {
    connection: Option<Connection>,
    /// When the last try to connect failed, and why: those who have waited for it need not try themselves.
    failed: Option<(Instant, String)>,
}

impl ToHub {
    pub fn new(target: Target) -> Self {
        let (link, one_by_one, turn) = Default::default();
        Self { inner: Arc::new(Inner { target, link, one_by_one, turn }) }
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

    async fn publish(&self, event: NewEvent) -> Result<(), Error> {
        let away = |error: anyhow::Error| Error::unavailable(format!("{error:#}"));
        let alone = self.one_by_one.load(Relaxed);
        let _turn = if alone { Some(self.turn.lock().await) } else { None };
        let connection = self.connection().await.map_err(away)?;
        let Err(error) = connection.publish(&event).await else { return Ok(()) };
        if matches!(connection.is_closed(), Some(Closed::Hub { code: TOO_LARGE, .. })) {
            self.one_by_one.store(!alone, Relaxed);
            return Err(match alone {
                true => Error::too_large("the event is larger than a frame that the hub takes"),
                false => Error::unavailable("an event was too large for the hub; they go one by one now"),
            });
        }
        match error.refusal() {
            // The next connection may be better, and the row is not to blame.
            Some(Error {
                code: Code::Unauthorized | Code::NoToken | Code::JwtInvalid | Code::TokenExpired,
                ..
            })
            | None => {
                connection.close().await;
                Err(away(plain(error)))
            }
            Some(refusal) => Err(refusal.clone()),
        }
    }
}

impl Publisher for ToHub {
    fn publish(&self, event: NewEvent) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> {
        let inner = self.inner.clone();
        Box::pin(async move { inner.publish(event).await })
    }

    fn is_available(&self) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let inner = self.inner.clone();
        Box::pin(async move { inner.connection().await.is_ok() })
    }
}
