//! Which client a request comes from.
//!
//! The other end of a socket is the client, unless it is a trusted proxy: then the proxy names the client, in a header of the
//! PROXY protocol for the whole connection or in `X-Forwarded-For` for each request. From any other peer that header means only
//! that the client is not local.

use super::trusted::TrustedProxies;
use axum::http::{Extensions, HeaderMap};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

const FORWARDED_FOR: &str = "x-forwarded-for";
/// Headers that only a proxy adds.
const FORWARDING: [&str; 4] = ["forwarded", FORWARDED_FOR, "x-real-ip", "via"];

/// The address that a request counts for. Every request carries one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress {
    /// The other end of the socket, or the client that a trusted proxy named.
    pub ip: IpAddr,
    /// The request came through a proxy, trusted or not: its client is not local, whatever `ip` is.
    pub is_forwarded: bool,
}

impl ClientAddress {
    /// The address that a request carries; `None` if [`serve`](super::serve) did not accept its connection.
    pub fn of(extensions: &Extensions) -> Option<Self> {
        extensions.get().copied()
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ip.fmt(f)
    }
}

/// Whether a request has a header that only a proxy adds.
pub(super) fn is_forwarded(headers: &HeaderMap) -> bool {
    FORWARDING.iter().any(|name| headers.contains_key(*name))
}

/// Tells which client each request of one connection comes from.
pub(super) struct Clients {
    trusted: TrustedProxies,
    /// The client of the connection, as far as the connection tells.
    source: IpAddr,
    /// `source` was named by a proxy.
    is_named: bool,
    /// `source` is a trusted proxy: it may name a client for each request.
    is_proxy: bool,
}

impl Clients {
    /// Of a connection whose other end is `peer`.
    pub fn of_peer(trusted: TrustedProxies, peer: IpAddr) -> Self {
        let is_proxy = trusted.contains(peer);
        Self { trusted, source: peer.to_canonical(), is_named: false, is_proxy }
    }

    /// The peer, a trusted proxy, has named the client of the connection. That may be a trusted proxy, too.
    pub fn set_source(&mut self, client: IpAddr) {
        self.source = client.to_canonical();
        (self.is_named, self.is_proxy) = (true, self.trusted.contains(client));
    }

    /// Whether the connection itself tells no client, because it is a trusted proxy's.
    pub fn is_proxy(&self) -> bool {
        self.is_proxy
    }

    /// Whether a client is another one than a trusted proxy.
    pub fn is_behind_proxy(&self, client: &ClientAddress) -> bool {
        self.is_proxy && !self.trusted.contains(client.ip)
    }

    pub fn of_request(&self, headers: &HeaderMap) -> ClientAddress {
        let named = if self.is_proxy { self.forwarded_for(headers) } else { None };
        ClientAddress {
            ip: named.unwrap_or(self.source),
            is_forwarded: self.is_named || is_forwarded(headers),
        }
    }

    /// The rightmost address of `X-Forwarded-For` that is no trusted proxy; the leftmost one if all of them are. `None` if there
    /// is none, or one in between cannot be read. What stands left of the answer is the client's own word and is not looked at.
    fn forwarded_for(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let lines = headers.get_all(FORWARDED_FOR).iter().rev();
        let mut last = None;
        for entry in lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b',')) {
            let ip = address(entry)?;
            if !self.trusted.contains(ip) {
                return Some(ip);
            }
            last = Some(ip);
        }
        last
    }
}

