//! What the server reads for each call, when the table is large.

use super::{connect, database};
use hub_core::outbox::{Claim, Holding, OutboxStore, Outcome, Place, RowId, Settled};
use hub_outbox_sql::{Options, PostgresOutbox};
use hub_testbed::postgres::Database;
use sqlx::{AssertSqlSafe, PgConnection, Row};
use std::sync::Arc;
use std::time::Duration;

const LONG: u64 = 600_000;

/// Many rows of every kind.
const MANY: &str = "
    INSERT INTO outbox (id, topic, payload, key, ord, ts)
    SELECT gen_random_uuid(), 't', '1', 'key ' || n % 50, CASE n % 3 WHEN 0 THEN n END, clock_timestamp()
    FROM generate_series(1, 200000) AS n;
    INSERT INTO outbox (id, topic, payload, key, stage, next_at)
    SELECT gen_random_uuid(), 't', '1', 'key ' || n % 50, 'behind', clock_timestamp()
    FROM generate_series(1, 20000) AS n;
    INSERT INTO outbox (id, topic, payload, key, stage, next_at)
    SELECT gen_random_uuid(), 't', '1', 'held ' || n, 'held', clock_timestamp() + interval '1 day'
    FROM generate_series(1, 20000) AS n;
    INSERT INTO outbox (id, topic, payload, key, status, stage)
    SELECT gen_random_uuid(), 't', '1', 'key ' || n % 50, 'error', 'parked' FROM generate_series(1, 20000) AS n;
    INSERT INTO outbox (id, topic, payload, status, sent_at)
    SELECT gen_random_uuid(), 't', '1', 'sent', clock_timestamp() FROM generate_series(1, 100000) AS n;
";

/// Without what was released.
const AS_IT_WAS: &str = "DELETE FROM outbox WHERE stage = 'held' AND next_at < now()";

/// A part of them.
fn some(part: u64) -> String {
    [200_000, 20_000, 100_000]
        .iter()
        .fold(MANY.to_owned(), |some, n| some.replace(&format!("(1, {n})"), &format!("(1, {})", n / part)))
}

/// What was read of the table so far: whole scans of it, entries of its indexes, and blocks of those. A scan that passes over
/// entries which it does not answer shows in its blocks alone.
#[derive(Clone, Copy)]
struct Read {
    scans: i64,
    entries: i64,
    blocks: i64,
}

impl Read {
    /// A backend tells what it has read when it ends, if not before: those of a name are waited for.
    async fn when_gone(name: &str, shop: &mut PgConnection) -> Self {
        let left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 \
                    AND datname = current_database()";
        while sqlx::query_scalar::<_, i64>(left).bind(name).fetch_one(&mut *shop).await.unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        sqlx::raw_sql("SELECT pg_stat_force_next_flush()").execute(&mut *shop).await.unwrap();
        let row = sqlx::query(
            "SELECT (SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'outbox') AS scans,
             (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = 'outbox') AS entries,
             (SELECT sum(idx_blks_read + idx_blks_hit)::bigint FROM pg_statio_user_indexes
              WHERE relname = 'outbox') AS blocks",
        );
        let row = row.fetch_one(shop).await.unwrap();
        Self { scans: row.get("scans"), entries: row.get("entries"), blocks: row.get("blocks") }
    }
}

/// As often as it takes for the server to think of one plan for all of them.
const TIMES: u64 = 8;

/// How many entries of indexes a call may read, and how many blocks. It answers 1,000 rows at most, of those that are
/// claimed 800, and nobody clears away what rows were before they were changed.
const MOST: i64 = 800 * (TIMES as i64 + 2);

const CALLS: [&str; 17] = [
    "due",
    "fresh",
    "fresh_after",
    "fresh_before",
    "holding",
    "put_behind",
    "release",
    "keys_behind",
    "claim",
    "renew",
    "requeue_expired",
    "take_from",
    "settle",
    "purge",
    "retry",
    "show",
    "shares",
];

