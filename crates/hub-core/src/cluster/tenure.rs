//! A group name for as long as this hub owns it.

use crate::Millis;
use crate::group::Group;
use crate::store::HubId;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_proto::TopicName;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};

/// See the module.
pub(crate) struct Tenure {
    /// 0 for a hub that is alone on its store. Goes up when the hub makes sure of what it owns.
    epoch: AtomicU64,
    /// Everything that belongs to the name has been taken over; before, nobody joins.
    arrived: AtomicBool,
    /// Deliveries may begin.
    open: AtomicBool,
    /// The name is somebody else's by now.
    lost: AtomicBool,
    waiting: Mutex<Waiting>,
    members: AtomicUsize,
    /// Members there have ever been.
    visits: AtomicU64,
    /// Since when there have been no members, on the steady clock.
    idle_since: AtomicU64,
    edges: Mutex<Edges>,
    /// Its groups, so that they are found without a look at every topic. Not kept by a hub that is alone.
    groups: Mutex<HashMap<TopicName, Weak<Group>, RandomState>>,
    /// Edges are stored one at a time, so that the last word is the last.
    pub noting: tokio::sync::Mutex<()>,
}

/// A new owner waits for reports so many times as long as for the first one, while more of them come.
const MOST_WAITS: Millis = 10;

/// Hubs that had members with the owner before, and have not said yet what those hold.
#[derive(Default)]
struct Waiting {
    /// If no report comes before then, no more are waited for.
    until: Millis,
    /// How long each report has the owner wait for the next one.
    report_for: Millis,
    /// Whatever comes: deliveries begin then.
    at_latest: Millis,
    /// Reports so far, and how many there are to come as far as is known.
    expected: HashMap<HubId, (u32, Option<u32>)>,
}

/// Hubs with members that are served here.
#[derive(Default)]
pub(crate) struct Edges {
    members: BTreeMap<HubId, usize>,
    /// What is stored of that.
    pub(super) stored: Vec<HubId>,
}

impl Edges {
    /// What should be stored, if it differs.
    pub fn unstored(&self) -> Option<Vec<HubId>> {
        let now: Vec<HubId> = self.members.keys().copied().collect();
        (now != self.stored).then_some(now)
    }
}

impl Tenure {
    /// For a hub that is alone on its store: everything is its own, for ever.
    pub fn sole() -> Self {
        let tenure = Self::new(0, [], 0, 0);
        tenure.set_arrived(true);
        tenure
    }

    /// A name just claimed; `edges` had members with the owner before. The first report has to come within `report_for`, and
    /// each next one within as long.
    pub fn new(epoch: u64, edges: impl IntoIterator<Item = HubId>, now: Millis, report_for: Millis) -> Self {
        let expected: HashMap<_, _> = edges.into_iter().map(|hub| (hub, (0, None))).collect();
        Self {
            epoch: AtomicU64::new(epoch),
            arrived: AtomicBool::new(false),
            open: AtomicBool::new(expected.is_empty()),
            lost: AtomicBool::new(false),
            waiting: Mutex::new(Waiting {
                until: now + report_for,
                report_for,
                at_latest: now + MOST_WAITS * report_for,
                expected,
            }),
            members: AtomicUsize::new(0),
            visits: AtomicU64::new(0),
            idle_since: AtomicU64::new(now),
            edges: Mutex::default(),
            groups: Mutex::default(),
            noting: tokio::sync::Mutex::default(),
        }
    }

    pub fn epoch(&self) -> u64 {
        self.epoch.load(SeqCst)
    }

    /// The name was claimed again.
    pub fn renewed(&self, epoch: u64) {
        self.epoch.fetch_max(epoch, SeqCst);
    }

    /// Whether deliveries may begin.
    pub fn is_open(&self, now: Millis) -> bool {
        if self.lost.load(SeqCst) {
            return false;
        }
        if self.open.load(SeqCst) {
            return true;
        }
        let open = now >= self.waiting.lock().until;
        if open {
            self.open.store(true, SeqCst);
        }
        open
    }

    pub fn lose(&self) {
        self.lost.store(true, SeqCst);
    }

    pub fn is_lost(&self) -> bool {
        self.lost.load(SeqCst)
    }

    pub fn set_arrived(&self, arrived: bool) {
        self.arrived.store(arrived, SeqCst);
    }

    pub fn has_arrived(&self) -> bool {
        self.arrived.load(SeqCst)
    }

    /// A member of another owner has come with what it holds. When the last one has, deliveries begin.
    pub fn reported(&self, hub: HubId, members: u32, now: Millis) {
        if self.open.load(SeqCst) {
            return;
        }
        let mut waiting = self.waiting.lock();
        if let Some((reports, all)) = waiting.expected.get_mut(&hub) {
            *reports += 1;
            // One that left after its report does not stand for another that has not come yet.
            *all = Some(members).max(*all);
            // The others are on their way, too: a hub with many members takes its time to bring all of them.
            waiting.until = (now + waiting.report_for).min(waiting.at_latest).max(waiting.until);
        }
        if waiting.expected.values().all(|(reports, all)| all.is_some_and(|all| *reports >= all)) {
            self.open.store(true, SeqCst);
        }
    }

