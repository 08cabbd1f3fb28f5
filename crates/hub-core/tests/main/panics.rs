//! Tasks of the bus that panic: it does not go on as if nothing had happened.

use crate::world::World;
use hub_core::{Added, Code, Config, Error, Health, NewEvent, TopicSettings};
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
    assert_burst_is_refused(&world);
    assert_eq!(world.bus.bounds("t").await.unwrap().last, 1, "what was answered is there");
}

/// Nothing waits for room where nothing is committed any more.
fn assert_burst_is_refused(world: &World) {
    let event = |n: u64| NewEvent::new("t".parse().unwrap(), json!(n).into());
    let mut burst = world.bus.burst();
    let assert_not_stored = |error: &Error| {
        assert!(error.code == Code::Unavailable && error.id.is_some(), "{error:?}");
        assert!(error.msg.contains("was not stored"), "{error:?}");
    };
    match burst.add(event(4)) {
        Err(error) => assert_not_stored(&error),
        Ok(_) => panic!("an event was added to a burst that nobody commits"),
    }
    let (checked, added) = burst.add_all(vec![Ok(event(5)), Err(Error::bad_request("why")), Ok(event(6))]);
    assert!(matches!(added, Added::Taken), "nothing is left that could wait for room");
    let errors: Vec<&Error> = checked.errors().collect();
    assert_eq!((errors.len(), checked.good(), errors[1].code), (3, 0, Code::BadRequest));
    [errors[0], errors[2]].into_iter().for_each(assert_not_stored);
    assert!(burst.send().is_none());
}
