//! For how long this hub may deliver, by its heartbeats. No clock and no I/O: only the times it is told.

use crate::Millis;

/// A hub delivers until `serve_for` after the start of its last heartbeat that came through. A heartbeat that comes through
/// later than that ends a lapse: other hubs may have found this one dead meanwhile, so it delivers nothing before it has
/// claimed its names again. Heartbeats go on beside that, however long it takes.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// The last heartbeat is good until then; 0 before the first.
    until: Millis,
    /// How many lapses there have been.
    lapses: u64,
    /// Names were claimed again after so many of them.
    renewed: u64,
}

impl Pulse {
    /// A heartbeat came through that was sent and answered at these times. True if it ends a lapse.
    pub fn beat(&mut self, sent: Millis, answered: Millis, serve_for: Millis) -> bool {
        let lapsed = self.until > 0 && answered >= self.until;
        self.lapses += u64::from(lapsed);
        self.until = self.until.max(sent + serve_for);
        lapsed
    }

    /// How many lapses there have been.
    pub fn lapses(&self) -> u64 {
        self.lapses
    }

    /// The last lapse, if names have to be claimed again because of it.
    pub fn unrenewed(&self) -> Option<u64> {
        (self.lapses > self.renewed).then_some(self.lapses)
    }

    /// Every name was claimed again, which began after this lapse.
    pub fn renew(&mut self, lapse: u64) {
        self.renewed = self.renewed.max(lapse);
    }

    /// When deliveries end; 0 while there are to be none.
    pub fn serves_until(&self) -> Millis {
        if self.unrenewed().is_some() { 0 } else { self.until }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_serves_while_its_heartbeats_follow_each_other() {
        let mut pulse = Pulse::default();
        assert_eq!(pulse.serves_until(), 0, "not before the first");
        for sent in (100..10_000).step_by(500) {
            assert!(!pulse.beat(sent, sent + 20, 3_000));
            assert_eq!(pulse.serves_until(), sent + 3_000);
        }
    }

    #[test]
    fn after_a_lapse_nothing_is_served_before_names_are_renewed_however_long_that_takes() {
        let mut pulse = Pulse::default();
        pulse.beat(0, 10, 3_000);
        assert!(pulse.beat(5_000, 5_010, 3_000));
        let lapse = pulse.unrenewed();
        for sent in (5_500..60_000).step_by(500) {
            assert!(!pulse.beat(sent, sent + 10, 3_000));
            assert_eq!(pulse.serves_until(), 0);
        }
        pulse.renew(lapse.expect("a lapse"));
        assert_eq!((pulse.serves_until(), pulse.unrenewed()), (62_500, None));
    }

    #[test]
    fn a_renewal_that_began_before_another_lapse_does_not_count() {
        let mut pulse = Pulse::default();
        pulse.beat(0, 10, 3_000);
        pulse.beat(5_000, 5_010, 3_000);
        let first = pulse.unrenewed().expect("a lapse");
        assert!(pulse.beat(8_100, 8_110, 3_000));
        pulse.renew(first);
        assert_eq!(pulse.serves_until(), 0);
        pulse.renew(pulse.unrenewed().expect("a lapse"));
        assert_eq!(pulse.serves_until(), 11_100);
    }
}
