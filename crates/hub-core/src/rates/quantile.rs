//! Durations in buckets, two per doubling: a quantile is off by a fifth at most, and exact up to 3 ms.

use serde::Serialize;

const BUCKETS: usize = 48;

/// How many durations fell into each bucket. Those of several groups can be merged, which their quantiles cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets([u32; BUCKETS]);

impl Default for Buckets {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

/// Durations that half, and 99 of a hundred, did not exceed, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
}

impl Buckets {
    pub(crate) fn add(&mut self, millis: u64) {
        let bucket = &mut self.0[bucket_of(millis)];
        *bucket = bucket.saturating_add(1);
    }

    /// Adds the durations of another one.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, more) in self.0.iter_mut().zip(other.0) {
            *bucket = bucket.saturating_add(more);
        }
    }

    /// `None` if nothing was counted.
    pub fn quantiles(&self) -> Option<Quantiles> {
        let count: u64 = self.0.iter().map(|&bucket| u64::from(bucket)).sum();
        let at = |share: f64| {
            let wanted = ((count as f64 * share).ceil() as u64).max(1);
            let mut seen = 0;
            let bucket = self.0.iter().position(|&bucket| {
                seen += u64::from(bucket);
                seen >= wanted
            });
            middle_of(bucket.unwrap_or(0))
        };
        (count > 0).then(|| Quantiles { p50: at(0.5), p99: at(0.99) })
    }
}

/// 0, 1, 2, 3, 4 and 5, 6 and 7, 8 to 11, 12 to 15, and so on.
fn bucket_of(millis: u64) -> usize {
    let Some(power) = millis.checked_ilog2() else { return 0 };
    let half = if power == 0 { 0 } else { millis >> (power - 1) & 1 };
    (1 + 2 * power as usize + half as usize).min(BUCKETS - 1)
}

/// A duration that stands for a bucket: its middle, or what is off by the same share of both ends if that is less.
fn middle_of(bucket: usize) -> f64 {
    let Some(at) = bucket.checked_sub(1) else { return 0.0 };
    let (power, half) = ((at / 2) as u32, (at % 2) as u64);
    let low = (1_u64 << power) + (half << power >> 1);
    let width = ((1_u64 << power) >> 1).max(1);
    (low as f64 + (width - 1) as f64 / 2.0).min(low as f64 * 1.2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_counted_has_no_quantiles() {
        assert_eq!(Buckets::default().quantiles(), None);
    }

    #[test]
    fn small_durations_are_exact() {
        for millis in 0..=3 {
            let mut buckets = Buckets::default();
            buckets.add(millis);
            let quantiles = buckets.quantiles().expect("one was counted");
            assert_eq!((quantiles.p50, quantiles.p99), (millis as f64, millis as f64));
        }
    }

    proptest! {
        #[test]
        fn a_duration_is_off_by_a_fifth_at_most(millis in 1_u64..8_000_000) {
            let found = middle_of(bucket_of(millis));
            prop_assert!((found - millis as f64).abs() <= millis as f64 / 5.0, "{} for {}", found, millis);
        }
    }
}
