//! Server-sent events, pages and CORS of the real program over its embedded store.

use crate::hub::{Hub, Place};
use crate::slow::memory;
use crate::socket::{Socket, clients};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use std::time::Duration;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

async fn open(hub: &Hub, after: u64) -> Response {
    let request = Client::new().get(format!("{}events?topic=t&from=earliest", hub.http()));
    let request = if after > 0 { request.header("last-event-id", after) } else { request };
    let answer = request.bearer_auth(hub.token()).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer
}

/// Reads a stream until it has brought so many events, or breaks off; half an event is thrown away, as a browser does.
async fn read(mut answer: Response, count: usize, seen: &mut Vec<u64>) {
    let (mut text, until) = (String::new(), seen.len() + count);
    while seen.len() < until {
        let chunk = tokio::time::timeout(PATIENCE, answer.chunk()).await.expect("events in time");
        let Ok(Some(chunk)) = chunk else { return };
        text += std::str::from_utf8(&chunk).unwrap();
        while let Some((frame, rest)) = text.split_once("\n\n") {
            let id = frame.lines().find_map(|line| line.strip_prefix("id: "));
            if let Some(id) = id.filter(|_| seen.len() < until) {
                let data = frame.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
                let record: Value = serde_json::from_str(data).unwrap();
                assert_eq!(record["seq"].to_string(), id);
                seen.push(id.parse().unwrap());
            }
            text = rest.to_owned();
        }
    }
}

async fn publish(hub: &Hub, thousands: usize, bytes: usize) {
    let mut publisher = Socket::open(hub.ws(), hub.token()).await;
    let event = json!({"topic": "t", "payload": "x".repeat(bytes)});
    for _ in 0..thousands {
        publisher.ok(json!({"op": "PUBLISH", "events": vec![&event; 1000]})).await;
    }
}

#[test]
fn a_reader_gets_every_event_once_over_broken_connections_and_a_killed_hub() {
    let place = Place::new();
    let data = place.path("data");
    let mut hub = Hub::start(&data, &[], &[]);
    let mut seen = Vec::new();
    clients(publish(&hub, 1, 100));
    clients(async {
        let publishing = publish(&hub, 3, 100);
        let reading = async {
            for connection in 0.. {
                if seen.len() >= 3_000 {
                    break;
                }
                let after = seen.last().copied().unwrap_or(0);
                read(open(&hub, after).await, 1 + connection * 37 % 400, &mut seen).await;
            }
        };
        tokio::join!(publishing, reading);
    });
    hub.process.signal("KILL");
    hub.process.ended();
    hub.start_again(&data);
    clients(async {
        publish(&hub, 1, 100).await;
        let (after, left) = (*seen.last().unwrap(), 5_000 - seen.len());
        read(open(&hub, after).await, left, &mut seen).await;
    });
    assert!(seen.iter().copied().eq(1..=5_000), "each once and in order: {} events", seen.len());
    // Pages of the same log.
    let (mut paged, mut after) = (0, 0);
    loop {
        let (status, page) = hub.ask(
            reqwest::Method::GET,
            &format!("replay?topic=t&limit=999&afterSeq={after}"),
            Some(hub.token()),
            "",
        );
        let page: Value = serde_json::from_str(&page).unwrap();
        assert_eq!(status, 200, "{page}");
        paged += page["count"].as_u64().unwrap();
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(paged, 5_000);
    hub.stop();
}

#[test]
fn streams_that_nobody_reads_take_a_bounded_amount_of_memory() {
    const READERS: usize = 50;
    const MIB: u64 = 1 << 20;
    let place = Place::new();
    let config = place.write("hub.toml", "[limits]\ntail_bytes = \"16MiB\"\n");
    let hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    clients(async {
        publish(&hub, 1, 1024).await;
        let before = memory(&hub);
        let mut stuck = Vec::new();
        for _ in 0..READERS {
            stuck.push(open(&hub, 0).await);
        }
        // Buffers fill up at first, for as long as a busy machine takes. What is published after that takes no memory.
        let (mut last, mut published) = (memory(&hub), 1_000);
        let is_steady = loop {
            publish(&hub, 20, 1024).await;
            published += 20_000;
            let now = memory(&hub);
            if now < last + 8 * MIB {
                break true;
            }
            if published > 250_000 {
                break false;
            }
            last = now;
        };
        let after = memory(&hub);
        assert!(is_steady, "it grows with what is published: from {before} to {after}");
        assert!(after < before + READERS as u64 * MIB + 64 * MIB, "{before} {after}");
        // Others are served.
        let mut seen = Vec::new();
        read(open(&hub, published - 1_000).await, 1_000, &mut seen).await;
        assert!(seen.iter().copied().eq(published - 999..=published));
        drop(stuck);
    });
    hub.stop();
}

#[test]
fn pages_of_other_origins_are_let_in_by_the_configuration_and_its_reload() {
    let place = Place::new();
    let config = place.write("hub.toml", "[server]\ncors_origins = [\"https://app.example\"]\n");
    let mut hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    let allowed = |hub: &Hub, origin: &'static str| {
        let request = Client::new().get(format!("{}topics", hub.http())).header("origin", origin);
        let request = request.bearer_auth(hub.token());
        let mut allowed = false;
        clients(async {
            let answer = request.send().await.unwrap();
            allowed = answer.headers().contains_key("access-control-allow-origin");
        });
        allowed
    };
    assert!(allowed(&hub, "https://app.example") && !allowed(&hub, "https://other.example"));
    place.write("hub.toml", "[server]\ncors_origins = [\"https://other.example\"]\n");
    hub.process.signal("HUP");
    hub.process.logs("configuration reloaded");
    assert!(!allowed(&hub, "https://app.example") && allowed(&hub, "https://other.example"));
    hub.stop();
}
