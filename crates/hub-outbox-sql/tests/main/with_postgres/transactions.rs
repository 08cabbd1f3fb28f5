//! Rows in the transactions of a service.

use super::{connect, database, open};
use crate::hub::{Hub, row, rows};
use hub_core::outbox::{DrainerOptions, NewRow, OutboxStore, RowStatus};
use hub_outbox_sql::PostgresOutbox;
use sqlx::Connection;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_committed_is_published_and_what_is_aborted_is_not() {
    let database = database().await;
    let outbox = open(&database).await;
    let hub = Hub::drains(&outbox).await;
    let mut shop = connect(&database).await;
    sqlx::raw_sql("CREATE TABLE orders (id int PRIMARY KEY)").execute(&mut shop).await.unwrap();
    for n in 0..20_u32 {
        let mut tx = shop.begin().await.unwrap();
        sqlx::query("INSERT INTO orders VALUES ($1)").bind(n.cast_signed()).execute(&mut *tx).await.unwrap();
        let key = format!("order {n}");
        match n % 2 {
            0 => outbox.add_in(&mut tx, &[row(n, Some(&key))]).await.unwrap(),
            _ => PostgresOutbox::add_to("public.outbox", &mut tx, &[row(n, None)]).await.unwrap(),
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
    assert_eq!(hub.stop().await.sent, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_rows_are_written_at_once_and_a_second_time_not_at_all() {
    let database = database().await;
    let outbox = open(&database).await;
    let many: Vec<_> = (0..2_500).map(|n| row(n, None)).collect();
    outbox.add(many.clone()).await.unwrap();
    let mut shop = connect(&database).await;
    let mut tx = shop.begin().await.unwrap();
    outbox.add_in(&mut tx, &many).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(outbox.counts().await.unwrap().pending, 2_500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_began_first_and_commits_last_is_not_skipped() {
    let database = database().await;
    let outbox = open(&database).await;
    let hub = Hub::drains(&outbox).await;
    let (mut slow, mut fast) = (connect(&database).await, connect(&database).await);
    let mut late = slow.begin().await.unwrap();
    // An earlier time and a smaller id than any that others commit meanwhile; with a key of those, one of its own, and none.
    let early = |n, key| NewRow { at: row(0, None).at - 60_000_000, ..row(n, key) };
    let rows_of_late = [early(0, Some("k")), early(1, Some("late")), early(2, None)];
    outbox.add_in(&mut late, &rows_of_late).await.unwrap();
    for n in 10..60 {
        let mut tx = fast.begin().await.unwrap();
        outbox.add_in(&mut tx, &[row(n, (n % 2 == 0).then_some("k"))]).await.unwrap();
        tx.commit().await.unwrap();
    }
    hub.published("t", 50).await;
    rows(&outbox, RowStatus::Sent, 50).await;
    late.commit().await.unwrap();
    let log = hub.published("t", 53).await;
    let mut last: Vec<_> = log[50..].to_vec();
    last.sort();
    assert_eq!(last, ["0", "1", "2"]);
    assert_eq!(hub.stop().await.sent, 53);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_wakes_an_idle_drainer() {
    let database = database().await;
    let outbox = open(&database).await;
    let hub =
        Hub::drains_with(&outbox, DrainerOptions { interval: 600_000, ..DrainerOptions::default() }).await;
    let mut shop = connect(&database).await;
    for n in 1..=10 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut tx = shop.begin().await.unwrap();
        PostgresOutbox::add_to("outbox", &mut tx, &[row(n, None)]).await.unwrap();
        tx.commit().await.unwrap();
        let committed = Instant::now();
        hub.published("t", n as usize).await;
        println!("row {n} was published after {:?}", committed.elapsed());
        assert!(committed.elapsed() < Duration::from_secs(5));
    }
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_are_kept_to_the_microsecond() {
    let database = database().await;
    let outbox = open(&database).await;
    let at = 1_700_000_000_123_456;
    let rows = [(2, at + 1), (1, at + 2), (3, at)].map(|(n, at)| NewRow { at, ..row(n, Some("k")) });
    outbox.add(rows.to_vec()).await.unwrap();
    let found: Vec<_> = outbox.fresh(None, 10).await.unwrap().iter().map(|row| row.place.at).collect();
    assert_eq!(found, [at, at + 1, at + 2]);
}
