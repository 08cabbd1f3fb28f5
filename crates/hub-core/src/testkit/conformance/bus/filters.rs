//! What a group does not want is settled.

use super::super::Lab;
use super::tools::{assert_silent, consume, floor, handed, soon, value};
use crate::{Bus, Filter, Position};
use serde_json::json;

/// Six events with tags, keys and headers in different combinations.
async fn mixed(bus: &Bus) {
    bus.publish("t", json!(1)).tag("red").tag("big").key("a").header("h", "1").await.unwrap();
    bus.publish("t", json!(2)).tag("red").key("b").await.unwrap();
    bus.publish("t", json!(3)).tag("big").header("h", "2").await.unwrap();
    bus.publish("t", json!(4)).key("a").header("h", "1").header("i", "1").await.unwrap();
    bus.publish("t", json!(5)).tag("redder").key("aa").header("H", "1").await.unwrap();
    bus.publish("t", json!(6)).await.unwrap();
}

fn tags(tags: &[&str]) -> Filter {
    Filter { tags: tags.iter().map(|tag| tag.to_string()).collect(), ..Filter::default() }
}

fn key(key: &str) -> Filter {
    Filter { key: Some(key.into()), ..Filter::default() }
}

fn headers(headers: &[(&str, &str)]) -> Filter {
    let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    Filter { headers, ..Filter::default() }
}

async fn passing(lab: &Lab, filter: Filter) -> Vec<u64> {
    let bus = lab.bus().await;
    if bus.topics().is_empty() {
        mixed(&bus).await;
    }
    let join = bus.subscribe("t").group("g").from(Position::Earliest).filter(filter.clone());
    let mut sub = join.open().await.unwrap();
    let mut got = Vec::new();
    while floor(&bus, "t", "g").await < 6 {
        got.extend(consume(&mut sub, 1).await);
    }
    assert_silent(&mut sub).await;
    let mut watch = bus.subscribe("t").from(Position::Earliest).filter(filter).watch().await.unwrap();
    for expected in &got {
        assert_eq!(super::tools::seen(&mut watch).await, *expected, "a watcher filters alike");
    }
    got
}

pub(in super::super) async fn every_tag_must_be_there(lab: Lab) {
    assert_eq!(passing(&lab, tags(&["big", "red"])).await, [1]);
}

pub(in super::super) async fn one_tag_is_enough_if_one_is_asked_for(lab: Lab) {
    assert_eq!(passing(&lab, tags(&["red"])).await, [1, 2]);
}

pub(in super::super) async fn the_key_must_be_the_same(lab: Lab) {
    assert_eq!(passing(&lab, key("a")).await, [1, 4]);
}

pub(in super::super) async fn every_header_must_have_its_value(lab: Lab) {
    assert_eq!(passing(&lab, headers(&[("i", "1"), ("h", "1")])).await, [4]);
}

pub(in super::super) async fn everything_asked_for_must_match(lab: Lab) {
    let all =
        Filter { tags: vec!["red".into()], key: Some("a".into()), headers: vec![("h".into(), "1".into())] };
    assert_eq!(passing(&lab, all).await, [1]);
}

pub(in super::super) async fn a_group_that_wants_nothing_settles_everything(lab: Lab) {
    let bus = lab.bus().await;
    mixed(&bus).await;
    let join = bus.subscribe("t").group("g").from(Position::Earliest).filter(tags(&["none"]));
    let mut sub = join.open().await.unwrap();
    assert_silent(&mut sub).await;
    assert_eq!(floor(&bus, "t", "g").await, 6);
}

pub(in super::super) async fn a_function_refuses_on_the_members_side(lab: Lab) {
    let bus = lab.bus().await;
    mixed(&bus).await;
    let join = bus
        .subscribe("t")
        .group("g")
        .from(Position::Earliest)
        .filter_fn(|event| value(event).is_multiple_of(2));
    let mut sub = join.open().await.unwrap();
    assert_eq!(consume(&mut sub, 3).await, [2, 4, 6]);
    assert_silent(&mut sub).await;
    assert_eq!(floor(&bus, "t", "g").await, 6, "what it refused is settled");
}

pub(in super::super) async fn a_function_refuses_by_id_as_well(lab: Lab) {
    let bus = lab.bus().await;
    mixed(&bus).await;
    let join = bus.subscribe("t").group("g").from(Position::Earliest).filter_fn(|event| value(event) > 4);
    let mut sub = join.open_by_id().await.unwrap();
    for expected in [5, 6] {
        let event = handed(&mut sub).await.event;
        assert_eq!(value(&event), expected);
        sub.ack(event.id(), None).unwrap();
    }
    soon(async {
        while floor(&bus, "t", "g").await < 6 {
            lab.pass(1).await;
        }
    })
    .await;
}
