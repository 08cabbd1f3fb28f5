//! Settings of topics that change while the bus runs.

use hub_core::{Bus, Code, Pattern, TopicSettings};
use serde_json::json;

fn rule(pattern: &str, settings: TopicSettings) -> (Pattern, TopicSettings) {
    (Pattern::parse(pattern).unwrap(), settings)
}

fn compacted() -> TopicSettings {
    TopicSettings { compaction: true, ..TopicSettings::default() }
}

async fn three(bus: &Bus, topic: &str) {
    for n in 1..=3 {
        bus.publish(topic, json!(n)).key("k").await.unwrap();
    }
}

#[tokio::test]
async fn topics_that_are_there_and_topics_to_come_follow_new_settings() {
    let bus = Bus::in_memory().await.unwrap();
    three(&bus, "a.old").await;
    assert_eq!(bus.clean("a.old").await.unwrap().removed, 0);
    bus.set_topics(vec![rule("a.*", compacted())]).unwrap();
    three(&bus, "a.new").await;
    three(&bus, "b.other").await;
    assert_eq!(bus.clean("a.old").await.unwrap().removed, 2);
    assert_eq!(bus.clean("a.new").await.unwrap().removed, 2);
    assert_eq!(bus.clean("b.other").await.unwrap().removed, 0);
    // And back again.
    bus.set_topics(Vec::new()).unwrap();
    three(&bus, "a.old").await;
    assert_eq!(bus.clean("a.old").await.unwrap().removed, 0);
    bus.stop().await.unwrap();
}

#[tokio::test]
async fn the_first_pattern_counts_and_a_retention_of_nothing_changes_nothing() {
    let bus = Bus::in_memory().await.unwrap();
    bus.set_topics(vec![rule("a.plain", TopicSettings::default()), rule("a.*", compacted())]).unwrap();
    let none = TopicSettings { retention_days: Some(0), ..TopicSettings::default() };
    let error = bus.set_topics(vec![rule("**", none)]).unwrap_err();
    assert_eq!(error.code, Code::BadRequest);
    assert!(error.msg.contains("retention of **"), "{}", error.msg);
    three(&bus, "a.plain").await;
    three(&bus, "a.state").await;
    assert_eq!(bus.clean("a.plain").await.unwrap().removed, 0);
    assert_eq!(bus.clean("a.state").await.unwrap().removed, 2);
    bus.stop().await.unwrap();
}
