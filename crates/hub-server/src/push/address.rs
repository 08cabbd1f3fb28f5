//! Which addresses an endpoint may be at.
//!
//! A push subscription makes the hub send requests to an address that somebody else has chosen. One that may not reach the
//! hub's own network goes to public addresses only, and the address is looked at where the connection is made: a name that
//! resolves to something else a moment later gains nothing.

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Azure's host agent: reachable from every machine there, and not by anybody else.
const AZURE_HOST: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Whether an address is one of the public internet. Anything that leads into a machine, its network or its provider's is not.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = match (a, b, c) {
        // This network, private, loopback.
        (0 | 10 | 127, ..) => true,
        // Shared by carriers; some providers have their metadata there.
        (100, 64..=127, _) => true,
        // Link-local, with the metadata of most providers.
        (169, 254, _) => true,
        (172, 16..=31, _) => true,
        // Protocol assignments, documentation, the relay of 6to4.
        (192, 0, 0 | 2) | (192, 88, 99) => true,
        (192, 168, _) => true,
        // Benchmarks, documentation.
        (198, 18 | 19, _) | (198, 51, 100) | (203, 0, 113) => true,
        // Multicast, reserved, broadcast.
        (224.., ..) => true,
        _ => false,
    };
    !is_special && address != AZURE_HOST
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(address) = address.to_ipv4_mapped() {
        return is_public_v4(address);
    }
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        // NAT64 leads to the IPv4 address in it.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(embedded(high, low)),
        // Protocol assignments with Teredo, documentation, 6to4.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // All others that are global are in 2000::/3; loopback, unique local, link-local and multicast are not.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// The address in a URL, if it has one in place of a name. Other ways to write one (`0x7f.1`, `2130706433`) are read by then.
pub(super) fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => host.parse().ok().map(IpAddr::V6),
        None => host.parse().ok().map(IpAddr::V4),
    }
}

/// Names that are resolved at the same time. A lookup takes a thread of the pool that disks are read with, for as long as a name
/// server takes, and goes on when its request has given up.
const CONCURRENT_LOOKUPS: usize = 16;

/// Resolves names, to public addresses only unless others are allowed.
#[derive(Clone)]
pub(super) struct Resolver {
    allow_private: bool,
    lookups: Arc<Semaphore>,
}

/// Shared by the resolvers of a hub.
#[derive(Clone)]
pub(super) struct Lookups(Arc<Semaphore>);

impl Default for Lookups {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(CONCURRENT_LOOKUPS)))
    }
}

impl Resolver {
    pub fn new(lookups: &Lookups, allow_private: bool) -> Self {
        Self { allow_private, lookups: lookups.0.clone() }
    }

    /// Looks a name up with `look_up`, which may block.
    async fn find(
        self,
        look_up: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
    ) -> Result<Vec<SocketAddr>, Box<dyn Error + Send + Sync>> {
        let permit = self.lookups.acquire_owned().await?;
        // The lookup has the permit, and not the request: nothing ends a lookup that has begun.
        let looking = tokio::task::spawn_blocking(move || {
            let found = look_up();
            drop(permit);
            found
        });
        let mut found = looking.await??;
        found.retain(|address| self.allow_private || is_public(address.ip()));
        match found.is_empty() {
            true => Err(NotPublic.into()),
            false => Ok(found),
        }
    }
}

/// A name that stands for no public address.
#[derive(Debug, thiserror::Error)]
#[error("its name has no public address; set allow_private if it may be in a private network")]
struct NotPublic;

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let look_up = move || (name.as_str(), 0).to_socket_addrs().map(Iterator::collect);
            let found = resolver.find(look_up).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{CONCURRENT_LOOKUPS, Lookups, Resolver, is_public, literal};
    use reqwest::Url;
    use std::sync::mpsc;
    use std::time::Duration;

    #[tokio::test]
    async fn lookups_that_hang_take_a_bounded_number_of_threads() {
        let lookups = Lookups::default();
        let (began, begun) = mpsc::channel();
        let (mut end, mut ends) = (Vec::new(), Vec::new());
        for n in 0..CONCURRENT_LOOKUPS + 10 {
            let (tell, told) = mpsc::channel::<()>();
            end.push(tell);
            let (began, resolver) = (began.clone(), Resolver::new(&lookups, n % 2 == 0));
            let look_up = move || {
                began.send(n).unwrap();
                let _ = told.recv();
                Ok(vec!["1.1.1.1:0".parse().unwrap()])
            };
            // Requests give up, as they do when a connection takes too long; their lookups go on.
            ends.push(tokio::spawn(tokio::time::timeout(Duration::from_millis(1), resolver.find(look_up))));
        }
        for given_up in ends {
            assert!(given_up.await.unwrap().is_err());
        }
        let begun: Vec<usize> = begun.try_iter().collect();
        assert!(begun.len() <= CONCURRENT_LOOKUPS, "{begun:?}");
        // A name server that answers again frees them.
        drop(end);
        let found = Resolver::new(&lookups, false).find(|| Ok(vec!["1.1.1.1:0".parse().unwrap()])).await;
        assert_eq!(found.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn of_the_addresses_of_a_name_only_those_are_used_that_are_allowed() {
        let both = || Ok(vec!["10.0.0.1:0".parse().unwrap(), "1.1.1.1:0".parse().unwrap()]);
        let find = |allow_private| Resolver::new(&Lookups::default(), allow_private).find(both);
        assert_eq!(find(false).await.unwrap(), ["1.1.1.1:0".parse().unwrap()]);
        assert_eq!(find(true).await.unwrap().len(), 2);
        let private = || Ok(vec!["10.0.0.1:0".parse().unwrap()]);
        assert!(Resolver::new(&Lookups::default(), false).find(private).await.is_err());
    }

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.1.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450:4001::1",
            "64:ff9b::8.8.8.8",
            "::ffff:8.8.8.8",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.0.1",
            "168.63.129.16",
            "169.254.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "100::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "5f00::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn an_address_in_a_url_is_found_however_it_is_written() {
        for (url, address) in [
            ("http://127.0.0.1/", "127.0.0.1"),
            ("http://127.1/", "127.0.0.1"),
            ("http://2130706433/", "127.0.0.1"),
            ("http://0x7f.1/", "127.0.0.1"),
            ("http://0x7f000001:8080/", "127.0.0.1"),
            ("http://0177.0.0.01/", "127.0.0.1"),
            ("http://127.0.0.1./", "127.0.0.1"),
            ("http://１２７.０.０.１/", "127.0.0.1"),
            ("http://0/", "0.0.0.0"),
            ("http://[::1]/", "::1"),
            ("http://[::ffff:127.0.0.1]/", "::ffff:127.0.0.1"),
            ("http://[0:0:0:0:0:ffff:7f00:1]/", "::ffff:127.0.0.1"),
        ] {
            assert_eq!(literal(&Url::parse(url).unwrap()), Some(address.parse().unwrap()), "{url}");
        }
        assert_eq!(literal(&Url::parse("http://localhost/").unwrap()), None);
    }
}
