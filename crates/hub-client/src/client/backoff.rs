//! How long to wait before the next try.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Exponential, with full jitter: any time from nothing to a bound that doubles with every try. Clients that lost the same
/// hub in the same moment come back spread over the whole of it.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    tries: u32,
    random: u64,
}

impl Backoff {
    pub fn new(first: Duration, longest: Duration) -> Self {
        // Its keys come from the operating system.
        Self::seeded(first, longest, RandomState::new().hash_one(0))
    }

    fn seeded(first: Duration, longest: Duration, seed: u64) -> Self {
        Self { first, longest, tries: 0, random: seed }
    }

    /// Tries since it went well.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// It went well.
    pub fn reset(&mut self) {
        self.tries = 0;
    }

    /// How long to wait now.
    pub fn next(&mut self) -> Duration {
        let wait = self.wait(self.tries);
        self.tries = self.tries.saturating_add(1);
        wait
    }

    /// How long to wait now that a connection has ended: any time up to `spread`, or up to the bound of the tries if that is
    /// longer. Everybody else of the same hub may have lost it in the same moment, and has not been spread by tries yet.
    pub fn next_after_loss(&mut self, spread: Duration) -> Duration {
        let bound = self.bound(self.tries).max(spread);
        self.tries = self.tries.saturating_add(1);
        bound.mul_f64(self.fraction())
    }

    /// How long something waits that was tried so often before: for many things with one pace.
    pub fn wait(&mut self, tries: u32) -> Duration {
        self.bound(tries).mul_f64(self.fraction())
    }

    fn bound(&self, tries: u32) -> Duration {
        let doubled = self.first.saturating_mul(1_u32.checked_shl(tries).unwrap_or(u32::MAX));
        doubled.min(self.longest)
    }

    /// From 0 to 1, by splitmix64.
    fn fraction(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as f64 / u64::MAX as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(10);

    #[test]
    fn every_wait_is_within_a_bound_that_doubles() {
        for seed in 0..500 {
            let mut backoff = Backoff::seeded(FIRST, LONGEST, seed);
            for tries in 0..100 {
                let bound = LONGEST.min(FIRST * (1 << tries.min(20)));
                let wait = backoff.next();
                assert!(wait <= bound, "{wait:?} is more than {bound:?}, after {tries} tries");
            }
            backoff.reset();
            assert!(backoff.next() <= FIRST);
        }
    }

    #[test]
    fn waits_are_spread_over_all_of_it() {
        // Of those who lost the same hub, about as many come in each tenth of the time.
        let mut tenths = [0; 10];
        for seed in 0..10_000 {
            let wait = Backoff::seeded(FIRST, LONGEST, seed).next();
            tenths[(wait.as_micros() * 10 / FIRST.as_micros()).min(9) as usize] += 1;
        }
        assert!(tenths.iter().all(|&n| (800..1200).contains(&n)), "{tenths:?}");
    }

    #[test]
    fn clients_that_lost_one_hub_do_not_come_back_together() {
        const SPREAD: Duration = Duration::from_secs(3);
        let mut tenths = [0; 10];
        for seed in 0..10_000 {
            let mut backoff = Backoff::seeded(FIRST, LONGEST, seed);
            let wait = backoff.next_after_loss(SPREAD);
            tenths[(wait.as_micros() * 10 / SPREAD.as_micros()).min(9) as usize] += 1;
            assert!(backoff.next() <= 2 * FIRST, "the next try is not as far away");
        }
        assert!(tenths.iter().all(|&n| (800..1200).contains(&n)), "{tenths:?}");
        // Tries that have come to more than that are not cut short.
        let mut backoff = Backoff::seeded(FIRST, LONGEST, 7);
        for _ in 0..20 {
            backoff.next();
        }
        let waits = (0..100).map(|_| backoff.next_after_loss(SPREAD));
        assert!(waits.max() > Some(2 * SPREAD));
    }

    #[test]
    fn no_two_clients_wait_alike() {
        let waits = |mut backoff: Backoff| (0..10).map(|_| backoff.next()).collect::<Vec<_>>();
        assert_ne!(waits(Backoff::new(FIRST, LONGEST)), waits(Backoff::new(FIRST, LONGEST)));
    }
}
