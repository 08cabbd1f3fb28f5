//! The program killed under load, again and again.

use crate::hub::{Hub, Place};
use crate::socket::Socket;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const ROUNDS: usize = 4;
const PUBLISHERS: usize = 3;
/// Publishes of one connection that wait for their answers.
const WINDOW: usize = 64;

/// An id for the `n`th event of a publisher.
fn id(publisher: usize, n: usize) -> String {
    format!("0190{publisher:04x}-0000-7000-8000-{n:012x}")
}

/// What one publisher knows: the next event that it has not sent, those without an answer, and the answers.
#[derive(Default)]
struct Published {
    next: usize,
    open: Vec<usize>,
    seqs: HashMap<String, u64>,
}

/// Publishes until the hub is gone. What had no answer is sent again, under the same id.
async fn publish(hub: &Hub, me: usize, published: &mut Published, answers: &AtomicUsize) {
    let mut socket = Socket::open(hub.ws(), hub.token()).await;
    let again = std::mem::take(&mut published.open);
    let mut waiting = std::collections::VecDeque::new();
    let mut again = again.into_iter();
    loop {
        while waiting.len() < WINDOW {
            let n = again.next().unwrap_or_else(|| {
                published.next += 1;
                published.next
            });
            waiting.push_back(n);
            let publish = json!({"op": "PUBLISH", "topic": "t", "payload": {"by": me, "n": n}, "opts": {"id": id(me, n)}});
            if socket.send(&publish).await.is_err() {
                break;
            }
        }
        let Ok(answer) = socket.next().await else { break };
        assert_eq!(answer["op"], "OK", "{answer}");
        let n = waiting.pop_front().unwrap();
        assert_eq!(answer["id"], id(me, n), "answers come in their order");
        let before = published.seqs.insert(id(me, n), answer["seq"].as_u64().unwrap());
        assert_eq!(before, None);
        answers.fetch_add(1, SeqCst);
    }
    published.open = waiting.into_iter().chain(again).collect();
}

/// Takes events and acks them until the hub is gone, or until `enough` says so.
async fn consume(hub: &Hub, seen: &mut HashSet<String>, enough: impl Fn(&HashSet<String>) -> bool) {
    let mut socket = Socket::open(hub.ws(), hub.token()).await;
    let subscribe = json!({"op": "SUBSCRIBE", "topic": "t", "group": "g", "opts": {"from": "earliest"}});
    if socket.send(&subscribe).await.is_err() {
        return;
    }
    while !enough(seen) {
        let Ok(frame) = socket.next().await else { return };
        if frame["op"] == "EVENT" {
            let id = frame["event"]["id"].as_str().unwrap();
            seen.insert(id.to_owned());
            let ack = json!({"op": "ACK", "topic": "t", "group": "g", "id": id});
            if socket.send(&ack).await.is_err() {
                return;
            }
        }
    }
}

#[test]
fn whatever_was_acknowledged_is_there_once_and_the_group_misses_nothing() {
    let place = Place::new();
    let data = place.path("data");
    let mut published: Vec<Published> = (0..PUBLISHERS).map(|_| Published::default()).collect();
    let mut seen = vec![HashSet::new(), HashSet::new()];
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for round in 0..ROUNDS {
        let mut hub = Hub::start(&data, &[], &[]);
        let answers = AtomicUsize::new(0);
        runtime.block_on(async {
            let publishing = published.iter_mut().enumerate();
            let publishing = publishing.map(|(me, published)| publish(&hub, me, published, &answers));
            let consuming = seen.iter_mut().map(|seen| consume(&hub, seen, |_| false));
            let killing = async {
                // In the middle of it, wherever that is.
                while answers.load(SeqCst) < 1500 + 700 * round {
                    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
                }
                hub.process.signal("KILL");
            };
            let all = futures_util::future::join_all(publishing);
            futures_util::join!(all, futures_util::future::join_all(consuming), killing);
        });
        assert_eq!(hub.process.ended(), -1, "by a signal");
    }

    let hub = Hub::start(&data, &[], &[]);
    let (status, log) = hub.ask(reqwest::Method::GET, "export?topic=t&ndjson=1", Some(hub.token()), "");
    assert_eq!(status, 200);
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut stored = HashMap::new();
    for (seq, event) in (1..).zip(&events) {
        assert_eq!(event["seq"], seq, "a gap");
        let before = stored.insert(event["id"].as_str().unwrap().to_owned(), seq);
        assert_eq!(before, None, "{} is there twice", event["id"]);
    }
    let acknowledged: Vec<_> = published.iter().flat_map(|published| &published.seqs).collect();
    println!("{} acknowledged, {} stored, {ROUNDS} kills", acknowledged.len(), stored.len());
    for (id, seq) in acknowledged {
        assert_eq!(stored.get(id), Some(seq), "{id}");
    }
    // One more consumer takes what is left.
    let mut all: HashSet<String> = seen.into_iter().flatten().collect();
    runtime.block_on(consume(&hub, &mut all, |all| all.len() >= stored.len()));
    assert!(stored.keys().all(|id| all.contains(id)) && all.len() == stored.len());
    hub.stop();
}
