//! A server that goes away.

use crate::hub::{Hub, row, rows};
use hub_core::outbox::{OutboxStore, RowStatus, Woken};
use hub_core::store::StoreError;
use hub_outbox_sql::{Options, PostgresOutbox};
use hub_testbed::postgres::Postgres;
use std::sync::Arc;
use std::time::{Duration, Instant};

async fn outbox(server: &Postgres, options: Options) -> Arc<PostgresOutbox> {
    PostgresOutbox::init(&server.url(), &options).await.unwrap();
    Arc::new(PostgresOutbox::connect(&server.url(), options).await.unwrap())
}

/// Writes rows, however often it takes.
async fn add(outbox: &PostgresOutbox, from: u32, to: u32) {
    for n in from..to {
        while outbox.add(vec![row(n, Some(&format!("key {}", n % 7)))]).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drainer_goes_on_after_the_server_was_killed() {
    let server = Postgres::start().await.unwrap();
    let outbox = outbox(&server, Options::default()).await;
    let hub = Hub::drains_briefly(&outbox).await;
    add(&outbox, 0, 100).await;
    for round in 1..=3 {
        let writing = {
            let outbox = outbox.clone();
            tokio::spawn(async move { add(&outbox, round * 100, round * 100 + 100).await })
        };
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.kill().unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        server.restart().await.unwrap();
        writing.await.unwrap();
    }
    let log = hub.published("t", 400).await;
    let log: Vec<u32> = log.iter().map(|n| n.parse().unwrap()).collect();
    let mut all = log.clone();
    all.sort_unstable();
    assert_eq!(all, (0..400).collect::<Vec<_>>(), "each is there once");
    for key in 0..7 {
        assert!(log.iter().filter(|n| *n % 7 == key).is_sorted(), "{log:?}");
    }
    rows(&outbox, RowStatus::Sent, 400).await;
    println!("{:?}", hub.stop().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_says_nothing_is_not_waited_for_for_ever() {
    let server = Postgres::start().await.unwrap();
    let outbox = outbox(&server, Options { call_limit: Duration::from_secs(1), ..Options::default() }).await;
    outbox.add(vec![row(1, None)]).await.unwrap();
    server.freeze().unwrap();
    let began = Instant::now();
    let Err(StoreError::Unavailable(told)) = outbox.fresh(None, 10).await else { panic!("it answered") };
    // Whether the pool had a connection ready for it decides what is waited for.
    let is_bounded = ["no answer within", "no connection in time"].iter().any(|text| told.contains(text));
    assert!(is_bounded && began.elapsed() < Duration::from_secs(5), "{told}");
    server.thaw().unwrap();
    let found = async {
        while outbox.fresh(None, 10).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), found).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_listens_is_told_that_the_server_has_gone_and_can_listen_again() {
    let server = Postgres::start().await.unwrap();
    let outbox = outbox(&server, Options::default()).await;
    // What was there before it began to listen.
    assert_eq!(outbox.news().await.unwrap(), Woken::News);
    let waiting = {
        let outbox = outbox.clone();
        tokio::spawn(async move { outbox.news().await })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.kill().unwrap();
    let told = tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap().unwrap();
    assert!(matches!(told, Err(StoreError::Unavailable(_))), "{told:?}");
    assert!(outbox.news().await.is_err());
    server.restart().await.unwrap();
    let again = async { while outbox.news().await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(30), again).await.unwrap();
    // What is told between two waits is not lost.
    while tokio::time::timeout(Duration::from_millis(200), outbox.news()).await.is_ok() {}
    outbox.add(vec![row(1, None)]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(tokio::time::timeout(Duration::from_secs(1), outbox.news()).await.unwrap(), Ok(Woken::News));
}
