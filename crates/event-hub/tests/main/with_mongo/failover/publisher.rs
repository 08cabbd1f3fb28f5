//! Publishes, and sends again under the same id whatever was not answered with OK.

use super::TOPIC;
use super::load::Load;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hub_client::{
    Code, Connection, ErrorKind, EventId, NewEvent, Payload, PublishOptions, Receipt, TopicName,
};
use serde_json::json;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Events of one publisher that wait for their answers.
const WINDOW: usize = 8;
/// Events that nobody has acked yet, beyond which nothing new is published.
const BACKLOG: u64 = 1_000;
const KEYS: u64 = 24;
/// Before something that was refused is sent again.
const PAUSE: Duration = Duration::from_millis(20);

/// An event, and how often it was sent.
struct Draft {
    event: NewEvent,
    sent: u32,
    /// Its place among those of its publisher.
    n: u64,
}

pub async fn publish(load: Arc<Load>, me: u64, home: usize) {
    let (mut again, mut n) = (VecDeque::new(), 0);
    loop {
        let (_, connection) = load.addresses.connect(home).await;
        let turn = load.turn();
        let (mut under_way, mut lost) = (FuturesUnordered::new(), false);
        // Of those that were sent once: their places are in the order in which they were sent.
        let mut order: Vec<(u64, u64)> = Vec::new();
        while !lost {
            let leaves = turn.has_changed().unwrap_or(true);
            while under_way.len() < WINDOW && !leaves {
                let next = again.pop_front();
                let is_new = || !load.is_enough() && load.ledger.answered() < load.ledger.settled() + BACKLOG;
                let Some(mut draft) = next.or_else(|| is_new().then(|| draft(me, &mut n))) else { break };
                draft.sent += 1;
                under_way.push(send(connection.clone(), draft));
            }
            if under_way.is_empty() {
                match load.is_enough() && again.is_empty() {
                    true => break,
                    false if leaves => break,
                    // The members are behind.
                    false => tokio::time::sleep(Duration::from_millis(5)).await,
                }
                continue;
            }
            let Some((draft, took, answer)) = under_way.next().await else { continue };
            match answer {
                Ok(receipt) => {
                    load.ledger.stored(&receipt, draft.sent - 1, took);
                    if draft.sent == 1 {
                        order.push((draft.n, receipt.seq));
                    }
                }
                Err(error) if error.code() == Some(Code::Unavailable) => {
                    load.ledger.unavailable(took);
                    again.push_back(draft);
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) if error.kind() == ErrorKind::Closed => {
                    again.push_back(draft);
                    lost = true;
                }
                Err(error) => {
                    load.ledger.is_wrong(format!("a publish was refused after {took:?}: {error}"));
                    return;
                }
            }
        }
        for (draft, ..) in under_way.collect::<Vec<_>>().await {
            again.push_back(draft);
        }
        order.sort_unstable();
        if !order.is_sorted_by_key(|(_, seq)| *seq) {
            load.ledger.is_wrong(format!("publisher {me}: stored in another order than sent"));
        }
        if load.is_enough() && again.is_empty() {
            return;
        }
    }
}

fn draft(me: u64, n: &mut u64) -> Draft {
    *n += 1;
    let payload = Payload::of(&json!({ "by": me, "n": *n })).unwrap();
    let options = PublishOptions {
        id: Some(EventId::derived(&[&me.to_be_bytes(), &n.to_be_bytes()])),
        // A part of them has no key, and no order.
        key: (!n.is_multiple_of(3)).then(|| format!("key-{}", *n % KEYS)),
        ..PublishOptions::default()
    };
    let event = NewEvent::new(TopicName::parse(TOPIC).unwrap(), payload).with_options(options);
    Draft { event, sent: 0, n: *n }
}

async fn send(connection: Connection, draft: Draft) -> (Draft, Duration, hub_client::Result<Receipt>) {
    let sent = Instant::now();
    let answer = connection.publish(&draft.event).await;
    (draft, sent.elapsed(), answer)
}
