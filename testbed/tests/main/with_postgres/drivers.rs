//! Drivers for other languages, against both databases.

mod with_mongo;

use hub_testbed::{drivers, postgres};
use std::path::Path;
use std::process::Command;

/// Runs a program in Python, and returns what it prints; `None` where there is no Python.
async fn python(program: &'static str, address: String) -> Option<String> {
    run(move || {
        let python = drivers::python().unwrap()?;
        Some(output(Command::new(python).args(["-c", program, &address])))
    })
    .await
}

/// The same in JavaScript.
async fn node(program: &'static str, address: String) -> Option<String> {
    run(move || {
        let modules = drivers::node().unwrap()?;
        let mut node = Command::new("node");
        node.args(["-e", program, &address]).env("NODE_PATH", modules).current_dir(Path::new("/"));
        Some(output(&mut node))
    })
    .await
}

async fn run(it: impl FnOnce() -> Option<String> + Send + 'static) -> Option<String> {
    tokio::task::spawn_blocking(it).await.unwrap()
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn psycopg_writes_and_reads() {
    let database = postgres::database().await.unwrap();
    let program = r#"
import sys, psycopg
with psycopg.connect(sys.argv[1]) as connection:
    connection.execute("CREATE TABLE things (a int)")
    connection.execute("INSERT INTO things VALUES (%s)", (7,))
print(psycopg.pq.__impl__)
"#;
    let Some(printed) = python(program, database.url()).await else { return };
    assert_eq!(printed, "binary");
    assert_eq!(database.query("SELECT a FROM things").await.unwrap(), [[Some("7".to_owned())]]);
}

#[tokio::test]
async fn pg_writes_and_reads() {
    let database = postgres::database().await.unwrap();
    let program = r#"
const { Client } = require('pg');
(async () => {
    const client = new Client({ connectionString: process.argv[1] });
    await client.connect();
    await client.query('CREATE TABLE things (a int)');
    await client.query('INSERT INTO things VALUES ($1)', [7]);
    await client.end();
})().catch((error) => { console.error(error); process.exit(1); });
"#;
    if node(program, database.url()).await.is_some() {
        assert_eq!(database.query("SELECT a FROM things").await.unwrap(), [[Some("7".to_owned())]]);
    }
}
