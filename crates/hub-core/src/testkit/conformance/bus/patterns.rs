//! Subscriptions to a pattern or to several topics.

use super::super::Lab;
use super::super::port::tools::{T0, on};
use super::tools::{assert_silent, code, consume, end, fill, floor, hold, next, value, values};
use crate::{Code, EventId, Position};

pub(in super::super) async fn a_pattern_covers_topics_that_exist_and_topics_born_later(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "a.x", [1]).await;
    fill(&bus, "b.x", [2]).await;
    let mut sub = bus.subscribe("a.*").group("g").open().await.unwrap();
    fill(&bus, "a.x", [3]).await;
    assert_eq!(consume(&mut sub, 1).await, [3], "a topic that existed starts at the latest");
    fill(&bus, "a.y", [4]).await;
    fill(&bus, "a.y.z", [5]).await;
    fill(&bus, "b.y", [6]).await;
    assert_eq!(consume(&mut sub, 1).await, [4], "one born later starts at its first event");
    assert_silent(&mut sub).await;
}

pub(in super::super) async fn nothing_is_missed_of_topics_born_while_members_are_away(lab: Lab) {
    let bus = lab.bus().await;
    bus.subscribe("a.**").group("g").open().await.unwrap().close();
    fill(&bus, "a.new", [1, 2]).await;
    let mut sub = bus.subscribe("a.**").group("g").open().await.unwrap();
    assert_eq!(consume(&mut sub, 2).await, [1, 2]);
    assert_eq!(floor(&bus, "a.new", "g").await, 2);
}

pub(in super::super) async fn from_earliest_reads_every_covered_topic_from_its_start(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "a.x", [1, 2]).await;
    fill(&bus, "a.y", [3, 4]).await;
    let mut sub = bus.subscribe("a.*").group("g").from(Position::Earliest).open().await.unwrap();
    let mut got = consume(&mut sub, 4).await;
    assert!(got.iter().position(|n| *n == 1) < got.iter().position(|n| *n == 2), "order within a topic");
    got.sort_unstable();
    assert_eq!(got, [1, 2, 3, 4]);
}

pub(in super::super) async fn dead_letters_and_snapshots_must_be_named(lab: Lab) {
    // Only the hub writes them, so they are there before it starts.
    let topics = ["dlq.t", "t.snapshot", "dlq.t.snapshot", "t"];
    lab.port().await.append(T0, (1..).zip(topics).map(|(n, topic)| on(topic, n)).collect()).await;
    let bus = lab.bus().await;
    for (pattern, expected) in
        [("**", vec![4]), ("dlq.**", vec![1]), ("**.snapshot", vec![2]), ("dlq.**.snapshot", vec![3])]
    {
        let group = format!("g{}", expected[0]);
        let mut sub = bus.subscribe(pattern).group(&group).from(Position::Earliest).open().await.unwrap();
        assert_eq!(consume(&mut sub, expected.len()).await, expected, "{pattern}");
        assert_silent(&mut sub).await;
    }
}

pub(in super::super) async fn members_of_a_pattern_share_its_events(lab: Lab) {
    let bus = lab.bus().await;
    let mut one = bus.subscribe("a.*").group("g").open().await.unwrap();
    let mut two = bus.subscribe("a.*").group("g").open().await.unwrap();
    fill(&bus, "a.x", 1..=4).await;
    let mut got = values(&hold(&mut one, 2).await);
    got.extend(values(&hold(&mut two, 2).await));
    got.sort_unstable();
    assert_eq!(got, [1, 2, 3, 4]);
    assert_eq!(bus.subscriptions().len(), 1);
}

pub(in super::super) async fn the_window_counts_over_all_topics(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("a.*").group("g").max_in_flight(2).open().await.unwrap();
    for topic in ["a.x", "a.y", "a.z"] {
        fill(&bus, topic, [1]).await;
    }
    let held = hold(&mut sub, 2).await;
    assert_silent(&mut sub).await;
    held[0].ack().unwrap();
    next(&mut sub).await;
    assert_silent(&mut sub).await;
}

