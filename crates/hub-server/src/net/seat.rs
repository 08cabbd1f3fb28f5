//! How many connections there are, in all and of each address.

use crate::limits::Limits;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// A connection's place among those there may be; free again when the last clone is gone.
///
/// Every request carries one. A handler that takes the connection over, such as a WebSocket's, keeps it as long as the
/// connection lives: the task that served HTTP on it has ended by then.
///
/// A trusted proxy's connection counts for no address. Its clients are counted one by one: while the hub answers a request of
/// theirs, or as long as their WebSocket is open.
#[derive(Clone)]
pub struct Seat {
    connection: Arc<Taken>,
    /// What the client behind a proxy takes.
    client: Option<Arc<Taken>>,
}

/// One count, until it is dropped.
struct Taken {
    door: Door,
    counts: Counts,
}

/// What a place counts as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Counts {
    /// A connection of an address.
    Connection(Origin),
    /// A connection of a proxy, which counts for no address.
    Proxy,
    /// A client of an address, on a connection that is counted already.
    Client(Origin),
}

/// Counts connections. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    seats: Arc<Mutex<Seats>>,
    refused: Counter,
}

#[derive(Debug, Default)]
struct Seats {
    taken: usize,
    // Bounded by `taken`: an address without a connection is not in it, and a connection has one client at a time.
    by_origin: HashMap<Origin, usize>,
}

/// What counts as one address: an IPv4 address, or a /64, of which any home has one and can use all of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Origin {
    V4(Ipv4Addr),
    V6([u16; 4]),
}

/// How many there may be, in all and of one address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    all: usize,
    per_address: usize,
}

impl Capacity {
    /// Of connections of one port.
    pub fn connections(limits: &Limits) -> Self {
        Self { all: limits.connections, per_address: limits.connections_per_address }
    }

    /// Of WebSocket connections that have not said who they are.
    pub fn unauthenticated(limits: &Limits) -> Self {
        Self { all: limits.unauthenticated, per_address: limits.unauthenticated_per_address }
    }
}

/// Which limit was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Full {
    All(usize),
    Address(usize),
}

impl Door {
    /// Nobody is in yet.
    pub fn register(registry: &mut Registry) -> Self {
        let refused = Counter::default();
        registry.register("connections_refused", "Connections over a limit", refused.clone());
        Self { seats: Arc::default(), refused }
    }

    /// Another one with seats of its own; both count together what they refuse.
    pub fn beside(&self) -> Self {
        Self { seats: Arc::default(), refused: self.refused.clone() }
    }

    /// A seat for a connection from `ip`, if there is one.
    pub fn enter(&self, ip: IpAddr, capacity: Capacity) -> Result<Seat, Full> {
        let connection = self.take(Counts::Connection(Origin::of(ip)), capacity)?;
        Ok(Seat { connection, client: None })
    }

    /// A seat for a connection of a trusted proxy, if there is one.
    pub fn enter_proxy(&self, capacity: Capacity) -> Result<Seat, Full> {
        let connection = self.take(Counts::Proxy, capacity)?;
        Ok(Seat { connection, client: None })
    }

    fn take(&self, counts: Counts, capacity: Capacity) -> Result<Arc<Taken>, Full> {
        self.seats.lock().take(counts, capacity).inspect_err(|_| {
            self.refused.inc();
        })?;
        Ok(Arc::new(Taken { door: self.clone(), counts }))
    }
}

impl Seat {
    /// The seat of a proxy's connection, which also counts for the address of a client, if that has not too many.
    pub(super) fn for_client(&self, ip: IpAddr, capacity: Capacity) -> Result<Self, Full> {
        let client = self.connection.door.take(Counts::Client(Origin::of(ip)), capacity)?;
        Ok(Self { connection: self.connection.clone(), client: Some(client) })
    }
}

impl Counts {
    fn is_connection(self) -> bool {
        !matches!(self, Self::Client(_))
    }

    fn origin(self) -> Option<Origin> {
        match self {
            Self::Connection(origin) | Self::Client(origin) => Some(origin),
            Self::Proxy => None,
        }
    }
}

