//! The connections that are open, for `GET /connections`.
//!
//! A WebSocket is listed from its `AUTH` on, a stream of HTTP from its first byte on, until they end. Each writes its numbers into atomics
//! of its own, which a request for the list reads: a connection never waits for a reader, and takes a lock only when it begins and ends.
//! Their number is bounded by the ports (`limits.connections`).

use hub_core::Millis;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionKind {
    WebSocket,
    /// The WebSocket of another hub, which carries members of its users.
    Hub,
    /// `GET /events`.
    Events,
    /// `GET /live`.
    Live,
    /// `GET /export`.
    Export,
    /// `POST /backup`.
    Backup,
}

impl ConnectionKind {
    pub const ALL: [Self; 6] =
        [Self::WebSocket, Self::Hub, Self::Events, Self::Live, Self::Export, Self::Backup];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WebSocket => "websocket",
            Self::Hub => "hub",
            Self::Events => "events",
            Self::Live => "live",
            Self::Export => "export",
            Self::Backup => "backup",
        }
    }
}

/// Where a connection stands in the list: by subject, those without one first, then in the order of their beginning.
pub(crate) type Place = (Option<Arc<str>>, u64);

/// All that are open on this hub. Clones are handles to the same list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    list: Arc<Mutex<List>>,
}

#[derive(Debug, Default)]
struct List {
    /// The number of the last connection.
    last: u64,
    open: BTreeMap<Place, Arc<Connection>>,
}

/// What is known of a connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub place: Place,
    pub kind: ConnectionKind,
    pub address: Option<SocketAddr>,
    pub since: Millis,
    expires: AtomicU64,
    subscriptions: AtomicUsize,
    in_flight: AtomicUsize,
    queued_bytes: AtomicUsize,
    sent_bytes: AtomicU64,
}

/// No time: the token never expires.
const NEVER: Millis = Millis::MAX;

/// What a connection has at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub subscriptions: usize,
    /// Events that were delivered and are not settled.
    pub in_flight: usize,
    /// Bytes that wait for the other end to read.
    pub queued_bytes: usize,
    /// Bytes that were sent since it began.
    pub sent_bytes: u64,
}

impl Connection {
    pub fn numbers(&self) -> Numbers {
        Numbers {
            subscriptions: self.subscriptions.load(Relaxed),
            in_flight: self.in_flight.load(Relaxed),
            queued_bytes: self.queued_bytes.load(Relaxed),
            sent_bytes: self.sent_bytes.load(Relaxed),
        }
    }

    /// When its token expires, if it does.
    pub fn expires(&self) -> Option<Millis> {
        Some(self.expires.load(Relaxed)).filter(|expires| *expires != NEVER)
    }
}

impl Connections {
    /// Lists a connection until the answer is dropped.
    pub fn open(
        &self,
        kind: ConnectionKind,
        subject: Option<&str>,
        address: Option<SocketAddr>,
        now: Millis,
    ) -> OpenConnection {
        let mut list = self.list.lock();
        list.last += 1;
        let place: Place = (subject.map(Into::into), list.last);
        let connection = Arc::new(Connection {
            place: place.clone(),
            kind,
            address,
            since: now,
            expires: AtomicU64::new(NEVER),
            subscriptions: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            queued_bytes: AtomicUsize::new(0),
            sent_bytes: AtomicU64::new(0),
        });
        list.open.insert(place, connection.clone());
        OpenConnection { connections: self.clone(), connection }
    }

    /// The connections behind a place in the list, at most `most`.
    pub fn after(&self, place: Option<&Place>, most: usize) -> Vec<Arc<Connection>> {
        let from = place.map_or(Bound::Unbounded, Bound::Excluded);
        let list = self.list.lock();
        list.open.range((from, Bound::Unbounded)).take(most).map(|(_, open)| open.clone()).collect()
    }
}

/// A connection in the list. It leaves the list when this is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    connections: Connections,
    connection: Arc<Connection>,
}

impl OpenConnection {
    pub fn set_expires(&self, expires: Option<Millis>) {
        self.connection.expires.store(expires.unwrap_or(NEVER), Relaxed);
    }

    pub fn set(&self, numbers: Numbers) {
        let Connection { subscriptions, in_flight, queued_bytes, sent_bytes, .. } = &*self.connection;
        subscriptions.store(numbers.subscriptions, Relaxed);
        in_flight.store(numbers.in_flight, Relaxed);
        queued_bytes.store(numbers.queued_bytes, Relaxed);
        sent_bytes.store(numbers.sent_bytes, Relaxed);
    }

    pub fn set_subscriptions(&self, subscriptions: usize) {
        self.connection.subscriptions.store(subscriptions, Relaxed);
    }

    /// Of a stream: a chunk was handed over, and is queued until the next one is asked for.
    pub fn queue(&self, bytes: usize) {
        self.connection.queued_bytes.store(bytes, Relaxed);
    }

    /// Of a stream: the next chunk is asked for, so what was queued is on its way.
    pub fn sent(&self) {
        let bytes = self.connection.queued_bytes.swap(0, Relaxed);
        self.connection.sent_bytes.fetch_add(bytes as u64, Relaxed);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.list.lock().open.remove(&self.connection.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_listed_by_subject_while_they_are_open() {
        let connections = Connections::default();
        let open = |subject| connections.open(ConnectionKind::Events, subject, None, 7);
        let kept: Vec<OpenConnection> = [Some("eve"), None, Some("ada"), Some("eve")].map(open).into();
        let listed = |after: Option<&Place>, most| {
            let found = connections.after(after, most);
            found
                .iter()
                .map(|open| (open.place.0.as_deref().unwrap_or("-").to_owned(), open.place.1))
                .collect::<Vec<_>>()
        };
        let own = |list: &[(&str, u64)]| {
            list.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect::<Vec<_>>()
        };
        assert_eq!(listed(None, 9), own(&[("-", 2), ("ada", 3), ("eve", 1), ("eve", 4)]));
        assert_eq!(listed(Some(&(Some("ada".into()), 3)), 1), own(&[("eve", 1)]));
        // A place whose connection has ended is a place all the same.
        assert_eq!(listed(Some(&(Some("bob".into()), 9)), 9), own(&[("eve", 1), ("eve", 4)]));
        drop(kept);
        assert_eq!(listed(None, 9), own(&[]));
    }

    #[test]
    fn a_chunk_is_queued_until_the_next_is_asked_for() {
        let connections = Connections::default();
        let open = connections.open(ConnectionKind::Export, None, None, 0);
        open.queue(10);
        assert_eq!(open.connection.numbers(), Numbers { queued_bytes: 10, ..Numbers::default() });
        open.sent();
        open.sent();
        assert_eq!(open.connection.numbers(), Numbers { sent_bytes: 10, ..Numbers::default() });
    }
}
