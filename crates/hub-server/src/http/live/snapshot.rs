//! One sample: what every viewer sees a part of.

use super::rows::{GroupFigures, GroupRow, TopicRow};
use super::table::{Slot, Table};
use hub_core::{DurationBuckets, GroupSample, Health, Millis, Reason, TopicSample};
use hub_proto::{GroupName, TopicName};
use std::cmp::Reverse;
use std::sync::OnceLock;

/// See the module. It does not change; the next one shares with it what has not.
pub(super) struct Snapshot {
    /// Counts tables that were filled anew: places in one mean nothing in the next.
    pub generation: u64,
    /// Counts samples.
    pub number: u64,
    /// When it was taken, by the wall clock.
    pub ts: Millis,
    pub topics: Table<TopicRow>,
    pub groups: Table<GroupRow>,
    /// What was published in the last minute, by the places of the topics.
    pub busy_topics: Vec<(u32, TopicSample)>,
    /// What groups did in the last minute, by their places.
    pub busy_groups: Vec<BusyRow>,
    /// Groups that have given up events in the last hour, those with the most first.
    pub given_up: Vec<GivenUp>,
    pub health: Health,
    busiest: OnceLock<Vec<u32>>,
    troubled: OnceLock<Vec<u32>>,
}

/// What a group did in the last second.
pub(super) struct BusyRow {
    pub at: u32,
    pub second: GroupSample,
    pub latency: DurationBuckets,
    pub handler: DurationBuckets,
}

/// A group that has given up events.
pub(super) struct GivenUp {
    pub topic: TopicName,
    pub group: GroupName,
    pub count: u64,
    pub last: Millis,
}

impl Snapshot {
    pub fn new(generation: u64, number: u64, ts: Millis) -> Self {
        Self {
            generation,
            number,
            ts,
            topics: Table::default(),
            groups: Table::default(),
            busy_topics: Vec::new(),
            busy_groups: Vec::new(),
            given_up: Vec::new(),
            health: Health::default(),
            busiest: OnceLock::new(),
            troubled: OnceLock::new(),
        }
    }

    /// The places of the topics to which the most was published in the last minute, the busiest first.
    pub fn busiest(&self) -> &[u32] {
        self.busiest.get_or_init(|| {
            let rate = |at: u32| self.topics.get(at).map_or(0.0, |slot| slot.row.rates.minute.published);
            let mut busy: Vec<(f64, u32)> = self.busy_topics.iter().map(|(at, _)| (rate(*at), *at)).collect();
            busy.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            busy.into_iter().map(|(_, at)| at).collect()
        })
    }

    /// The places of the groups that have events, and deliver none or only fail, the worst first.
    pub fn troubled(&self) -> &[u32] {
        self.troubled.get_or_init(|| {
            let is_troubled = |figures: GroupFigures| figures.is_stalled || figures.is_failing;
            let troubled = self.groups.iter().filter(|(_, slot)| is_troubled(slot.figures));
            let order = |(at, slot): (u32, &Slot<GroupRow>)| {
                (Reverse(severity_of(slot)), Reverse(slot.row.status.lag), at)
            };
            let mut troubled: Vec<_> = troubled.map(order).collect();
            troubled.sort_unstable();
            troubled.into_iter().map(|(.., at)| at).collect()
        })
    }
}

/// How much a group that only fails needs a person.
const FAILING: u8 = 5;

/// How much a group needs a person.
pub(super) fn severity_of(slot: &Slot<GroupRow>) -> u8 {
    let failing = if slot.figures.is_failing { FAILING } else { 0 };
    slot.row.status.reason.map_or(0, severity).max(failing)
}

/// How much a reason needs a person: the higher, the more.
fn severity(reason: Reason) -> u8 {
    match reason {
        Reason::StoreUnavailable => 9,
        Reason::ParkedFull => 8,
        Reason::KeyBlocked | Reason::EndpointFailing => 7,
        Reason::NoMembers => 6,
        Reason::WindowFull => 5,
        Reason::Backoff | Reason::Paused => 4,
        Reason::RateLimited => 3,
        Reason::TakingOver => 2,
        _ => 1,
    }
}
