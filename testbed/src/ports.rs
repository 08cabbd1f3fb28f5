//! Ports for servers that can be restarted on them.
//!
//! They lie below the range that systems hand out for outgoing connections and for "any port", so nobody gets one by
//! chance while its server is down. Among processes of this user a lock per port keeps them apart.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Result, bail};
use uuid::Uuid;

use crate::cache;

const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// A port on loopback that is ours until this value is dropped.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Takes a free one.
    pub fn take() -> Result<Self> {
        let locks = cache::subdir("testbed/ports")?;
        // Anywhere, so that two who search do not try the same ones.
        let start = u16::from_le_bytes([Uuid::new_v4().as_bytes()[0], Uuid::new_v4().as_bytes()[1]]);
        for number in (0..COUNT).map(|step| FIRST + (start % COUNT + step) % COUNT) {
            let lock = cache::lock_file(&locks.join(number.to_string()))?;
            if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self { number, _lock: lock });
            }
        }
        bail!("no free port on 127.0.0.1 from {FIRST} to {}", FIRST + COUNT - 1)
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Its address on loopback.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}