pub(in super::super) async fn a_list_covers_exactly_its_topics(lab: Lab) {
    lab.port().await.append(T0, vec![on("dlq.a", 5)]).await;
    let bus = lab.bus().await;
    fill(&bus, "a", [1]).await;
    let list = ["a", "b", "dlq.a", "b"];
    let mut sub = bus.subscribe_all("mine", list).group("g").from(Position::Earliest).open().await.unwrap();
    let mut read = consume(&mut sub, 2).await;
    read.sort_unstable();
    assert_eq!(read, [1, 5]);
    fill(&bus, "b", [2]).await;
    fill(&bus, "c", [3]).await;
    fill(&bus, "mine", [4]).await;
    assert_eq!(consume(&mut sub, 1).await, [2]);
    assert_silent(&mut sub).await;
}

pub(in super::super) async fn a_changed_list_is_a_changed_option(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "a", [1]).await;
    let one = bus.subscribe_all("mine", ["a", "b"]).group("g").open().await.unwrap();
    let join = || bus.subscribe_all("mine", ["b", "c"]).group("g").from(Position::Earliest);
    let error = join().open().await.unwrap_err();
    assert_eq!(error.code, Code::GroupConflict);
    assert!(error.msg.contains("topics"), "{error}");
    one.close();
    fill(&bus, "b", [2]).await;
    let mut sub = join().open().await.expect("without members it changes");
    fill(&bus, "c", [3]).await;
    fill(&bus, "a", [4]).await;
    assert_eq!(consume(&mut sub, 2).await, [2, 3]);
    assert_silent(&mut sub).await;
    assert!(bus.get_cursor("a", "g").await.unwrap().is_none(), "the group on what left the list is gone");
}

pub(in super::super) async fn the_order_of_a_list_does_not_matter(lab: Lab) {
    let bus = lab.bus().await;
    let _one = bus.subscribe_all("mine", ["a", "b"]).group("g").open().await.unwrap();
    let two = bus.subscribe_all("mine", ["b", "a", "a"]).group("g").open().await;
    assert!(two.is_ok(), "{two:?}");
}

pub(in super::super) async fn options_of_a_pattern_conflict_while_it_has_members(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "a.x", [1]).await;
    let one = bus.subscribe("a.*").group("g").max_attempts(2).open().await.unwrap();
    assert_eq!(code(bus.subscribe("a.*").group("g").max_attempts(3).open().await), Code::GroupConflict);
    one.close();
    let _two = bus.subscribe("a.*").group("g").max_attempts(3).open().await.unwrap();
    fill(&bus, "a.y", [1]).await;
    for topic in ["a.x", "a.y"] {
        assert_eq!(bus.group_options(topic, "g").unwrap().max_attempts, 3, "{topic}");
    }
    assert_eq!(bus.subscriptions()[0].options.max_attempts, 3);
}

pub(in super::super) async fn deleting_a_subscription_deletes_its_groups(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "a.x", [1]).await;
    fill(&bus, "a.y", [1]).await;
    let own = bus.subscribe("a.x").group("other").open().await.unwrap();
    let mut sub = bus.subscribe("a.*").group("g").open().await.unwrap();
    assert_eq!(bus.delete_group("a.*", "g").await.unwrap(), 2);
    assert_eq!(end(&mut sub).await, Code::NotSubscribed);
    assert!(bus.subscriptions().is_empty());
    assert!(bus.group("a.x", "g").is_none() && bus.group("a.y", "g").is_none());
    fill(&bus, "a.z", [1]).await;
    assert!(bus.groups("a.z").is_empty(), "it drives nothing any more");
    assert!(bus.group("a.x", "other").is_some());
    drop(own);
}

pub(in super::super) async fn deleting_a_subscription_without_topics_ends_its_members(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("a.*").group("g").open().await.unwrap();
    assert_eq!(bus.delete_group("a.*", "g").await.unwrap(), 0);
    assert_eq!(end(&mut sub).await, Code::NotSubscribed);
}

pub(in super::super) async fn a_group_of_a_pattern_cannot_be_deleted_alone(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "a.x", [1]).await;
    let _sub = bus.subscribe("a.*").group("g").open().await.unwrap();
    let error = bus.delete_group("a.x", "g").await.unwrap_err();
    assert_eq!(error.code, Code::BadRequest);
    assert!(error.msg.contains("a.*"), "it says what to delete: {error}");
    assert_eq!(floor(&bus, "a.x", "g").await, 1);
}

