//! The way from hubs to MongoDB fails, for one of them or for all.

use super::hubs::Hubs;
use super::ledger::{How, Ledger};
use super::load::Running;
use super::{ANSWERED_WITHIN, SOME, rounds, run, until};
use futures_util::TryStreamExt;
use hub_testbed::mongodb::Client;
use hub_testbed::mongodb::bson::{Document, doc};
use hub_testbed::{Proxy, TestDatabase};
use std::sync::Arc;
use std::time::Instant;

/// Two hubs, each with a way of its own to MongoDB that fails on demand.
async fn two() -> (TestDatabase, [Proxy; 2], Hubs, Running, Arc<Ledger>) {
    let database = hub_testbed::database().await.unwrap();
    let proxies =
        [Proxy::start(database.server()).await.unwrap(), Proxy::start(database.server()).await.unwrap()];
    let ledger = Arc::new(Ledger::default());
    let ways: Vec<String> = proxies.iter().map(|proxy| proxy.database_uri(database.name())).collect();
    let hubs = Hubs::start(&ways, &ledger);
    let load = Running::start(&hubs, &ledger);
    (database, proxies, hubs, load, ledger)
}

/// The way of one hub fails: of the one that serves the group, then of the other one, and so on.
#[expect(clippy::needless_pass_by_value, reason = "a closure is passed as it is written")]
fn cut_off(fail: impl AsyncFn(&Proxy)) {
    run(async {
        let (_database, proxies, hubs, load, ledger) = two().await;
        for round in 1..=rounds(2) {
            load.goes_on(SOME).await;
            let owner = hubs.owner().await;
            let hub = if round % 2 == 1 { owner } else { 1 - owner };
            let from = ledger.harmed(hub, How::CutOff);
            fail(&proxies[hub]).await;
            let next = hubs.owner_but(Some(hub)).await;
            load.goes_on(SOME).await;
            let quiet = ledger.quiet_since(from);
            println!(
                "round {round}: {owner} had the group, {hub} was cut off, {next} has it; quiet for {quiet:?}"
            );
            proxies[hub].heal().await.unwrap();
            ledger.healed(hub);
            load.goes_on(SOME).await;
            load.go_home();
        }
        load.goes_on(SOME).await;
        load.finish(&hubs).await;
    });
}

#[test]
fn a_hub_that_cannot_reach_mongodb_loses_its_groups_to_one_that_can() {
    cut_off(async |proxy| proxy.cut().await.unwrap());
}

#[test]
fn a_hub_that_mongodb_does_not_answer_loses_its_groups_to_one_that_is_answered() {
    cut_off(async |proxy| proxy.silence().await.unwrap());
}

#[test]
fn news_that_are_cut_off_in_the_middle_lose_no_event() {
    run(async {
        let (database, proxies, hubs, load, _ledger) = two().await;
        let server = database.connect().await.unwrap().client().clone();
        let events = format!("{}.events", database.name());
        for round in 1..=rounds(4) {
            load.goes_on(SOME).await;
            if round % 2 == 1 {
                let lost = hubs.counted(0, LOST).await + hubs.counted(1, LOST).await;
                let mut tries = 0;
                // Between two questions of a hub there is nothing to end.
                while hubs.counted(0, LOST).await + hubs.counted(1, LOST).await == lost {
                    end_change_streams(&server, &events).await;
                    tries += 1;
                    assert!(tries < 1_000, "{:#?}", operations(&server, doc! { "ns": &events }).await);
                }
                println!("round {round}: the server ended change streams, at the {tries}. try");
            } else {
                for proxy in &proxies {
                    proxy.cut().await.unwrap();
                    proxy.heal().await.unwrap();
                }
                println!("round {round}: all connections were cut");
            }
        }
        load.goes_on(SOME).await;
        load.finish(&hubs).await;
    });
}

/// How often a hub has lost the news.
const LOST: &str = "cluster_news_lost_total";

/// Ends change streams on the events as an operator can: the hubs that wait for them are told so.
async fn end_change_streams(server: &Client, events: &str) {
    for op in operations(server, doc! { "ns": events, "op": "getmore", "cursor.tailable": true }).await {
        let id = op.get("opid").unwrap().clone();
        server.database("admin").run_command(doc! { "killOp": 1, "op": id }).await.unwrap();
    }
}

/// What the server is about.
async fn operations(server: &Client, which: Document) -> Vec<Document> {
    let stages = [doc! { "$currentOp": { "allUsers": true, "idleCursors": true } }, doc! { "$match": which }];
    let found = server.database("admin").aggregate(stages).await.unwrap();
    found.try_collect().await.unwrap()
}

#[test]
fn without_mongodb_publishes_are_unavailable_and_subscribers_stay() {
    run(async {
        let (_database, proxies, hubs, load, ledger) = two().await;
        for round in 1..=rounds(1) {
            load.goes_on(SOME).await;
            let from = Instant::now();
            let before = ledger.with(|records| records.unavailable);
            for proxy in &proxies {
                proxy.cut().await.unwrap();
            }
            let told = || ledger.with(|records| records.unavailable) > before;
            until("no publish is answered", &ledger, told).await;
            for proxy in &proxies {
                proxy.heal().await.unwrap();
            }
            load.goes_on(SOME).await;
            let away = ledger.quiet_since(from);
            println!("round {round}: MongoDB was away; quiet for {away:?}");
        }
        let left = ledger.with(|records| records.lives.iter().filter(|life| life.ended.is_some()).count());
        assert_eq!(left, 0, "nobody was disconnected");
        load.finish(&hubs).await;
        let longest = ledger.with(|records| records.longest);
        assert!(longest < ANSWERED_WITHIN, "a publish had no answer for {longest:?}");
    });
}
