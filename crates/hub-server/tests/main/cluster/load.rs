//! Owners that go while events flow. Every event is accounted for.

use super::nodes::*;
use crate::world::Client;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use tokio_tungstenite::tungstenite::Message;

const EVENTS: u64 = 6_000;

/// What consumers were given: seq, attempt, who.
type Given = Vec<(u64, u64, usize)>;

/// Acks what comes until everything is settled.
async fn consume(mut client: Client, who: usize, over: Arc<AtomicBool>, acked: Arc<AtomicU64>) -> Given {
    let mut given = Vec::new();
    while !over.load(SeqCst) {
        let next = tokio::time::timeout(std::time::Duration::from_millis(50), client.socket.next()).await;
        let Ok(Some(Ok(Message::Text(text)))) = next else { continue };
        let event: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(event["op"], "EVENT", "{event}");
        given.push((seq(&event), event["ctx"]["attempt"].as_u64().unwrap(), who));
        client.socket.send(Message::text(ack(&event).to_string())).await.unwrap();
        acked.fetch_add(1, SeqCst);
    }
    given
}

async fn under_load(config: hub_core::ClusterConfig, dies: bool) {
    let cluster = Cluster::new();
    let owner = cluster.node_with(Default::default(), config.clone()).await;
    let one = cluster.node_with(Default::default(), config.clone()).await;
    let two = cluster.node_with(Default::default(), config).await;
    owner.owns("g").await;
    let (over, acked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut consumers = Vec::new();
    for (who, node) in [&one, &two, &one, &two].into_iter().enumerate() {
        let mut client = node.client().await;
        client.ok(subscribe("t", json!({"maxInFlight": 50, "from": "earliest"}))).await;
        consumers.push(tokio::spawn(consume(client, who, over.clone(), acked.clone())));
    }
    assert_eq!(owner.members("t", "g"), 4);
    let mut publishers = Vec::new();
    for node in [&one, &two] {
        let bus = node.bus().clone();
        publishers.push(tokio::spawn(async move {
            for n in 0..EVENTS / 2 {
                bus.publish("t", json!(n)).await.unwrap();
            }
        }));
    }
    until("a third is done", || acked.load(SeqCst) > EVENTS / 3).await;
    match dies {
        true => owner.kill(),
        false => owner.stop().await,
    }
    for publisher in publishers {
        tokio::time::timeout(PATIENCE, publisher).await.unwrap().unwrap();
    }
    let is_settled = |node: &Node| node.bus().group("t", "g").is_some_and(|group| group.floor == EVENTS);
    until("everything is settled", || is_settled(&one) || is_settled(&two)).await;
    over.store(true, SeqCst);
    let mut by_seq: BTreeMap<u64, Given> = BTreeMap::new();
    for consumer in consumers {
        for (seq, attempt, who) in consumer.await.unwrap() {
            by_seq.entry(seq).or_default().push((seq, attempt, who));
        }
    }
    assert_eq!(by_seq.len() as u64, EVENTS, "every event came to somebody");
    let twice: Vec<_> = by_seq.values().filter(|given| given.len() > 1).collect();
    assert!(twice.is_empty(), "{} came twice, such as {:?}", twice.len(), &twice[..twice.len().min(5)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_stops_under_load_loses_and_doubles_nothing() {
    under_load(patient(), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_dies_under_load_loses_and_doubles_nothing() {
    under_load(watchful(), true).await;
}
