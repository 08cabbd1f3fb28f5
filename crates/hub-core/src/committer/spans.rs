//! The spans `publish` and `commit` of traced events.

use super::answer::Place;
use crate::topic::Topic;
use crate::trace::{Operation, Span, SpanRecorder, derived, publish_span};
use hub_proto::{Draft, EventId, IdGenerator, PublishTrace, Result};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// A publish of a traced event that is under way.
pub(super) struct PublishSpan {
    /// The index of the event in its commit.
    index: usize,
    event: EventId,
    trace: PublishTrace,
}

impl PublishSpan {
    /// Those of a commit.
    pub fn all_of(events: &[Draft]) -> Vec<Self> {
        let traced = events
            .iter()
            .enumerate()
            .filter_map(|(index, draft)| draft.trace().map(|trace| Self { index, event: draft.id(), trace }));
        traced.collect()
    }
}

/// When a commit was made.
pub(super) struct CommitTime {
    pub started: Instant,
    pub took: Duration,
    pub events: usize,
}

/// Records the publishes of a commit that was made.
pub(super) fn record_publishes(
    recorder: &dyn SpanRecorder,
    traced: Vec<PublishSpan>,
    commit: &CommitTime,
    topics: &[Arc<Topic>],
    results: &[Result<Place>],
) {
    let now = SystemTime::now();
    let start = now.checked_sub(commit.started.elapsed()).unwrap_or(now);
    for PublishSpan { index, event, trace } in traced {
        let (Some(topic), Some(result)) = (topics.get(index), results.get(index)) else { continue };
        let place = result.as_ref().ok();
        let duplicate = place.is_some_and(|place| place.duplicate);
        let publish = match place {
            Some(_) if !duplicate => publish_span(trace.context, event),
            // Deliveries refer to the publish that stored the event.
            _ => derived(trace.context, IdGenerator::new().next(0), &[b"publish"]),
        };
        let span = Span {
            parent: trace.context,
            span_id: publish,
            operation: Operation::Publish { duplicate },
            start: trace.received,
            end: now,
            topic: topic.name.clone(),
            event,
            seq: place.map(|place| place.seq),
            error: result.as_ref().err().map(ToString::to_string),
        };
        recorder.record(Span {
            parent: trace.context.with_span(publish),
            span_id: derived(trace.context.with_span(publish), event, &[b"commit"]),
            operation: Operation::Commit { events: commit.events },
            start,
            end: start + commit.took,
            ..span.clone()
        });
        recorder.record(span);
    }
}
