//! So many publishers that the committer takes a thread of its own, and so few that it gives it up again.

use hub_core::{Added, Bus, Config, NewEvent, TopicName};
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
/// Events of a burst.
const TOGETHER: usize = 5;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn open(disk: &SimDisk) -> Result<EmbeddedStore, OpenError> {
    EmbeddedStore::open_on(
        Arc::new(disk.clone()),
        Options { segment_bytes: 256 << 10, disk_reserve: 0, ..Options::default() },
    )
}

async fn open_bus(disk: &SimDisk) -> Bus {
    let config = Config { publish_timeout: 60_000, ..Config::default() };
    Bus::builder(open(disk).unwrap()).config(config).open().await.unwrap()
}

fn topic() -> TopicName {
    TopicName::parse("orders").unwrap()
}

/// Publishes one event, or sends several together: their seqs, or nothing if the hub has stopped.
async fn publish(bus: &Bus, together: usize) -> Vec<u64> {
    if together == 1 {
        return bus.publish(&topic(), json!(1)).await.into_iter().map(|receipt| receipt.seq).collect();
    }
    let mut burst = bus.burst();
    for at in 0..together {
        let added = burst.add(NewEvent::new(topic(), json!(at).into()));
        assert!(!matches!(added, Ok(Added::Crowded(_))), "there is room for all of them");
    }
    let Some(sent) = burst.send() else { return Vec::new() };
    sent.await.into_iter().flatten().map(|receipt| receipt.seq).collect()
}

/// Everybody publishes, each time after the answer to what was before: the seqs. Each `bursts`th publisher sends several
/// events at a time; if it is 0, none does.
async fn crowd(bus: &Bus, bursts: usize) -> Vec<Vec<u64>> {
    let mut tasks = JoinSet::new();
    for publisher in 1..=CROWD {
        let bus = bus.clone();
        let together = if bursts > 0 && publisher % bursts == 0 { TOGETHER } else { 1 };
        tasks.spawn(async move {
            let mut seqs = Vec::new();
            for _ in 0..EACH / together {
                seqs.extend(publish(&bus, together).await);
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
        // Nobody sends bursts, everybody does, and half of them do.
        for bursts in 0..3 {
            for seqs in crowd(&bus, bursts).await {
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
        for publisher in 0..CROWD {
            let bus = bus.clone();
            tasks.spawn(async move {
                let together = if publisher % 2 == 0 { TOGETHER } else { 1 };
                let mut answered = 0;
                while let Some(seq) = publish(&bus, together).await.into_iter().max() {
                    answered = answered.max(seq);
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
