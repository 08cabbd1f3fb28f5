//! Spans of events that belong to a trace.

use crate::world::next;
use hub_core::outbox::{Drainer, DrainerOptions, MemoryOutbox, NewRow, OutboxStore};
use hub_core::testkit::ManualClock;
use hub_core::trace::{LeaseEnd, Operation, Span, SpanRecorder};
use hub_core::{Bus, EventId, MemoryStore, Payload, Position, SystemClock, TraceContext};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Keeps what it is told.
#[derive(Default)]
struct Recorded(Mutex<Vec<Span>>);

impl SpanRecorder for Recorded {
    fn record(&self, span: Span) {
        self.0.lock().push(span);
    }
}

impl Recorded {
    /// Those of an operation, in their order.
    fn of(&self, name: &str) -> Vec<Span> {
        self.0.lock().iter().filter(|span| span.operation.name() == name).cloned().collect()
    }

    fn one(&self, name: &str) -> Span {
        let spans = self.of(name);
        assert_eq!(spans.len(), 1, "{:#?}", self.0.lock());
        spans.into_iter().next().unwrap()
    }

    /// How the leases ended.
    fn outcomes(&self) -> Vec<LeaseEnd> {
        let outcome = |span: &Span| match span.operation {
            Operation::Settle { outcome, .. } => outcome,
            _ => unreachable!(),
        };
        self.of("settle").iter().map(outcome).collect()
    }
}

async fn bus() -> (Bus, Arc<Recorded>, ManualClock) {
    let (recorded, clock) = (Arc::new(Recorded::default()), ManualClock::new());
    let bus = Bus::builder(MemoryStore::new()).clock(clock.clone()).spans(recorded.clone());
    (bus.open().await.unwrap(), recorded, clock)
}

#[tokio::test]
async fn a_publish_its_commit_its_delivery_and_its_ack_are_one_trace() {
    let (bus, recorded, _) = bus().await;
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    let receipt = bus.publish("t", json!(1)).header("traceparent", TRACE).await.unwrap();
    let delivery = next(&mut sub).await;
    let passed_on = delivery.trace_context().unwrap();
    delivery.ack().unwrap();
    let publisher = TraceContext::parse(TRACE).unwrap();
    let [publish, commit, deliver, settle] =
        ["publish", "commit", "deliver", "settle"].map(|name| recorded.one(name));
    assert_eq!(publish.parent, publisher);
    assert_eq!(commit.parent.span_id, publish.span_id);
    assert_eq!(deliver.parent.span_id, publish.span_id);
    assert_eq!(settle.parent.span_id, deliver.span_id);
    assert_eq!(
        passed_on,
        publisher.with_span(deliver.span_id),
        "what a handler does is part of the delivery"
    );
    let spans = [publish, commit, deliver, settle];
    assert_eq!(spans.iter().map(|span| span.span_id).collect::<HashSet<_>>().len(), 4);
    for span in &spans {
        assert_eq!(span.parent.trace_id, publisher.trace_id);
        assert_eq!((span.event, span.seq, span.topic.as_str()), (receipt.id, Some(1), "t"));
        assert!(span.start <= span.end && span.error.is_none(), "{span:?}");
    }
    let [publish, commit, ..] = &spans;
    assert!(publish.start <= commit.start && commit.end <= publish.end, "{publish:?} {commit:?}");
    assert_eq!(publish.operation, Operation::Publish { duplicate: false });
    assert_eq!(commit.operation, Operation::Commit { events: 1 });
    bus.stop().await.unwrap();
}

#[tokio::test]
async fn events_without_a_sampled_trace_have_no_spans() {
    let (bus, recorded, _) = bus().await;
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    bus.publish("t", json!(1)).await.unwrap();
    bus.publish("t", json!(2)).header("traceparent", TRACE.replace("-01", "-00")).await.unwrap();
    bus.publish("t", json!(3)).header("traceparent", "00-nonsense").await.unwrap();
    for _ in 0..3 {
        next(&mut sub).await.ack().unwrap();
    }
    assert!(recorded.0.lock().is_empty(), "{:?}", recorded.0.lock());
    bus.stop().await.unwrap();
}

