//! How much a stranger may do.
//!
//! [`Limits`] are the numbers. The rates among them are kept by [`Buckets`], one for the whole hub, and asked through a
//! [`Meter`], one per connection or request. How many connections there may be is counted in [`net`](crate::net).

mod buckets;
mod clock;
mod gcra;
mod meter;

pub use buckets::Buckets;
pub use meter::Meter;

use hub_core::Millis;
use hub_proto::{Pattern, limits};

/// Limits of connections and of what they send.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Events per second of one connection; `None`: as many as it likes, 0: none at all. Here as with the other rates a
    /// second's worth may come at once.
    pub connection_rate: Option<u32>,
    /// Events per second of one subject over all its connections. Tokens without a subject count as one subject.
    pub subject_rate: Option<u32>,
    /// Events per second of a topic; the first pattern that matches counts.
    pub topic_rates: Vec<(Pattern, u32)>,
    /// Connections of one port.
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
