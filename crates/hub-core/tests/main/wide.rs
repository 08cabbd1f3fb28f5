//! A subscription that covers more topics than are walked over in one go.

use crate::world::{World, next};
use hub_core::{Position, Subscription};
use serde_json::json;
use std::time::Duration;

const TOPICS: usize = 700;

fn topic(n: usize) -> String {
    format!("wide.t{n:03}")
}

async fn world() -> World {
    let world = World::new().await;
    for n in 0..TOPICS {
        world.fill(&topic(n), [1]).await;
    }
    world
}

/// Waits until nothing was delivered for a while.
async fn drain(sub: &mut Subscription) -> usize {
    let mut count = 0;
    while let Ok(delivery) = tokio::time::timeout(Duration::from_millis(200), sub.recv()).await {
        delivery.unwrap().ack().unwrap();
        count += 1;
    }
    count
}

#[tokio::test(start_paused = true)]
async fn every_topic_of_a_wide_pattern_is_joined_once() {
    let world = world().await;
    let mut sub = world.bus.subscribe("wide.**").group("g").from(Position::Earliest).open().await.unwrap();
    assert_eq!(drain(&mut sub).await, TOPICS);
    world.fill("wide.new", [1]).await;
    assert_eq!(next(&mut sub).await.event().topic().as_str(), "wide.new");
    assert_eq!(world.bus.groups("wide.t000")[0].members, 1);
}

#[tokio::test(start_paused = true)]
async fn a_pause_of_a_wide_pattern_comes_to_every_topic_and_the_last_word_counts() {
    let world = world().await;
    let mut sub = world.bus.subscribe("wide.**").group("g").open().await.unwrap();
    for _ in 0..3 {
        sub.pause();
        sub.resume();
    }
    sub.pause();
    world.clock.advance(100).await;
    for n in 0..TOPICS {
        world.bus.publish(&topic(n), json!(2)).await.unwrap();
    }
    assert_eq!(drain(&mut sub).await, 0);
    sub.resume();
    assert_eq!(drain(&mut sub).await, TOPICS);
}

#[tokio::test(start_paused = true)]
async fn a_member_of_a_wide_pattern_that_leaves_gives_everything_back() {
    let world = world().await;
    let join = || world.bus.subscribe("wide.**").group("g").from(Position::Earliest).open();
    let mut first = join().await.unwrap();
    for _ in 0..100 {
        std::mem::forget(next(&mut first).await);
    }
    first.close();
    let mut second = join().await.unwrap();
    assert_eq!(drain(&mut second).await, TOPICS);
    assert_eq!(world.bus.groups("wide.t000")[0].members, 1);
}
