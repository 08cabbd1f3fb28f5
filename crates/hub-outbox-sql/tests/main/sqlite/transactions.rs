//! Rows in the transactions of a service.

use super::File;
use crate::hub::{Hub, row, rows};
use hub_core::outbox::{DrainerOptions, OutboxStore, RowStatus};
use hub_outbox_sql::SqliteOutbox;
use sqlx::Connection;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_committed_is_published_and_what_is_aborted_is_not() {
    let file = File::new().await;
    let outbox = file.open().await;
    let hub = Hub::drains(&outbox).await;
    let mut shop = file.connect().await;
    sqlx::raw_sql("CREATE TABLE orders (id INTEGER PRIMARY KEY)").execute(&mut shop).await.unwrap();
    for n in 0..20 {
        let mut tx = shop.begin_with("BEGIN IMMEDIATE").await.unwrap();
        sqlx::query("INSERT INTO orders VALUES (?)").bind(n).execute(&mut *tx).await.unwrap();
        let key = format!("order {n}");
        match n % 2 {
            0 => outbox.add_in(&mut tx, &[row(n, Some(&key))]).await.unwrap(),
            _ => SqliteOutbox::add_to("outbox", &mut tx, &[row(n, None)]).await.unwrap(),
        }
        if n % 4 < 2 {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
    }
    let mut published = hub.published("t", 10).await;
    published.sort_by_key(|n| n.parse::<u32>().unwrap());
    assert_eq!(published, ["0", "1", "4", "5", "8", "9", "12", "13", "16", "17"]);
    rows(&outbox, RowStatus::Sent, 10).await;
    assert_eq!(outbox.list(None, 100).await.unwrap().len(), 10);
    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&mut shop).await.unwrap();
    assert_eq!(orders, 10);
    assert_eq!(hub.stop().await.sent, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_rows_are_written_at_once_and_a_second_time_not_at_all() {
    let file = File::new().await;
    let outbox = file.open().await;
    let many: Vec<_> = (0..1_000).map(|n| row(n, None)).collect();
    outbox.add(many.clone()).await.unwrap();
    let mut shop = file.connect().await;
    let mut tx = shop.begin_with("BEGIN IMMEDIATE").await.unwrap();
    outbox.add_in(&mut tx, &many).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(outbox.counts().await.unwrap().pending, 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_of_another_process_wakes_an_idle_drainer() {
    let file = File::new().await;
    let outbox = file.open().await;
    let hub =
        Hub::drains_with(&outbox, DrainerOptions { interval: 600_000, ..DrainerOptions::default() }).await;
    let mut shop = file.connect().await;
    for n in 1..=10 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut tx = shop.begin_with("BEGIN IMMEDIATE").await.unwrap();
        SqliteOutbox::add_to("outbox", &mut tx, &[row(n, None)]).await.unwrap();
        tx.commit().await.unwrap();
        let committed = Instant::now();
        hub.published("t", n as usize).await;
        println!("row {n} was published after {:?}", committed.elapsed());
        assert!(committed.elapsed() < Duration::from_secs(5));
    }
    hub.stop().await;
}
