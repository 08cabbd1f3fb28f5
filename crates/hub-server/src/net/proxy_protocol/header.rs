//! The header of the PROXY protocol, version 2, as bytes.
//!
//! ```text
//!  byte 0           12                13               14           16                  16 + length
//!  ┌────────────────┬─────────────────┬────────────────┬────────────┬──────────────────────────────┐
//!  │ signature      │ version·command │ family·protocol│ length     │ addresses and ports, TLVs    │
//!  └────────────────┴─────────────────┴────────────────┴────────────┴──────────────────────────────┘
//! ```
//!
//! Numbers are big endian. TCP over IPv4 has 12 bytes of addresses (source, destination, their ports), over IPv6 36. Extensions
//! (TLVs) are skipped.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Everything before the addresses.
const HEAD_BYTES: usize = 16;
/// The most that may follow. Proxies send less; more would only fill memory before anybody is known.
const MAX_BODY_BYTES: usize = 536;
/// The longest header.
pub(super) const MAX_BYTES: usize = HEAD_BYTES + MAX_BODY_BYTES;

/// Whose connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) enum Source {
    /// The proxy's own, or it does not say whose.
    Peer,
    /// That of this client.
    Client(SocketAddr),
}

/// What some bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// The beginning of a header that has at least so many bytes in all: no more may be read yet.
    Incomplete { at_least: usize },
    /// A header of so many bytes.
    Complete { source: Source, bytes: usize },
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::net) enum BadHeader {
    #[error("it does not begin with the signature of version 2")]
    Signature,
    #[error("its version is {0}; only version 2 is taken")]
    Version(u8),
    #[error("its command is {0}; LOCAL (0) and PROXY (1) are known")]
    Command(u8),
    #[error("its family and protocol are {0:#04x}, which is not defined")]
    Family(u8),
    #[error("{0} bytes follow its first 16; at most {MAX_BODY_BYTES} are allowed")]
    TooLong(usize),
    #[error("{found} bytes follow its first 16; its addresses need {needed}")]
    TooShort { found: usize, needed: usize },
}

/// Reads the header that `bytes` begin with. Bytes behind it are not looked at.
pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, BadHeader> {
    let seen = bytes.len().min(SIGNATURE.len());
    if bytes[..seen] != SIGNATURE[..seen] {
        return Err(BadHeader::Signature);
    }
    let Some((head, body)) = bytes.split_at_checked(HEAD_BYTES) else {
        return Ok(Parsed::Incomplete { at_least: HEAD_BYTES });
    };
    let (version, command) = (head[12] >> 4, head[12] & 0xf);
    let length = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if version != 2 {
        return Err(BadHeader::Version(version));
    }
    if command > 1 {
        return Err(BadHeader::Command(command));
    }
    if length > MAX_BODY_BYTES {
        return Err(BadHeader::TooLong(length));
    }
    let is_local = command == 0;
    let needed = match (is_local, head[13]) {
        // Whatever the rest of a LOCAL header says does not count.
        (true, _) => 0,
        (false, TCP4) => 12,
        (false, TCP6) => 36,
        (false, family) if family >> 4 > 3 || family & 0xf > 2 => return Err(BadHeader::Family(family)),
        // Not told, UDP or UNIX: no client of a TCP connection.
        (false, _) => 0,
    };
    if length < needed {
        return Err(BadHeader::TooShort { found: length, needed });
    }
    let bytes = HEAD_BYTES + length;
    let Some(body) = body.get(..length) else {
        return Ok(Parsed::Incomplete { at_least: bytes });
    };
    let source = match needed {
        12 => client(<[u8; 4]>::try_from(&body[..4]).ok().map(IpAddr::from), &body[8..10]),
        36 => {
            client(<[u8; 16]>::try_from(&body[..16]).ok().map(|ip| Ipv6Addr::from(ip).into()), &body[32..34])
        }
        _ => Source::Peer,
    };
    Ok(Parsed::Complete { source, bytes })
}

const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;

fn client(ip: Option<IpAddr>, port: &[u8]) -> Source {
    let port = <[u8; 2]>::try_from(port).map(u16::from_be_bytes);
    match (ip, port) {
        (Some(ip), Ok(port)) => Source::Client(SocketAddr::new(ip, port)),
        _ => Source::Peer,
    }
}

#[cfg(test)]
pub(super) mod tests;
