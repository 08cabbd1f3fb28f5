//! Failed authentications, counted per address: who tries many tokens has to wait before the next one is looked at.
//!
//! Each address has a bucket of [`BURST`] failures that refills at [`Limits::failed_auth_per_address`](super::Limits). While it is empty, attempts from
//! the address are refused without verifying their token, so verification cannot be used to keep the hub busy. Attempts that succeed take
//! nothing. An attempt takes from the bucket when it has failed, not when it begins: many clients behind one address may come with good
//! tokens at once. So attempts that are under way together can fail more often than the bucket holds; it never owes, though.
//!
//! Several clients may share an address (NAT, a proxy), and one of them may keep the bucket empty. A token that was verified lately is
//! therefore verified again whatever its address did. It is no way around the limit: once it fails, it is forgotten.

use super::gcra::{self, FullAt};
use super::recent::Recent;
use crate::net::Origin;
use foldhash::fast::RandomState;
use hub_proto::{Code, Error, Result};
use parking_lot::Mutex;
use std::hash::BuildHasher;
use std::net::IpAddr;

/// Failures of an address that may come at once.
const BURST: u64 = 10;
/// At most twice as many addresses are remembered, and as many tokens. An address that is forgotten begins with a full bucket.
const HALF: usize = 32_768;
const MINUTE: u64 = 60_000_000_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct FailedAuth {
    tables: Mutex<Tables>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Tables {
    addresses: Recent<Origin, FullAt>,
    /// Hashes of tokens that were verified lately.
    verified: Recent<u64, ()>,
}

/// An attempt to authenticate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt<'a> {
    pub from: IpAddr,
    pub token: &'a str,
    /// Failures per minute that an address may have.
    pub per_minute: u32,
}

impl Default for FailedAuth {
    fn default() -> Self {
        let tables = Tables { addresses: Recent::new(HALF), verified: Recent::new(HALF) };
        Self { tables: Mutex::new(tables), hasher: RandomState::default() }
    }
}

impl FailedAuth {
    /// Refuses an attempt of an address that has failed too often.
    ///
    /// # Errors
    /// `rate_limited`, with the time after which the next attempt is looked at.
    pub fn check(&self, attempt: Attempt<'_>, now: u64) -> Result<()> {
        let Some(cost) = cost(attempt) else { return Ok(()) };
        let hash = self.hasher.hash_one(attempt.token);
        let tables = self.tables.lock();
        let Some(full_at) = tables.addresses.get(&Origin::of(attempt.from)) else { return Ok(()) };
        match gcra::take(*full_at, now, cost, BURST * cost) {
            Err(wait) if tables.verified.get(&hash).is_none() => Err(refusal(wait)),
            _ => Ok(()),
        }
    }

    /// Takes note of how an attempt ended.
    pub fn settle(&self, attempt: Attempt<'_>, failed: Option<Code>, now: u64) {
        let Some(cost) = cost(attempt) else { return };
        let hash = self.hasher.hash_one(attempt.token);
        let mut tables = self.tables.lock();
        match failed {
            None => tables.verified.set(hash, ()),
            Some(Code::JwtInvalid | Code::TokenExpired | Code::TokenRevoked) => {
                tables.verified.remove(&hash);
                let origin = Origin::of(attempt.from);
                let full_at = tables.addresses.get(&origin).copied().unwrap_or(0);
                let next = (full_at.max(now) + cost).min(now + BURST * cost);
                tables.addresses.set(origin, next);
            }
            // Nothing is known of the token: keys could not be fetched, the store is away.
            Some(_) => {}
        }
    }
}

/// The time in which one failure flows back; `None` if there is no limit.
fn cost(attempt: Attempt<'_>) -> Option<u64> {
    MINUTE.checked_div(u64::from(attempt.per_minute))
}

