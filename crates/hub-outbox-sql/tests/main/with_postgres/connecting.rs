//! Servers and tables that are there, and those that are not.

use super::{connect, database};
use hub_core::outbox::OutboxStore;
use hub_outbox_sql::{ConnectError, Options, PostgresOutbox};
use hub_testbed::postgres::{self, Database};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

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

/// A pooler that takes no settings with a connection, and says so with a code.
async fn pooler(database: &Database, code: &'static str) -> String {
    let url = database.url();
    let (_, host) = url.rsplit_once('@').unwrap();
    let server = host.split('/').next().unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pooled = url.replace(&server, &listener.local_addr().unwrap().to_string());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            // Connections may break whenever they like.
            tokio::spawn(pool(client, server.clone(), code));
        }
    });
    pooled
}

async fn pool(mut client: TcpStream, server: String, code: &str) -> io::Result<()> {
    let mut greeting = read_greeting(&mut client).await?;
    if greeting.len() == 4 {
        // It would like to be encrypted.
        client.write_all(b"N").await?;
        greeting = read_greeting(&mut client).await?;
    }
    if greeting.windows(7).any(|some| some == b"options") {
        let told = format!("SFATAL\0C{code}\0Mnone of that here\0\0");
        client.write_u8(b'E').await?;
        client.write_u32(4 + told.len() as u32).await?;
        return client.write_all(told.as_bytes()).await;
    }
    let mut server = TcpStream::connect(server).await?;
    server.write_u32(4 + greeting.len() as u32).await?;
    server.write_all(&greeting).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop)
}

async fn read_greeting(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut greeting = vec![0; client.read_u32().await? as usize - 4];
    client.read_exact(&mut greeting).await?;
    Ok(greeting)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_takes_no_settings_is_used_without_them() {
    let database = database().await;
    for (n, code) in (1..).zip(["08P01", "0A000", "42704"]) {
        let url = pooler(&database, code).await;
        let outbox = PostgresOutbox::connect(&url, Options::default()).await.unwrap();
        outbox.add(vec![crate::hub::row(n, None)]).await.unwrap();
        assert_eq!(outbox.counts().await.unwrap().pending, u64::from(n));
    }
    let url = pooler(&database, "28000").await;
    let refused = told(&url, Options::default()).await;
    assert!(matches!(refused, ConnectError::Credentials { .. }), "{refused}");
}
