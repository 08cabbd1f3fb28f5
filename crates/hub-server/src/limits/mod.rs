//! How much a stranger may do.
//!
//! [`Limits`] are the numbers. The rates among them are kept by [`Buckets`], one for the whole hub, and asked through a
//! [`Meter`], one per connection or request. What a request costs is its [`Work`]. How many connections there may be is counted in [`net`](crate::net).

mod buckets;
mod bytes;
mod clock;
mod failed_auth;
pub(crate) mod gcra;
mod live;
mod meter;
mod recent;
mod work;

pub use buckets::Buckets;
pub(crate) use failed_auth::{Attempt, FailedAuth};
pub(crate) use live::{Live, LiveConnection};
pub use meter::{From, Meter};
pub use work::Work;

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
    /// The same two of what comes through a proxy: the clients behind one that runs beside a hub on loopback are not local.
    pub forwarded_connection_rate: Option<u32>,
    /// See above.
    pub forwarded_subject_rate: Option<u32>,
    /// Events per second of a topic; the first pattern that matches counts.
    pub topic_rates: Vec<(Pattern, u32)>,
    /// What subjects may have open; the first that names a subject counts.
    pub subject_quotas: Vec<SubjectQuota>,
    /// Bytes per second of topics; every quota whose pattern matches a topic counts.
    pub topic_quotas: Vec<TopicQuota>,
    /// Connections of one port.
    pub connections: usize,
    /// Connections of one address.
    pub connections_per_address: usize,
    /// WebSocket connections that have not said who they are.
    pub unauthenticated: usize,
    /// The same, of one address.
    pub unauthenticated_per_address: usize,
    /// Failed authentications of one address per minute, after ten at once; 0: as many as it likes.
    pub failed_auth_per_address: u32,
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
    /// How long the leases of a member stay whose client can resume it; at most its time to ack.
    pub reconnect_grace: Millis,
}

/// What a subject may have open on a hub. Everything absent: no bound but those of each connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubjectQuota {
    /// Whose; `None` is every subject, each for itself. The empty one is that of tokens without a subject.
    pub subject: Option<String>,
    /// WebSocket connections.
    pub connections: Option<usize>,
    /// Topics that its subscriptions cover, each subscription at least one.
    pub subscriptions: Option<usize>,
    /// Bytes per second that it sends.
    pub bytes_in: Option<u32>,
    /// Bytes per second that it is sent.
    pub bytes_out: Option<u32>,
}

/// Bytes per second of all topics of one pattern together, over all subjects and connections of a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicQuota {
    /// Which topics.
    pub pattern: Pattern,
    /// Bytes of payloads per second that are published to them.
    pub bytes_in: Option<u32>,
    /// Bytes of events per second that are delivered from them.
    pub bytes_out: Option<u32>,
}

impl Default for Limits {
    /// Those of a hub on loopback: without rates.
    fn default() -> Self {
        Self {
            connection_rate: None,
            subject_rate: None,
            forwarded_connection_rate: Some(CONNECTION_RATE),
            forwarded_subject_rate: Some(SUBJECT_RATE),
            topic_rates: Vec::new(),
            subject_quotas: Vec::new(),
            topic_quotas: Vec::new(),
            connections: 20_000,
            connections_per_address: 20_000,
            unauthenticated: 1_000,
            unauthenticated_per_address: 1_000,
            failed_auth_per_address: 0,
            frame_bytes: 4 << 20,
            batch_events: limits::BATCH_EVENTS,
            subscriptions: 1_000,
            auth_timeout: 10_000,
            idle_timeout: 120_000,
            body_timeout: 30_000,
            expiry_grace: 30_000,
            reconnect_grace: 10_000,
        }
    }
}

/// Events per second of a connection that is not local.
const CONNECTION_RATE: u32 = 2_000;
/// Events per second of a subject that is not local.
const SUBJECT_RATE: u32 = 10_000;

/// The largest frame of a client that has not said who it is: room for the longest token.
const FRAME_BYTES_BEFORE_AUTH: usize = 32 << 10;

impl Limits {
    /// The largest frame of a client that has not said who it is.
    pub fn frame_bytes_before_auth(&self) -> usize {
        self.frame_bytes.min(FRAME_BYTES_BEFORE_AUTH)
    }

    /// Those of a hub that others can reach.
    pub fn beyond_loopback() -> Self {
        Self {
            connection_rate: Some(CONNECTION_RATE),
            subject_rate: Some(SUBJECT_RATE),
            connections_per_address: 1_000,
            unauthenticated_per_address: 100,
            failed_auth_per_address: 60,
            ..Self::default()
        }
    }
}
