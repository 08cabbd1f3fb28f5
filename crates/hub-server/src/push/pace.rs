//! Requests per second.

use hub_core::Millis;

/// Lets through so many per second, a tenth of a second's worth at once.
#[derive(Debug)]
pub(super) struct Pace {
    /// Microseconds of one request; 0: no limit.
    each: u64,
    /// How far ahead of the time requests may be, in microseconds.
    ahead: u64,
    /// When all that was let through is paid for, in microseconds.
    paid_at: u64,
}

impl Pace {
    pub fn new(per_second: Option<u32>) -> Self {
        let each = per_second.map_or(0, |rate| 1_000_000 / u64::from(rate.max(1)));
        Self { each, ahead: 100_000_u64.saturating_sub(each), paid_at: 0 }
    }

    /// When the next request may be sent, if not now.
    pub fn wait_until(&self, now: Millis) -> Option<Millis> {
        let at = self.paid_at.saturating_sub(self.ahead).div_ceil(1000);
        (self.each > 0 && at > now).then_some(at)
    }

    /// A request is sent.
    pub fn take(&mut self, now: Millis) {
        self.paid_at = self.paid_at.max(now * 1000) + self.each;
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;

    #[test]
    fn so_many_are_sent_in_a_second() {
        for rate in [1, 7, 100, 5000] {
            let (mut pace, mut sent) = (Pace::new(Some(rate)), 0);
            for now in 0..10_000 {
                while pace.wait_until(now).is_none() {
                    pace.take(now);
                    sent += 1;
                }
            }
            let expected = 10 * rate;
            assert!(sent >= expected && sent <= expected + rate / 10 + 1, "{sent} at {rate}");
        }
        let mut pace = Pace::new(None);
        (0..1000).for_each(|_| pace.take(0));
        assert_eq!(pace.wait_until(0), None);
    }
}
