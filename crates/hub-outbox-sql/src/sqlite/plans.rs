//! How SQLite goes about each statement, when the table is large.

#![allow(clippy::unwrap_used)]

use super::SqliteOutbox;
use super::statements::Statements;
use crate::options::Options;
use crate::statement::Statement;
use crate::table::Table;
use sqlx::{AssertSqlSafe, ConnectOptions, Row, SqliteConnection};

/// Many rows of every kind.
const MANY: &str = "
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 200000)
    INSERT INTO outbox (id, topic, payload, key, ord)
    SELECT printf('fresh %d', n), 't', '1', printf('key %d', n % 50), CASE n % 3 WHEN 0 THEN n END FROM n;
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 20000)
    INSERT INTO outbox (id, topic, payload, key, status, stage, next_at, sent_at)
    SELECT printf('behind %d', n), 't', '1', printf('key %d', n % 50), 'pending', 'behind', 1, NULL FROM n UNION ALL
    SELECT printf('held %d', n), 't', '1', printf('held %d', n), 'pending', 'held', 9e15, NULL FROM n UNION ALL
    SELECT printf('parked %d', n), 't', '1', printf('key %d', n % 50), 'error', 'parked', NULL, NULL FROM n UNION ALL
    SELECT printf('sent %d', n), 't', '1', NULL, 'sent', NULL, NULL, 1 FROM n;
";

/// The steps of a plan.
async fn plan(connection: &mut SqliteConnection, statement: &Statement) -> Vec<String> {
    let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", statement.text()));
    let steps = sqlx::query(explain).fetch_all(connection).await.unwrap();
    steps.iter().map(|step| step.get("detail")).collect()
}

async fn check(connection: &mut SqliteConnection) {
    let s = Statements::of(&Table::parse("outbox", false).unwrap());
    for (name, statement, range) in [
        ("due", &s.due, "outbox_due (<expr><?)"),
        ("fresh", &s.fresh, "SCAN t USING INDEX outbox_fresh"),
        ("fresh_after", &s.fresh_after, "outbox_fresh ((ts,id)>(?,?))"),
        ("fresh_before", &s.fresh_before, "outbox_fresh_by_key (key=? AND <expr>=? AND (ts,id)<(?,?))"),
        ("fresh_before", &s.fresh_before, "outbox_fresh_by_key (key=? AND <expr><?)"),
        ("holding", &s.holding, "outbox_staged (stage=? AND key=?)"),
        ("put_behind", &s.put_behind, "sqlite_autoindex_outbox_1 (id=?)"),
        ("release", &s.release, "outbox_staged (stage=? AND key=?)"),
        ("keys_behind", &s.keys_behind, "outbox_staged (stage=? AND key>?)"),
        ("keys_behind_after", &s.keys_behind_after, "outbox_staged (stage=? AND key>?)"),
        ("claim", &s.claim, "sqlite_autoindex_outbox_1 (id=?)"),
        ("renew", &s.renew, "outbox_claimed (claimed_by=? AND claim>? AND claim<?)"),
        ("settle", &s.settle, "sqlite_autoindex_outbox_1 (id=?)"),
        ("requeue_expired", &s.requeue_expired, "INDEX outbox_claimed"),
        ("take_from", &s.take_from, "outbox_claimed (claimed_by=?)"),
        ("purge", &s.purge, "outbox_sent (sent_at<?)"),
        ("retry", &s.retry, "sqlite_autoindex_outbox_1 (id=?)"),
        ("retry_all", &s.retry_all, "INDEX outbox_errors"),
        ("show", &s.show, "sqlite_autoindex_outbox_1 (id=?)"),
        ("counts", &s.counts, "outbox_fresh"),
        ("list", &s.list, "SCAN t USING INDEX outbox_fresh"),
    ] {
        let steps = plan(connection, statement).await;
        println!("{name}: {steps:#?}");
        let is_scan = |step: &&String| {
            let of_table = ["SCAN outbox", "SCAN t", "SCAN o"]
                .iter()
                .any(|scan| step.as_str() == *scan || step.starts_with(&format!("{scan} ")));
            of_table && !step.contains("INDEX outbox_")
        };
        assert!(!steps.iter().any(|step| is_scan(&step)), "{name}: {steps:?}");
        assert!(steps.iter().any(|step| step.contains(range)), "{name} does not use {range}: {steps:?}");
        let sorts = steps.iter().any(|step| step.contains("TEMP B-TREE"));
        // What is sorted for a claim are the rows that it names.
        assert!(!sorts || ["list", "claim"].contains(&name), "{name}: {steps:?}");
    }
}

#[tokio::test]
async fn every_statement_is_a_range_of_an_index_however_large_the_table_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    SqliteOutbox::init(path.to_str().unwrap(), &Options::default()).await.unwrap();
    let mut connection = super::db::file(path.to_str().unwrap()).unwrap().connect().await.unwrap();
    check(&mut connection).await;
    sqlx::raw_sql(MANY).execute(&mut connection).await.unwrap();
    check(&mut connection).await;
    // SQLite knows nothing of the table, unless somebody has told it to look.
    sqlx::raw_sql("ANALYZE").execute(&mut connection).await.unwrap();
    check(&mut connection).await;
}
