//! Sharing slots among drainers.
//!
//! The whole of it is one small record in the database, which drainers change by compare-and-set. Whoever does not renew
//! its entry in time has lost its slots. A drainer that has too many gives some up, when it holds nothing of them any more.

use crate::Millis;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Slots of an outbox: as many drainers can have work.
pub const SLOTS: usize = 32;

/// The slot of a row: by its key, or by its name if it has none. It must never change, or two drainers of different
/// versions would share a key.
pub fn slot_of(key: Option<&str>, id: &str) -> usize {
    // FNV-1a, and what it takes to make its high bits good ones.
    let bytes = key.unwrap_or(id).as_bytes();
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> 59) as usize
}

/// Who has which slots.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Shares {
    /// Drainers, and until when they are taken to be alive, on the database's clock.
    #[serde(default)]
    pub workers: BTreeMap<Arc<str>, Millis>,
    /// The drainer of each slot.
    #[serde(default)]
    pub slots: Vec<Option<Arc<str>>>,
    /// Drainers whose hub takes no events. They have no slots, as long as there are others.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub away: BTreeSet<Arc<str>>,
}

/// What a drainer did to the shares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Drainers that were found dead.
    pub dead: Vec<Arc<str>>,
    /// This one had been found dead, or is new.
    pub joined: bool,
}

impl Shares {
    /// A drainer says that it is alive, and whether its hub is away; buries those that are not, and takes its part. It keeps
    /// slots that it is `busy` with, even if they are too many.
    pub(super) fn attend(
        &mut self,
        me: &Arc<str>,
        now: Millis,
        lease: Millis,
        is_away: bool,
        busy: impl Fn(usize) -> bool,
    ) -> Change {
        self.slots.resize(SLOTS, None);
        let mut change = Change::default();
        self.workers.retain(|worker, until| {
            let lives = *until > now;
            if !lives && worker != me {
                change.dead.push(worker.clone());
            }
            lives
        });
        change.joined = self.workers.insert(me.clone(), now + lease).is_none();
        if change.joined {
            // What it had before was somebody else's in between.
            self.drop_slots(me);
        }
        let workers = &self.workers;
        for slot in &mut self.slots {
            if slot.as_ref().is_some_and(|worker| !workers.contains_key(worker)) {
                *slot = None;
            }
        }
        match is_away {
            true => self.away.insert(me.clone()),
            false => self.away.remove(me),
        };
        self.away.retain(|worker| workers.contains_key(worker));
        let fair = self.fair(me);
        let mut mine = self.slots.iter().flatten().filter(|worker| *worker == me).count();
        for (at, slot) in self.slots.iter_mut().enumerate() {
            match slot {
                None if mine < fair => {
                    *slot = Some(me.clone());
                    mine += 1;
                }
                Some(worker) if worker == me && mine > fair && !busy(at) => {
                    *slot = None;
                    mine -= 1;
                }
                _ => {}
            }
        }
        change
    }

    /// The part of a drainer.
    fn fair(&self, me: &str) -> usize {
        match self.workers.len() - self.away.len().min(self.workers.len()) {
            0 => SLOTS.div_ceil(self.workers.len().max(1)),
            _ if self.away.contains(me) => 0,
            present => SLOTS.div_ceil(present),
        }
    }

    /// Whether there is another drainer whose hub is there.
    pub(super) fn has_present_other(&self, me: &str) -> bool {
        self.workers.keys().any(|worker| &**worker != me && !self.away.contains(worker))
    }

    /// A drainer leaves.
    pub(super) fn leave(&mut self, me: &Arc<str>) {
        self.workers.remove(me);
        self.away.remove(me);
        self.drop_slots(me);
    }

    fn drop_slots(&mut self, me: &Arc<str>) {
        for slot in &mut self.slots {
            slot.take_if(|worker| worker == me);
        }
    }

    /// Whether a drainer has a slot.
    pub(super) fn has(&self, me: &str, slot: usize) -> bool {
        self.slots.get(slot).and_then(Option::as_deref) == Some(me)
    }