/// One of them, as a drainer makes it.
async fn call(name: &str, outbox: &PostgresOutbox, claimed: &mut Vec<RowId>) {
    let keys: Vec<Arc<str>> = (0..50).map(|n| format!("key {n}").as_str().into()).collect();
    let fresh = async || outbox.fresh(None, 100).await.unwrap();
    let ids = async || -> Vec<RowId> { fresh().await.into_iter().map(|row| row.place.id).collect() };
    let claim = Claim { worker: "w".into(), number: 1 };
    match name {
        "due" => assert!(outbox.due(100).await.unwrap().is_empty()),
        "fresh" => assert_eq!(fresh().await.len(), 100),
        "fresh_after" => {
            let last: Place = fresh().await.pop().unwrap().place;
            assert_eq!(outbox.fresh(Some(&last), 100).await.unwrap().len(), 100);
        }
        "fresh_before" => {
            let first = Place { ord: Some(0), at: 0, id: "00000000-0000-0000-0000-000000000000".into() };
            let asked: Vec<_> = keys.iter().map(|key| (key.clone(), first.clone())).collect();
            assert_eq!(outbox.fresh_before(&asked, 20).await.unwrap().len(), 1_000);
        }
        "holding" => {
            let of = Holding { worker: "w", parked: true, behind: true };
            assert_eq!(outbox.holding(&keys, of).await.unwrap().len(), 100);
        }
        "put_behind" => outbox.put_behind(&ids().await).await.unwrap(),
        "release" => outbox.release(&keys[..5], 20).await.unwrap(),
        "keys_behind" => assert_eq!(outbox.keys_behind(None, 30).await.unwrap().len(), 30),
        "claim" => {
            let ids = ids().await;
            assert_eq!(outbox.claim(&claim, &ids, LONG, usize::MAX).await.unwrap().len(), 100);
            claimed.extend(ids);
        }
        "renew" => assert_eq!(outbox.renew("w", 1..=1, LONG).await.unwrap(), 100 * TIMES),
        "requeue_expired" => assert_eq!(outbox.requeue_expired().await.unwrap(), 0),
        "take_from" => assert_eq!(outbox.take_from(&["nobody".into()]).await.unwrap(), 0),
        "settle" => {
            let settled: Vec<_> =
                claimed.drain(..100).map(|id| Settled { id, outcome: Outcome::Sent }).collect();
            assert_eq!(outbox.settle(&claim, &settled).await.unwrap(), 100);
        }
        "purge" => assert_eq!(outbox.purge(0, 50).await.unwrap(), 50),
        "retry" => {
            assert_eq!(
                outbox.retry(Some(&["018f4e3a-1b2c-7d3e-8f40-112233445566".into()])).await.unwrap(),
                0
            );
        }
        "show" => {
            assert!(outbox.show(&"018f4e3a-1b2c-7d3e-8f40-112233445566".into()).await.unwrap().is_none());
        }
        "shares" => assert_eq!(outbox.shares().await.unwrap().1, 0),
        name => panic!("{name}"),
    }
}

/// An outbox whose connections are known by a name.
async fn named(name: &str, database: &Database) -> PostgresOutbox {
    let url = format!("{}?application_name={name}", database.url());
    PostgresOutbox::connect(&url, Options::default()).await.unwrap()
}

/// Makes every call, and looks at what it reads. Where it is told how, the table is made large between the time when calls
/// are planned and the time when they are looked at.
async fn check(database: &Database, shop: &mut PgConnection, grown: Option<&str>) {
    let mut claimed = Vec::new();
    let mut planned = Vec::new();
    for name in CALLS {
        let outbox = named(name, database).await;
        if grown.is_some() {
            for _ in 0..TIMES {
                call(name, &outbox, &mut claimed).await;
            }
        }
        planned.push(outbox);
    }
    if let Some(more) = grown {
        sqlx::raw_sql(AssertSqlSafe(format!("{AS_IT_WAS}; {more}"))).execute(&mut *shop).await.unwrap();
    }
    let mut too_many = Vec::new();
    let mut before = Read::when_gone("nobody", shop).await;
    for (name, outbox) in CALLS.into_iter().zip(planned) {
        for _ in 0..TIMES {
            call(name, &outbox, &mut claimed).await;
        }
        drop(outbox);
        let after = Read::when_gone(name, shop).await;
        let scans = after.scans - before.scans;
        let [entries, blocks] = [after.entries - before.entries, after.blocks - before.blocks]
            .map(|read| read / TIMES.cast_signed());
        println!(
            "{name}: {scans} scans of the table, {entries} entries and {blocks} blocks of indexes per call"
        );
        // It reads them twice, to find them and to change them.
        let most = if name == "renew" { 2 * MOST } else { MOST };
        // What was read before the table grew is told now, and rows that were claimed then are still in its indexes.
        let most = if grown.is_some() { (4 * most, 2 * most) } else { (most, most) };
        if scans > 0 || entries > most.0 || blocks > most.1 {
            too_many.push(name);
        }
        before = after;
    }
    sqlx::raw_sql(AS_IT_WAS).execute(&mut *shop).await.unwrap();
    assert!(too_many.is_empty(), "{too_many:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_reads_what_it_answers_however_large_the_table_is() {
    let database = database().await;
    let mut shop = connect(&database).await;
    // What the server knows of the table is what we tell it: nothing, what is so, or what was so before.
    sqlx::raw_sql("ALTER TABLE outbox SET (autovacuum_enabled = off)").execute(&mut shop).await.unwrap();
    for (step, made) in [("", MANY), ("VACUUM ANALYZE outbox", ""), ("VACUUM ANALYZE outbox", MANY)] {
        println!("-- {step} {}", if made.is_empty() { "" } else { "and many rows more" });
        sqlx::raw_sql(step).execute(&mut shop).await.unwrap();
        sqlx::raw_sql(made).execute(&mut shop).await.unwrap();
        check(&database, &mut shop, None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_planned_for_a_small_table_serves_a_large_one() {
    let (few, more, analyze) = (some(100), some(2), "VACUUM ANALYZE outbox");
    // Nothing is known of the table, that it is empty, or that it is small.
    for steps in [&[few.as_str()][..], &[analyze, &few], &[&few, analyze]] {
        let database = database().await;
        let mut shop = connect(&database).await;
        sqlx::raw_sql("ALTER TABLE outbox SET (autovacuum_enabled = off)").execute(&mut shop).await.unwrap();
        for step in steps {
            sqlx::raw_sql(AssertSqlSafe(step.to_owned())).execute(&mut shop).await.unwrap();
        }
        check(&database, &mut shop, Some(&more)).await;
    }
}
