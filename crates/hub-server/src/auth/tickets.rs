//! Tickets: what a client that cannot send headers shows instead of its token, once.
//!
//! A ticket stands for the identity of the token that asked for it: rules, expiry and revocation are those of the token. It is remembered
//! as a hash, on this hub alone, and is gone with its first use.

use super::Identity;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_core::Millis;
use hub_proto::{Code, Error, Result, TopicName};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// How long a ticket is valid.
pub(crate) const TICKET_LIFETIME: Millis = 30_000;
/// Unused tickets of one subject.
const MAX_PER_SUBJECT: usize = 64;
/// Unused tickets of all subjects.
const MAX_IN_ALL: usize = 4096;
/// Random bytes of a ticket.
const RANDOM_BYTES: usize = 32;

/// The unused tickets of a hub. Times are those of a steady clock, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    unused: Mutex<Unused>,
}

#[derive(Debug, Default)]
struct Unused {
    by_hash: HashMap<Hash, Ticket, RandomState>,
    /// How many each subject has; the empty one is that of tokens without a subject.
    of_subject: HashMap<Arc<str>, usize, RandomState>,
    /// When each runs out, the first first. Some may have been used since.
    ends: VecDeque<(Millis, Hash)>,
}

/// What is kept of a ticket's text: who reads the hub's memory cannot use it, and a lookup tells nothing about other tickets.
type Hash = [u8; 32];

/// What a ticket stands for.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub identity: Identity,
    /// The one topic that it is for; without it, every topic that the identity may read.
    pub topic: Option<TopicName>,
    ends: Millis,
}

impl Ticket {
    fn subject(&self) -> Arc<str> {
        self.identity.subject.clone().unwrap_or_default()
    }
}

impl Tickets {
    /// Makes a ticket.
    ///
    /// # Errors
    /// `rate_limited` while the subject has too many that are unused, `unavailable` while all subjects together have.
    pub fn issue(&self, identity: Identity, topic: Option<TopicName>, now: Millis) -> Result<String> {
        let mut random = [0; RANDOM_BYTES];
        rand::fill(&mut random).map_err(|_| Error::internal("the system has no random numbers"))?;
        let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let ticket = Ticket { identity, topic, ends: now + TICKET_LIFETIME };
        let mut unused = self.unused.lock();
        unused.forget_until(now);
        unused.check_room(&ticket.subject(), now)?;
        unused.add(hash(&text), ticket);
        Ok(text)
    }

    /// Takes a ticket, which is gone from then on; `None` if there is no such ticket, or it is too old.
    pub fn redeem(&self, text: &str, now: Millis) -> Option<Ticket> {
        self.unused.lock().remove(&hash(text)).filter(|ticket| now < ticket.ends)
    }
}

impl Unused {
    fn check_room(&self, subject: &str, now: Millis) -> Result<()> {
        if self.of_subject.get(subject).is_some_and(|count| *count >= MAX_PER_SUBJECT) {
            let wait = self.ends.front().map_or(TICKET_LIFETIME, |(ends, _)| ends.saturating_sub(now)).max(1);
            let text = format!(
                "this subject has {MAX_PER_SUBJECT} tickets that are unused, which is the limit; use one, or try again in {wait} ms"
            );
            return Err(Error::new(Code::RateLimited, text).with_retry_after(wait));
        }
        match self.by_hash.len() < MAX_IN_ALL {
            true => Ok(()),
            false => Err(Error::unavailable("the hub has too many unused tickets; try again later")
                .with_retry_after(1_000)),
        }
    }

    fn add(&mut self, hash: Hash, ticket: Ticket) {
        if self.ends.len() >= 2 * MAX_IN_ALL {
            self.ends.retain(|(_, hash)| self.by_hash.contains_key(hash));
        }
        *self.of_subject.entry(ticket.subject()).or_default() += 1;
        self.ends.push_back((ticket.ends, hash));
        self.by_hash.insert(hash, ticket);
    }

    fn remove(&mut self, hash: &Hash) -> Option<Ticket> {
        let ticket = self.by_hash.remove(hash)?;
        let subject = ticket.subject();
        if let Some(count) = self.of_subject.get_mut(&subject) {
            *count -= 1;
            if *count == 0 {
                self.of_subject.remove(&subject);
            }
        }
        Some(ticket)
    }

    fn forget_until(&mut self, now: Millis) {
        while let Some((_, hash)) = self.ends.pop_front_if(|(ends, _)| *ends <= now) {
            self.remove(&hash);
        }
    }
}

fn hash(text: &str) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use hub_core::store::HubId;

    fn identity(subject: &str) -> Identity {
        let hub = HubId::random();
        Identity { subject: Some(subject.into()), peer: None, ..Identity::of_hub(hub) }
    }

    #[test]
    fn a_ticket_is_good_once_and_for_thirty_seconds() {
        let tickets = Tickets::default();
        let issue = |now| tickets.issue(identity("ada"), None, now).unwrap();
        let (first, second, third) = (issue(0), issue(0), issue(1));
        assert!(first.len() == 64 && first != second);
        assert_eq!(tickets.redeem(&first, 29_999).unwrap().identity.subject.as_deref(), Some("ada"));
        assert!(tickets.redeem(&first, 0).is_none(), "used");
        assert!(tickets.redeem(&second, 30_000).is_none(), "too old");
        assert!(tickets.redeem(&third, 30_000).is_some());
        assert!(tickets.redeem(&first[..63], 0).is_none() && tickets.redeem("", 0).is_none());
        assert!(tickets.unused.lock().of_subject.is_empty());
    }

    #[test]
    fn a_subject_has_a_bounded_number_of_unused_tickets_and_others_do_not_notice() {
        let tickets = Tickets::default();
        let mut texts: Vec<_> =
            (0..MAX_PER_SUBJECT).map(|_| tickets.issue(identity("ada"), None, 0).unwrap()).collect();
        let error = tickets.issue(identity("ada"), None, 10_000).unwrap_err();
        assert_eq!((error.code, error.retry_after_ms), (Code::RateLimited, Some(20_000)));
        tickets.issue(identity("bob"), None, 0).unwrap();
        tickets.redeem(&texts.pop().unwrap(), 0).unwrap();
        tickets.issue(identity("ada"), None, 0).unwrap();
        tickets.issue(identity("ada"), None, 30_000).unwrap();
        assert_eq!(tickets.unused.lock().by_hash.len(), 1, "what ran out makes room");
    }

    #[test]
    fn the_number_of_all_unused_tickets_and_what_used_ones_leave_behind_are_bounded() {
        let tickets = Tickets::default();
        for n in 0..MAX_IN_ALL {
            tickets.issue(identity(&(n / MAX_PER_SUBJECT).to_string()), None, 0).unwrap();
        }
        assert_eq!(tickets.issue(identity("ada"), None, 0).unwrap_err().code, Code::Unavailable);
        tickets.issue(identity("ada"), None, 30_000).unwrap();
        for _ in 0..3 * MAX_IN_ALL {
            let text = tickets.issue(identity("ada"), None, 30_000).unwrap();
            tickets.redeem(&text, 30_000).unwrap();
        }
        assert!(tickets.unused.lock().ends.len() <= 2 * MAX_IN_ALL);
    }
}
