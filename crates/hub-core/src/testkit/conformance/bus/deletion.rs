//! Deleting topics.

use super::super::Lab;
use super::compaction::compacted;
use super::tools::{assert_silent, code, consume, end, fill, fill_keyed, next, seen, soon, stored};
use crate::{Bus, Code, DeletedTopic, EventId, Position};
use serde_json::json;

fn id(n: u8) -> EventId {
    EventId::derived(&[b"deletion", &[n]])
}

/// A topic with a group and a dead letter.
async fn with_dead_letter(lab: &Lab) -> Bus {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=3).await;
    let mut sub =
        bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1).open().await.unwrap();
    next(&mut sub).await.nack("broken").unwrap();
    soon(async {
        while !bus.has_topic("dlq.t") || bus.bounds("dlq.t").await.unwrap().events == 0 {
            lab.pass(1).await;
        }
    })
    .await;
    bus
}

pub(in super::super) async fn a_topic_goes_with_its_groups_and_what_is_derived_from_it(lab: Lab) {
    let bus = with_dead_letter(&lab).await;
    fill(&bus, "other", [7]).await;
    let deleted = bus.delete_topic("t").await.unwrap();
    assert_eq!(deleted, DeletedTopic { topics: 2, groups: 1, events: 4 });
    for gone in ["t", "dlq.t"] {
        assert!(!bus.has_topic(gone), "{gone}");
        assert_eq!(code(bus.scan(gone, Position::Earliest, None).await), Code::BadRequest, "{gone}");
    }
    assert_eq!(bus.topics().iter().map(ToString::to_string).collect::<Vec<_>>(), ["other"]);
    assert!(bus.group("t", "g").is_none());
    assert_eq!(stored(&bus, "other").await, [7], "other topics stay");
}

pub(in super::super) async fn a_deletion_survives_a_restart(lab: Lab) {
    let bus = with_dead_letter(&lab).await;
    bus.delete_topic("t").await.unwrap();
    let bus = lab.crash(bus).await;
    assert_eq!(bus.topics(), []);
    let bus = lab.reopen(bus).await;
    assert_eq!(bus.topics(), []);
    assert_eq!(fill(&bus, "t", [4]).await[0].seq, 4, "the numbering continues");
    assert!(bus.group("t", "g").is_none());
    let bus = lab.reopen(bus).await;
    assert_eq!(stored(&bus, "t").await, [4]);
    assert!(!bus.has_topic("dlq.t"));
}

pub(in super::super) async fn a_topic_that_is_created_again_begins_empty_and_continues_the_numbering(
    lab: Lab,
) {
    let bus = lab.bus().await;
    fill_keyed(&bus, "t", [("a", 1), ("b", 2)]).await;
    bus.delete_topic("t").await.unwrap();
    assert_eq!(bus.publish("t", json!(3)).key("b").await.unwrap().seq, 3);
    assert_eq!(stored(&bus, "t").await, [3]);
    let latest = bus.latest_by_key("t", &["a", "b"]).await.unwrap();
    assert!(latest[0].is_none() && latest[1].as_ref().is_some_and(|event| event.seq() == 3));
    assert_eq!(bus.latest_page("t", None, None).await.unwrap().len(), 1);
    let bounds = bus.bounds("t").await.unwrap();
    assert_eq!((bounds.first, bounds.last, bounds.events), (3, 3, 1));
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    assert_eq!(consume(&mut sub, 1).await, [3]);
    assert_eq!(bus.delete_topic("t").await.unwrap().events, 1);
    assert_eq!(fill(&bus, "t", [4]).await[0].seq, 4);
    assert_eq!(stored(&bus, "t").await, [4]);
}

pub(in super::super) async fn an_id_of_before_the_deletion_is_not_resurrected(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    bus.publish("t", json!(2)).id(id(2)).await.unwrap();
    bus.delete_topic("t").await.unwrap();
    let again = bus.publish("t", json!(2)).id(id(2)).await.unwrap();
    assert_eq!((again.seq, again.duplicate), (2, true));
    assert_eq!(code(bus.publish("t", json!(9)).id(id(2)).await), Code::IdConflict);
    assert!(stored(&bus, "t").await.is_empty());
    let bus = lab.crash(bus).await;
    assert!(!bus.has_topic("t"), "nothing was published to it");
    assert!(bus.publish("t", json!(2)).id(id(2)).await.unwrap().duplicate);
}

pub(in super::super) async fn a_subscription_with_a_group_ends_and_one_to_a_pattern_goes_on(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "a.t", [1]).await;
    let mut one = bus.subscribe("a.t").group("one").from(Position::Earliest).open().await.unwrap();
    let mut all = bus.subscribe("a.*").group("all").from(Position::Earliest).open().await.unwrap();
    assert_eq!(consume(&mut one, 1).await, [1]);
    let held = next(&mut all).await;
    bus.delete_topic("a.t").await.unwrap();
    assert_eq!(end(&mut one).await, Code::NotSubscribed);
    assert!(held.ack().is_err(), "nobody settles what is gone");
    fill(&bus, "a.t", [2]).await;
    assert_eq!(consume(&mut all, 1).await, [2]);
    assert_silent(&mut all).await;
    bus.flush().await.unwrap();
    let bus = lab.crash((bus, one, all, held)).await;
    let mut all = bus.subscribe("a.*").group("all").open().await.unwrap();
    fill(&bus, "a.t", [3]).await;
    assert_eq!(consume(&mut all, 1).await, [3]);
}

pub(in super::super) async fn a_watcher_goes_on_with_the_topic_that_is_created_again(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let mut watch = bus.subscribe("t").from(Position::Earliest).watch().await.unwrap();
    assert_eq!(seen(&mut watch).await, 1);
    for n in 2..=3 {
        bus.delete_topic("t").await.unwrap();
        fill(&bus, "t", [n]).await;
        assert_eq!(seen(&mut watch).await, n);
    }
    assert_eq!(watch.topics(), 1);
}

pub(in super::super) async fn a_derived_topic_and_an_unknown_one_are_refused(lab: Lab) {
    let bus = with_dead_letter(&lab).await;
    for (name, what) in [("dlq.t", "derived from t"), ("unknown", "does not exist"), ("_hub.deleted", "_hub")]
    {
        let error = bus.delete_topic(name).await.unwrap_err();
        assert_eq!(error.code, Code::BadRequest, "{error}");
        assert!(error.msg.contains(what), "{error}");
    }
    assert!(bus.has_topic("dlq.t"));
}

pub(in super::super) async fn a_snapshot_begins_anew_with_its_topic(lab: Lab) {
    let bus = lab.bus_with(compacted()).await;
    fill_keyed(&bus, "t", [("a", 1)]).await;
    bus.clean("t").await.unwrap();
    assert!(bus.has_topic("t.snapshot"));
    assert_eq!(bus.delete_topic("t").await.unwrap().topics, 2);
    assert!(!bus.has_topic("t.snapshot"));
    fill_keyed(&bus, "t", [("b", 2)]).await;
    bus.clean("t").await.unwrap();
    let keys: Vec<_> = bus.latest_page("t.snapshot", None, None).await.unwrap();
    let keys: Vec<_> = keys.iter().filter_map(|event| event.key().map(ToString::to_string)).collect();
    assert_eq!(keys, ["\0upto", "b"]);
}
