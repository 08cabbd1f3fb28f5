//! A store that commits topics independently of each other: one that hangs does not hold up the others.

use crate::world::{code, consume};
use hub_core::testkit::{Fault, FaultyStore, ManualClock};
use hub_core::{Bus, Clock, Code, Config, MemoryStore, NewEvent, Position, Receipt, Result, TopicName};
use serde_json::json;
use std::sync::Arc;
use tokio::task::JoinHandle;

struct World {
    store: FaultyStore,
    clock: ManualClock,
    bus: Bus,
}

impl World {
    /// A bus whose store makes so many commits at once.
    async fn new(lanes: usize, config: Config) -> Self {
        let store = FaultyStore::new(Arc::new(MemoryStore::new())).with_lanes(Some(lanes));
        let clock = ManualClock::new();
        let bus = Bus::builder(store.clone()).clock(clock.clone()).config(config).open().await.unwrap();
        Self { store, clock, bus }
    }

    fn publish(&self, topic: &'static str, n: u64) -> JoinHandle<Result<Receipt>> {
        let bus = self.bus.clone();
        tokio::spawn(async move { bus.publish(topic, json!([n, "x".repeat(900)])).await })
    }

    async fn values(&self, topic: &str) -> Vec<u64> {
        let events = self.bus.scan(topic, Position::Earliest, None).await.unwrap();
        events.iter().map(|event| event.decode::<(u64, String)>().unwrap().0).collect()
    }
}

