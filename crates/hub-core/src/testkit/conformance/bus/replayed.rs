//! Records that an operator replayed for one group, as a dead letter is.

use super::super::Lab;
use super::super::port::tools::{T0, keyed, replayed};
use super::tools::{assert_nothing_seen, assert_silent, consume, floor, seen, value};
use crate::{Config, Position, TopicSettings};
use hub_proto::Draft;

/// Puts records where the bus will find them: no publisher may say for whom they are.
async fn put(lab: &Lab, drafts: Vec<Draft>) {
    lab.port().await.append(T0, drafts).await;
}

pub(in super::super) async fn it_reaches_its_group_and_no_other(lab: Lab) {
    put(&lab, vec![keyed(1, "a"), replayed(2, "a"), keyed(3, "b")]).await;
    let bus = lab.bus().await;
    let mut other = bus.subscribe("t").group("other").from(Position::Earliest).open().await.unwrap();
    assert_eq!(consume(&mut other, 2).await, [1, 3]);
    assert_eq!(floor(&bus, "t", "other").await, 3, "others settle it silently");
    let mut own = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    assert_eq!(consume(&mut own, 3).await, [1, 2, 3]);
}

pub(in super::super) async fn watchers_pass_it_over(lab: Lab) {
    put(&lab, vec![replayed(1, "a"), keyed(2, "a"), replayed(3, "a")]).await;
    let bus = lab.bus().await;
    let mut watch = bus.subscribe("t").from(Position::Earliest).watch().await.unwrap();
    assert_eq!(seen(&mut watch).await, 2);
    assert_nothing_seen(&mut watch).await;
}

pub(in super::super) async fn it_is_nobodys_latest_state(lab: Lab) {
    put(&lab, vec![keyed(1, "a"), replayed(2, "a"), replayed(3, "b")]).await;
    let settings = TopicSettings { compaction: true, ..TopicSettings::default() };
    let bus = lab.bus_with(Config::default().topic("t", settings).unwrap()).await;
    let latest = bus.latest_by_key("t", &["a", "b"]).await.unwrap();
    assert_eq!(latest[0].as_ref().map(|event| value(event)), Some(1));
    assert_eq!(latest[1], None);
    assert_eq!(bus.clean("t").await.unwrap().removed, 0, "it makes nothing old");
    let snapshot = bus.scan("t.snapshot", Position::Earliest, None).await.unwrap();
    let keys: Vec<_> = snapshot.iter().map(|event| event.key().unwrap().trim_start_matches('\0')).collect();
    assert_eq!(keys, ["a", "upto"]);
}

pub(in super::super) async fn it_overtakes_nothing_and_is_not_overtaken(lab: Lab) {
    put(&lab, vec![keyed(1, "a"), replayed(2, "a"), replayed(3, "b"), keyed(4, "b")]).await;
    let bus = lab.bus().await;
    let join = bus.subscribe("t").group("g").from(Position::Earliest).coalesce(true);
    let mut sub = join.open().await.unwrap();
    assert_eq!(consume(&mut sub, 4).await, [1, 2, 3, 4]);
    assert_silent(&mut sub).await;
}
