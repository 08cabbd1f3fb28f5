//! An event in hand.

use std::sync::Arc;
use std::time::Duration;

use hub_proto::{Event, limits};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::subscription::Line;
use crate::connection::RETURN;
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
#[derive(Clone)]
pub struct Message {
    pub(super) delivered: Delivered,
    /// The connection that it came by. If that has ended the event is no longer in hand, unless a member has it.
    pub(super) connection: Connection,
    /// Of a member: it settles over whichever connection it has at the time.
    pub(super) line: Option<Arc<Line>>,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Message").field("delivered", &self.delivered).finish_non_exhaustive()
    }
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

    /// How often its group was placed anew. An event that comes again under a higher epoch is to be handled again.
    pub fn epoch(&self) -> u64 {
        self.delivered.epoch
    }

    /// When it is no longer in hand; `None` without a group.
    pub fn ack_deadline(&self) -> Option<Instant> {
        self.delivered.ack_deadline
    }

    /// Settles it, in a moment, together with others. If the connection that it came by has ended this does nothing: the
    /// hub delivers it again. A [member](crate::SubscribeOptions::member) settles it over its next connection.
    ///
    /// # Errors
    /// `Busy` if 100,000 acks wait to be sent already.
    pub fn ack(&self) -> Result<()> {
        let (id, attempt) = (self.event().id(), self.attempt());
        if let Some(line) = &self.line
            && !line.with_in_hand(|in_hand| in_hand.ack(id, attempt))
        {
            return Ok(());
        }
        let connection = self.connection();
        if connection.is_closed().is_some() {
            return Ok(());
        }
        connection.ack(&self.delivered.name, &[id], self.told_attempt())
    }

    /// Settles it, and waits until the hub has done so.
    ///
    /// # Errors
    /// `Refused` with `unknown_id` if it is no longer in hand. `Closed` if the connection has ended: it comes again, but a
    /// [member](crate::SubscribeOptions::member) can try again when it has the next one.
    pub async fn ack_now(&self) -> Result<()> {
        let id = self.event().id();
        let acked = self.connection().ack_now(self.name(), &[id], self.told_attempt()).await?;
        self.settled();
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
        // What the hub refuses would no longer be known here as in hand.
        check_delay(delay.unwrap_or_default())?;
        let (connection, attempt) = (self.connection(), self.told_attempt());
        // A connection that is lost meanwhile hands it back, too.
        self.settled();
        let nacked = connection.nack(self.name(), self.event().id(), attempt, delay, reason).await;
        match nacked {
            Err(error) if error.kind() == ErrorKind::Closed || error.is_unknown_id() => Ok(()),
            nacked => nacked,
        }
    }

    /// Gives it back without a failure, because a dependency is down or the program stops: it comes again after `delay`, here or
    /// elsewhere. If the connection that it came by has ended, or its time is up, this does nothing: the hub delivers it again.
    ///
    /// # Errors
    /// `Unsupported` if the hub does not have [`RETURN`]; what it refused.
    pub async fn give_back(&self, delay: Duration) -> Result<()> {
        check_delay(delay)?;
        let (connection, attempt) = (self.connection(), self.told_attempt());
        connection.needs(RETURN)?;
        // If the connection is lost meanwhile, the next one does not name the event, and the hub takes it back.
        self.settled();
        let given_back = connection.give_back(self.name(), &[self.event().id()], attempt, delay).await;
        match given_back {
            Err(error) if error.kind() == ErrorKind::Closed || error.is_unknown_id() => Ok(()),
            given_back => given_back.map(drop),
        }
    }

    /// Puts its deadline off, to so long from now; answers the time that is left.
    ///
    /// # Errors
    /// `Refused` with `unknown_id` if it is no longer in hand. `Closed` if the connection has ended: it comes again, but a
    /// [member](crate::SubscribeOptions::member) can try again when it has the next one.
    pub async fn extend(&self, time: Duration) -> Result<Duration> {
        let (id, attempt) = (self.event().id(), self.attempt());
        let left = self.connection().modack(self.name(), id, self.told_attempt(), time).await?;
        if let Some(line) = &self.line {
            line.with_in_hand(|in_hand| in_hand.extend(id, attempt, Instant::now() + left));
        }
        Ok(left)
    }

    /// When it is no longer in hand, as far as is known here; `None` without a group.
    pub(crate) fn held_until(&self) -> Option<Instant> {
        let (id, attempt) = (self.event().id(), self.attempt());
        match &self.line {
            Some(line) => line.with_in_hand(|in_hand| in_hand.until(id, attempt)),
            None => self.ack_deadline(),
        }
    }

    /// The connection over which it is settled.
    fn connection(&self) -> Connection {
        let current = self.line.as_ref().and_then(|line| line.connection());
        current.unwrap_or_else(|| self.connection.clone())
    }

    /// The attempt that the hub is told.
    fn told_attempt(&self) -> Option<u32> {
        let (id, attempt) = (self.event().id(), self.attempt());
        match &self.line {
            Some(line) => line.with_in_hand(|in_hand| in_hand.told_attempt(id, attempt)),
            None => Some(attempt),
        }
    }

    /// A member need not name it any more.
    fn settled(&self) {
        if let Some(line) = &self.line {
            line.with_in_hand(|in_hand| in_hand.remove(self.event().id(), self.attempt()));
        }
    }

    fn name(&self) -> &Name {
        &self.delivered.name
    }
}

/// Refuses a delay that is longer than the hub takes.
fn check_delay(delay: Duration) -> Result<()> {
    let most = Duration::from_millis(limits::MAX_DELAY_MS);
    if delay <= most {
        return Ok(());
    }
    let text =
        format!("the delay is {} s; it must be at most {} (12 hours)", delay.as_secs(), most.as_secs());
    Err(Error::new(ErrorKind::Usage, text))
}
