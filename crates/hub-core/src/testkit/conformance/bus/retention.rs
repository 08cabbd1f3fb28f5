//! What leaves with time.

use super::super::Lab;
use super::compaction::{compacted, snapshot, trusts_its_clock};
use super::tools::{code, consume, fill, fill_keyed, floor, hold, soon, stored};
use crate::{Code, Config, EventId, Millis, TopicSettings};
use serde_json::json;

const DAY: Millis = 24 * 60 * 60 * 1000;

pub(in super::super) async fn tombstones_go_after_their_grace(lab: Lab) {
    let bus = lab.bus_with(compacted()).await;
    fill_keyed(&bus, "t", [("a", 1), ("b", 2)]).await;
    bus.publish("t", json!(null)).key("a").await.unwrap();
    // A store may keep the newest record, whatever it is: the numbering goes by it.
    fill_keyed(&bus, "t", [("c", 3)]).await;
    bus.clean("t").await.unwrap();
    assert_eq!(bus.bounds("t").await.unwrap().events, 3, "b, the tombstone of a, and c");
    lab.clock().jump(DAY as i64 + 1);
    bus.clean("t").await.unwrap();
    assert_eq!(stored(&bus, "t").await, [2, 3]);
    assert_eq!(bus.latest_by_key("t", &["a"]).await.unwrap(), [None]);
}

pub(in super::super) async fn the_hub_cleans_by_itself(lab: Lab) {
    let bus = lab.bus_with(compacted()).await;
    fill_keyed(&bus, "t", [("a", 1), ("a", 2)]).await;
    lab.pass(30_000).await;
    soon(async {
        while bus.bounds("t").await.unwrap().events > 1 {
            lab.pass(100).await;
        }
    })
    .await;
    assert_eq!(snapshot(&bus).await[0].1["payload"], json!(2));
}

fn keeps_days(days: u32) -> Config {
    let settings = TopicSettings { retention_days: Some(days), ..TopicSettings::default() };
    trusts_its_clock(Config::default().topic("t", settings).unwrap())
}

pub(in super::super) async fn old_events_go_by_their_commit_time(lab: Lab) {
    let bus = lab.bus_with(keeps_days(3)).await;
    bus.publish("t", json!(1)).ts(hub_proto::limits::TS).await.unwrap();
    lab.clock().jump(2 * DAY as i64);
    bus.publish("t", json!(2)).ts(1).await.unwrap();
    lab.clock().jump(DAY as i64 + 1);
    assert_eq!(bus.clean("t").await.unwrap().removed, 1);
    assert_eq!(stored(&bus, "t").await, [2]);
}

pub(in super::super) async fn cursors_behind_the_start_of_the_log_move_to_it(lab: Lab) {
    let bus = lab.bus_with(keeps_days(1)).await;
    let sub = bus.subscribe("t").group("away").open().await.unwrap();
    let mut slow = bus.subscribe("t").group("slow").max_in_flight(2).open().await.unwrap();
    fill(&bus, "t", 1..=5).await;
    sub.close();
    let held = hold(&mut slow, 2).await;
    lab.clock().jump(DAY as i64 + 1);
    fill(&bus, "t", [6]).await;
    bus.clean("t").await.unwrap();
    assert_eq!(floor(&bus, "t", "away").await, 5);
    assert_eq!(consume(&mut bus.subscribe("t").group("away").open().await.unwrap(), 1).await, [6]);
    assert_eq!(floor(&bus, "t", "slow").await, 0, "it never passes what is in flight");
    held.iter().for_each(|delivery| delivery.ack().unwrap());
    assert_eq!(consume(&mut slow, 1).await, [6]);
    assert_eq!(floor(&bus, "t", "slow").await, 6);
}

pub(in super::super) async fn an_id_is_remembered_for_a_day_also_when_its_event_is_gone(lab: Lab) {
    let settings = TopicSettings { retention_bytes: Some(1), ..TopicSettings::default() };
    let bus = lab.bus_with(trusts_its_clock(Config::default().topic("t", settings).unwrap())).await;
    let id = EventId::from_bytes([1; 16]);
    bus.publish("t", json!(1)).id(id).await.unwrap();
    fill(&bus, "t", [2]).await;
    bus.clean("t").await.unwrap();
    lab.clock().jump(DAY as i64 - 1_000);
    bus.clean("t").await.unwrap();
    let again = bus.publish("t", json!(1)).id(id).await.unwrap();
    assert!(again.duplicate && again.seq == 1, "{again:?}");
    assert_eq!(code(bus.publish("t", json!(7)).id(id).await), Code::IdConflict);
}
