//! The hub killed in the middle of it, again and again, while one client publishes and another consumes. Neither is told.

use super::{client, run, soon};
use crate::hub::{Hub, Place};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hub_client::{Client, NewEvent, Payload, Position, Received, SubscribeOptions, TopicName};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const ROUNDS: u64 = 4;
const PUBLISHERS: u64 = 3;
/// Events of one publisher that wait for their answers.
const WINDOW: usize = 64;

/// Publishes until it is enough, with one window; the id and the place of every event, as answered.
async fn publish(
    client: Client,
    me: u64,
    answers: Arc<AtomicU64>,
    enough: Arc<AtomicBool>,
) -> Vec<(String, u64)> {
    let (mut under_way, mut stored, mut n) = (FuturesUnordered::new(), Vec::new(), 0_u64);
    loop {
        while under_way.len() < WINDOW && !enough.load(SeqCst) {
            n += 1;
            let payload = Payload::of(&json!({ "by": me, "n": n })).unwrap();
            under_way
                .push(client.submit(NewEvent::new(TopicName::parse("t").unwrap(), payload)).await.unwrap());
        }
        match soon(under_way.next()).await {
            // None fails: each is sent until it is answered.
            Some(receipt) => {
                let receipt = receipt.unwrap();
                stored.push((receipt.id.to_string(), receipt.seq));
                answers.fetch_add(1, SeqCst);
            }
            None => return stored,
        }
    }
}

/// Consumes with a group until told otherwise; how often each event was seen.
async fn consume(client: Client, seen: Arc<AtomicU64>) -> HashMap<u64, u64> {
    let options = SubscribeOptions { from: Some(Position::Earliest), ..SubscribeOptions::default() };
    let mut subscription = client.subscribe("t", Some("g"), options).await.unwrap();
    let mut events = HashMap::new();
    while let Ok(received) = subscription.recv().await {
        let Received::Event(message) = received else { panic!("{received:?}") };
        let before = events.entry(message.event().seq()).or_default();
        *before += 1;
        if *before == 1 {
            seen.fetch_add(1, SeqCst);
        }
        message.ack().unwrap();
    }
    events
}

async fn at_least(count: &AtomicU64, least: u64) {
    // A few milliseconds more or less: the kill is to come in the middle of it, wherever that is.
    soon(async {
        while count.load(SeqCst) < least {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[test]
fn every_event_that_was_answered_is_stored_once_and_consumed() {
    let place = Place::new();
    let data = place.path("data");
    let mut hub = Hub::start(&data, &[], &[]);
    run(async {
        let (publisher, consumer) = (client(&hub).await, client(&hub).await);
        let (answers, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let enough = Arc::new(AtomicBool::new(false));
        let publishing: Vec<_> = (0..PUBLISHERS)
            .map(|me| tokio::spawn(publish(publisher.clone(), me, answers.clone(), enough.clone())))
            .collect();
        let consuming = tokio::spawn(consume(consumer.clone(), seen.clone()));
        for round in 1..=ROUNDS {
            at_least(&answers, answers.load(SeqCst) + 1000 + 300 * round).await;
            hub.process.signal("KILL");
            assert_eq!(hub.process.ended(), -1, "by a signal");
            hub.start_again(&data);
        }
        at_least(&answers, answers.load(SeqCst) + 1000).await;
        enough.store(true, SeqCst);
        let mut answered = Vec::new();
        for publishing in publishing {
            answered.extend(soon(publishing).await.unwrap());
        }
        soon(publisher.close()).await;

        let log = tokio::task::block_in_place(|| {
            hub.ask(reqwest::Method::GET, "export?topic=t&ndjson=1", Some(hub.token()), "").1
        });
        let (mut by_id, mut by_payload) = (HashMap::new(), HashMap::new());
        for (seq, line) in (1..).zip(log.lines()) {
            let event: Value = serde_json::from_str(line).unwrap();
            assert_eq!(event["seq"], seq, "a gap");
            assert_eq!(by_id.insert(event["id"].as_str().unwrap().to_owned(), seq), None, "twice: {event}");
            assert_eq!(by_payload.insert(event["payload"].to_string(), seq), None, "twice: {event}");
        }
        println!("{} answered, {} stored, {ROUNDS} kills", answered.len(), by_id.len());
        assert_eq!(answered.len(), by_id.len(), "all have an answer");
        for (id, seq) in answered {
            assert_eq!(by_id.get(&id), Some(&seq), "{id}");
        }
        at_least(&seen, by_id.len() as u64).await;
        soon(consumer.close()).await;
        let events = soon(consuming).await.unwrap();
        assert_eq!(events.len(), by_id.len());
    });
    hub.stop();
}
