//! Rows that somebody wrote by hand.

use super::File;
use crate::hub::{Hub, row, rows};
use hub_core::outbox::{OutboxStore, RowStatus};
use sqlx::Connection;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_columns_are_enough() {
    let file = File::new().await;
    let outbox = file.open().await;
    let hub = Hub::drains(&outbox).await;
    let mut shop = file.connect().await;
    sqlx::raw_sql(
        r#"INSERT INTO outbox (id, topic, payload) VALUES
           ('018f4e3a-1b2c-7d3e-8f40-112233445566', 'shop.orders', '{"n": 1}'),
           ('018F4E3A-1B2C-7D3E-8F40-112233445567', 'shop.orders', CAST('{"n": 2}' AS BLOB)),
           ('018f4e3a1b2c7d3e8f40112233445568', 'shop.orders', 'null');
           INSERT INTO outbox (id, topic, payload, headers, key, ord, status, ts, attempts)
           VALUES ('018f4e3a-1b2c-7d3e-8f40-112233445569', 'shop.orders', '"all"', '{"a": "b"}', 'k', 1, 'pending',
           1700000000000, 0)"#,
    )
    .execute(&mut shop)
    .await
    .unwrap();
    let mut published = hub.published("shop.orders", 4).await;
    published.sort();
    assert_eq!(published, ["\"all\"", "null", "{\"n\": 1}", "{\"n\": 2}"]);
    rows(&outbox, RowStatus::Sent, 4).await;
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_rows_are_parked_with_a_reason_and_stop_nobody_else() {
    let file = File::new().await;
    let outbox = file.open().await;
    let mut shop = file.connect().await;
    let id = |n: u32| format!("018f4e3a-1b2c-7d3e-8f40-{n:012}");
    let wrong = [
        ("order-7".to_owned(), "t", "1", None, "not a UUID"),
        (String::new(), "t", "1", None, "not a UUID"),
        (id(1), "t", "{,}", None, "payload cannot be published"),
        (id(2), "t", "", None, "payload cannot be published"),
        (id(3), "t", "1", Some("[1]"), "headers are not a JSON object"),
        (id(4), "t", "1", Some("nonsense"), "headers are not JSON"),
        (id(5), "t", "1", Some("{\"n\": 1}"), "something else than a string"),
        (id(6), "shop orders", "1", None, "topic"),
        (id(7), "", "1", None, "topic"),
    ];
    let mut tx = shop.begin().await.unwrap();
    for (id, topic, payload, headers, _) in &wrong {
        // All of one moment, and before the good ones.
        let insert =
            sqlx::query("INSERT INTO outbox (id, topic, payload, headers, ts) VALUES (?, ?, ?, ?, 5)");
        insert.bind(id).bind(topic).bind(payload).bind(headers).execute(&mut *tx).await.unwrap();
    }
    // Text that is no text.
    sqlx::raw_sql(
        "INSERT INTO outbox (id, topic, payload) VALUES ('018f4e3a-1b2c-7d3e-8f40-000000000008', \
         CAST(x'ff74' AS TEXT), CAST(x'22ff22' AS TEXT))",
    )
    .execute(&mut *tx)
    .await
    .unwrap();
    tx.commit().await.unwrap();
    outbox.add((0..50).map(|n| row(n, None)).collect()).await.unwrap();
    let hub = Hub::drains(&outbox).await;
    hub.published("t", 50).await;
    let parked = rows(&outbox, RowStatus::Error, wrong.len() + 1).await;
    for (id, .., told) in &wrong {
        let error = parked.iter().find(|row| row.id == *id).unwrap().error.clone().unwrap();
        assert!(error.contains(told), "{id}: {error}");
    }
    // Whoever mends one can have it published.
    sqlx::raw_sql("UPDATE outbox SET topic = 't' WHERE topic = 'shop orders'")
        .execute(&mut shop)
        .await
        .unwrap();
    assert_eq!(outbox.retry(Some(&[id(6).as_str().into()])).await.unwrap(), 1);
    hub.published("t", 51).await;
    // Also by hand.
    sqlx::raw_sql("UPDATE outbox SET topic = 't', status = 'pending' WHERE topic = ''")
        .execute(&mut shop)
        .await
        .unwrap();
    hub.published("t", 52).await;
    let drained = hub.stop().await;
    assert_eq!((drained.sent, drained.parked, drained.resets), (52, 10, 0));
}

#[tokio::test]
async fn what_no_drainer_could_ever_read_is_refused_when_it_is_written() {
    let file = File::new().await;
    let mut shop = file.connect().await;
    for (columns, values) in [
        ("id, topic, payload", "x'018f', 't', '1'"),
        ("id, topic, payload", "NULL, 't', '1'"),
        ("id, topic, payload, ts", "'a', 't', '1', '2026-01-01 00:00:00'"),
        ("id, topic, payload, ts", "'a', 't', '1', -1"),
        ("id, topic, payload, ord", "'a', 't', '1', 'first'"),
        ("id, topic, payload, key", "'a', 't', '1', x'00'"),
        ("id, topic, payload, status", "'a', 't', '1', 'PENDING'"),
    ] {
        let insert = format!("INSERT INTO outbox ({columns}) VALUES ({values})");
        let refused =
            sqlx::raw_sql(sqlx::AssertSqlSafe(insert)).execute(&mut shop).await.unwrap_err().to_string();
        assert!(refused.contains("constraint failed"), "{values}: {refused}");
    }
}
