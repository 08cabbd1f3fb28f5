//! A file that somebody else writes to.

use super::File;
use crate::hub::{Hub, row, rows};
use hub_core::outbox::{OutboxStore, RowStatus};
use hub_core::store::StoreError;
use hub_outbox_sql::{Options, SqliteOutbox};
use sqlx::Connection;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drainer_waits_for_a_writer_that_takes_its_time() {
    let file = File::new().await;
    let outbox = file.open().await;
    let hub = Hub::drains_briefly(&outbox).await;
    outbox.add((0..20).map(|n| row(n, Some("k"))).collect()).await.unwrap();
    hub.published("t", 20).await;
    let mut shop = file.connect().await;
    // Once for less than anybody waits, and once for longer.
    for (round, held) in [(1, 1_000), (2, 8_000)] {
        let mut tx = shop.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let some: Vec<_> = (round * 100..round * 100 + 20).map(|n| row(n, Some("k"))).collect();
        SqliteOutbox::add_to("outbox", &mut tx, &some).await.unwrap();
        tokio::time::sleep(Duration::from_millis(held)).await;
        tx.commit().await.unwrap();
        let log = hub.published("t", 20 + 20 * round as usize).await;
        assert!(log.iter().map(|n| n.parse::<u32>().unwrap()).is_sorted(), "{log:?}");
    }
    rows(&outbox, RowStatus::Sent, 60).await;
    // Its lease may have run out before it could mark what it had published. That was published again, and is there once.
    assert_eq!(hub.published("t", 60).await.len(), 60);
    println!("{:?}", hub.stop().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_has_to_wait_for_too_long_says_so_and_reads_go_on() {
    let file = File::new().await;
    let options = Options { call_limit: Duration::from_secs(1), ..Options::default() };
    let outbox = SqliteOutbox::open(&file.path, options).await.unwrap();
    outbox.add(vec![row(1, None)]).await.unwrap();
    let mut shop = file.connect().await;
    let tx = shop.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let began = Instant::now();
    let Err(StoreError::Unavailable(told)) = outbox.requeue_expired().await else {
        panic!("it did not wait")
    };
    assert!(
        told.contains("locked") && began.elapsed() < Duration::from_secs(5),
        "{told} {:?}",
        began.elapsed()
    );
    assert_eq!(outbox.fresh(None, 10).await.unwrap().len(), 1);
    tx.rollback().await.unwrap();
    outbox.requeue_expired().await.unwrap();
}
