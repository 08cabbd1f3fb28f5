//! Futures that are dropped half-way, and stores that answer late or never.

use crate::world::{World, assert_silent, code, consume, next};
use hub_core::testkit::Fault;
use hub_core::{Clock, Code, Subscription};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// A group that has acked three events a moment ago.
async fn world_with_unsaved_acks() -> (World, Subscription) {
    let world = World::new().await;
    let mut sub = world.bus.subscribe("t").group("g").open().await.unwrap();
    world.fill("t", 1..=3).await;
    world.clock.advance(500).await;
    consume(&mut sub, 3).await;
    (world, sub)
}

/// A publish holds the store up for 300 ms; the commit after it is refused.
fn busy_then_refusing(world: &World) {
    let mut commits = 0;
    world.store.script(move |call| {
        commits += u32::from(call == "commit");
        match (call, commits) {
            ("commit", 1) => Some(Fault::Stall(300)),
            ("commit", 2) => Some(Fault::Refuse),
            _ => None,
        }
    });
    let bus = world.bus.clone();
    tokio::spawn(async move { bus.publish("other", json!(1)).await });
}

#[tokio::test(start_paused = true)]
async fn a_save_that_stop_cuts_off_is_made_good() {
    let (world, sub) = world_with_unsaved_acks().await;
    busy_then_refusing(&world);
    world.clock.advance(200).await;
    world.bus.stop().await.unwrap();
    let world = world.crashed(sub).await;
    assert_silent(&mut world.bus.subscribe("t").group("g").open().await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_flush_that_nobody_waits_for_is_made_good() {
    let (world, sub) = world_with_unsaved_acks().await;
    busy_then_refusing(&world);
    world.clock.advance(1).await;
    assert!(tokio::time::timeout(Duration::from_millis(50), world.bus.flush()).await.is_err());
    world.clock.advance(10_000).await;
    world.bus.stop().await.unwrap();
    let world = world.crashed(sub).await;
    assert_silent(&mut world.bus.subscribe("t").group("g").open().await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_nobody_waits_for_is_carried_out_whole() {
    let world = World::new().await;
    let mut sub = world.bus.subscribe("t").group("g").open().await.unwrap();
    world.fill("t", 1..=2).await;
    consume(&mut sub, 1).await;
    world.clock.advance(500).await;
    world.break_once("commit", Fault::Stall(100));
    let deleting = world.bus.delete_group("t", "g");
    assert!(tokio::time::timeout(Duration::from_millis(50), deleting).await.is_err());
    world.clock.advance(1000).await;
    assert_eq!(code(sub.recv().await), Code::NotSubscribed);
    assert_eq!(world.bus.get_cursor("t", "g").await.unwrap(), None);
    let world = world.crashed(sub).await;
    assert_eq!(world.bus.get_cursor("t", "g").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_say_what_it_has_holds_nobody_up() {
    let world = World::new().await;
    world.fill("t", [1]).await;
    let mut refused = false;
    world.store.script(move |call| match call {
        "commit" if !std::mem::replace(&mut refused, true) => Some(Fault::Refuse),
        "bounds" => Some(Fault::Delay(600_000)),
        _ => None,
    });
    assert_eq!(code(world.bus.publish("t", json!(2)).await), Code::Unavailable);
    let before = world.clock.steady();
    world.bus.publish("t", json!(3)).await.unwrap();
    assert!(world.clock.steady() - before < 1_000);
}

#[tokio::test(start_paused = true)]
async fn many_failed_commits_of_one_topic_are_one_question() {
    let world = World::new().await;
    world.fill("t", [1]).await;
    world.store.script(move |call| matches!(call, "commit" | "bounds").then_some(Fault::Refuse));
    for n in 0..100 {
        assert_eq!(code(world.bus.publish("t", json!(n)).await), Code::Unavailable);
    }
    let questions = Arc::new(AtomicUsize::new(0));
    let asked = questions.clone();
    world.store.script(move |call| {
        asked.fetch_add(usize::from(call == "bounds"), SeqCst);
        None
    });
    world.clock.advance(10_000).await;
    assert_eq!(questions.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn stop_gives_a_store_that_hangs_a_limited_time_and_says_so() {
    let world = World::new().await;
    world.fill("t", [1]).await;
    world.break_once("commit", Fault::Delay(86_400_000));
    let bus = world.bus.clone();
    tokio::spawn(async move { bus.publish("t", json!(2)).await });
    world.clock.advance(10).await;
    let before = world.clock.steady();
    assert_eq!(code(world.bus.stop().await), Code::Unavailable);
    assert!(world.clock.steady() - before < 20_000);
    assert_eq!(code(world.bus.stop().await), Code::Unavailable, "called again, it says the same");
}

/// A store may know of some events of a batch and not of others.
#[tokio::test(start_paused = true)]
async fn an_event_in_the_middle_of_a_batch_whose_answer_is_lost_is_not_taken_for_a_hole() {
    let world = World::new().await;
    world.store.lose_answer_of(2);
    let mut sub = world.bus.subscribe("t").group("g").open().await.unwrap();
    let event = |n: u64| hub_core::NewEvent::new("t".parse().unwrap(), hub_core::Payload::of(&n).unwrap());
    let results = world.bus.publish_batch((1..=3).map(event).collect()).await;
    let answers: Vec<_> = results.into_iter().map(|result| result.map(|receipt| receipt.seq).ok()).collect();
    assert_eq!(answers, [Some(1), None, Some(3)]);
    assert_eq!(consume(&mut sub, 3).await, [1, 2, 3]);
    assert_eq!(world.floor("t").await, 3);
}

#[tokio::test(start_paused = true)]
async fn two_cleans_at_once_leave_the_newest_state_in_the_snapshot() {
    let compacted = hub_core::TopicSettings { compaction: true, ..Default::default() };
    let config = hub_core::Config { clean_interval: 1_000_000_000, ..Default::default() };
    let world = World::with(config.topic("c", compacted).unwrap()).await;
    world.bus.publish("c", json!("old")).key("k").await.unwrap();
    let mut looks = 0;
    world.store.script(move |call| {
        looks += u32::from(call == "newest");
        (call == "newest" && looks == 2).then_some(Fault::Delay(1_000))
    });
    let bus = world.bus.clone();
    let slow = tokio::spawn(async move { bus.clean("c").await });
    world.clock.advance(100).await;
    world.bus.publish("c", json!("new")).key("k").await.unwrap();
    world.bus.clean("c").await.unwrap();
    slow.await.unwrap().unwrap();
    let newest = world.bus.latest_by_key("c.snapshot", &["k"]).await.unwrap();
    let newest: serde_json::Value = newest[0].as_ref().unwrap().decode().unwrap();
    assert_eq!(newest["payload"], json!("new"));
}

#[tokio::test(start_paused = true)]
async fn a_long_line_behind_a_held_key_is_cleaned_away_whole() {
    let small = hub_core::TopicSettings { retention_bytes: Some(1000), ..Default::default() };
    let world = World::with(hub_core::Config::default().topic("t", small).unwrap()).await;
    let subscribe = world.bus.subscribe("t").group("g").ordering(hub_core::Ordering::Key);
    let mut sub = subscribe.open().await.unwrap();
    let event = |n: u64| {
        hub_core::NewEvent::new("t".parse().unwrap(), hub_core::Payload::of(&n).unwrap()).with_key("k")
    };
    for _ in 0..50 {
        world.bus.publish_batch((0..1000).map(event).collect()).await;
    }
    let held = next(&mut sub).await;
    world.bus.clean("t").await.unwrap();
    held.ack().unwrap();
    assert!(next(&mut sub).await.event().seq() > 49_000);
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_gives_up_while_its_group_is_made_leaves_no_member_behind() {
    let world = World::new().await;
    world.fill("t", [1]).await;
    world.break_once("commit", Fault::Stall(100));
    let opening = world.bus.subscribe("t").group("g").open();
    assert!(tokio::time::timeout(Duration::from_millis(50), opening).await.is_err());
    world.break_once("commit", Fault::Stall(100));
    let opening = world.bus.subscribe("**").group("g").open();
    assert!(tokio::time::timeout(Duration::from_millis(50), opening).await.is_err());
    world.clock.advance(1_000).await;
    assert_eq!(world.bus.group("t", "g").unwrap().members, 0);
}