impl Seats {
    fn take(&mut self, counts: Counts, capacity: Capacity) -> Result<(), Full> {
        if counts.is_connection() && self.taken >= capacity.all {
            return Err(Full::All(capacity.all));
        }
        if let Some(origin) = counts.origin() {
            let of_origin = self.by_origin.get(&origin).copied().unwrap_or(0);
            if of_origin >= capacity.per_address {
                return Err(Full::Address(capacity.per_address));
            }
            self.by_origin.insert(origin, of_origin + 1);
        }
        self.taken += usize::from(counts.is_connection());
        Ok(())
    }

    fn free(&mut self, counts: Counts) {
        self.taken -= usize::from(counts.is_connection());
        let Some(origin) = counts.origin() else { return };
        if let Some(count) = self.by_origin.get_mut(&origin) {
            *count -= 1;
            if *count == 0 {
                self.by_origin.remove(&origin);
            }
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.door.seats.lock().free(self.counts);
    }
}

impl Origin {
    pub fn of(ip: IpAddr) -> Self {
        // A socket that listens on `::` sees IPv4 as `::ffff:a.b.c.d`.
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self::V4(ip),
            IpAddr::V6(ip) => {
                let [a, b, c, d, ..] = ip.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let client = self.client.as_ref().map(|client| client.counts);
        f.debug_tuple("Seat").field(&self.connection.counts).field(&client).finish()
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(most) => write!(f, "there are {most} connections, as many as there may be"),
            Self::Address(most) => write!(f, "its address has {most} connections, as many as one may have"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn door() -> Door {
        Door::register(&mut Registry::default())
    }

    fn limits(all: usize, per_address: usize) -> Capacity {
        Capacity { all, per_address }
    }

    fn enter(door: &Door, ip: &str, limits: &Capacity) -> Result<Seat, Full> {
        door.enter(ip.parse().unwrap(), *limits)
    }

    #[test]
    fn a_seat_is_free_when_its_last_clone_is_gone() {
        let (door, limits) = (door(), limits(1, 1));
        let seat = enter(&door, "10.0.0.1", &limits).unwrap();
        let clone = seat.clone();
        drop(seat);
        assert_eq!(enter(&door, "10.0.0.1", &limits).unwrap_err(), Full::All(1));
        drop(clone);
        enter(&door, "10.0.0.1", &limits).unwrap();
        assert_eq!(door.refused.get(), 1);
        assert!(door.seats.lock().by_origin.is_empty(), "an address that is gone is forgotten");
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address_and_a_mapped_address_as_the_ipv4_one() {
        let (door, limits) = (door(), limits(10, 1));
        let _seats = [
            enter(&door, "2001:db8:0:1::1", &limits).unwrap(),
            enter(&door, "2001:db8:0:2::1", &limits).unwrap(),
            enter(&door, "10.0.0.1", &limits).unwrap(),
        ];
        for ip in ["2001:db8:0:1:ffff::9", "::ffff:10.0.0.1"] {
            assert_eq!(enter(&door, ip, &limits).unwrap_err(), Full::Address(1), "{ip}");
        }
    }

    #[test]
    fn a_proxy_counts_for_no_address_and_its_clients_for_theirs() {
        let (door, limits) = (door(), limits(3, 1));
        let proxies: Vec<_> = (0..3).map(|_| door.enter_proxy(limits).unwrap()).collect();
        assert_eq!(door.enter_proxy(limits).unwrap_err(), Full::All(3));
        let client = "192.0.2.1".parse().unwrap();
        let one = proxies[0].for_client(client, limits).unwrap();
        assert_eq!(proxies[1].for_client(client, limits).unwrap_err(), Full::Address(1));
        let _other = proxies[1].for_client("192.0.2.2".parse().unwrap(), limits).unwrap();
        drop(one);
        let again = proxies[2].for_client(client, limits).unwrap();
        // A seat keeps its connection's place, too.
        drop(proxies);
        assert_eq!(door.seats.lock().taken, 2);
        drop(again);
        let seats = door.seats.lock();
        assert_eq!((seats.taken, seats.by_origin.len()), (1, 1));
    }

    #[test]
    fn fewer_seats_than_are_taken_throw_nobody_out() {
        let door = door();
        let seats: Vec<_> = (0..3).map(|_| enter(&door, "10.0.0.1", &limits(3, 3)).unwrap()).collect();
        assert_eq!(enter(&door, "10.0.0.1", &limits(2, 2)).unwrap_err(), Full::All(2));
        drop(seats);
        enter(&door, "10.0.0.1", &limits(2, 2)).unwrap();
    }
}
