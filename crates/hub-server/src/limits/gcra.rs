//! One token bucket, as the generic cell rate algorithm keeps it: a single point in time.
//!
//! The point is when the bucket will be full again. Taking moves it on by what the events cost, and it may be at most a
//! second ahead: so a bucket holds one second's worth, a bucket in the past is full, and the rate can change without
//! touching it. Nothing here takes by itself: [`after`] says where the point would be, and the caller, once *all* buckets
//! of a batch have said yes, puts it there. That is why this is not one of the crates for it: they check and take in one.

/// Nanoseconds since some fixed moment: when a bucket is full again.
pub(crate) type FullAt = u64;

/// How far ahead a bucket may be.
const SECOND: u64 = 1_000_000_000;

/// Why a batch does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// It fits after so many nanoseconds.
    Wait(u64),
    /// It never fits: the bucket holds fewer, and is full after so many nanoseconds.
    Never(u64),
}

/// Where `n` events leave a bucket that takes `rate` of them per second.
pub(crate) fn after(full_at: FullAt, now: u64, rate: u32, n: u64) -> Result<FullAt, Refused> {
    let full_at = full_at.max(now);
    if n > u64::from(rate) {
        return Err(Refused::Never(full_at - now));
    }
    if n == 0 {
        return Ok(full_at);
    }
    // `n` is at most `rate`, so neither the product overflows nor is the cost over a second. Rounded down, so that
    // events one by one are as many as in one batch; that gives less than a nanosecond away per batch.
    take(full_at, now, (n * SECOND / u64::from(rate)).max(1), SECOND).map_err(Refused::Wait)
}

/// Where taking `cost` leaves a bucket that holds `capacity`; both are the nanoseconds in which as much flows back.
///
/// # Errors
/// The nanoseconds after which it fits.
pub(crate) fn take(full_at: FullAt, now: u64, cost: u64, capacity: u64) -> Result<FullAt, u64> {
    let next = full_at.max(now) + cost;
    match next.checked_sub(now + capacity) {
        None | Some(0) => Ok(next),
        Some(over) => Err(over),
    }
}

/// Where `n` events leave a bucket that has to take them, whether there is room or not.
pub(super) fn owing(full_at: FullAt, now: u64, rate: u32, n: u64) -> FullAt {
    let cost = u128::from(n) * u128::from(SECOND) / u128::from(rate.max(1));
    let owed = full_at.max(now).saturating_add(u64::try_from(cost).unwrap_or(u64::MAX));
    owed.min(now.saturating_add(SECOND + MAX_DEBT))
}

/// The longest that a bucket can be in debt.
const MAX_DEBT: u64 = 60 * SECOND;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bucket_holds_a_second_s_worth() {
        let full = after(0, 5 * SECOND, 10, 10).unwrap();
        assert_eq!(full, 6 * SECOND);
        assert_eq!(after(full, 5 * SECOND, 10, 1), Err(Refused::Wait(SECOND / 10)));
        assert_eq!(after(full, 5 * SECOND + SECOND / 10, 10, 1), Ok(6 * SECOND + SECOND / 10));
    }

    #[test]
    fn one_by_one_as_many_fit_as_at_once() {
        for rate in [1, 3, 7, 700, 2_000, 9_999] {
            let mut full_at = 0;
            for _ in 0..rate {
                full_at = after(full_at, 0, rate, 1).unwrap();
            }
            assert!(matches!(after(full_at, 0, rate, 1), Err(Refused::Wait(_))), "{rate}");
        }
    }

    #[test]
    fn a_rate_of_nothing_lets_nothing_through() {
        assert_eq!(after(0, 0, 0, 1), Err(Refused::Never(0)));
    }

    proptest! {
        #[test]
        fn after_exactly_the_wait_it_fits_and_not_before(
            rate in 1..2_000_000u32, ahead in 0..=SECOND, now in 0..1u64 << 50, part in 0.0..=1.0f64,
        ) {
            let n = ((f64::from(rate) * part) as u64).clamp(1, u64::from(rate));
            if let Err(refused) = after(now + ahead, now, rate, n) {
                let Refused::Wait(wait) = refused else { panic!("{n} of {rate} can fit") };
                prop_assert!(after(now + ahead, now + wait, rate, n).is_ok());
                prop_assert!(after(now + ahead, now + wait - 1, rate, n).is_err());
            }
        }

        #[test]
        fn in_any_stretch_of_time_no_more_passes_than_the_rate_and_one_burst(
            rate in 1..5_000u32, steps in proptest::collection::vec((0..SECOND / 4, 1..400u64), 1..60),
        ) {
            let (mut now, mut full_at, mut passed) = (0, 0, 0);
            for (pause, n) in steps {
                now += pause;
                if let Ok(next) = after(full_at, now, rate, n) {
                    full_at = next;
                    passed += n;
                }
            }
            // One more, for what rounding gives away.
            let allowed = u64::from(rate) + now * u64::from(rate) / SECOND + 1;
            prop_assert!(passed <= allowed, "{passed} of {allowed}");
        }
    }
}
