//! UUIDs of version 7 that never go back.

use parking_lot::Mutex;
use uuid::{NoContext, Timestamp, Uuid};

use super::EventId;

/// Bits of a version 7 UUID below its 48-bit time, without version and variant.
const RANDOM_BITS: u32 = 74;

/// Makes event ids: UUIDs of version 7, each greater than the one before, also when the clock stands still or
/// goes back. Threads may share one generator.
///
/// ```
/// let ids = hub_proto::IdGenerator::new();
/// let first = ids.next(1_700_000_000_000);
/// assert!(ids.next(1_600_000_000_000) > first, "the clock went back, the ids did not");
/// ```
pub struct IdGenerator(Mutex<State>);

struct State {
    /// The last id without version and variant: 48 bits of milliseconds, then 74 bits. As one number, so that
    /// an overflow of the lower part carries into the time instead of being a case of its own.
    last: u128,
    random: Pcg,
}

impl IdGenerator {
    /// A generator seeded by the operating system.
    pub fn new() -> Self {
        // Each of these carries 74 bits from the operating system, in its lower part.
        let entropy = || Uuid::new_v7(Timestamp::from_unix(NoContext, 0, 0)).as_u128();
        Self::with(Pcg(entropy() ^ entropy().rotate_left(64)))
    }

    /// A generator whose ids depend only on the seed and the times given: for simulation.
    pub fn seeded(seed: u64) -> Self {
        let mut random = Pcg(u128::from(seed));
        // Seeds that differ in a few bits must not begin alike.
        random.next();
        random.next();
        Self::with(random)
    }

    fn with(random: Pcg) -> Self {
        Self(Mutex::new(State { last: 0, random }))
    }

    /// The next id, at a time in milliseconds since 1970. Times past the year 10000 count as that year.
    pub fn next(&self, now_ms: u64) -> EventId {
        let mut state = self.0.lock();
        let now = u128::from(now_ms.min(LATEST_MS)) << RANDOM_BITS;
        let value = if now >> RANDOM_BITS > state.last >> RANDOM_BITS {
            // The top bit stays clear: room to count up within the millisecond.
            now | u128::from(state.random.next()) << 9 | u128::from(state.random.next() >> 55)
        } else {
            // A random step, so that an id does not give away its neighbour.
            state.last + 1 + u128::from(state.random.next() >> 32)
        };
        state.last = value;
        drop(state);
        assemble(value)
    }
}

/// The end of the year 9999: far below 48 bits, so counting up past it cannot overflow them.
const LATEST_MS: u64 = 253_402_300_799_999;

/// Puts version 7 and the RFC's variant at their places among the 122 bits that are free.
fn assemble(value: u128) -> EventId {
    let time = value >> RANDOM_BITS;
    let high = value >> 62 & 0xfff;
    let low = value & ((1 << 62) - 1);
    EventId::from_bytes((time << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low).to_be_bytes())
}

impl Default for IdGenerator {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for IdGenerator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdGenerator").finish_non_exhaustive()
    }
}

/// PCG XSL-RR 128/64: a few instructions, and good enough for bits that only have to be unlikely to repeat.
struct Pcg(u128);

impl Pcg {
    fn next(&mut self) -> u64 {
        const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
        const INCREMENT: u128 = 0x5851_f42d_4c95_7f2d_1405_7b7e_f767_814f;
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
        let folded = (self.0 >> 64) as u64 ^ self.0 as u64;
        folded.rotate_right((self.0 >> 122) as u32)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn uuid(id: EventId) -> Uuid {
        Uuid::from_bytes(id.to_bytes())
    }

    proptest! {
        #[test]
        fn ids_increase_strictly_whatever_the_clock_does(
            seed: u64,
            times in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..5, Just(u64::MAX)], 1..50),
        ) {
            let ids = IdGenerator::seeded(seed);
            let mut last = None;
            for now in times {
                let id = ids.next(now);
                prop_assert!(Some(id) > last);
                prop_assert_eq!(uuid(id).get_version_num(), 7);
                prop_assert_eq!(uuid(id).get_variant(), uuid::Variant::RFC4122);
                last = Some(id);
            }
        }
    }

    #[test]
    fn an_id_carries_the_time_it_was_made_at() {
        let now = 1_700_000_000_123;
        let id = IdGenerator::new().next(now);
        let (seconds, nanos) = uuid(id).get_timestamp().unwrap().to_unix();
        assert_eq!(seconds * 1000 + u64::from(nanos) / 1_000_000, now);
    }

    #[test]
    fn running_out_of_a_millisecond_carries_into_the_next() {
        let ids = IdGenerator::seeded(1);
        ids.0.lock().last = (1000 << RANDOM_BITS) | ((1 << RANDOM_BITS) - 1);
        let before = assemble(ids.0.lock().last);
        let after = ids.next(1000);
        assert!(after > before);
        assert_eq!(uuid(after).get_timestamp().unwrap().to_unix(), (1, 1_000_000));
    }

    #[test]
    fn a_seed_decides_everything_and_the_system_nothing_twice() {
        let run = |ids: IdGenerator| (0..100).map(|now| ids.next(now / 3)).collect::<Vec<_>>();
        assert_eq!(run(IdGenerator::seeded(7)), run(IdGenerator::seeded(7)));
        assert_ne!(run(IdGenerator::seeded(7)), run(IdGenerator::seeded(8)));
        assert_ne!(run(IdGenerator::new()), run(IdGenerator::new()));
    }

    #[test]
    fn threads_that_share_a_generator_never_get_the_same_id() {
        let ids = IdGenerator::new();
        let made: Vec<Vec<EventId>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..2000).map(|_| ids.next(5)).collect())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for of_one_thread in &made {
            assert!(of_one_thread.is_sorted_by(|a, b| a < b));
        }
        assert_eq!(made.iter().flatten().collect::<HashSet<_>>().len(), 8000);
    }
}
