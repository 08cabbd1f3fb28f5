//! An event in hand.

use std::time::Duration;

use hub_proto::Event;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::{Connection, Delivered, Error, ErrorKind, Name, Result};

/// What comes of a [`Subscription`](super::Subscription).
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are events, and are taken one by one")]
pub enum Received {
    /// An event.
    Event(Message),
    /// Events that were missed, by a subscription without a group.
    Lagged {
        /// The topic they were of, if the hub has said so.
        topic: Option<Box<str>>,
        /// How many; 0 if that cannot be known, because the connection was away.
        missed: u64,
    },
}

impl Received {
    /// The event, if it is one.
    pub fn message(self) -> Option<Message> {
        match self {
            Self::Event(message) => Some(message),
            Self::Lagged { .. } => None,
        }
    }
}

/// An event, and what can be done with it. One of a group is in hand until it is settled or its time is up; then it comes
/// again, to this member or another. Without a group there is nothing to settle.
#[derive(Clone, Debug)]
pub struct Message {
    pub(super) delivered: Delivered,
    /// The connection that it came by. If that has ended the event is no longer in hand.
    pub(super) connection: Connection,
}

impl Message {
    /// The event.
    pub fn event(&self) -> &Event {
        &self.delivered.event
    }

    /// Its payload as a value.
    ///
    /// # Errors
    /// `Usage` if the payload has another shape than asked for.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        Ok(self.delivered.event.decode()?)
    }

    /// How often it was delivered, this time included; 0 without a group.
    pub fn attempt(&self) -> u32 {
        self.delivered.attempt
    }

    /// How many failures make it a dead letter; 0 without a group.
    pub fn max_attempts(&self) -> u32 {
        self.delivered.max_attempts
    }

    /// When it is no longer in hand; `None` without a group.
    pub fn ack_deadline(&self) -> Option<Instant> {
        self.delivered.ack_deadline
    }

    /// Settles it, in a moment, together with others. If the connection that it came by has ended this does nothing: the
    /// hub delivers it again.
    ///
    /// # Errors
    /// `Busy` if 100,000 acks wait to be sent already.
    pub fn ack(&self) -> Result<()> {
        if self.is_gone() {
            return Ok(());
        }
        self.connection.ack(&self.delivered.name, &[self.event().id()], Some(self.attempt()))
    }

    /// Settles it, and waits until the hub has done so.
    ///
    /// # Errors
    /// `Refused` with `unknown_id` if it is no longer in hand, `Closed` if its connection has ended: it comes again.
    pub async fn ack_now(&self) -> Result<()> {
        let id = self.event().id();
        let acked = self.connection.ack_now(self.name(), &[id], Some(self.attempt())).await?;
        if acked.unknown.is_empty() {
            return Ok(());
        }
        let text = format!("event {id} is no longer in hand; it was settled, or comes again");
        Err(Error::refused(hub_proto::Error::unknown_id(text).with_id(id), "unknown_id"))
    }

    /// Hands it back as failed: it comes again after `delay`, or after the group's backoff. If the connection that it came
    /// by has ended, or its time is up, this does nothing: the hub delivers it again.
    ///
    /// # Errors
    /// What the hub refused.
    pub async fn nack(&self, delay: Option<Duration>, reason: &str) -> Result<()> {
        let nacked =
            self.connection.nack(self.name(), self.event().id(), Some(self.attempt()), delay, reason).await;
        match nacked {
            Err(error) if error.kind() == ErrorKind::Closed || error.is_unknown_id() => Ok(()),
            nacked => nacked,
        }
    }

    /// Puts its deadline off, to so long from now; answers the time that is left.
    ///
    /// # Errors
    /// `Refused` with `unknown_id` if it is no longer in hand, `Closed` if its connection has ended: it comes again.
    pub async fn extend(&self, time: Duration) -> Result<Duration> {
        self.connection.modack(self.name(), self.event().id(), Some(self.attempt()), time).await
    }

    fn name(&self) -> &Name {
        &self.delivered.name
    }

    fn is_gone(&self) -> bool {
        self.connection.is_closed().is_some()
    }
}
