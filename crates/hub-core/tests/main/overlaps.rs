//! Subscriptions that share groups, change, and end while others join.

use crate::world::{World, code, consume, next, value};
use hub_core::testkit::Fault;
use hub_core::{Code, Config, Position};

const DAY: u64 = 24 * 3_600_000;

/// Groups expire after a day, and only when a test says so.
fn expiring() -> Config {
    Config { group_expire_days: 1, clean_interval: 1_000_000_000, ..Config::default() }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_changes_leaves_groups_alone_that_others_drive() {
    let world = World::new().await;
    world.fill("t.a", [1]).await;
    world.fill("t.b", [2]).await;
    let list = |topics: &'static [&'static str]| {
        world.bus.subscribe_all("list", topics.iter().copied()).group("g").from(Position::Earliest).open()
    };
    list(&["t.a", "t.b"]).await.unwrap().close();
    let mut pattern = world.bus.subscribe("t.*").group("g").from(Position::Earliest).open().await.unwrap();
    consume(&mut pattern, 2).await;
    list(&["t.a"]).await.unwrap().close();
    world.fill("t.b", [3]).await;
    assert_eq!(consume(&mut pattern, 1).await, [3]);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_expires_leaves_a_group_alone_that_somebody_uses_by_itself() {
    let world = World::with(expiring()).await;
    world.fill("t.a", [1]).await;
    world.fill("t.b", [1]).await;
    world.bus.subscribe("t.*").group("g").open().await.unwrap().close();
    let mut direct = world.bus.subscribe("t.a").group("g").open().await.unwrap();
    world.clock.advance(25 * 3_600_000).await;
    world.bus.housekeeping().await;
    assert!(world.bus.subscriptions().is_empty() && world.bus.group("t.b", "g").is_none());
    world.fill("t.a", [2]).await;
    assert_eq!(consume(&mut direct, 1).await, [2]);
    direct.close();
    world.clock.advance(2 * DAY).await;
    world.bus.housekeeping().await;
    assert!(world.bus.group("t.a", "g").is_none(), "by itself it expires like any other");
}

#[tokio::test(start_paused = true)]
async fn a_group_does_not_expire_under_somebody_who_joins_meanwhile() {
    let world = World::with(expiring()).await;
    for topic in ["a", "b"] {
        world.fill(topic, [1]).await;
        world.bus.subscribe(topic).group("g").open().await.unwrap().close();
    }
    world.clock.advance(25 * 3_600_000).await;
    world.break_once("commit", Fault::Delay(200));
    let bus = world.bus.clone();
    let expiring = tokio::spawn(async move { bus.housekeeping().await });
    world.clock.advance(50).await;
    let mut sub = world.bus.subscribe("b").group("g").open().await.unwrap();
    let mut remade = world.bus.subscribe("a").group("g").open().await.unwrap();
    expiring.await.unwrap();
    world.fill("a", [2]).await;
    world.fill("b", [3]).await;
    assert_eq!((value(&next(&mut sub).await), value(&next(&mut remade).await)), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn who_joins_while_a_list_changes_meets_the_new_one() {
    let world = World::new().await;
    world.fill("t.a", [1]).await;
    world.fill("t.b", [2]).await;
    world.bus.subscribe_all("l", ["t.a"]).group("g").open().await.unwrap().close();
    world.clock.advance(1000).await;
    world.break_once("commit", Fault::Delay(200));
    let bus = world.bus.clone();
    let changing =
        tokio::spawn(async move { bus.subscribe_all("l", ["t.a", "t.b"]).group("g").open().await });
    world.clock.advance(50).await;
    let old = world.bus.subscribe_all("l", ["t.a"]).group("g").open().await;
    let mut changed = changing.await.unwrap().unwrap();
    assert_eq!(code(old), Code::GroupConflict);
    world.fill("t.b", [3]).await;
    assert_eq!(consume(&mut changed, 1).await, [3]);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_could_not_be_deleted_with_its_list_expires_by_itself() {
    let world = World::with(expiring()).await;
    world.fill("t.a", [1]).await;
    world.fill("t.b", [2]).await;
    world.bus.subscribe_all("l", ["t.a", "t.b"]).group("g").open().await.unwrap().close();
    world.clock.advance(1000).await;
    let mut commits = 0;
    world.store.script(move |call| {
        commits += u32::from(call == "commit");
        (call == "commit" && commits == 2).then_some(Fault::Refuse)
    });
    assert_eq!(code(world.bus.subscribe_all("l", ["t.a"]).group("g").open().await), Code::Unavailable);
    world.store.heal();
    world.bus.subscribe_all("l", ["t.a"]).group("g").open().await.unwrap().close();
    world.clock.advance(2 * DAY).await;
    world.bus.housekeeping().await;
    assert!(world.bus.group("t.b", "g").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_list_cannot_take_the_place_of_a_pattern() {
    let world = World::new().await;
    world.fill("t.a", [1]).await;
    world.fill("t.b", [2]).await;
    world.bus.subscribe("t.*").group("g").open().await.unwrap().close();
    let error = world.bus.subscribe_all("t.*", ["t.a"]).group("g").open().await.unwrap_err();
    assert_eq!(error.code, Code::BadRequest);
    assert!(error.msg.contains("\"t.*\"") && error.msg.contains("without *"), "{error}");
    assert!(world.bus.group("t.a", "g").is_some() && world.bus.group("t.b", "g").is_some());
    assert!(world.bus.subscription("t.*", "g").unwrap().topics.is_empty());
}
