//! The numbers of the contract, by their names.

use crate::world::{World, consume, next};
use hub_core::prometheus_client::encoding::text::encode;
use hub_core::prometheus_client::registry::Registry;
use hub_core::testkit::Fault;
use hub_core::{Bus, Config, MemoryStore, NewEvent, Payload, Position, TopicSettings};
use serde_json::json;

/// The value of one series; `labels` as the encoder writes them.
fn series(text: &str, name: &str, labels: &str) -> f64 {
    let start = if labels.is_empty() { format!("{name} ") } else { format!("{name}{{{labels}}} ") };
    let line = text.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("no series {start}in:\n{text}")).parse().unwrap()
}

const GROUP: &str = "topic=\"t\",group=\"g\"";

#[tokio::test(start_paused = true)]
async fn what_happens_to_events_is_counted() {
    let world = World::new().await;
    let mut sub = world.bus.subscribe("t").group("g").max_attempts(2).open().await.unwrap();
    world.fill("t", 1..=4).await;
    consume(&mut sub, 2).await;
    next(&mut sub).await.nack("one").unwrap();
    let held = next(&mut sub).await;
    next(&mut sub).await.nack("two").unwrap();
    world.clock.advance(1_000).await;
    let text = world.metrics();
    assert_eq!(series(&text, "events_published_total", "topic=\"t\""), 4.0);
    assert_eq!(series(&text, "events_published_total", "topic=\"dlq.t\""), 1.0);
    assert_eq!(series(&text, "events_delivered_total", GROUP), 5.0);
    assert_eq!(series(&text, "events_acked_total", GROUP), 2.0);
    assert_eq!(series(&text, "events_nacked_total", GROUP), 2.0);
    assert_eq!(series(&text, "events_redelivered_total", GROUP), 1.0);
    assert_eq!(series(&text, "events_deadlettered_total", GROUP), 1.0);
    assert_eq!(series(&text, "events_inflight", GROUP), 1.0);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_has_events_and_delivers_none_is_shown_with_its_reason() {
    let world = World::new().await;
    let mut sub = world.bus.subscribe("t").group("g").open().await.unwrap();
    let stalled = |reason: &str| format!("group_stalled{{{GROUP},reason=\"{reason}\"}} 1\n");
    assert!(!world.metrics().contains("group_stalled{"), "it has nothing to deliver");
    world.fill("t", 1..=2).await;
    consume(&mut sub, 2).await;
    let text = world.metrics();
    assert!(!text.contains("group_stalled{"), "it is caught up:\n{text}");
    assert_eq!(series(&text, "group_lag_events", GROUP), 0.0);
    sub.close();
    world.fill("t", 3..=5).await;
    let text = world.metrics();
    assert!(text.contains(&stalled("no_members")), "{text}");
    assert_eq!(series(&text, "group_lag_events", GROUP), 3.0);
    let mut sub = world.bus.subscribe("t").group("g").max_in_flight(1).open().await.unwrap();
    let held = next(&mut sub).await;
    assert!(world.metrics().contains(&stalled("window_full")), "{}", world.metrics());
    held.ack().unwrap();
    drop(sub);
    world.bus.delete_group("t", "g").await.unwrap();
    assert!(!world.metrics().contains("group_lag_events{"), "a deleted group has no series");
}

#[tokio::test(start_paused = true)]
async fn durations_are_histograms() {
    let world = World::with(Config { tail_bytes: 1, ..Config::default() }).await;
    world.fill("t", 1..=2).await;
    world.clock.advance(30).await;
    let mut sub = world.bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let held = next(&mut sub).await;
    world.clock.advance(700).await;
    held.ack().unwrap();
    let text = world.metrics();
    assert_eq!(series(&text, "delivery_handler_duration_ms_sum", GROUP), 700.0);
    assert_eq!(series(&text, "delivery_handler_duration_ms_count", GROUP), 1.0);
    assert_eq!(series(&text, "delivery_handler_duration_ms_bucket", &format!("le=\"250.0\",{GROUP}")), 0.0);
    assert_eq!(series(&text, "delivery_handler_duration_ms_bucket", &format!("le=\"1000.0\",{GROUP}")), 1.0);
    assert_eq!(series(&text, "delivery_handler_duration_ms_bucket", &format!("le=\"+Inf\",{GROUP}")), 1.0);
    assert_eq!(series(&text, "delivery_latency_ms_sum", GROUP), 30.0);
    assert!(series(&text, "subscribe_poll_duration_ms_count", GROUP) >= 1.0);
    assert!(series(&text, "store_commit_duration_ms_count", "") >= 2.0);
    assert_eq!(series(&text, "store_commit_batch_events_sum", ""), 2.0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_in_flight_once_everybody_is_gone() {
    let world = World::new().await;
    world.fill("t", 1..=6).await;
    let join = || world.bus.subscribe("t").group("g").from(Position::Earliest).ack_timeout(1_000);
    let mut one = join().open().await.unwrap();
    next(&mut one).await.nack_after(60_000, "later").unwrap();
    next(&mut one).await;
    world.clock.advance(5_000).await; // expiries
    world.bus.set_cursor("t", "g", Position::AfterSeq(1)).await.unwrap();
    next(&mut one).await;
    let two = join().open().await.unwrap();
    drop(one);
    two.close();
    assert_eq!(series(&world.metrics(), "events_inflight", GROUP), 0.0);
    let three = join().open().await.unwrap();
    assert_eq!(series(&world.metrics(), "events_inflight", GROUP), 5.0);
    world.bus.delete_group("t", "g").await.unwrap();
    assert!(!world.metrics().contains(GROUP), "the series of a deleted group are removed");
    drop(three);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_is_not_published_twice() {
    let world = World::new().await;
    let id = hub_core::EventId::from_bytes([1; 16]);
    for _ in 0..3 {
        world.bus.publish("t", serde_json::json!(1)).id(id).await.unwrap();
    }
    assert_eq!(series(&world.metrics(), "events_published_total", "topic=\"t\""), 1.0);
}

#[tokio::test(start_paused = true)]
async fn labels_are_bounded() {
    let world = World::with(Config { metric_labels: 3, ..Config::default() }).await;
    for n in 0..10 {
        world.fill(&format!("t{n}"), [1, 2]).await;
    }
    let mut subs = Vec::new();
    for group in ["a", "b", "c", "d", "e"] {
        let mut sub = world.bus.subscribe("t0").group(group).from(Position::Earliest).open().await.unwrap();
        consume(&mut sub, 2).await;
        subs.push(sub);
    }
    let text = world.metrics();
    let published = text.lines().filter(|line| line.starts_with("events_published_total{")).count();
    assert_eq!(published, 4, "three topics and the others:\n{text}");
    assert_eq!(series(&text, "events_published_total", "topic=\"_other\""), 14.0);
    assert_eq!(series(&text, "events_acked_total", "topic=\"t0\",group=\"_other\""), 4.0);
    assert_eq!(text.lines().filter(|line| line.starts_with("events_acked_total{")).count(), 4);
}

fn count(text: &str, start: &str) -> usize {
    text.lines().filter(|line| line.starts_with(start)).count()
}

async fn publish_for(world: &World, subject: &str, topic: &str) {
    let event = NewEvent::new(topic.parse().unwrap(), Payload::from(json!(1)));
    world.bus.send_for(subject, event).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_subject_cannot_use_up_the_labels() {
    let config = Config { metric_labels: 50, ..Config::default() };
    let world = World::with(config.topic("eve.named", TopicSettings::default()).unwrap()).await;
    for n in 0..60 {
        let topic = format!("eve.{n}");
        publish_for(&world, "eve", &topic).await;
        world.bus.subscribe(&topic).on_behalf_of("eve").group("g").open().await.unwrap().close();
    }
    publish_for(&world, "eve", "eve.named").await;
    publish_for(&world, "ada", "ada").await;
    world.bus.subscribe("ada").on_behalf_of("ada").group("g").open().await.unwrap().close();
    let text = world.metrics();
    assert_eq!(count(&text, "events_published_total{topic=\"eve."), 6, "a tenth, and the named one:\n{text}");
    assert_eq!(series(&text, "events_published_total", "topic=\"eve.named\""), 1.0);
    assert_eq!(series(&text, "events_published_total", "topic=\"_other\""), 55.0);
    assert_eq!(series(&text, "events_published_total", "topic=\"ada\""), 1.0);
    assert_eq!(count(&text, "events_acked_total{topic=\"eve."), 5);
    assert_eq!(series(&text, "events_acked_total", "topic=\"ada\",group=\"g\""), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_derived_topic_counts_for_the_subject_of_its_source() {
    let world = World::with(Config { metric_labels: 30, ..Config::default() }).await;
    for n in 0..3 {
        let topic = format!("eve.{n}");
        publish_for(&world, "eve", &topic).await;
        let from = world.bus.subscribe(&topic).group("g").from(Position::Earliest).max_attempts(1);
        next(&mut from.open().await.unwrap()).await.nack("no").unwrap();
        world.clock.advance(1_000).await;
    }
    let text = world.metrics();
    assert!(world.bus.has_topic("dlq.eve.2"));
    assert_eq!(count(&text, "events_published_total{topic=\"eve."), 2, "{text}");
    assert_eq!(count(&text, "events_published_total{topic=\"dlq.eve."), 1, "{text}");
}

#[tokio::test(start_paused = true)]
async fn labels_count_for_the_same_subject_after_a_restart() {
    let store = MemoryStore::new();
    let mut text = String::new();
    for _ in 0..2 {
        let mut registry = Registry::default();
        let config = Config { metric_labels: 20, ..Config::default() };
        let bus = Bus::builder(store.clone()).config(config).open_with(&mut registry).await.unwrap();
        for n in 0..10 {
            let event = NewEvent::new(format!("eve.{n}").parse().unwrap(), Payload::from(json!(1)));
            bus.send_for("eve", event).await.unwrap();
        }
        text.clear();
        encode(&mut text, &registry).unwrap();
        bus.stop().await.unwrap();
    }
    assert_eq!(count(&text, "events_published_total{topic=\"eve."), 2, "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_group_makes_room_for_the_label_of_another() {
    let world = World::with(Config { metric_labels: 1, ..Config::default() }).await;
    world.fill("t", [1]).await;
    let join = |group: &'static str| world.bus.subscribe("t").group(group).open();
    join("a").await.unwrap().close();
    join("b").await.unwrap().close();
    assert!(!world.metrics().contains("group=\"b\""));
    world.bus.delete_group("t", "a").await.unwrap();
    join("c").await.unwrap().close();
    let text = world.metrics();
    assert!(!text.contains("group=\"a\""), "{text}");
    assert_eq!(series(&text, "events_acked_total", "topic=\"t\",group=\"c\""), 0.0);
}

#[tokio::test(start_paused = true)]
async fn events_that_a_group_did_not_get_are_counted() {
    let settings = TopicSettings { retention_days: Some(1), ..TopicSettings::default() };
    let config = Config { clock_jump_wait: 0, ..Config::default() };
    let world = World::with(config.topic("t", settings).unwrap()).await;
    let sub = world.bus.subscribe("t").group("g").open().await.unwrap();
    sub.close();
    world.fill("t", 1..=5).await;
    world.clock.jump(2 * 24 * 60 * 60 * 1000);
    world.fill("t", [6]).await;
    world.bus.clean("t").await.unwrap();
    assert_eq!(series(&world.metrics(), "events_truncated_total", GROUP), 5.0);
}

#[tokio::test(start_paused = true)]
async fn failed_saves_are_counted() {
    let world = World::new().await;
    world.fill("t", [1]).await;
    let mut sub = world.bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    world.clock.advance(1_000).await;
    world.break_all("commit", Fault::Refuse);
    consume(&mut sub, 1).await;
    world.clock.advance(150).await;
    assert!(series(&world.metrics(), "group_save_failures_total", "") >= 1.0);
}
