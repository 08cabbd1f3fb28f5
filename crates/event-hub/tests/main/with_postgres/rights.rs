//! The rights that `docs/outbox.md` names are enough.

use hub_core::outbox::{Drainer, DrainerOptions, OutboxStore};
use hub_core::{Bus, MemoryStore, Position};
use hub_outbox_sql::{Options, PostgresOutbox};
use hub_testbed::postgres::{Postgres, query};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const PAGE: &str = include_str!("../../../../../docs/outbox.md");

/// The block of the page that grants them.
fn grants() -> &'static str {
    PAGE.split("```")
        .find_map(|block| block.strip_prefix("sql\n").filter(|sql| sql.contains("GRANT")))
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_and_a_drainer_need_no_more_than_the_page_grants() {
    // Users are the whole server's.
    let server = Postgres::start().await.unwrap();
    let database = server.create_database().await.unwrap();
    let url_of = |user: &str| database.url().replacen("postgres@", &format!("{user}@"), 1);
    PostgresOutbox::init(&database.url(), &Options::default()).await.unwrap();
    database.query("CREATE ROLE shop LOGIN; CREATE ROLE drainer LOGIN").await.unwrap();
    database.query(grants()).await.unwrap();
    let insert = "INSERT INTO outbox (id, topic, key, payload) VALUES (gen_random_uuid(), 'orders', 'k', '1'), \
                  (gen_random_uuid(), 'no topic', 'k', '2'), (gen_random_uuid(), 'orders', 'k', '3')";
    query(&url_of("shop"), insert).await.unwrap();
    assert!(query(&url_of("shop"), "DELETE FROM outbox").await.is_err(), "it may only insert");

    let outbox = PostgresOutbox::connect(&url_of("drainer"), Options::default()).await.unwrap();
    let outbox = Arc::new(outbox);
    let bus = Bus::builder(MemoryStore::new()).open().await.unwrap();
    let stop = CancellationToken::new();
    let drainer = Drainer::new(outbox.clone(), Arc::new(bus.clone()), DrainerOptions::default());
    let running = tokio::spawn(drainer.run(stop.clone()));
    let parked = async || outbox.counts().await.unwrap().errors;
    while parked().await == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    database.query("UPDATE outbox SET topic = 'orders' WHERE topic = 'no topic'").await.unwrap();
    assert_eq!(outbox.retry(None).await.unwrap(), 1);
    while outbox.counts().await.unwrap().pending > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let events = bus.scan("orders", Position::Earliest, None).await.unwrap();
    let payloads: Vec<&[u8]> = events.iter().map(|event| event.payload()).collect();
    assert_eq!(payloads, [b"1", b"2", b"3"]);
    assert_eq!(outbox.purge(0, 10).await.unwrap(), 3);
    stop.cancel();
    let drained = running.await.unwrap();
    assert_eq!((drained.sent, drained.parked, drained.resets), (3, 1, 0));
}
