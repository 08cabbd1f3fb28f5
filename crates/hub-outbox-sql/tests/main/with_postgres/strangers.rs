//! Rows that somebody wrote by hand, and tables that somebody made.

use super::{connect, database, open};
use crate::hub::{Hub, row, rows};
use hub_core::outbox::{OutboxStore, RowStatus};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_columns_are_enough() {
    let database = database().await;
    let outbox = open(&database).await;
    let hub = Hub::drains(&outbox).await;
    let mut shop = connect(&database).await;
    sqlx::raw_sql(
        r#"INSERT INTO outbox (id, topic, payload) VALUES
           ('018f4e3a-1b2c-7d3e-8f40-112233445566', 'shop.orders', '{"n": 1}'), (gen_random_uuid(), 'shop.orders', 'null');
           INSERT INTO outbox (id, topic, payload, headers, key, ord, status, ts, attempts)
           VALUES (gen_random_uuid(), 'shop.orders', '"all"', '{"a": "b"}', 'k', 1, 'pending', now(), 0);
           INSERT INTO outbox (id, topic, payload, ts) VALUES (gen_random_uuid(), 'shop.orders', '"early"', '-infinity'),
           (gen_random_uuid(), 'shop.orders', '"ancient"', '0044-03-15 BC'),
           (gen_random_uuid(), 'shop.orders', '"late"', 'infinity')"#,
    )
    .execute(&mut shop)
    .await
    .unwrap();
    let mut published = hub.published("shop.orders", 5).await;
    published.sort();
    assert_eq!(published, ["\"all\"", "\"ancient\"", "\"early\"", "null", "{\"n\": 1}"]);
    rows(&outbox, RowStatus::Sent, 5).await;
    // A time that no event can have.
    assert_eq!(rows(&outbox, RowStatus::Error, 1).await[0].attempts, 1);
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_rows_are_parked_with_a_reason_and_stop_nobody_else() {
    let database = database().await;
    let outbox = open(&database).await;
    let mut shop = connect(&database).await;
    let id = |n: u32| format!("018f4e3a-1b2c-7d3e-8f40-{n:012}");
    let wrong = [
        (id(3), "t", "1", Some("[1]"), "headers are not a JSON object"),
        (id(5), "t", "1", Some("{\"n\": 1}"), "something else than a string"),
        (id(6), "shop orders", "1", None, "topic"),
        (id(7), "", "1", None, "topic"),
    ];
    for (id, topic, payload, headers, _) in &wrong {
        let insert = sqlx::query(
            "INSERT INTO outbox (id, topic, payload, headers, ts) VALUES ($1::uuid, $2, $3::json, $4::json, 'epoch')",
        );
        insert.bind(id).bind(topic).bind(payload).bind(headers).execute(&mut shop).await.unwrap();
    }
    outbox.add((0..50).map(|n| row(n, None)).collect()).await.unwrap();
    let hub = Hub::drains(&outbox).await;
    hub.published("t", 50).await;
    let parked = rows(&outbox, RowStatus::Error, wrong.len()).await;
    for (id, .., told) in &wrong {
        let error = parked.iter().find(|row| row.id == *id).unwrap().error.clone().unwrap();
        assert!(error.contains(told), "{id}: {error}");
    }
    sqlx::raw_sql("UPDATE outbox SET topic = 't' WHERE topic = 'shop orders'")
        .execute(&mut shop)
        .await
        .unwrap();
    assert_eq!(outbox.retry(Some(&[id(6).as_str().into(), "nonsense".into()])).await.unwrap(), 1);
    hub.published("t", 51).await;
    // Also by hand.
    sqlx::raw_sql("UPDATE outbox SET topic = 't', status = 'pending' WHERE topic = ''")
        .execute(&mut shop)
        .await
        .unwrap();
    hub.published("t", 52).await;
    let drained = hub.stop().await;
    assert_eq!((drained.sent, drained.parked, drained.resets), (52, 4, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_may_be_of_another_type() {
    for kind in ["jsonb", "text"] {
        let database = database().await;
        let mut shop = connect(&database).await;
        let alter = format!(
            "ALTER TABLE outbox ALTER payload TYPE {kind} USING payload::text::{kind}, \
             ALTER headers TYPE {kind} USING headers::text::{kind}"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(alter)).execute(&mut shop).await.unwrap();
        let outbox = open(&database).await;
        let written = hub_core::outbox::NewRow { headers: vec![("a".into(), "b".into())], ..row(1, None) };
        outbox.add(vec![written]).await.unwrap();
        sqlx::raw_sql("INSERT INTO outbox (id, topic, payload) VALUES (gen_random_uuid(), 't', '2')")
            .execute(&mut shop)
            .await
            .unwrap();
        let hub = Hub::drains(&outbox).await;
        let mut published = hub.published("t", 2).await;
        published.sort();
        assert_eq!(published, ["1", "2"], "{kind}");
        hub.stop().await;
    }
}
