//! Making and deleting groups over a store that fails: nothing is half done.

use crate::world::{World, assert_silent, code, consume};
use hub_core::testkit::Fault;
use hub_core::{Code, Position};

#[tokio::test(start_paused = true)]
async fn a_group_that_could_not_be_stored_is_not_there() {
    let world = World::new().await;
    world.fill("t", [1]).await;
    world.break_all("commit", Fault::Refuse);
    assert_eq!(code(world.bus.subscribe("t").group("g").open().await), Code::Unavailable);
    assert_eq!(code(world.bus.subscribe("*").group("g").open().await), Code::Unavailable);
    assert!(world.bus.groups("t").is_empty() && world.bus.subscriptions().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_group_made_after_a_lost_answer_starts_where_it_is_told() {
    let world = World::new().await;
    world.fill("t", 1..=3).await;
    world.break_once("commit", Fault::LoseAnswer);
    assert_eq!(code(world.bus.subscribe("t").group("g").open().await), Code::Unavailable);
    let sub = world.bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let world = world.crashed(sub).await;
    let mut sub = world.bus.subscribe("t").group("g").open().await.unwrap();
    assert_eq!(consume(&mut sub, 3).await, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_changes_nothing_and_can_be_tried_again() {
    for fault in [Fault::Refuse, Fault::LoseAnswer] {
        let world = World::new().await;
        world.fill("t", 1..=3).await;
        let mut sub = world.bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
        consume(&mut sub, 2).await;
        world.break_once("commit", fault);
        assert_eq!(code(world.bus.delete_group("t", "g").await), Code::Unavailable);
        assert_eq!(consume(&mut sub, 1).await, [3], "{fault:?}: its members go on");
        world.clock.advance(1_000).await;
        let world = world.crashed(sub).await;
        assert_eq!(world.floor("t").await, 3, "{fault:?}");
        assert_eq!(world.bus.delete_group("t", "g").await.unwrap(), 1);
        let world = world.crashed(()).await;
        assert!(world.bus.groups("t").is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_whose_deletion_fails_is_still_there() {
    for fault in [Fault::Refuse, Fault::LoseAnswer] {
        let world = World::new().await;
        world.fill("a.x", [1]).await;
        let mut sub = world.bus.subscribe("a.*").group("g").from(Position::Earliest).open().await.unwrap();
        consume(&mut sub, 1).await;
        world.break_once("commit", fault);
        assert_eq!(code(world.bus.delete_group("a.*", "g").await), Code::Unavailable);
        world.clock.advance(1_000).await;
        let world = world.crashed(sub).await;
        assert_eq!((world.bus.subscriptions().len(), world.floor("a.x").await), (1, 1), "{fault:?}");
        let mut sub = world.bus.subscribe("a.*").group("g").open().await.unwrap();
        world.fill("a.y", [2]).await;
        assert_eq!(consume(&mut sub, 1).await, [2]);
        assert_silent(&mut sub).await;
        assert_eq!(world.bus.delete_group("a.*", "g").await.unwrap(), 2);
        let world = world.crashed(sub).await;
        assert!(world.bus.subscriptions().is_empty() && world.bus.groups("a.x").is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_born_while_the_store_is_away_is_not_missed_after_a_crash() {
    let world = World::new().await;
    let sub = world.bus.subscribe("a.*").group("g").open().await.unwrap();
    // The event is stored, the group of its topic is not.
    let mut commits = 0;
    world.store.script(move |call| {
        commits += u32::from(call == "commit");
        (call == "commit" && commits > 1).then_some(Fault::Refuse)
    });
    world.fill("a.x", [1]).await;
    world.clock.advance(1_000).await;
    let world = world.crashed(sub).await;
    let mut sub = world.bus.subscribe("a.*").group("g").open().await.unwrap();
    assert_eq!(consume(&mut sub, 1).await, [1]);
}
