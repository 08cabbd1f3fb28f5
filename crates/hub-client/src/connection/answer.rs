//! What a hub answers.

use std::pin::Pin;
use std::task::{Context, Poll};

use hub_proto::EventId;
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::Ended;
use crate::{Error, ErrorKind, Result};

/// The `OK` to a request.
#[derive(Clone, Debug)]
pub struct Answer(pub(super) Utf8Bytes);

impl Answer {
    /// The whole frame, as some type.
    ///
    /// # Errors
    /// `Protocol` if it has another shape.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T> {
        serde_json::from_str(&self.0).map_err(|error| {
            Error::new(ErrorKind::Protocol, "an answer of the hub cannot be understood").with(error)
        })
    }

    #[cfg(test)]
    pub(crate) fn of(text: &str) -> Self {
        Self(text.into())
    }

    /// The whole frame, as text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// An answer that is on its way. Dropping it takes nothing back.
#[must_use = "the answer says whether the hub has taken it"]
pub struct Answering {
    pub(super) answer: oneshot::Receiver<Result<Answer>>,
    pub(super) ended: Ended,
}

impl Future for Answering {
    type Output = Result<Answer>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(context).map(|answer| match answer {
            Ok(answer) => answer,
            // The task is gone with it.
            Err(_) => Err(self.ended.error()),
        })
    }
}

/// Whom the hub takes this connection for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Identity {
    /// Whom the token speaks for.
    #[serde(default)]
    pub sub: Option<String>,
    /// When it ends, in seconds since 1970.
    #[serde(default)]
    pub exp: Option<u64>,
}

/// What became of events that were given back.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Returned {
    /// How many went back to the group.
    pub returned: usize,
    /// Those that were not in hand.
    #[serde(default)]
    pub unknown: Vec<EventId>,
}

/// What became of several acks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Acked {
    /// How many are settled.
    pub acked: usize,
    /// Those that were not in hand.
    #[serde(default)]
    pub unknown: Vec<EventId>,
}
