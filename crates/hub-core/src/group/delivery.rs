//! An event in a consumer's hands.

use super::Group;
use super::dispatch::Lease;
use crate::Millis;
use crate::trace;
use hub_proto::{Error, Event, Result, TraceContext, limits};
use std::sync::Arc;

/// An event that is leased to this consumer until it is settled, or the ack timeout runs out, or the subscription is
/// dropped. Dropping a delivery settles nothing.
///
/// All methods may be called from any task or thread; the lease does not care who calls.
pub struct Delivery {
    pub(crate) event: Arc<Event>,
    pub(crate) group: Arc<Group>,
    pub(crate) lease: Lease,
    pub(crate) max_attempts: u32,
    /// The consumer has had it before, from another owner of the group.
    pub(crate) in_hand: bool,
}

impl Delivery {
    /// The event.
    pub fn event(&self) -> &Arc<Event> {
        &self.event
    }

    /// Which delivery of the event this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.lease.attempt
    }

    /// After how many failures the event becomes a dead letter.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// The trace that the event belongs to, for what the consumer does with it: a `traceparent` to pass on. Its span is that of this
    /// delivery if the bus records spans ([`trace`]), else that of the publisher.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let mut jobs = bus.subscribe("jobs").group("workers").open().await?;
    /// bus.publish("jobs", json!(1)).header("traceparent", traceparent).await?;
    /// let job = jobs.recv().await?;
    /// assert_eq!(job.trace_context().map(|trace| trace.to_string()).as_deref(), Some(traceparent));
    /// # bus.stop().await }
    /// ```
    pub fn trace_context(&self) -> Option<TraceContext> {
        let trace = TraceContext::of_headers(self.event.headers())?;
        let is_recorded = trace.is_sampled && self.group.engine.spans.is_some();
        let span = || trace::delivery_span(trace, self.event.id(), &self.group.name, self.lease.attempt);
        Some(if is_recorded { trace.with_span(span()) } else { trace })
    }

    /// Settles the event: it is not delivered to this group again.
    ///
    /// `unknown_id` if the lease is over: the event may be with another member by now.
    pub fn ack(&self) -> Result<()> {
        self.group.ack(self.lease)
    }

    /// Hands the event back as failed. It returns after its backoff: 20 ms, doubling with each failure up to 30 s.
    pub fn nack(&self, reason: &str) -> Result<()> {
        self.group.nack(self.lease, None, reason)
    }

    /// Hands the event back as failed; it returns after `delay_ms`, at most 12 hours.
    pub fn nack_after(&self, delay_ms: Millis, reason: &str) -> Result<()> {
        check_delay("delay_ms", delay_ms)?;
        self.group.nack(self.lease, Some(delay_ms), reason)
    }

    /// Gives the event back without a failure, because a dependency is down or the consumer stops; it returns after `delay_ms`,
    /// at most 12 hours.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// let mut work = bus.subscribe("jobs").group("workers").max_attempts(1).open().await?;
    /// bus.publish("jobs", json!(1)).await?;
    /// work.recv().await?.return_after(5)?;
    /// let again = work.recv().await?;
    /// assert_eq!(again.attempt(), 2, "delivered twice, failed never");
    /// # bus.stop().await }
    /// ```
    pub fn return_after(&self, delay_ms: Millis) -> Result<()> {
        check_delay("delay_ms", delay_ms)?;
        self.group.return_after(self.lease, delay_ms)
    }

    /// Puts the deadline off until `extend_ms` from now, at most 12 hours; never closer than it is. Answers the time
    /// left.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// let mut work = bus.subscribe("jobs").group("workers").ack_timeout(1_000).open().await?;
    /// bus.publish("jobs", json!("a long one")).await?;
    /// let job = work.recv().await?;
    /// assert!(job.extend(60_000)? > 59_000);
    /// # bus.stop().await }
    /// ```
    pub fn extend(&self, extend_ms: Millis) -> Result<Millis> {
        check_delay("extend_ms", extend_ms)?;
        self.group.extend(self.lease, extend_ms)
    }
}

/// Refuses what is longer than a lease may last.
pub(crate) fn check_delay(name: &str, millis: Millis) -> Result<()> {
    if millis > limits::MAX_DELAY_MS {
        let max = limits::MAX_DELAY_MS;
        return Err(Error::bad_request(format!("{name} is {millis}; it must be at most {max} (12 hours)")));
    }
    Ok(())
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery").field("id", &self.event.id()).field("lease", &self.lease).finish()
    }
}
