//! Derived topics: only the hub writes and makes them.

use super::super::Lab;
use super::super::port::tools::{T0, topic};
use super::compaction::compacted;
use super::tools::{code, fill, next, soon};
use crate::{Bus, Event, Position};
use hub_proto::{Code, Draft, EventId, NewEvent, Payload, header};
use serde_json::{Value, json};
use std::sync::Arc;

async fn records(bus: &Bus, topic: &str) -> Vec<Arc<Event>> {
    bus.scan(topic, Position::Earliest, None).await.unwrap()
}

/// A record as a publisher would have written it, under an id of its choice.
fn forged(name: &str, key: Option<&str>, id_parts: &[&[u8]]) -> Draft {
    let mut event = NewEvent::new(topic(name), Payload::from(json!("forged")));
    event.options.key = key.map(str::to_owned);
    Draft::encode(event, EventId::derived(id_parts), T0)
}

pub(in super::super) async fn nobody_publishes_to_a_derived_topic(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    for name in ["dlq.t", "t.snapshot", "dlq.t.snapshot", "dlq.other", "dlq.dlq.t", "other.snapshot"] {
        assert_eq!(code(bus.publish(name, json!(1)).await), Code::Forbidden, "{name}");
        assert!(!bus.has_topic(name), "{name}");
    }
    for name in ["dlq", "snapshot", "t.dlq", "snapshot.t"] {
        bus.publish(name, json!(1)).await.unwrap();
    }
}

pub(in super::super) async fn a_subscription_to_a_derived_topic_waits_for_it(lab: Lab) {
    let bus = lab.bus().await;
    let join = |name: &str| bus.subscribe(name).group("ops").open();
    for name in ["dlq.t", "t.snapshot", "dlq.t.snapshot", "dlq.dlq.t"] {
        assert_eq!(code(join(name).await), Code::BadRequest, "{name}: there is no topic t");
        assert!(!bus.has_topic(name), "{name}");
    }
    fill(&bus, "t", [1]).await;
    let mut letters = join("dlq.t").await.unwrap();
    let mut failing =
        bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1).open().await.unwrap();
    next(&mut failing).await.nack("broken").unwrap();
    let letter = next(&mut letters).await;
    assert_eq!(letter.event().decode::<Value>().unwrap()["err"], "broken");
    assert_eq!(letter.event().header(header::DERIVED), Some("dead-letter"));
}

pub(in super::super) async fn a_dead_letter_that_somebody_else_wrote_does_not_count_as_written(lab: Lab) {
    // Two records are there when the group is made, so the first event's letter has one of these ids.
    let (born, seq) = (2u64.to_be_bytes(), 1u64.to_be_bytes());
    let forgery =
        |epoch: u64| forged("dlq.t", None, &[b"dlq", b"t", b"g", &born, &epoch.to_be_bytes(), &seq]);
    lab.port().await.append(T0, vec![forgery(0), forgery(1)]).await;
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let mut sub =
        bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1).open().await.unwrap();
    next(&mut sub).await.nack("broken").unwrap();
    let letter = soon(async {
        loop {
            match records(&bus, "dlq.t")
                .await
                .into_iter()
                .find(|record| record.header(header::DERIVED).is_some())
            {
                Some(letter) => return letter,
                None => lab.pass(1).await,
            }
        }
    });
    assert_eq!(letter.await.decode::<Value>().unwrap()["err"], "broken");
}

pub(in super::super) async fn a_snapshot_entry_that_somebody_else_wrote_does_not_count_as_written(lab: Lab) {
    let seq = 1u64.to_be_bytes();
    lab.port()
        .await
        .append(T0, vec![forged("t.snapshot", Some("a"), &[b"snapshot", b"t", b"a", &seq])])
        .await;
    let bus = lab.bus_with(compacted()).await;
    bus.publish("t", json!(5)).key("a").await.unwrap();
    bus.clean("t").await.unwrap();
    let newest = bus.latest_by_key("t.snapshot", &["a"]).await.unwrap();
    assert_eq!(newest[0].as_ref().unwrap().decode::<Value>().unwrap()["payload"], 5);
    let before = records(&bus, "t.snapshot").await.len();
    bus.clean("t").await.unwrap();
    assert_eq!(records(&bus, "t.snapshot").await.len(), before, "it is written once");
}