#[tokio::test]
async fn an_event_that_is_published_again_has_a_span_of_its_own() {
    let (bus, recorded, _) = bus().await;
    let id = EventId::derived(&[b"an id"]);
    for _ in 0..2 {
        bus.publish("t", json!(1)).id(id).header("traceparent", TRACE).await.unwrap();
    }
    let conflict = bus.publish("t", json!(2)).id(id).header("traceparent", TRACE).await;
    assert!(conflict.is_err());
    let publishes = recorded.of("publish");
    let duplicates: Vec<bool> = publishes
        .iter()
        .map(|span| matches!(span.operation, Operation::Publish { duplicate: true }))
        .collect();
    assert_eq!(duplicates, [false, true, false]);
    assert_eq!(publishes.iter().map(|span| span.span_id).collect::<HashSet<_>>().len(), 3);
    assert!(
        publishes[2].error.as_deref().is_some_and(|error| error.contains("id_conflict")),
        "{publishes:?}"
    );
    bus.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_way_in_which_a_lease_ends_is_told() {
    let (bus, recorded, clock) = bus().await;
    for n in 1..=5 {
        bus.publish("t", json!(n)).header("traceparent", TRACE).await.unwrap();
    }
    let open =
        || bus.subscribe("t").group("g").from(Position::Earliest).max_in_flight(1).ack_timeout(1_000).open();
    let mut sub = open().await.unwrap();
    next(&mut sub).await.ack().unwrap();
    next(&mut sub).await.nack_after(3_600_000, "no stock").unwrap();
    next(&mut sub).await.return_after(3_600_000).unwrap();
    assert_eq!(recorded.outcomes(), [LeaseEnd::Acked, LeaseEnd::Nacked, LeaseEnd::Returned]);
    assert_eq!(recorded.of("settle")[1].error.as_deref(), Some("no stock"));
    assert_eq!(recorded.of("settle")[2].error, None, "what is given back did not fail");
    let late = next(&mut sub).await;
    clock.advance(1_500).await;
    let again = next(&mut sub).await;
    assert_eq!((late.event().seq(), again.event().seq(), again.attempt()), (4, 4, 2));
    assert_eq!(recorded.outcomes().last(), Some(&LeaseEnd::Expired));
    drop(sub);
    assert_eq!(recorded.outcomes().last(), Some(&LeaseEnd::Disconnected));
    let mut sub = open().await.unwrap();
    next(&mut sub).await;
    bus.set_cursor("t", "g", Position::Latest).await.unwrap();
    assert_eq!(recorded.outcomes().last(), Some(&LeaseEnd::Cancelled));
    assert_eq!(recorded.of("deliver").len(), recorded.of("settle").len(), "none is left open");
    bus.stop().await.unwrap();
}

#[tokio::test]
async fn an_event_that_is_given_up_is_part_of_its_trace() {
    let (bus, recorded, _) = bus().await;
    let mut sub = bus.subscribe("t").group("g").max_attempts(1).open().await.unwrap();
    let mut letters = bus.subscribe("dlq.t").group("ops").from(Position::Earliest).open().await.unwrap();
    bus.publish("t", json!(1)).header("traceparent", TRACE).await.unwrap();
    next(&mut sub).await.nack("broken").unwrap();
    next(&mut letters).await.ack().unwrap();
    let letter = recorded.one("dead_letter");
    assert_eq!(letter.parent.span_id, recorded.one("publish").span_id);
    assert_eq!(letter.error.as_deref(), Some("broken"));
    bus.stop().await.unwrap();
}

#[tokio::test]
async fn a_row_of_an_outbox_is_part_of_its_trace() {
    let (bus, recorded, _) = bus().await;
    let outbox = MemoryOutbox::new(Arc::new(SystemClock::new()));
    let row = NewRow::new("t", Payload::of(&1).unwrap()).header("traceparent", TRACE);
    let id = row.id;
    outbox.add(vec![row]).await.unwrap();
    let stop = CancellationToken::new();
    let drainer = Drainer::new(Arc::new(outbox), Arc::new(bus.clone()), DrainerOptions::default());
    let drainer = tokio::spawn(drainer.spans(recorded.clone()).run(stop.clone()));
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    next(&mut sub).await.ack().unwrap();
    stop.cancel();
    drainer.await.unwrap();
    let (relay, publish) = (recorded.one("relay"), recorded.one("publish"));
    assert_eq!((relay.parent, relay.event), (publish.parent, id));
    assert_eq!(recorded.outcomes(), [LeaseEnd::Acked]);
    bus.stop().await.unwrap();
}