#[cold]
fn refusal(wait: u64) -> Error {
    let ms = wait.div_ceil(1_000_000).max(1);
    let msg = format!("too many failed authentications from this address; try again in {ms} ms");
    Error::new(Code::RateLimited, msg).with_retry_after(ms)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::net::Ipv6Addr;

    const SECOND: u64 = 1_000_000_000;

    fn attempt(from: &str) -> Attempt<'static> {
        Attempt { from: from.parse().unwrap(), token: "bad", per_minute: 60 }
    }

    fn fail(failed: &FailedAuth, attempt: Attempt<'_>, now: u64) {
        failed.settle(attempt, Some(Code::JwtInvalid), now);
    }

    fn wait_of(answer: Result<()>) -> Option<u64> {
        answer.err().map(|error| {
            assert_eq!(error.code, Code::RateLimited);
            error.retry_after_ms.unwrap()
        })
    }

    #[test]
    fn ten_failures_pass_at_once_and_then_one_per_second() {
        let (failed, one) = (FailedAuth::default(), attempt("10.0.0.1"));
        for _ in 0..10 {
            failed.check(one, 5 * SECOND).unwrap();
            fail(&failed, one, 5 * SECOND);
        }
        assert_eq!(wait_of(failed.check(one, 5 * SECOND)), Some(1_000));
        assert_eq!(wait_of(failed.check(one, 6 * SECOND - 1)), Some(1));
        assert_eq!(wait_of(failed.check(one, 6 * SECOND)), None);
        fail(&failed, one, 6 * SECOND);
        assert_eq!(wait_of(failed.check(one, 6 * SECOND)), Some(1_000));
        assert_eq!(wait_of(failed.check(attempt("10.0.0.2"), 6 * SECOND)), None, "another address");
        assert_eq!(wait_of(failed.check(attempt("::ffff:10.0.0.1"), 6 * SECOND)), Some(1_000), "the same");
        let unlimited = Attempt { per_minute: 0, ..one };
        assert_eq!(wait_of(failed.check(unlimited, 6 * SECOND)), None);
    }

    #[test]
    fn an_address_never_waits_for_more_than_one_failure_to_flow_back() {
        let (failed, one) = (FailedAuth::default(), attempt("10.0.0.1"));
        for _ in 0..1_000 {
            fail(&failed, one, SECOND);
        }
        assert_eq!(wait_of(failed.check(one, SECOND)), Some(1_000));
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let failed = FailedAuth::default();
        for n in 0..10 {
            fail(&failed, attempt(&format!("2001:db8:0:1::{n}")), SECOND);
        }
        assert!(wait_of(failed.check(attempt("2001:db8:0:1:ffff::1"), SECOND)).is_some());
        assert_eq!(wait_of(failed.check(attempt("2001:db8:0:2::1"), SECOND)), None);
    }

    #[test]
    fn a_token_that_was_verified_is_looked_at_until_it_fails_itself() {
        let (failed, bad) = (FailedAuth::default(), attempt("10.0.0.1"));
        let good = Attempt { token: "good", ..bad };
        failed.settle(good, None, SECOND);
        for _ in 0..10 {
            fail(&failed, bad, SECOND);
        }
        assert!(failed.check(good, SECOND).is_ok() && failed.check(bad, SECOND).is_err());
        failed.settle(good, Some(Code::Unavailable), SECOND);
        assert!(failed.check(good, SECOND).is_ok(), "that was not its fault");
        failed.settle(good, Some(Code::TokenRevoked), SECOND);
        assert!(failed.check(good, SECOND).is_err());
    }

    #[test]
    fn the_tables_are_bounded_however_many_addresses_and_tokens_come() {
        let failed = FailedAuth::default();
        let network =
            |n: u64| Attempt { from: IpAddr::V6(Ipv6Addr::from(u128::from(n) << 64)), ..attempt("10.0.0.1") };
        for n in 0..200_000 {
            fail(&failed, network(n), SECOND);
            failed.settle(Attempt { token: &n.to_string(), ..network(n) }, None, SECOND);
        }
        for _ in 0..9 {
            fail(&failed, network(199_999), SECOND);
        }
        assert!(failed.check(network(199_999), SECOND).is_err(), "the newest is not what is dropped");
        let tables = failed.tables.lock();
        let (addresses, tokens) = (tables.addresses.len(), tables.verified.len());
        assert!((HALF..=2 * HALF).contains(&addresses), "{addresses} addresses");
        assert!((HALF..=2 * HALF).contains(&tokens), "{tokens} tokens");
    }
}
