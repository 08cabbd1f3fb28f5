//! One of two shards fails in every way that a shard can, while events are published to topics of both.

use super::sharded::Cluster;
use super::world::{log, seqs};
use hub_core::{Bus, EventId, IdGenerator, Payload};
use hub_testbed::ReplicaSet;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long the shard is away, at least.
const OUTAGE: Duration = Duration::from_secs(3);
const TOPICS: [&str; 4] = ["a1", "a2", "z1", "z2"];

/// What one publisher was answered.
#[derive(Default)]
struct Published {
    acknowledged: BTreeMap<u64, EventId>,
    /// The longest time that a publish took while the shard was away.
    longest: Duration,
}

/// Publishes to a topic until it is told to stop. An event without a good answer is sent again under its id.
async fn publish(
    bus: Bus,
    topic: &'static str,
    stop: Arc<AtomicBool>,
    away: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
) -> Published {
    let (ids, mut published) = (IdGenerator::new(), Published::default());
    while !stop.load(Relaxed) {
        let (id, started) = (ids.next(bus.now()), Instant::now());
        let (seq, was_away) = loop {
            let was_away = away.load(Relaxed);
            match bus.publish(topic, Payload::null()).id(id).await {
                Ok(receipt) => break (receipt.seq, was_away),
                Err(error) => assert_eq!(error.code.as_str(), "unavailable", "{error}"),
            }
        };
        if was_away {
            published.longest = published.longest.max(started.elapsed());
        }
        published.acknowledged.insert(seq, id);
        done.fetch_add(1, Relaxed);
    }
    published
}

/// The shard is away for a while, and back when this is over.
async fn outage(shard: &ReplicaSet, kind: &str) {
    let node = &shard.nodes()[0];
    match kind {
        "freeze" => {
            node.freeze().unwrap();
            tokio::time::sleep(OUTAGE).await;
            node.thaw().unwrap();
        }
        "kill" => {
            node.kill().unwrap();
            tokio::time::sleep(OUTAGE).await;
            node.restart().await.unwrap();
        }
        _ => shard.without_primary(i32::try_from(OUTAGE.as_secs()).unwrap()).await.unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_fails_loses_nothing_and_publishes_to_the_other_go_on() {
    let rounds =
        std::env::var("EVENT_HUB_FAILOVER_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let cluster = Cluster::start_spread().await;
    let store = cluster.world.store().await;
    let bus = Bus::builder(store.clone()).open().await.unwrap();
    let (stop, away) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let counts = TOPICS.map(|_| Arc::<AtomicU64>::default());
    let publishers: Vec<_> = TOPICS
        .into_iter()
        .zip(&counts)
        .map(|(topic, done)| {
            tokio::spawn(publish(bus.clone(), topic, stop.clone(), away.clone(), done.clone()))
        })
        .collect();
    let goes_on = async |topics: &[usize]| {
        let before = counts.each_ref().map(|done| done.load(Relaxed));
        let has_gone_on = || topics.iter().all(|topic| counts[*topic].load(Relaxed) >= before[*topic] + 20);
        let deadline = Instant::now() + Duration::from_secs(60);
        while !has_gone_on() {
            assert!(Instant::now() < deadline, "publishes to {topics:?} do not go on");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    for round in 1..=rounds {
        for kind in ["freeze", "kill", "step down"] {
            goes_on(&[0, 1, 2, 3]).await;
            away.store(true, Relaxed);
            // The topics of the other shard go on while this one is away.
            let other = counts[0].load(Relaxed);
            tokio::join!(outage(&cluster.sharded.shards()[1], kind), goes_on(&[0, 1]));
            away.store(false, Relaxed);
            println!(
                "round {round}, {kind}: {} publishes to one topic of the other shard",
                counts[0].load(Relaxed) - other
            );
        }
    }
    goes_on(&[0, 1, 2, 3]).await;
    stop.store(true, Relaxed);
    for (topic, publisher) in TOPICS.into_iter().zip(publishers) {
        let published = publisher.await.unwrap();
        let stored = log(&store, topic).await;
        let found: BTreeMap<u64, EventId> = stored.iter().map(|event| (event.seq(), event.id())).collect();
        assert_eq!(found, published.acknowledged, "{topic}: what is stored is what was acknowledged");
        assert_eq!(seqs(&stored), (1..=stored.len() as u64).collect::<Vec<_>>(), "{topic} has no gap");
        println!(
            "{topic}: {} events, the longest publish during an outage took {:?}",
            stored.len(),
            published.longest
        );
    }
    bus.stop().await.unwrap();
}