pub(in super::super) async fn a_pause_holds_for_topics_born_later(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("a.*").group("g").open().await.unwrap();
    sub.pause();
    fill(&bus, "a.x", [1]).await;
    assert_silent(&mut sub).await;
    sub.resume();
    assert_eq!(consume(&mut sub, 1).await, [1]);
}

pub(in super::super) async fn a_disconnect_blames_one_event_over_all_topics(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("a.*").group("g").max_attempts(1).open().await.unwrap();
    for (n, topic) in (1..).zip(["a.x", "a.y", "a.z"]) {
        fill(&bus, topic, [n]).await;
        assert_eq!(value(next(&mut sub).await.event()), n);
        lab.pass(2).await;
    }
    let mut other = bus.subscribe("a.*").group("g").open().await.unwrap();
    drop(sub);
    let mut got = consume(&mut other, 2).await;
    got.sort_unstable();
    assert_eq!(got, [2, 3], "the one that was longest in hand is to blame");
    assert_silent(&mut other).await;
    assert_eq!(bus.bounds("dlq.a.x").await.unwrap().last, 1);
}

pub(in super::super) async fn a_group_that_exists_is_taken_over_where_it_is(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "a.x", [1, 2]).await;
    let mut own = bus.subscribe("a.x").group("g").from(Position::Earliest).open().await.unwrap();
    assert_eq!(consume(&mut own, 1).await, [1]);
    own.close();
    let mut sub = bus.subscribe("a.*").group("g").open().await.unwrap();
    assert_eq!(consume(&mut sub, 1).await, [2]);
    bus.delete_group("a.*", "g").await.unwrap();
    assert_eq!(floor(&bus, "a.x", "g").await, 2, "what the subscription did not make stays");
}

pub(in super::super) async fn a_topic_and_a_list_of_the_same_name_are_deleted_apart(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    fill(&bus, "a", [1]).await;
    let mut own = bus.subscribe("t").group("g").open().await.unwrap();
    let mut list = bus.subscribe_all("t", ["a"]).group("g").open().await.unwrap();
    assert_eq!(bus.subscription("t", "g").unwrap().topics.len(), 1);
    assert_eq!(bus.delete_group("t", "g").await.unwrap(), 1);
    assert_eq!(end(&mut own).await, Code::NotSubscribed);
    assert!(bus.group("t", "g").is_none() && bus.group("a", "g").is_some());
    own = bus.subscribe("t").group("g").open().await.unwrap();
    assert_eq!(bus.delete_list("t", "g").await.unwrap(), 1);
    assert_eq!(end(&mut list).await, Code::NotSubscribed);
    assert!(bus.group("t", "g").is_some() && bus.group("a", "g").is_none());
    assert_eq!(code(bus.delete_list("t", "g").await), Code::BadRequest, "there is only a group left");
    assert_eq!(bus.subscription("t", "g"), None);
    drop(own);
}

pub(in super::super) async fn bad_patterns_and_lists_are_refused(lab: Lab) {
    let bus = lab.bus().await;
    for pattern in ["a.*b", "", "a..b", "*.", "a b"] {
        assert_eq!(code(bus.subscribe(pattern).group("g").open().await), Code::BadRequest, "{pattern:?}");
    }
    assert_eq!(code(bus.subscribe_all("mine", []).group("g").open().await), Code::BadRequest);
    assert_eq!(code(bus.subscribe_all("mine", ["a", "b.*"]).group("g").open().await), Code::BadRequest);
    for label in ["no label", "a.*", "**"] {
        assert_eq!(
            code(bus.subscribe_all(label, ["a"]).group("g").open().await),
            Code::BadRequest,
            "{label}"
        );
    }
    fill(&bus, "a.x", [1]).await;
    let after = Position::AfterId(EventId::from_bytes([1; 16]));
    assert_eq!(code(bus.subscribe("a.*").group("g").from(after).open().await), Code::BadRequest);
    assert!(bus.subscriptions().is_empty());
}
