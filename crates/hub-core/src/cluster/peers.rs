//! Who is alive, as far as one observer can tell.

use crate::Millis;
use crate::store::{Heartbeat, HubId, HubInfo};
use std::collections::BTreeMap;

/// Heartbeats as they were seen. Time in which the observer could not read counts for nobody's death.
pub(super) struct Peers {
    dead_after: Millis,
    seen: BTreeMap<HubId, Seen>,
    /// When the last read began.
    read_at: Millis,
}

struct Seen {
    info: HubInfo,
    count: u64,
    /// When the count was first seen as it is.
    since: Millis,
}

impl Peers {
    pub fn new(dead_after: Millis) -> Self {
        Self { dead_after, seen: BTreeMap::new(), read_at: 0 }
    }

    /// Takes note of a read that began and ended at these times. Answers whether there is a hub that was not there before.
    pub fn observe(&mut self, began: Millis, ended: Millis, beats: Vec<Heartbeat>) -> bool {
        // Whoever could not look, or not write to be seen: a store that was away was away for all.
        let blind = began.saturating_sub(self.read_at) > self.dead_after / 2;
        let mut before = std::mem::take(&mut self.seen);
        let mut is_new = false;
        for Heartbeat { hub, count } in beats {
            let since = match before.remove(&hub.id) {
                Some(seen) if seen.count == count && !blind => seen.since,
                Some(_) => ended,
                None => {
                    is_new = true;
                    ended
                }
            };
            self.seen.insert(hub.id, Seen { info: hub, count, since });
        }
        self.read_at = began;
        is_new
    }

    /// The hub, if it is not known to be dead. One that is not there has left.
    pub fn living(&self, hub: HubId) -> Option<&HubInfo> {
        self.seen.get(&hub).filter(|seen| self.stood_still(seen) < self.dead_after).map(|seen| &seen.info)
    }

    pub fn is_known(&self, hub: HubId) -> bool {
        self.seen.contains_key(&hub)
    }

    pub fn alive(&self) -> Vec<HubInfo> {
        let alive = self.seen.values().filter(|seen| self.stood_still(seen) < self.dead_after);
        alive.map(|seen| seen.info.clone()).collect()
    }

    pub fn living_ids(&self) -> Vec<HubId> {
        let alive = self.seen.iter().filter(|(_, seen)| self.stood_still(seen) < self.dead_after);
        alive.map(|(&id, _)| id).collect()
    }

    pub fn dead_for(&self, time: Millis) -> Vec<HubId> {
        let dead = self.seen.iter().filter(|(_, seen)| self.stood_still(seen) >= time);
        dead.map(|(&id, _)| id).collect()
    }

    fn stood_still(&self, seen: &Seen) -> Millis {
        self.read_at.saturating_sub(seen.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub() -> HubInfo {
        HubInfo { id: HubId::random(), address: String::new(), started: 0, version: String::new() }
    }

    fn beat(hub: &HubInfo, count: u64) -> Heartbeat {
        Heartbeat { hub: hub.clone(), count }
    }

    #[test]
    fn a_hub_whose_count_stands_still_long_enough_is_dead() {
        let (mut peers, hub) = (Peers::new(4000), hub());
        for at in (0..=4000).step_by(500) {
            peers.observe(at, at + 10, vec![beat(&hub, 7)]);
            assert!(peers.living(hub.id).is_some(), "at {at}");
        }
        peers.observe(4500, 4510, vec![beat(&hub, 7)]);
        assert!(peers.living(hub.id).is_none());
        peers.observe(5000, 5010, vec![beat(&hub, 8)]);
        assert!(peers.living(hub.id).is_some(), "it was only slow");
    }

    #[test]
    fn time_in_which_nothing_could_be_read_counts_for_nobody() {
        let (mut peers, hub) = (Peers::new(4000), hub());
        peers.observe(1000, 1000, vec![beat(&hub, 7)]);
        peers.observe(60_000, 60_000, vec![beat(&hub, 7)]);
        assert!(peers.living(hub.id).is_some());
        peers.observe(62_000, 62_000, vec![beat(&hub, 7)]);
        peers.observe(64_000, 64_000, vec![beat(&hub, 7)]);
        assert!(peers.living(hub.id).is_none());
    }

    #[test]
    fn a_hub_that_took_its_heartbeat_with_it_has_left() {
        let (mut peers, one, two) = (Peers::new(4000), hub(), hub());
        assert!(peers.observe(0, 0, vec![beat(&one, 1), beat(&two, 1)]));
        assert!(!peers.observe(500, 500, vec![beat(&one, 2)]));
        assert!(peers.living(two.id).is_none() && !peers.is_known(two.id));
    }
}