    /// How many slots a drainer has beyond its part.
    pub(super) fn surplus(&self, me: &str) -> usize {
        let mine = self.slots.iter().flatten().filter(|worker| &***worker == me).count();
        mine.saturating_sub(self.fair(me))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(shares: &Shares, me: &str) -> usize {
        (0..SLOTS).filter(|&slot| shares.has(me, slot)).count()
    }

    #[test]
    fn drainers_come_to_equal_parts_and_take_over_from_the_dead() {
        let [a, b, c] = ["a", "b", "c"].map(Arc::<str>::from);
        let mut shares = Shares::default();
        assert!(shares.attend(&a, 0, 10, false, |_| true).joined);
        assert_eq!(of(&shares, "a"), SLOTS);
        // One that comes gets nothing before the other has let go.
        shares.attend(&b, 1, 10, false, |_| true);
        assert_eq!((of(&shares, "a"), of(&shares, "b")), (SLOTS, 0));
        assert_eq!(shares.surplus("a"), SLOTS / 2);
        shares.attend(&a, 2, 10, false, |slot| slot == 0);
        shares.attend(&b, 3, 10, false, |_| true);
        assert_eq!((of(&shares, "a"), of(&shares, "b")), (SLOTS / 2, SLOTS / 2));
        assert!(shares.has("a", 0), "it was busy with that one");
        shares.attend(&c, 4, 10, false, |_| true);
        for worker in [&a, &b, &c, &a, &b] {
            shares.attend(worker, 5, 10, false, |_| false);
        }
        let parts = ["a", "b", "c"].map(|worker| of(&shares, worker));
        assert_eq!(parts.iter().sum::<usize>(), SLOTS);
        assert!(parts.iter().all(|part| (10..=11).contains(part)), "{parts:?}");
        // b says nothing any more.
        let change = shares.attend(&a, 15, 10, false, |_| false);
        assert_eq!(change.dead, [b.clone(), c.clone()]);
        assert_eq!(of(&shares, "a"), SLOTS);
        assert!(shares.attend(&b, 16, 10, false, |_| false).joined, "it has to begin anew");
        shares.leave(&a);
        shares.attend(&b, 17, 10, false, |_| false);
        assert_eq!(of(&shares, "b"), SLOTS);
    }

    #[test]
    fn a_drainer_whose_hub_is_away_leaves_its_slots_to_others() {
        let [a, b] = ["a", "b"].map(Arc::<str>::from);
        let mut shares = Shares::default();
        shares.attend(&a, 0, 10, true, |_| false);
        assert_eq!(of(&shares, "a"), SLOTS, "there is nobody else");
        shares.attend(&b, 1, 10, false, |_| false);
        assert!(shares.has_present_other("a") && !shares.has_present_other("b"));
        shares.attend(&a, 2, 10, true, |slot| slot == 3);
        shares.attend(&b, 3, 10, false, |_| false);
        assert_eq!((of(&shares, "a"), of(&shares, "b")), (1, SLOTS - 1), "it is still busy with one");
        shares.attend(&a, 4, 10, true, |_| false);
        shares.attend(&b, 5, 10, false, |_| false);
        assert_eq!((of(&shares, "a"), of(&shares, "b"), shares.surplus("b")), (0, SLOTS, 0));
        // Both are away: each has its part, and is the first to find that its hub is there again.
        shares.attend(&b, 6, 10, true, |_| false);
        shares.attend(&a, 7, 10, true, |_| false);
        assert_eq!((of(&shares, "a"), of(&shares, "b")), (SLOTS / 2, SLOTS / 2));
        shares.attend(&a, 8, 10, false, |_| false);
        shares.attend(&b, 9, 10, true, |_| false);
        shares.attend(&a, 10, 10, false, |_| false);
        assert_eq!((of(&shares, "a"), of(&shares, "b")), (SLOTS, 0));
        // What is gone is not away.
        shares.leave(&b);
        shares.attend(&a, 11, 10, false, |_| false);
        assert!(shares.away.is_empty() && !shares.has_present_other("a"));
        // Those of before do not know of it.
        let old: Shares = serde_json::from_str(r#"{"workers":{"a":7},"slots":["a"]}"#).unwrap_or_default();
        assert_eq!(serde_json::to_string(&old).unwrap_or_default(), r#"{"workers":{"a":7},"slots":["a"]}"#);
    }

    #[test]
    fn slots_are_used_alike_and_never_change() {
        let mut rows = [0; SLOTS];
        for n in 0..SLOTS * 1000 {
            rows[slot_of(Some(&format!("order-{n}")), "")] += 1;
        }
        assert!(rows.iter().all(|&rows| (800..1200).contains(&rows)), "{rows:?}");
        let slots = ["", "a", "order-1", "ü"].map(|key| slot_of(Some(key), "x"));
        assert_eq!(slots, ["", "a", "order-1", "ü"].map(|id| slot_of(None, id)));
        assert_eq!(slots, [16, 16, 15, 4], "they are in databases");
    }
}
