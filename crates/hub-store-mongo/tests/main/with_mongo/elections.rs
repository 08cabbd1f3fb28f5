//! A hub whose database has no primary for longer than its heartbeat is good for.

use hub_core::{Bus, ById, ClusterConfig};
use hub_store_mongo::{MongoStore, Options};
use hub_testbed::ReplicaSet;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const GROUPS: usize = 1_000;
/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Every member takes and acks one event.
async fn all_are_served(members: &mut [ById], seq: u64) {
    for member in members {
        let next = tokio::time::timeout(PATIENCE, member.recv()).await;
        let handed = next.expect("an event has to come").unwrap();
        assert_eq!(handed.event.seq(), seq);
        member.ack(handed.event.id(), None).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_groups_are_served_again_after_an_election() {
    let set = ReplicaSet::start(1).await.unwrap();
    let database = hub_testbed::database_on(&set.uri());
    let store = MongoStore::connect(Options::new(database.uri())).await.unwrap();
    let bus = Bus::builder(store).cluster(ClusterConfig::default()).open().await.unwrap();
    let mut joining = JoinSet::new();
    for n in 0..GROUPS {
        let group = bus.subscribe("t").group(&format!("g{n}"));
        joining.spawn(async move { group.open_by_id().await.unwrap() });
    }
    let mut members = joining.join_all().await;
    bus.publish("t", json!(1)).await.unwrap();
    all_are_served(&mut members, 1).await;

    set.without_primary(5).await.unwrap();
    let from = Instant::now();
    while bus.publish("t", json!(2)).await.is_err() {
        assert!(from.elapsed() < PATIENCE, "nothing can be published");
    }
    let published = from.elapsed();
    all_are_served(&mut members, 2).await;
    println!("published after {published:?}, all served again after {:?}", from.elapsed());
    bus.stop().await.unwrap();
}
