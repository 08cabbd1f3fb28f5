//! An event in a consumer's hands.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde::de::DeserializeOwned;

use crate::{Event, Result};

/// An event that is held by a consumer. One of a group is leased to it until it is settled or the time to ack is up; then it comes again,
/// here or elsewhere. Without a group there is nothing to settle: acks do nothing.
///
/// Clones share the lease. Dropping a delivery settles nothing.
#[derive(Clone)]
pub struct Delivery {
    event: Arc<Event>,
    lease: Option<Arc<dyn Lease>>,
}

/// The right to settle an event, which a group has given to one consumer for a time.
pub trait Lease: Send + Sync {
    /// Which delivery of the event this is, from 1.
    fn attempt(&self) -> u32;

    /// After how many failures the event becomes a dead letter.
    fn max_attempts(&self) -> u32;

    /// How often the group was placed anew.
    fn epoch(&self) -> u64;

    /// The time that is left, by what is known here; zero if it is up.
    fn time_left(&self) -> Duration;

    /// Settles the event.
    ///
    /// # Errors
    /// `unknown_id` if it is known here that the lease is over.
    fn ack(&self) -> Result<()>;

    /// Hands the event back as failed.
    ///
    /// # Errors
    /// What was refused.
    fn nack(&self, delay: Option<Duration>, reason: &str) -> BoxFuture<'_, Result<()>>;

    /// Gives the event back without a failure.
    ///
    /// # Errors
    /// What was refused.
    fn give_back(&self, delay: Duration) -> BoxFuture<'_, Result<()>>;

    /// Puts the deadline off until `time` from now, never closer than it is. Answers the time left.
    ///
    /// # Errors
    /// `unknown_id` if the lease is over; `unavailable` if that cannot be said now.
    fn extend(&self, time: Duration) -> BoxFuture<'_, Result<Duration>>;
}

impl Delivery {
    /// An event that came to a watcher.
    pub fn watched(event: Arc<Event>) -> Self {
        Self { event, lease: None }
    }

    /// An event that is leased to a member of a group.
    pub fn leased(event: Arc<Event>, lease: Arc<dyn Lease>) -> Self {
        Self { event, lease: Some(lease) }
    }

    /// The event.
    pub fn event(&self) -> &Arc<Event> {
        &self.event
    }

    /// Its payload as a value.
    ///
    /// # Errors
    /// `bad_request` if the payload has another shape than asked for.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        self.event.decode()
    }

    /// Which delivery of the event this is, from 1; 0 without a group.
    pub fn attempt(&self) -> u32 {
        self.lease.as_ref().map_or(0, |lease| lease.attempt())
    }

    /// After how many failures the event becomes a dead letter; 0 without a group.
    pub fn max_attempts(&self) -> u32 {
        self.lease.as_ref().map_or(0, |lease| lease.max_attempts())
    }

    /// How often the group was placed anew, by a seek: an event that comes again under a higher epoch is to be handled again.
    pub fn epoch(&self) -> u64 {
        self.lease.as_ref().map_or(0, |lease| lease.epoch())
    }

    /// The time that is left to settle it; `None` without a group.
    pub fn time_left(&self) -> Option<Duration> {
        self.lease.as_ref().map(|lease| lease.time_left())
    }

    /// Settles the event: its group does not get it again.
    ///
    /// Over a socket this returns before the hub has the ack. An ack that is lost means that the event comes again.
    ///
    /// # Errors
    /// `unknown_id` if it is known here that the lease is over: the event may be with another member.
    pub fn ack(&self) -> Result<()> {
        self.lease.as_ref().map_or(Ok(()), |lease| lease.ack())
    }

    /// Hands the event back as failed: it comes again after `delay`, or after the group's backoff. After `max_attempts` failures it is
    /// a dead letter. If the lease is over this does nothing.
    ///
    /// # Errors
    /// `bad_request` for a delay over 12 hours.
    pub async fn nack(&self, delay: Option<Duration>, reason: &str) -> Result<()> {
        match &self.lease {
            Some(lease) => lease.nack(delay, reason).await,
            None => Ok(()),
        }
    }

    /// Gives the event back without a failure, because a dependency is down or the program stops: it comes again after `delay`. If the
    /// lease is over this does nothing.
    ///
    /// # Errors
    /// `bad_request` for a delay over 12 hours, or if the hub is too old to know of it.
    pub async fn give_back(&self, delay: Duration) -> Result<()> {
        match &self.lease {
            Some(lease) => lease.give_back(delay).await,
            None => Ok(()),
        }
    }

    /// Puts the deadline off until `time` from now, at most 12 hours; never closer than it is. Answers the time left.
    ///
    /// # Errors
    /// `unknown_id` if the lease is over.
    pub async fn extend(&self, time: Duration) -> Result<Duration> {
        match &self.lease {
            Some(lease) => lease.extend(time).await,
            None => Ok(time),
        }
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("topic", self.event.topic())
            .field("id", &self.event.id())
            .field("attempt", &self.attempt())
            .finish_non_exhaustive()
    }
}
