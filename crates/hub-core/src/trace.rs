//! Spans: what the bus did with an event that belongs to a trace, and when.
//!
//! An event belongs to a trace if it has a `traceparent` header ([`TraceContext`]). If the system that began the trace samples it,
//! and the bus was opened with a [`SpanRecorder`], each step becomes a [`Span`] of that trace. A bus without a recorder looks at no
//! header.
//!
//! ```text
//! span of the publisher
//! ├─ relay      from the time of the outbox row until its event is stored
//! └─ publish    from the event's arrival until its publisher is answered
//!    ├─ commit  the commit of the store that has the event
//!    ├─ deliver from the commit until a member of a group has the event
//!    │  └─ settle  until the lease ends: ack, nack, expiry, …
//!    └─ dead_letter  the event was given up
//! ```
//!
//! The ids of spans that others refer to are derived from what they are about, so hubs need not tell each other: the hub that delivers
//! an event names the span in which another hub stored it.

use hub_proto::{EventId, GroupName, TopicName, TraceContext};
use std::sync::Arc;
use std::time::SystemTime;

/// Where spans go.
pub trait SpanRecorder: Send + Sync + 'static {
    /// Takes a span that has ended. Called on the way of events, also under the lock of a group: it must not block. A recorder
    /// that cannot keep up drops spans.
    fn record(&self, span: Span);
}

/// Something that the hub did with an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The trace, with the parent of this span.
    pub parent: TraceContext,
    /// The id of this span.
    pub span_id: u64,
    /// What was done.
    pub operation: Operation,
    /// When it began.
    pub start: SystemTime,
    /// When it ended.
    pub end: SystemTime,
    /// The topic of the event.
    pub topic: TopicName,
    /// The event.
    pub event: EventId,
    /// Its place in the topic, if it has one.
    pub seq: Option<u64>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// What the hub did with an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Published a row of an outbox.
    Relay {
        /// The name of the outbox.
        outbox: Arc<str>,
    },
    /// Took an event from a publisher and answered.
    Publish {
        /// The topic had the event already.
        duplicate: bool,
    },
    /// Made the event durable.
    Commit {
        /// Events in the same commit.
        events: usize,
    },
    /// Gave the event to a member of a group.
    Deliver {
        /// The group.
        group: GroupName,
        /// Which delivery it was, from 1.
        attempt: u32,
    },
    /// Ended the lease of a member.
    Settle {
        /// The group.
        group: GroupName,
        /// Which delivery it was, from 1.
        attempt: u32,
        /// How it ended.
        outcome: LeaseEnd,
    },
    /// Gave the event up after too many failures.
    DeadLetter {
        /// The group.
        group: GroupName,
    },
}

impl Operation {
    /// Its name, as a tracing system shows it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Relay { .. } => "relay",
            Self::Publish { .. } => "publish",
            Self::Commit { .. } => "commit",
            Self::Deliver { .. } => "deliver",
            Self::Settle { .. } => "settle",
            Self::DeadLetter { .. } => "dead_letter",
        }
    }

    /// The group that it was done for.
    pub fn group(&self) -> Option<&GroupName> {
        match self {
            Self::Deliver { group, .. } | Self::Settle { group, .. } | Self::DeadLetter { group } => {
                Some(group)
            }
            Self::Relay { .. } | Self::Publish { .. } | Self::Commit { .. } => None,
        }
    }
}

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseEnd {
    /// The member acked the event.
    Acked,
    /// The member refused it.
    Nacked,
    /// The member gave it back without a failure.
    Returned,
    /// The member did not answer before the deadline.
    Expired,
    /// The member went away.
    Disconnected,
    /// The event did not reach the member.
    Unsent,
    /// The group was moved or deleted, or another hub serves it.
    Cancelled,
}

impl LeaseEnd {
    /// Its name, as a tracing system shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acked => "acked",
            Self::Nacked => "nacked",
            Self::Returned => "returned",
            Self::Expired => "expired",
            Self::Disconnected => "disconnected",
            Self::Unsent => "unsent",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether it counts as a failure of the handler.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Nacked | Self::Expired | Self::Disconnected)
    }
}

/// The trace of an event, if it is sampled.
pub(crate) fn sampled(headers: &[(String, String)]) -> Option<TraceContext> {
    TraceContext::of_headers(headers).filter(|trace| trace.is_sampled)
}

/// The id of the span in which an event was published.
pub(crate) fn publish_span(trace: TraceContext, event: EventId) -> u64 {
    derived(trace, event, &[b"publish"])
}

/// The id of the span in which an event is delivered.
pub(crate) fn delivery_span(trace: TraceContext, event: EventId, group: &str, attempt: u32) -> u64 {
    derived(trace, event, &[b"deliver", group.as_bytes(), &attempt.to_be_bytes()])
}

/// A span id that is the same wherever it is derived. The publisher's span is part of it: an event that is published again in the
/// same trace, under the same id, has other spans.
pub(crate) fn derived(trace: TraceContext, event: EventId, what: &[&[u8]]) -> u64 {
    let (trace_id, span_id) = (trace.trace_id.to_be_bytes(), trace.span_id.to_be_bytes());
    let event_id = event.to_bytes();
    let parts = [&[&b"span"[..], &trace_id, &span_id, &event_id], what].concat();
    let [.., a, b, c, d, e, f, g, h] = EventId::derived(&parts).to_bytes();
    // The first of these bytes has the variant of the UUID, so the id is never zero.
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// The time that a span begins or ends, from a number of microseconds since 1970.
pub(crate) fn at_micros(micros: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + std::time::Duration::from_micros(micros)
}
