//! How much a stranger may do.

use hub_core::Millis;
use hub_proto::{Pattern, limits};

/// Limits of connections and of what they send.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Events per second of one connection; `None`: as many as it likes.
    pub connection_rate: Option<u32>,
    /// Events per second of one subject over all its connections.
    pub subject_rate: Option<u32>,
    /// Events per second of a topic; the first pattern that matches counts.
    pub topic_rates: Vec<(Pattern, u32)>,
    /// Connections in all.
    pub connections: usize,
    /// Connections of one address.
    pub connections_per_address: usize,
    /// The largest frame, and the largest body of a request.
    pub frame_bytes: usize,
    /// The most events in one PUBLISH.
    pub batch_events: usize,
    /// Subscriptions of one connection.
    pub subscriptions: usize,
    /// A connection that has not said who it is after this is closed.
    pub auth_timeout: Millis,
    /// A connection from which nothing came for so long, not even an answer to a ping, is closed.
    pub idle_timeout: Millis,
    /// The body of a request has to be here after this.
    pub body_timeout: Millis,
    /// A token that ran out: so long acks are taken before the connection is closed.
    pub expiry_grace: Millis,
}

impl Default for Limits {
    /// Those of a hub on loopback: without rates.
    fn default() -> Self {
        Self {
            connection_rate: None,
            subject_rate: None,
            topic_rates: Vec::new(),
            connections: 20_000,
            connections_per_address: 20_000,
            frame_bytes: 4 << 20,
            batch_events: limits::BATCH_EVENTS,
            subscriptions: 1_000,
            auth_timeout: 10_000,
            idle_timeout: 120_000,
            body_timeout: 30_000,
            expiry_grace: 30_000,
        }
    }
}

impl Limits {
    /// Those of a hub that others can reach.
    pub fn beyond_loopback() -> Self {
        Self {
            connection_rate: Some(2_000),
            subject_rate: Some(10_000),
            connections_per_address: 1_000,
            ..Self::default()
        }
    }
}

/// The rates of subjects and topics, over all connections.
#[derive(Debug)]
pub struct Buckets {}

impl Buckets {
    /// Rates as in `limits`.
    pub fn new(limits: &Limits) -> Self {
        let _ = limits;
        Self {}
    }

    /// Changes the rates. Connections see it with their next request.
    pub fn apply(&self, limits: &Limits) {
        let _ = limits;
    }
}

/// What one connection has left.
#[derive(Debug)]
pub struct Meter {}

impl Meter {
    /// For a connection, or for one request; `subject` once it is known.
    pub fn new(buckets: &std::sync::Arc<Buckets>, subject: Option<&str>) -> Self {
        let _ = (buckets, subject);
        Self {}
    }

    /// The connection has said who it is.
    pub fn identify(&mut self, subject: Option<&str>) {
        let _ = subject;
    }

    /// Takes room for events to these topics, or for none of them.
    ///
    /// # Errors
    /// `rate_limited` with `retry_after_ms`.
    pub fn take<'a>(
        &mut self,
        topics: impl ExactSizeIterator<Item = &'a hub_proto::TopicName>,
    ) -> hub_proto::Result<()> {
        let _ = topics;
        Ok(())
    }

    /// Takes room for a request that is no event but costs as much.
    ///
    /// # Errors
    /// As [`Meter::take`].
    pub fn take_one(&mut self) -> hub_proto::Result<()> {
        Ok(())
    }
}
