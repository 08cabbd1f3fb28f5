//! By which name a request calls the hub.
//!
//! A web page can have its own name resolve to 127.0.0.1 and then ask the hub on its visitor's machine, as if it were its
//! own server (DNS rebinding). It cannot choose the `Host` header, though, which has that name.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, header};
use std::net::IpAddr;

/// Whether `Host` is an IP address or `localhost`: names that no page can have resolve to something else.
pub(crate) fn is_local(headers: &HeaderMap) -> bool {
    let Some(host) = of(headers) else { return false };
    let name = host.host();
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

/// What `Host` says; `None` if it is missing, there twice, or unreadable.
pub(crate) fn of(headers: &HeaderMap) -> Option<Authority> {
    let mut given = headers.get_all(header::HOST).iter();
    let host = given.next().filter(|_| given.next().is_none())?;
    host.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_and_localhost_are_local_and_names_are_not() {
        let ask = |hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, host.parse().unwrap());
            }
            is_local(&headers)
        };
        for host in
            ["127.0.0.1", "127.0.0.1:8082", "[::1]:8082", "[::1]", "localhost", "LocalHost:1", "10.1.2.3"]
        {
            assert!(ask(&[host]), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8082",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "localhost@evil.example",
            "",
            "::1 ",
        ] {
            assert!(!ask(&[host]), "{host}");
        }
        assert!(!ask(&[]) && !ask(&["localhost", "evil.example"]));
    }
}
