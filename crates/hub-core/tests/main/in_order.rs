//! Events that are published in their order, none without those before it.

use crate::world::World;
use hub_core::testkit::Fault;
use hub_core::{Clock, Code, EventId, NewEvent, Position, Receipt, Result};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

fn event(n: u64) -> NewEvent {
    NewEvent::new("t".parse().unwrap(), json!(n).into()).with_id(EventId::derived(&[&n.to_be_bytes()]))
}

async fn publish(world: &World, events: Vec<NewEvent>) -> Vec<Result<Receipt>> {
    world.bus.in_order(events).send().await.results().await
}

/// The payloads of the topic.
async fn stored(world: &World) -> Vec<Value> {
    let events = world.bus.scan("t", Position::Earliest, None).await.unwrap();
    events.iter().map(|event| serde_json::from_slice(event.payload()).unwrap()).collect()
}

/// Counts commits from now on; `fault` decides about each call and how many commits there were.
fn count_commits(
    world: &World,
    fault: impl Fn(&str, usize) -> Option<Fault> + Send + 'static,
) -> Arc<AtomicUsize> {
    let commits = Arc::new(AtomicUsize::new(0));
    let counted = commits.clone();
    world.store.script(move |call| {
        let before = counted.fetch_add(usize::from(call == "commit"), SeqCst);
        fault(call, before + usize::from(call == "commit"))
    });
    commits
}

#[tokio::test(start_paused = true)]
async fn events_with_new_ids_are_one_commit_and_known_ones_go_alone() {
    let world = World::new().await;
    let commits = count_commits(&world, |_, _| None);
    assert!(publish(&world, (0..100).map(event).collect()).await.iter().all(Result::is_ok));
    assert_eq!(commits.swap(0, SeqCst), 1);
    let results = publish(&world, (99..110).map(event).collect()).await;
    assert_eq!((results.len(), commits.load(SeqCst)), (11, 2), "the known one, and the others");
    assert_eq!(results.iter().filter(|result| result.as_ref().unwrap().duplicate).count(), 1);
    assert_eq!(json!(stored(&world).await), json!((0..110).collect::<Vec<u64>>()));
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_ends_the_batch() {
    let world = World::new().await;
    assert!(publish(&world, vec![event(3)]).await[0].is_ok());
    // Three runs: before the known event, the known event, behind it.
    let commits = count_commits(&world, |call, n| (call == "commit" && n == 2).then_some(Fault::Refuse));
    let results = publish(&world, (1..6).map(event).collect()).await;
    let codes: Vec<_> = results.iter().map(|result| result.as_ref().err().map(|error| error.code)).collect();
    assert_eq!(codes, [None, None, Some(Code::Unavailable)]);
    assert_eq!(commits.load(SeqCst), 2);
    assert_eq!(json!(stored(&world).await), json!([3, 1, 2]));
}

#[tokio::test(start_paused = true)]
async fn ids_that_cannot_be_looked_up_go_alone() {
    let world = World::new().await;
    let commits = count_commits(&world, |call, _| (call == "seq_of").then_some(Fault::Refuse));
    assert!(publish(&world, (0..5).map(event).collect()).await.iter().all(Result::is_ok));
    assert_eq!(commits.load(SeqCst), 5);
    assert_eq!(json!(stored(&world).await), json!([0, 1, 2, 3, 4]));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_look_ids_up_is_waited_for_no_longer_than_a_publish_may_take() {
    let world = World::new().await;
    count_commits(&world, |call, _| (call == "seq_of").then_some(Fault::Delay(60_000)));
    let start = world.clock.steady();
    let results = publish(&world, (0..3).map(event).collect()).await;
    let took = world.clock.steady() - start;
    assert!(took <= 20_100, "{took} ms");
    assert!(!results.is_empty());
    let stored = stored(&world).await;
    assert_eq!(json!(stored), json!((0..stored.len()).collect::<Vec<_>>()), "the first ones, if any");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_dropped_leaves_the_first_events_and_takes_nothing_back() {
    let world = World::new().await;
    assert!(publish(&world, vec![event(3)]).await[0].is_ok());
    count_commits(&world, |call, n| (call == "commit" && n == 1).then_some(Fault::Delay(1_000)));
    let sending = world.bus.in_order((1..6).map(event).collect()).send();
    tokio::time::timeout(std::time::Duration::from_millis(500), sending).await.unwrap_err();
    tokio::time::sleep(std::time::Duration::from_millis(2_000)).await;
    assert_eq!(json!(stored(&world).await), json!([3, 1, 2]));
}
