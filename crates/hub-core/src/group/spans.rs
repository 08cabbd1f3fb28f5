//! The spans `deliver`, `settle` and `dead_letter` of a group's traced events.

use super::dispatch::{Lease, MemberId};
use crate::trace::{self, LeaseEnd, Operation, Span, SpanRecorder};
use hub_proto::{Event, EventId, GroupName, TopicName, TraceContext};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The leases of traced events that members hold.
pub(super) struct LeaseSpans {
    recorder: Arc<dyn SpanRecorder>,
    topic: TopicName,
    group: GroupName,
    open: BTreeMap<u64, OpenLease>,
}

/// A lease of a traced event.
struct OpenLease {
    event: EventId,
    trace: TraceContext,
    member: MemberId,
    attempt: u32,
    since: SystemTime,
}

impl LeaseSpans {
    pub fn new(recorder: Arc<dyn SpanRecorder>, topic: TopicName, group: GroupName) -> Self {
        Self { recorder, topic, group, open: BTreeMap::new() }
    }

    /// A member received an event. The first delivery is timed from the commit; a later one has no duration.
    pub fn delivered(&mut self, lease: Lease, event: &Event) {
        let Some(trace) = trace::sampled(event.headers()) else { return };
        let now = SystemTime::now();
        let committed = SystemTime::UNIX_EPOCH + Duration::from_millis(event.committed());
        let start = if lease.attempt == 1 { committed.min(now) } else { now };
        let span_id = trace::delivery_span(trace, event.id(), &self.group, lease.attempt);
        let parent = trace.with_span(trace::publish_span(trace, event.id()));
        let operation = Operation::Deliver { group: self.group.clone(), attempt: lease.attempt };
        self.recorder.record(self.span(
            parent,
            span_id,
            operation,
            (start, now),
            event.id(),
            lease.seq,
            None,
        ));
        self.held(lease, event);
    }

    /// A member holds an event that another hub delivered.
    pub fn held(&mut self, lease: Lease, event: &Event) {
        let Some(trace) = trace::sampled(event.headers()) else { return };
        self.settled(lease.seq, LeaseEnd::Cancelled, None);
        let Lease { member, attempt, .. } = lease;
        let open = OpenLease { event: event.id(), trace, member, attempt, since: SystemTime::now() };
        self.open.insert(lease.seq, open);
    }

    /// The lease of an event ended, if the event is traced.
    pub fn settled(&mut self, seq: u64, outcome: LeaseEnd, reason: Option<&str>) {
        let Some(OpenLease { event, trace, attempt, since, .. }) = self.open.remove(&seq) else { return };
        let delivery = trace::delivery_span(trace, event, &self.group, attempt);
        let parent = trace.with_span(delivery);
        let span_id = trace::derived(parent, event, &[b"settle"]);
        let error = outcome.is_failure().then(|| reason.unwrap_or(outcome.as_str()).to_owned());
        let operation = Operation::Settle { group: self.group.clone(), attempt, outcome };
        let times = (since, SystemTime::now().max(since));
        self.recorder.record(self.span(parent, span_id, operation, times, event, seq, error));
    }

    /// All leases of a member ended.
    pub fn member_left(&mut self, member: MemberId, outcome: LeaseEnd) {
        let of_member = |(&seq, lease): (&u64, &OpenLease)| (lease.member == member).then_some(seq);
        for seq in self.open.iter().filter_map(of_member).collect::<Vec<_>>() {
            self.settled(seq, outcome, None);
        }
    }

    /// All leases ended.
    pub fn cancelled(&mut self) {
        for seq in self.open.keys().copied().collect::<Vec<_>>() {
            self.settled(seq, LeaseEnd::Cancelled, None);
        }
    }

    /// An event was given up.
    pub fn dead_lettered(&self, event: &Event, reason: &str) {
        let Some(trace) = trace::sampled(event.headers()) else { return };
        let parent = trace.with_span(trace::publish_span(trace, event.id()));
        let now = SystemTime::now();
        let span_id = trace::derived(parent, event.id(), &[b"dead_letter", self.group.as_bytes()]);
        let operation = Operation::DeadLetter { group: self.group.clone() };
        let error = Some(reason.to_owned());
        self.recorder.record(self.span(
            parent,
            span_id,
            operation,
            (now, now),
            event.id(),
            event.seq(),
            error,
        ));
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a span but for those of the group")]
    fn span(
        &self,
        parent: TraceContext,
        span_id: u64,
        operation: Operation,
        (start, end): (SystemTime, SystemTime),
        event: EventId,
        seq: u64,
        error: Option<String>,
    ) -> Span {
        let topic = self.topic.clone();
        Span { parent, span_id, operation, start, end, topic, event, seq: Some(seq), error }
    }
}