/// An address, which may have a port behind it and, for IPv6, brackets around it.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?.trim_matches([' ', '\t']);
    let unbracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let ip = unbracketed.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|at| at.ip()));
    ip.map(|ip| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    fn headers(lines: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED_FOR, line.parse().unwrap());
        }
        headers
    }

    /// Whom a request with these headers counts for, if `peer` sent it.
    fn asked(peer: &str, lines: &[&str]) -> (String, bool) {
        let trusted = TrustedProxies::parse(&["10.0.0.0/8", "2001:db8::/32"]).unwrap();
        let clients = Clients::of_peer(trusted, peer.parse().unwrap());
        let ClientAddress { ip, is_forwarded } = clients.of_request(&headers(lines));
        (ip.to_string(), is_forwarded)
    }

    #[test]
    fn the_rightmost_address_that_is_no_trusted_proxy_counts() {
        for (lines, client) in [
            (&["192.0.2.1"][..], "192.0.2.1"),
            (&["203.0.113.9, 192.0.2.1"], "192.0.2.1"),
            (&["203.0.113.9, 192.0.2.1, 10.1.1.1 ,10.2.2.2"], "192.0.2.1"),
            (&["203.0.113.9", "192.0.2.1", "10.1.1.1"], "192.0.2.1"),
            (&["not an address, , 192.0.2.1"], "192.0.2.1"),
            (&["192.0.2.1:4711"], "192.0.2.1"),
            (&["[2001:4860::1]"], "2001:4860::1"),
            (&["[2001:4860::1]:443, 2001:db8::7"], "2001:4860::1"),
            (&["::ffff:192.0.2.1"], "192.0.2.1"),
            // A request of a proxy itself, through others.
            (&["10.3.3.3, 10.1.1.1"], "10.3.3.3"),
        ] {
            assert_eq!(asked("10.0.0.1", lines), (client.to_owned(), true), "{lines:?}");
        }
    }

    #[test]
    fn a_header_that_cannot_be_read_leaves_the_peer() {
        for lines in
            [&["unknown"][..], &["192.0.2.1, "], &["192.0.2.1, _hidden, 10.1.1.1"], &[""], &["1.2.3"]]
        {
            assert_eq!(asked("10.0.0.1", lines), ("10.0.0.1".to_owned(), true), "{lines:?}");
        }
        assert_eq!(asked("10.0.0.1", &[]), ("10.0.0.1".to_owned(), false));
    }

    #[test]
    fn a_peer_that_is_not_trusted_cannot_name_a_client() {
        assert_eq!(asked("192.0.2.7", &["203.0.113.9"]), ("192.0.2.7".to_owned(), true));
        assert_eq!(asked("192.0.2.7", &[]), ("192.0.2.7".to_owned(), false));
        assert_eq!(asked("::ffff:192.0.2.7", &[]), ("192.0.2.7".to_owned(), false));
    }

    #[test]
    fn a_client_that_the_connection_names_is_believed_only_if_it_is_a_proxy() {
        let trusted = TrustedProxies::parse(&["10.0.0.0/8"]).unwrap();
        let mut clients = Clients::of_peer(trusted, "10.0.0.1".parse().unwrap());
        clients.set_source("192.0.2.1".parse().unwrap());
        let client = clients.of_request(&headers(&["203.0.113.9"]));
        assert_eq!((client.ip.to_string().as_str(), client.is_forwarded), ("192.0.2.1", true));
        assert!(!clients.is_proxy() && clients.of_request(&headers(&[])).is_forwarded);
        clients.set_source("10.0.0.2".parse().unwrap());
        assert_eq!(clients.of_request(&headers(&["203.0.113.9"])).ip.to_string(), "203.0.113.9");
    }

    proptest! {
        #[test]
        fn no_client_can_change_what_a_proxy_has_added(forged in "[ -~]{0,60}", client in any::<u32>()) {
            let client = IpAddr::from(std::net::Ipv4Addr::from(client));
            let trusted = TrustedProxies::parse(&["10.0.0.0/8"]).unwrap();
            prop_assume!(!trusted.contains(client));
            let clients = Clients::of_peer(trusted, "10.0.0.1".parse().unwrap());
            let line = format!("{forged}, {client}");
            prop_assert_eq!(clients.of_request(&headers(&[&line])).ip, client);
            let line = client.to_string();
            prop_assert_eq!(clients.of_request(&headers(&[&forged, &line])).ip, client);
        }
    }
}
