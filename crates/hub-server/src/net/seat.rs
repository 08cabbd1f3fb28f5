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
#[derive(Clone)]
pub struct Seat {
    _taken: Arc<Taken>,
}

struct Taken {
    door: Door,
    origin: Origin,
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
    // Bounded by `taken`: an address without a connection is not in it.
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
        let origin = Origin::of(ip);
        self.seats.lock().take(origin, capacity).inspect_err(|_| {
            self.refused.inc();
        })?;
        Ok(Seat { _taken: Arc::new(Taken { door: self.clone(), origin }) })
    }
}

impl Seats {
    fn take(&mut self, origin: Origin, capacity: Capacity) -> Result<(), Full> {
        if self.taken >= capacity.all {
            return Err(Full::All(capacity.all));
        }
        let of_origin = self.by_origin.get(&origin).copied().unwrap_or(0);
        if of_origin >= capacity.per_address {
            return Err(Full::Address(capacity.per_address));
        }
        self.by_origin.insert(origin, of_origin + 1);
        self.taken += 1;
        Ok(())
    }

    fn free(&mut self, origin: Origin) {
        self.taken -= 1;
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
        self.door.seats.lock().free(self.origin);
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
        f.debug_tuple("Seat").field(&self._taken.origin).finish()
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
    fn fewer_seats_than_are_taken_throw_nobody_out() {
        let door = door();
        let seats: Vec<_> = (0..3).map(|_| enter(&door, "10.0.0.1", &limits(3, 3)).unwrap()).collect();
        assert_eq!(enter(&door, "10.0.0.1", &limits(2, 2)).unwrap_err(), Full::All(2));
        drop(seats);
        enter(&door, "10.0.0.1", &limits(2, 2)).unwrap();
    }
}