    /// A group under this name is about to be added to its topic.
    pub fn add_group(&self, group: &Arc<Group>) {
        if self.epoch() > 0 {
            self.groups.lock().insert(group.topic.name.clone(), Arc::downgrade(group));
        }
    }

    /// It is no more.
    pub fn remove_group(&self, group: &Group) {
        let mut groups = self.groups.lock();
        if groups.get(&group.topic.name).is_some_and(|there| std::ptr::eq(there.as_ptr(), group)) {
            groups.remove(&group.topic.name);
        }
    }

    /// The groups under this name.
    pub fn groups(&self) -> Vec<Arc<Group>> {
        self.groups.lock().values().filter_map(Weak::upgrade).collect()
    }

    pub fn members(&self) -> usize {
        self.members.load(SeqCst)
    }

    /// How many members there have ever been: as long as it is the same, nobody came.
    pub fn visits(&self) -> u64 {
        self.visits.load(SeqCst)
    }

    /// Since when nobody has been here; `None` while somebody is.
    pub fn idle_since(&self) -> Option<Millis> {
        (self.members() == 0).then(|| self.idle_since.load(SeqCst))
    }

    pub fn edges(&self) -> parking_lot::MutexGuard<'_, Edges> {
        self.edges.lock()
    }

    /// One more member, at `edge` if it is connected to another hub.
    pub fn stay(self: &Arc<Self>, clock: Arc<dyn crate::Clock>) -> Stay {
        self.members.fetch_add(1, SeqCst);
        self.visits.fetch_add(1, SeqCst);
        Stay { tenure: self.clone(), clock, edge: None }
    }
}

/// Somebody needs the name: it is not given up meanwhile.
pub(crate) struct Stay {
    pub tenure: Arc<Tenure>,
    clock: Arc<dyn crate::Clock>,
    edge: Option<HubId>,
}

impl Stay {
    /// The member is connected to another hub.
    pub fn at(&mut self, edge: HubId) {
        *self.tenure.edges.lock().members.entry(edge).or_default() += 1;
        self.edge = Some(edge);
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        if let Some(edge) = self.edge {
            let mut edges = self.tenure.edges.lock();
            if let Some(members) = edges.members.get_mut(&edge) {
                *members -= 1;
                if *members == 0 {
                    edges.members.remove(&edge);
                }
            }
        }
        self.tenure.idle_since.store(self.clock.steady(), SeqCst);
        self.tenure.members.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_owner_waits_for_every_member_of_every_hub() {
        let (one, two) = (HubId::random(), HubId::random());
        let tenure = Tenure::new(1, [one, two], 0, 1000);
        assert!(!tenure.is_open(0));
        tenure.reported(one, 2, 0);
        tenure.reported(two, 1, 0);
        tenure.reported(HubId::random(), 1, 0);
        assert!(!tenure.is_open(999), "one member of the first hub is missing");
        tenure.reported(one, 2, 0);
        assert!(tenure.is_open(0));
    }

    #[test]
    fn a_member_that_has_reported_and_left_does_not_stand_for_another() {
        let hub = HubId::random();
        let tenure = Tenure::new(1, [hub], 0, 1000);
        tenure.reported(hub, 3, 0);
        // The first one has left, so there are two; the third has not said yet what it holds and acked.
        tenure.reported(hub, 2, 0);
        assert!(!tenure.is_open(999));
        tenure.reported(hub, 2, 0);
        assert!(tenure.is_open(0));
    }

    #[test]
    fn each_report_has_a_new_owner_wait_for_the_next_one_but_not_for_ever() {
        let (hub, stranger) = (HubId::random(), HubId::random());
        let tenure = Tenure::new(1, [hub], 0, 1000);
        tenure.reported(hub, 200, 900);
        assert!(!tenure.is_open(1_899));
        tenure.reported(stranger, 1, 1_800);
        assert!(tenure.is_open(1_900), "only those that are waited for count");
        let tenure = Tenure::new(1, [hub], 0, 1000);
        for now in (0..10_000).step_by(500) {
            assert!(!tenure.is_open(now));
            tenure.reported(hub, 200, now);
        }
        assert!(tenure.is_open(10_000));
    }

    #[test]
    fn a_new_owner_waits_no_longer_than_it_said() {
        let tenure = Tenure::new(1, [HubId::random()], 0, 1000);
        assert!(!tenure.is_open(999));
        assert!(tenure.is_open(1000));
        tenure.lose();
        assert!(!tenure.is_open(2000), "a lost name is never open");
    }
}
