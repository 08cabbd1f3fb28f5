//! Servers and tables that are there, and those that are not.

use super::{connect, database};
use hub_core::outbox::OutboxStore;
use hub_outbox_sql::{ConnectError, Options, PostgresOutbox};
use hub_testbed::postgres;
use std::time::Duration;

async fn told(url: &str, options: Options) -> ConnectError {
    PostgresOutbox::connect(url, options).await.map(drop).unwrap_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_not_made_the_table_is_told_how() {
    let database = postgres::database().await.unwrap();
    let missing = told(&database.url(), Options::default()).await;
    assert!(matches!(missing, ConnectError::NoTable { .. }), "{missing}");
    assert!(missing.to_string().contains("`event-hub outbox init --apply` makes it"), "{missing}");
    let missing = told(&database.url(), Options::table("nowhere.outbox")).await;
    assert!(matches!(missing, ConnectError::NoTable { .. }), "{missing}");
    let refused = PostgresOutbox::init(&database.url(), &Options::table("nowhere.outbox")).await.unwrap_err();
    assert!(refused.to_string().contains("schema \"nowhere\" does not exist"), "{refused}");
    database.query("CREATE TABLE outbox (id int)").await.unwrap();
    let other = told(&database.url(), Options::default()).await;
    assert!(matches!(other, ConnectError::OtherTable { .. }), "{other}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn making_tables_at_once_or_from_their_text_changes_nothing() {
    let database = postgres::database().await.unwrap();
    let url = database.url();
    let all: Vec<_> = (0..4)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { PostgresOutbox::init(&url, &Options::default()).await })
        })
        .collect();
    for one in all {
        one.await.unwrap().unwrap();
    }
    let mut shop = connect(&database).await;
    sqlx::raw_sql("CREATE SCHEMA \"Shop\"").execute(&mut shop).await.unwrap();
    let options = Options::table("Shop.Outbox");
    for _ in 0..2 {
        let ddl = PostgresOutbox::ddl(&options).unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(ddl)).execute(&mut shop).await.unwrap();
    }
    PostgresOutbox::init(&url, &options).await.unwrap();
    let outbox = PostgresOutbox::connect(&url, options).await.unwrap();
    outbox.add(vec![crate::hub::row(1, None)]).await.unwrap();
    assert_eq!((outbox.name(), outbox.counts().await.unwrap().pending), ("postgres:Shop.Outbox", 1));
    let other = PostgresOutbox::connect(&url, Options::default()).await.unwrap();
    assert_eq!(other.counts().await.unwrap().pending, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_there_and_nobody_welcome_are_told_apart_and_without_the_password() {
    let database = database().await;
    let quick = || Options { call_limit: Duration::from_secs(3), ..Options::default() };
    let gone = told("postgres://hub:hunter2@127.0.0.1:1/shop", quick()).await;
    assert!(gone.is_unreachable() && gone.to_string().contains("127.0.0.1:1"), "{gone}");
    assert!(gone.to_string().contains("refused"), "{gone}");
    let url = database.url();
    let at = url.split_once('@').map_or_else(|| url.split_once("://").unwrap().1, |(_, at)| at);
    let nobody = told(&format!("postgres://nobody:hunter2@{at}"), quick()).await;
    assert!(matches!(nobody, ConnectError::Credentials { .. }), "{nobody}");
    let server = at.split_once('/').unwrap().0;
    let nowhere = told(&format!("postgres://postgres:hunter2@{server}/nowhere"), quick()).await;
    assert!(nowhere.to_string().contains("database \"nowhere\" does not exist"), "{nowhere}");
    for error in [gone, nobody, nowhere] {
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}
