//! Why a connection has ended.

use tokio::sync::watch;

use crate::{Error, ErrorKind};

/// Why a connection has ended.
#[derive(Clone, Debug)]
pub enum Closed {
    /// This side has closed it.
    Here,
    /// The hub has, with a code: 1012 says that it stops, see [`Closed::is_drain`].
    Hub {
        /// The code of the close frame; 1005 if there was none in it.
        code: u16,
        /// The hub's words.
        reason: String,
    },
    /// It broke: no close frame, an error of the transport, an answer that never came, something that no hub sends.
    Lost(Error),
}

impl Closed {
    /// Whether the hub stops: another one, or this one in a moment, goes on.
    pub fn is_drain(&self) -> bool {
        matches!(self, Self::Hub { code: 1012, .. })
    }
}

impl From<&Closed> for Error {
    fn from(closed: &Closed) -> Self {
        match closed {
            Closed::Here => Self::new(ErrorKind::Closed, "the connection was closed on this side"),
            Closed::Hub { code, reason } => {
                let reason = if reason.is_empty() { "no reason given" } else { reason };
                Self::new(ErrorKind::Closed, format!("the hub closed the connection: {reason} ({code})"))
            }
            Closed::Lost(error) => error.clone(),
        }
    }
}

/// The end of a connection, for all who want to know.
#[derive(Clone)]
pub(crate) struct Ended(pub(super) watch::Receiver<Option<Closed>>);

impl Ended {
    pub async fn wait(&mut self) -> Closed {
        match self.0.wait_for(Option::is_some).await {
            Ok(closed) => closed.clone().unwrap_or(Closed::Here),
            Err(_) => lost(),
        }
    }

    /// Waits until the socket is closed, too.
    pub async fn wait_for_all(&mut self) {
        while self.0.changed().await.is_ok() {}
    }

    /// As an error of whatever was under way.
    pub fn error(&self) -> Error {
        Error::from(self.0.borrow().as_ref().unwrap_or(&lost()))
    }

    pub fn get(&self) -> Option<Closed> {
        self.0.borrow().clone()
    }
}

/// The task was stopped from outside, with its runtime.
fn lost() -> Closed {
    Closed::Lost(Error::new(ErrorKind::Closed, "the connection ended with the runtime that it was opened on"))
}
