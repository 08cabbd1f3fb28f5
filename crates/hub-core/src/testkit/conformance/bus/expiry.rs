//! Groups that nobody uses.

use super::super::Lab;
use super::tools::{fill, next};
use crate::{Bus, Config, Millis, Position};

const DAY: Millis = 24 * 60 * 60 * 1000;

fn exists(bus: &Bus, topic: &str) -> bool {
    bus.group(topic, "g").is_some()
}

pub(in super::super) async fn a_group_without_members_expires_after_30_days(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    bus.subscribe("t").group("g").open().await.unwrap().close();
    lab.pass(30 * DAY - 60_000).await;
    assert!(exists(&bus, "t"));
    lab.pass(120_000).await;
    assert!(!exists(&bus, "t"));
}

pub(in super::super) async fn a_group_with_a_member_does_not_expire(lab: Lab) {
    let bus = lab.bus().await;
    let sub = bus.subscribe("t").group("g").open().await.unwrap();
    lab.pass(40 * DAY).await;
    assert!(exists(&bus, "t"));
    sub.close();
    lab.pass(29 * DAY).await;
    assert!(exists(&bus, "t"), "its time starts when the last member leaves");
    lab.pass(2 * DAY).await;
    assert!(!exists(&bus, "t"));
}

pub(in super::super) async fn the_days_can_be_set(lab: Lab) {
    let bus = lab.bus_with(Config { group_expire_days: 2, ..Config::default() }).await;
    bus.subscribe("t").group("g").open().await.unwrap().close();
    lab.pass(2 * DAY + 60_000).await;
    assert!(!exists(&bus, "t"));
}

pub(in super::super) async fn zero_days_are_for_ever(lab: Lab) {
    let bus = lab.bus_with(Config { group_expire_days: 0, ..Config::default() }).await;
    bus.subscribe("t").group("g").open().await.unwrap().close();
    lab.pass(60 * DAY).await;
    assert!(exists(&bus, "t"));
}

pub(in super::super) async fn a_subscription_expires_with_all_its_groups(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "a.x", [1]).await;
    bus.subscribe("a.*").group("g").open().await.unwrap().close();
    lab.pass(20 * DAY).await;
    fill(&bus, "a.y", [1]).await;
    assert!(exists(&bus, "a.x") && exists(&bus, "a.y"));
    lab.pass(11 * DAY).await;
    assert!(!exists(&bus, "a.x") && !exists(&bus, "a.y"));
    assert!(bus.subscriptions().is_empty());
}

pub(in super::super) async fn a_group_expires_beside_a_list_of_the_same_name(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    fill(&bus, "a", [1]).await;
    bus.subscribe("t").group("g").open().await.unwrap().close();
    let list = bus.subscribe_all("t", ["a"]).group("g").open().await.unwrap();
    lab.pass(31 * DAY).await;
    assert!(!exists(&bus, "t") && exists(&bus, "a"), "the list has a member, the group has none");
    bus.subscribe("t").group("g").open().await.unwrap().close();
    lab.pass(20 * DAY).await;
    list.close();
    lab.pass(11 * DAY).await;
    assert!(!exists(&bus, "t") && exists(&bus, "a"), "the list's time has only begun");
    let _own = bus.subscribe("t").group("g").open().await.unwrap();
    lab.pass(20 * DAY).await;
    assert!(exists(&bus, "t") && !exists(&bus, "a"), "and now it is the other way round");
}

pub(in super::super) async fn groups_of_a_subscription_with_a_member_stay(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "a.x", [1]).await;
    let _sub = bus.subscribe("a.*").group("g").open().await.unwrap();
    lab.pass(40 * DAY).await;
    assert!(exists(&bus, "a.x"));
}

pub(in super::super) async fn a_jump_of_the_wall_clock_expires_nothing(lab: Lab) {
    let bus = lab.bus().await;
    bus.subscribe("t").group("g").open().await.unwrap().close();
    lab.clock().jump(400 * DAY as i64);
    lab.pass(60_000).await;
    bus.housekeeping().await;
    assert!(exists(&bus, "t"));
}

pub(in super::super) async fn a_wall_clock_set_back_expires_nothing(lab: Lab) {
    let bus = lab.bus().await;
    lab.pass(1_000).await;
    lab.clock().jump(-(400 * DAY as i64));
    bus.subscribe("t").group("g").open().await.unwrap().close();
    lab.pass(60_000).await;
    bus.housekeeping().await;
    assert!(exists(&bus, "t"));
    lab.pass(31 * DAY).await;
    assert!(!exists(&bus, "t"), "its time runs all the same");
}

pub(in super::super) async fn an_expired_group_starts_anew(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    next(&mut sub).await.ack().unwrap();
    sub.close();
    lab.pass(31 * DAY).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    assert_eq!(next(&mut sub).await.attempt(), 1);
}
