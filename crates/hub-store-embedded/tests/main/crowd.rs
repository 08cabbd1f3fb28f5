//! So many publishers that the committer takes a thread of its own, and so few that it gives it up again.

use hub_core::{Bus, Config, TopicName};
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::{EmbeddedStore, OpenError, Options};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const CROWD: usize = 300;
const EACH: usize = 20;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn open(disk: &SimDisk) -> Result<EmbeddedStore, OpenError> {
    EmbeddedStore::open_on(Arc::new(disk.clone()), Options { segment_bytes: 256 << 10, ..Options::default() })
}

async fn open_bus(disk: &SimDisk) -> Bus {
    let config = Config { publish_timeout: 60_000, ..Config::default() };
    Bus::builder(open(disk).unwrap()).config(config).open().await.unwrap()
}

fn topic() -> TopicName {
    TopicName::parse("orders").unwrap()
}

/// Everybody publishes, each event after the answer to the one before: the seqs.
async fn crowd(bus: &Bus) -> Vec<Vec<u64>> {
    let mut tasks = JoinSet::new();
    for publisher in 0..CROWD {
        let bus = bus.clone();
        tasks.spawn(async move {
            let mut seqs = Vec::new();
            for at in 0..EACH {
                seqs.push(bus.publish(&topic(), json!([publisher, at])).await.unwrap().seq);
            }
            seqs
        });
    }
    tasks.join_all().await
}

#[test]
fn a_crowd_a_lone_publisher_and_a_crowd_again_lose_nothing() {
    let disk = SimDisk::new(3);
    runtime().block_on(async {
        let bus = open_bus(&disk).await;
        let mut given = BTreeSet::new();
        for _ in 0..3 {
            for seqs in crowd(&bus).await {
                assert!(seqs.is_sorted(), "what a publisher sends later is later in the log: {seqs:?}");
                given.extend(seqs);
            }
            for at in 0..50 {
                given.insert(bus.publish(&topic(), json!(at)).await.unwrap().seq);
            }
        }
        let count = 3 * (CROWD * EACH + 50) as u64;
        assert_eq!(given, (1..=count).collect(), "every seq once, none left out");
        bus.stop().await.unwrap();
    });
    let store = open(&disk).unwrap();
    runtime().block_on(async {
        let bus = Bus::builder(store).open().await.unwrap();
        assert_eq!(bus.bounds(&topic()).await.unwrap().last, 3 * (CROWD * EACH + 50) as u64);
        bus.stop().await.unwrap();
    });
}

#[test]
fn a_bus_stops_under_a_crowd_and_what_it_answered_is_there() {
    let disk = SimDisk::new(4);
    let answered = runtime().block_on(async {
        let bus = open_bus(&disk).await;
        let mut tasks = JoinSet::new();
        for _ in 0..CROWD {
            let bus = bus.clone();
            tasks.spawn(async move {
                let mut answered = 0;
                while let Ok(receipt) = bus.publish(&topic(), json!(1)).await {
                    answered = answered.max(receipt.seq);
                }
                answered
            });
        }
        while bus.bounds(&topic()).await.map_or(0, |bounds| bounds.last) < 5_000 {
            tokio::task::yield_now().await;
        }
        bus.stop().await.unwrap();
        tasks.join_all().await.into_iter().max().unwrap()
    });
    runtime().block_on(async {
        let bus = open_bus(&disk).await;
        assert!(bus.bounds(&topic()).await.unwrap().last >= answered);
        bus.stop().await.unwrap();
    });
}

#[test]
fn a_runtime_that_goes_away_under_a_crowd_gives_the_directory_back() {
    let disk = SimDisk::new(5);
    let hub = runtime();
    let (answers, mut answered) = mpsc::unbounded_channel();
    let bus = hub.block_on(open_bus(&disk));
    for _ in 0..CROWD {
        let (bus, answers) = (bus.clone(), answers.clone());
        hub.spawn(async move {
            while let Ok(receipt) = bus.publish(&topic(), json!(1)).await {
                let _ = answers.send(receipt.seq);
            }
        });
    }
    drop(answers);
    while answered.blocking_recv().unwrap() < 5_000 {}
    drop(bus);
    drop(hub);
    let mut highest = 0;
    while let Some(seq) = answered.blocking_recv() {
        highest = highest.max(seq);
    }
    runtime().block_on(async {
        let bus = open_bus(&disk).await;
        assert!(bus.bounds(&topic()).await.unwrap().last >= highest);
        bus.stop().await.unwrap();
    });
}
