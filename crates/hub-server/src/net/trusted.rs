//! Which peers are proxies whose word about their clients counts.

use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

/// The proxies in front of a hub. The default: there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    /// Peers that may name the client of a request in `X-Forwarded-For`.
    pub trusted: TrustedProxies,
    /// Whether their connections begin with a header of the PROXY protocol, version 2.
    pub protocol: bool,
}

/// Addresses and networks of proxies. Clones share the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Arc<[IpNet]>);

/// Why a text is no entry of the list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadProxy {
    /// Neither an address nor a network.
    #[error("{0:?} is neither an address such as 10.0.0.5 nor a network such as 10.0.0.0/8")]
    NoAddress(String),
    /// A network whose address has bits behind its prefix: one of the two is a slip.
    #[error("{found} has bits behind its prefix; the network is {network}")]
    HostBits {
        /// As it was written.
        found: String,
        /// The network that has this address.
        network: String,
    },
}

impl TrustedProxies {
    /// The list of these addresses and networks (CIDR).
    ///
    /// # Errors
    /// [`BadProxy`] for the first one that is neither.
    pub fn parse<S: AsRef<str>>(list: &[S]) -> Result<Self, BadProxy> {
        list.iter().map(|one| network(one.as_ref())).collect::<Result<Arc<[_]>, _>>().map(Self)
    }

    /// Whether an address is in the list.
    pub fn contains(&self, ip: IpAddr) -> bool {
        // A socket that listens on `::` sees IPv4 as `::ffff:a.b.c.d`.
        let ip = ip.to_canonical();
        self.0.iter().any(|network| network.contains(&ip))
    }

    /// Whether no proxy is trusted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for TrustedProxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&list.join(", "))
    }
}

fn network(text: &str) -> Result<IpNet, BadProxy> {
    if let Ok(ip) = IpAddr::from_str(text) {
        return Ok(ip.to_canonical().into());
    }
    let network = IpNet::from_str(text).map_err(|_| BadProxy::NoAddress(text.to_owned()))?;
    match network.trunc() == network {
        true => Ok(network),
        false => Err(BadProxy::HostBits { found: text.to_owned(), network: network.trunc().to_string() }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_and_networks_of_both_families_are_taken() {
        let list = TrustedProxies::parse(&["10.1.2.3", "192.168.0.0/16", "2001:db8::/32", "::1"]).unwrap();
        for trusted in ["10.1.2.3", "::ffff:10.1.2.3", "192.168.255.1", "2001:db8:1::9", "::1"] {
            assert!(list.contains(ip(trusted)), "{trusted}");
        }
        for other in ["10.1.2.4", "192.169.0.1", "2001:db9::1", "::2", "127.0.0.1"] {
            assert!(!list.contains(ip(other)), "{other}");
        }
        assert!(!TrustedProxies::default().contains(ip("127.0.0.1")));
        assert!(TrustedProxies::parse(&["::ffff:10.0.0.1"]).unwrap().contains(ip("10.0.0.1")));
    }

    #[test]
    fn what_is_neither_an_address_nor_a_network_is_refused() {
        for bad in ["", "proxy.example", "10.0.0.0/33", "10.0.0/8", "10.0.0.1:80", "*", "10.0.0.0/8 "] {
            assert!(matches!(TrustedProxies::parse(&[bad]), Err(BadProxy::NoAddress(_))), "{bad}");
        }
        let said = TrustedProxies::parse(&["10.1.2.3/8"]).unwrap_err().to_string();
        assert_eq!(said, "10.1.2.3/8 has bits behind its prefix; the network is 10.0.0.0/8");
    }
}
