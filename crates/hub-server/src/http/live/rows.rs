//! A topic and a group as a sample has them. Their JSON is written when the first viewer needs it, and shared by all.

use super::super::groups::Unsettled;
use super::table::Row;
use hub_core::store::Bounds;
use hub_core::{GroupSample, GroupStatus, MeasuredRates, Millis, Reason, TopicSample};
use hub_proto::{GroupName, TopicName};
use serde::Serialize;
use std::sync::OnceLock;

/// A group that has delivered nothing for so long although it has events is stalled. A busy one with a full window looks
/// the same for a moment.
const STALLED_AFTER: Millis = 3_000;
/// A group with so many failures in the last minute, and no ack, only fails: it delivers, and gets nowhere.
const FAILURES_OF_A_FAILING_GROUP: f64 = 3.0;
/// The time since when nothing was delivered is worked out from a duration, and off by a moment each time.
const SINCE_SLACK: Millis = 1_000;
/// The age of the oldest unsettled event is told anew when it has grown by so much, and by a tenth: nothing else of a stuck group changes.
const AGE_STEP: Millis = 5_000;

/// A topic.
#[derive(Debug)]
pub(super) struct TopicRow {
    pub name: TopicName,
    /// The newest seq.
    pub last: u64,
    /// The extent of its log, once it was asked for.
    pub bounds: Option<Bounds>,
    pub rates: MeasuredRates<TopicSample>,
    /// The places of its groups.
    pub groups: Vec<u32>,
    text: OnceLock<Box<[u8]>>,
}

/// What of a topic is summed up.
#[derive(Clone, Copy, Debug)]
pub(super) struct TopicFigures;

impl Row for TopicRow {
    type Figures = TopicFigures;

    fn figures(&self) -> TopicFigures {
        TopicFigures
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TopicText<'a> {
    name: &'a TopicName,
    first: u64,
    last: u64,
    events: u64,
    bytes: u64,
    last_committed: Option<Millis>,
    rates: MeasuredRates<TopicSample>,
}

impl TopicRow {
    pub fn new(
        name: TopicName,
        last: u64,
        bounds: Option<Bounds>,
        rates: MeasuredRates<TopicSample>,
        groups: Vec<u32>,
    ) -> Self {
        Self { name, last, bounds, rates, groups, text: OnceLock::new() }
    }

    /// Whether a viewer would see a difference.
    pub fn differs(&self, other: &Self) -> bool {
        (self.last, self.bounds, self.rates, &self.groups)
            != (other.last, other.bounds, other.rates, &other.groups)
    }

    /// Its JSON without the closing brace: how many groups it has depends on who looks.
    pub fn text(&self) -> &[u8] {
        self.text.get_or_init(|| {
            let Bounds { first, last, events, bytes, last_committed } = self.bounds.unwrap_or_default();
            let last_committed = (last > 0).then_some(last_committed);
            let (name, rates) = (&self.name, self.rates);
            let mut text = json(&TopicText { name, first, last, events, bytes, last_committed, rates });
            text.pop();
            text.into()
        })
    }
}

/// A group.
#[derive(Debug)]
pub(super) struct GroupRow {
    pub status: GroupStatus,
    pub rates: MeasuredRates<GroupSample>,
    is_stalled: bool,
    is_failing: bool,
    text: OnceLock<Box<[u8]>>,
    problem: OnceLock<Box<[u8]>>,
}

/// What of a group is summed up.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupFigures {
    pub lag: u64,
    pub inflight: u32,
    pub is_stalled: bool,
    pub is_failing: bool,
}

impl Row for GroupRow {
    type Figures = GroupFigures;

    fn figures(&self) -> GroupFigures {
        let GroupStatus { lag, inflight, .. } = self.status;
        let inflight = u32::try_from(inflight).unwrap_or(u32::MAX);
        GroupFigures { lag, inflight, is_stalled: self.is_stalled, is_failing: self.is_failing }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusText<'a> {
    topic: &'a TopicName,
    group: &'a GroupName,
    #[serde(skip_serializing_if = "Option::is_none")]
    floor: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<u64>,
    lag: u64,
    inflight: usize,
    parked: usize,
    members: usize,
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_unsettled: Option<Unsettled>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rates: Option<MeasuredRates<GroupSample>>,
    /// Of a problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failing: Option<bool>,
}

impl GroupRow {
    pub fn new(status: GroupStatus, rates: MeasuredRates<GroupSample>, now: Millis) -> Self {
        let is_quiet = |since: Millis| now.saturating_sub(since) >= STALLED_AFTER;
        let is_stalled = status.lag > 0
            && status.reason.is_some_and(|reason| reason != Reason::CaughtUp && reason != Reason::Elsewhere)
            && status.since.is_none_or(is_quiet);
        let failures = rates.minute.nacked * 60.0;
        let is_failing =
            status.lag > 0 && rates.minute.acked == 0.0 && failures.round() >= FAILURES_OF_A_FAILING_GROUP;
        Self { status, rates, is_stalled, is_failing, text: OnceLock::new(), problem: OnceLock::new() }
    }

    /// Whether a viewer would see a difference.
    pub fn differs(&self, other: &Self) -> bool {
        let essence = |row: &Self| {
            let GroupStatus { floor, last, inflight, parked, members, reason, oldest, .. } = row.status;
            let oldest = oldest.map(|oldest| oldest.seq);
            (floor, last, inflight, parked, members, reason, oldest, row.rates, row.is_stalled)
        };
        let age = |row: &Self| row.status.oldest.and_then(|oldest| oldest.age);
        essence(self) != essence(other)
            || is_apart(self.status.since, other.status.since, SINCE_SLACK)
            || is_apart(age(self), age(other), AGE_STEP.max(age(other).unwrap_or_default() / 10))
    }

    /// Its JSON.
    pub fn text(&self) -> &[u8] {
        self.text.get_or_init(|| {
            let status = &self.status;
            let (floor, last, rates) = (Some(status.floor), Some(status.last), Some(self.rates));
            json(&StatusText { floor, last, rates, ..self.status_text() }).into()
        })
    }

    /// The JSON of the problem that it is.
    pub fn problem(&self) -> &[u8] {
        self.problem.get_or_init(|| {
            let failing = self.is_failing.then_some(true);
            json(&StatusText { kind: Some("group"), failing, ..self.status_text() }).into()
        })
    }

    fn status_text(&self) -> StatusText<'_> {
        let GroupStatus { topic, group, lag, inflight, parked, members, reason, since, oldest, .. } =
            &self.status;
        StatusText {
            topic,
            group,
            floor: None,
            last: None,
            lag: *lag,
            inflight: *inflight,
            parked: *parked,
            members: *members,
            reason: reason.map(Reason::as_str),
            since: *since,
            oldest_unsettled: oldest.map(Unsettled::from),
            rates: None,
            kind: None,
            failing: None,
        }
    }
}

/// Whether two times differ by more than this, or only one of them is there.
fn is_apart(one: Option<Millis>, other: Option<Millis>, slack: Millis) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.abs_diff(other) > slack,
        (one, other) => one.is_some() != other.is_some(),
    }
}

/// The JSON of something that has only texts and numbers in it, which cannot fail to be written.
pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