fn topic(name: &str) -> TopicName {
    name.parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_topic_whose_commit_hangs_does_not_hold_up_the_others() {
    let world = World::new(4, Config::default()).await;
    world.store.hold(&topic("stuck"));
    let stuck = world.publish("stuck", 1);
    world.store.holds(1).await;
    let behind = world.publish("stuck", 2);
    for n in 0..200 {
        assert_eq!(world.bus.publish("well", json!(n)).await.unwrap().seq, n + 1);
    }
    assert!(!stuck.is_finished() && !behind.is_finished());
    world.store.release(&topic("stuck"));
    assert_eq!(stuck.await.unwrap().unwrap().seq, 1);
    assert_eq!(behind.await.unwrap().unwrap().seq, 2);
}

#[tokio::test(start_paused = true)]
async fn topics_that_hang_give_their_places_to_others() {
    let world = World::new(2, Config::default()).await;
    let names = ["a", "b", "c"];
    for name in names {
        world.store.hold(&topic(name));
    }
    let stuck = names.map(|name| world.publish(name, 1));
    world.store.holds(2).await;
    // There is no place left until those are held up, and the third one takes one of the new ones.
    assert_eq!(world.bus.publish("well", json!(1)).await.unwrap().seq, 1);
    world.store.holds(3).await;
    for n in 2..=50 {
        assert_eq!(world.bus.publish("well", json!(n)).await.unwrap().seq, n);
    }
    assert!(stuck.iter().all(|stuck| !stuck.is_finished()));
    names.iter().for_each(|name| world.store.release(&topic(name)));
    for stuck in stuck {
        assert_eq!(stuck.await.unwrap().unwrap().seq, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_hangs_is_unavailable_in_time_and_leaves_the_room_of_the_line_to_others() {
    let world = World::new(2, Config { queue_bytes: 4_000, ..Config::default() }).await;
    world.store.hold(&topic("stuck"));
    let start = world.clock.steady();
    // Several times what the line has room for.
    let stuck: Vec<_> = (0..20).map(|n| world.publish("stuck", n)).collect();
    world.store.holds(1).await;
    for n in 0..50 {
        let published = world.publish("well", n).await.unwrap();
        assert_eq!(published.unwrap().seq, n + 1);
    }
    assert!(world.clock.steady() - start < 20_000, "{} ms", world.clock.steady() - start);
    for stuck in stuck {
        assert_eq!(code(stuck.await.unwrap()), Code::Unavailable);
    }
    assert!(world.clock.steady() - start <= 21_000, "{} ms", world.clock.steady() - start);
    world.store.release(&topic("stuck"));
    world.publish("stuck", 100).await.unwrap().unwrap();
    assert_eq!(world.values("stuck").await.last(), Some(&100));
    assert_eq!(world.values("well").await, (0..50).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn what_one_publisher_sends_to_a_topic_is_committed_in_its_order_while_others_hang() {
    let world = World::new(1, Config { queue_bytes: 10_000, ..Config::default() }).await;
    for name in ["a", "b"] {
        world.store.hold(&topic(name));
    }
    let event = |name: &str, n: u64| NewEvent::new(topic(name), json!([n, "x".repeat(900)]).into());
    let mut burst = world.bus.burst();
    let mut sent = Vec::new();
    for n in 0..30 {
        for name in ["a", "b", "c"] {
            if let hub_core::Added::Crowded(room) = burst.add(event(name, n)).unwrap() {
                sent.extend(burst.send());
                sent.push(tokio::time::timeout(std::time::Duration::from_secs(30), room).await.unwrap());
                for name in ["a", "b"] {
                    world.store.release(&topic(name));
                }
            }
        }
    }
    sent.extend(burst.send());
    let mut receipts = Vec::new();
    for sent in sent {
        receipts.extend(sent.await);
    }
    assert_eq!(receipts.len(), 90);
    for (at, name) in ["a", "b", "c"].into_iter().enumerate() {
        let stored: Vec<u64> = (0..30)
            .zip(receipts.iter().skip(at).step_by(3))
            .filter_map(|(n, receipt)| receipt.as_ref().ok().map(|_| n))
            .collect();
        assert_eq!(world.values(name).await, stored, "{name}");
        assert!(!stored.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_over_several_topics_is_answered_in_its_order() {
    let world = World::new(2, Config::default()).await;
    let names = ["a", "b", "a", "c", "b", "a"];
    let events = names.map(|name| NewEvent::new(topic(name), json!(1).into())).to_vec();
    let receipts = world.bus.publish_batch(events).await;
    let seqs: Vec<_> = receipts.into_iter().map(|receipt| receipt.unwrap().seq).collect();
    assert_eq!(seqs, [1, 1, 2, 1, 2, 3]);
    world.store.hold(&topic("b"));
    let events = ["a", "b"].map(|name| NewEvent::new(topic(name), json!(1).into())).to_vec();
    let receipts = world.bus.publish_batch(events).await;
    assert_eq!(receipts[0].as_ref().unwrap().seq, 4);
    assert_eq!(receipts[1].as_ref().unwrap_err().code, Code::Unavailable);
    assert!(receipts[1].as_ref().unwrap_err().id.is_some());
}

#[tokio::test(start_paused = true)]
async fn groups_are_saved_while_a_topic_hangs() {
    let world = World::new(2, Config::default()).await;
    let mut sub = world.bus.subscribe("well").group("g").open().await.unwrap();
    world.store.hold(&topic("stuck"));
    let stuck = world.publish("stuck", 1);
    world.store.holds(1).await;
    world.bus.publish("well", json!(1)).await.unwrap();
    consume(&mut sub, 1).await;
    world.bus.flush().await.unwrap();
    assert!(!stuck.is_finished());
    assert_eq!(world.bus.get_cursor("well", "g").await.unwrap().unwrap().seq, 1);
}

#[tokio::test(start_paused = true)]
async fn a_hub_stops_when_what_is_in_its_lanes_is_committed() {
    let world = World::new(2, Config::default()).await;
    world.store.script(|call| (call == "commit").then_some(Fault::Delay(3_000)));
    let published: Vec<_> = ["a", "b", "c", "d"].map(|name| world.publish(name, 1)).into();
    tokio::task::yield_now().await;
    world.bus.stop().await.unwrap();
    for published in published {
        assert_eq!(published.await.unwrap().unwrap().seq, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_failed_commit_is_found_while_other_topics_hang() {
    let world = World::new(2, Config::default()).await;
    let mut sub = world.bus.subscribe("well").group("g").open().await.unwrap();
    // The store does not say what became of the first one, as long as it is asked; its name comes first.
    world.bus.publish("a", json!(0)).await.unwrap();
    let mut bounds = 0;
    world.store.script(move |call| match call {
        "commit" => Some(Fault::LoseAnswer),
        "bounds" => {
            bounds += 1;
            (bounds == 1).then_some(Fault::Delay(3_600_000))
        }
        _ => None,
    });
    assert_eq!(code(world.bus.publish("a", json!(1)).await), Code::Unavailable);
    tokio::task::yield_now().await;
    assert_eq!(code(world.bus.publish("well", json!(1)).await), Code::Unavailable);
    assert_eq!(consume(&mut sub, 1).await, [1]);
}
