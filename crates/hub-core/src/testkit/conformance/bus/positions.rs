//! Where a new group starts.

use super::super::Lab;
use super::tools::{assert_silent, code, consume, fill, floor};
use crate::{Code, EventId, Position};

pub(in super::super) async fn a_new_group_starts_at_the_latest_event(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1, 2]).await;
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    assert_silent(&mut sub).await;
    fill(&bus, "t", [3]).await;
    assert_eq!(consume(&mut sub, 1).await, [3]);
}

pub(in super::super) async fn from_earliest_starts_at_the_first_event(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1, 2]).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    fill(&bus, "t", [3]).await;
    assert_eq!(consume(&mut sub, 3).await, [1, 2, 3]);
}

pub(in super::super) async fn from_a_time_starts_at_what_was_committed_then(lab: Lab) {
    let bus = lab.bus().await;
    bus.publish("t", serde_json::json!(1)).ts(hub_proto::limits::TS).await.unwrap();
    lab.pass(5).await;
    let time = bus.now();
    fill(&bus, "t", [2, 3]).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Time(time)).open().await.unwrap();
    assert_eq!(consume(&mut sub, 2).await, [2, 3], "a publisher's ts does not count");
}

pub(in super::super) async fn after_an_id_starts_behind_that_event(lab: Lab) {
    let bus = lab.bus().await;
    let receipts = fill(&bus, "t", [1, 2, 3]).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::AfterId(receipts[1].id)).open().await.unwrap();
    assert_eq!(consume(&mut sub, 1).await, [3]);
}

pub(in super::super) async fn after_a_seq_starts_behind_that_event(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1, 2, 3]).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::AfterSeq(1)).open().await.unwrap();
    assert_eq!(consume(&mut sub, 2).await, [2, 3]);
}

pub(in super::super) async fn a_place_that_does_not_exist_makes_no_group(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let nowhere = Position::AfterId(EventId::from_bytes([9; 16]));
    assert_eq!(code(bus.subscribe("t").group("g").from(nowhere).open().await), Code::UnknownId);
    assert_eq!(
        code(bus.subscribe("t").group("g").from(Position::AfterSeq(2)).open().await),
        Code::BadRequest
    );
    assert_eq!(bus.get_cursor("t", "g").await.unwrap(), None);
}

pub(in super::super) async fn from_places_only_a_new_group(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1, 2, 3]).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    assert_eq!(consume(&mut sub, 1).await, [1]);
    sub.close();
    let mut sub = bus.subscribe("t").group("g").from(Position::Latest).open().await.unwrap();
    assert_eq!(consume(&mut sub, 2).await, [2, 3], "a group that exists goes on where it is");
    assert_eq!(floor(&bus, "t", "g").await, 3);
}

pub(in super::super) async fn a_group_can_wait_for_a_topic_without_events(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    fill(&bus, "t", [1]).await;
    assert_eq!(consume(&mut sub, 1).await, [1]);
}
