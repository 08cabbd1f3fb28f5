//! Tasks of the bus that panic: it does not go on as if nothing had happened.

use crate::world::World;
use hub_core::{Code, Config, Health, TopicSettings};
use serde_json::json;
use std::time::Duration;

/// The next call named `call` panics, and no other.
fn panic_once(world: &World, call: &'static str) {
    let mut is_armed = true;
    world.store.script(move |called| {
        assert!(!(called == call && std::mem::replace(&mut is_armed, false)), "a panic of the test");
        None
    });
}

#[tokio::test(start_paused = true)]
async fn a_cleaner_that_panics_is_named_and_begun_again() {
    let settings = TopicSettings { compaction: true, ..TopicSettings::default() };
    let world = World::with(Config::default().topic("t", settings).unwrap()).await;
    for n in 1..=2 {
        world.bus.publish("t", json!(n)).key("k").await.unwrap();
    }
    panic_once(&world, "clean");
    world.clock.advance(30_500).await;
    let health = world.bus.health();
    let named = "the cleaner panicked (count 1, last: a panic of the test)";
    assert_eq!(
        health,
        Health { unavailable: Some(named.into()), warnings: vec![named.into()], ..Health::default() }
    );
    assert!(world.metrics().contains("task_panics_total{task=\"cleaner\"} 1\n"));

    world.clock.advance(1_000).await;
    assert_eq!(world.bus.health().unavailable, None, "it runs again");
    assert_eq!(world.bus.health().warnings, [named], "and that it panicked is not forgotten");
    world.clock.advance(30_500).await;
    assert_eq!(world.bus.bounds("t").await.unwrap().events, 1, "it cleans");
}

#[tokio::test(start_paused = true)]
async fn a_bus_whose_committer_panics_has_failed_and_says_so() {
    let world = World::new().await;
    world.fill("t", [1]).await;
    panic_once(&world, "commit");
    let told = world.bus.publish("t", json!(2)).await.unwrap_err();
    assert_eq!(told.code, Code::Unavailable, "{told:?}");
    tokio::time::timeout(Duration::from_secs(60), world.bus.failed()).await.expect("it is told");
    let named = "the committer panicked (count 1, last: a panic of the test)";
    assert_eq!(world.bus.health().unavailable.as_deref(), Some(named));
    assert_eq!(world.bus.publish("t", json!(3)).await.unwrap_err().code, Code::Unavailable);
    assert_eq!(world.bus.bounds("t").await.unwrap().last, 1, "what was answered is there");
}
