//! How many at once, how fast, and in which order.

use super::endpoint::{Endpoint, Received, dead_letters, definition, pushing_world, put, settled};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use hub_server::limits::TopicQuota;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// What an endpoint sees of keys: which are under way, and what was taken of each.
#[derive(Default)]
struct Keys {
    under_way: Vec<String>,
    taken: BTreeMap<String, Vec<u64>>,
    broken: Vec<String>,
}

#[tokio::test]
async fn events_of_one_key_come_one_by_one_and_in_order_also_if_they_fail() {
    let world = pushing_world().await;
    let keys = Arc::new(Mutex::new(Keys::default()));
    let seen = keys.clone();
    let endpoint = Endpoint::new(move |before, received: Received| {
        let seen = seen.clone();
        async move {
            let (key, n) =
                (received.json()["subject"].as_str().unwrap().to_owned(), received.data().as_u64().unwrap());
            {
                let mut seen = seen.lock();
                if seen.under_way.contains(&key) {
                    seen.broken.push(format!("{key} is under way twice"));
                }
                seen.under_way.push(key.clone());
            }
            tokio::time::sleep(Duration::from_millis((before % 4) as u64)).await;
            let mut seen = seen.lock();
            seen.under_way.retain(|other| *other != key);
            if before % 5 == 3 {
                return StatusCode::BAD_REQUEST.into_response();
            }
            seen.taken.entry(key).or_default().push(n);
            StatusCode::OK.into_response()
        }
    })
    .await;
    put(&world, "crm", &definition(&endpoint.url(), &json!({"ordering": "key", "maxAttempts": 100}))).await;
    for n in 1..=200_u64 {
        world.bus().publish("t", json!(n)).key(format!("k{}", n % 7)).await.unwrap();
    }
    settled(&world, "push.crm", 200).await;
    let keys = keys.lock();
    assert_eq!(keys.broken, [""; 0]);
    assert_eq!(keys.taken.values().map(Vec::len).sum::<usize>(), 200);
    for (key, taken) in &keys.taken {
        assert!(taken.is_sorted(), "{key}: {taken:?}");
    }
}

#[tokio::test]
async fn no_more_requests_are_under_way_than_allowed() {
    let world = pushing_world().await;
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (now.clone(), most.clone());
    let endpoint = Endpoint::new(move |_, _| {
        let (now, most) = counts.clone();
        async move {
            most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
            now.fetch_sub(1, SeqCst);
            StatusCode::OK.into_response()
        }
    })
    .await;
    put(&world, "crm", &definition(&endpoint.url(), &json!({"concurrency": 3}))).await;
    world.fill("t", 30).await;
    settled(&world, "push.crm", 30).await;
    assert_eq!(most.load(SeqCst), 3);
}

#[tokio::test]
async fn quotas_of_bytes_count_for_what_is_pushed() {
    let (world, endpoint) = (pushing_world().await, Endpoint::taking_all().await);
    let mut settings = hub_server::Settings::default();
    let quota = TopicQuota { pattern: "t".parse().unwrap(), bytes_in: None, bytes_out: Some(2_000) };
    settings.limits.topic_quotas = vec![quota];
    world.hub.apply(settings);
    put(&world, "crm", &definition(&endpoint.url(), &json!({}))).await;
    let since = Instant::now();
    for _ in 0..5 {
        world.bus().publish("t", json!("x".repeat(1_000))).await.unwrap();
    }
    settled(&world, "push.crm", 5).await;
    // A second's worth comes at once.
    assert!(since.elapsed() >= Duration::from_secs(1), "{:?}", since.elapsed());
}

#[tokio::test]
async fn no_more_requests_are_sent_per_second_than_allowed() {
    let (world, endpoint) = (pushing_world().await, Endpoint::taking_all().await);
    put(&world, "crm", &definition(&endpoint.url(), &json!({"rate": 40}))).await;
    let since = Instant::now();
    world.fill("t", 40).await;
    settled(&world, "push.crm", 40).await;
    // A tenth of a second's worth comes at once.
    assert!(since.elapsed() >= Duration::from_millis(850), "{:?}", since.elapsed());
    assert!(dead_letters(&world).await.is_empty());
}

#[tokio::test]
async fn large_events_in_flight_are_bounded_by_their_bytes() {
    /// As many events of a million bytes as reach the bound of 8 MiB.
    const BOUND: usize = 9;
    let world = pushing_world().await;
    let (under_way, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (open, gate) = tokio::sync::watch::channel(false);
    let (counted, peak) = (under_way.clone(), most.clone());
    let endpoint = Endpoint::new(move |_, _| {
        let (counted, peak, mut gate) = (counted.clone(), peak.clone(), gate.clone());
        async move {
            peak.fetch_max(counted.fetch_add(1, SeqCst) + 1, SeqCst);
            gate.wait_for(|is_open| *is_open).await.unwrap();
            counted.fetch_sub(1, SeqCst);
            StatusCode::OK.into_response()
        }
    })
    .await;
    put(&world, "crm", &definition(&endpoint.url(), &json!({"concurrency": 64}))).await;
    let large = json!("x".repeat(1_000_000));
    for _ in 0..40 {
        world.bus().publish("t", large.clone()).await.unwrap();
    }
    endpoint.received(BOUND).await;
    open.send(true).unwrap();
    settled(&world, "push.crm", 40).await;
    assert_eq!(endpoint.so_far().len(), 40, "each once");
    assert!(most.load(SeqCst) <= BOUND, "{most:?} events at once");
}
