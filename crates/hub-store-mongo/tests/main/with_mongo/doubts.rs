//! Replies that are lost, and servers that say they do not know.

use super::world::{Trap, World, append, assert_log_is, commit, draft, draft_with, fresh_id, log, new, seqs};
use hub_core::store::{Appended, EventStore, StoreError};
use hub_store_mongo::Options;
use hub_testbed::mongodb::bson::{Document, doc};
use std::time::{Duration, Instant};

/// Commits three events while inserts fail as `how` says, and checks that they are there once, as answered.
async fn survives(
    world: &World,
    trap: &Trap,
    store: &hub_store_mongo::MongoStore,
    times: i32,
    how: Document,
) {
    let before: Vec<_> = log(store, "t").await.iter().map(|event| event.id()).collect();
    trap.set(times, &["insert"], how.clone()).await;
    let ids = [fresh_id(), fresh_id(), fresh_id()];
    let answers = commit(store, ids.iter().map(|&id| draft_with("t", id, "{\"a\":1}")).collect()).await;
    trap.off("failCommand").await;
    let events: Vec<_> = answers.into_iter().map(new).collect();
    let wanted: Vec<_> = before.into_iter().chain(ids).collect();
    assert_log_is(&world.store().await, "t", &wanted).await;
    let stored = log(store, "t").await;
    assert_eq!(&stored[stored.len() - 3..], events, "{how}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_that_fails_before_it_takes_effect_is_made_again() {
    let world = World::new().await;
    let (store, trap) = world.victim(world.options()).await;
    append(&store, vec![draft("t", "0")]).await;
    for times in [1, 2, 5] {
        survives(&world, &trap, &store, times, doc! { "closeConnection": true }).await;
    }
    for code in [91, 11600, 10107] {
        // Without the label the driver does not try again by itself: it is our turn.
        let quiet = doc! { "errorCode": code, "errorLabels": [] };
        survives(&world, &trap, &store, 1, quiet).await;
        survives(&world, &trap, &store, 3, doc! { "errorCode": code }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_that_took_effect_under_a_write_concern_error_is_not_made_twice() {
    let world = World::new().await;
    let (store, trap) = world.victim(world.options()).await;
    append(&store, vec![draft("t", "0")]).await;
    for code in [64, 11602] {
        for times in [1, 3] {
            let error = doc! { "code": code, "errmsg": "nobody knows" };
            survives(&world, &trap, &store, times, doc! { "writeConcernError": error }).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_whose_reply_never_comes_is_found() {
    let world = World::new().await;
    let options = Options { commit_limit: Duration::from_secs(3), ..world.options() };
    let (store, trap) = world.victim(options).await;
    append(&store, vec![draft("t", "0")]).await;
    // The server does what it is told, and then keeps it to itself.
    let of_us = doc! { "ns": format!("{}.events", world.database.name()), "commands": ["insert"], "appName": trap.app() };
    trap.configure("waitAfterCommandFinishesExecution", doc! { "times": 1 }, of_us).await;
    let answers = commit(&store, vec![draft("t", "1"), draft("t", "2")]).await;
    trap.off("waitAfterCommandFinishesExecution").await;
    assert_eq!(answers.into_iter().map(|answer| new(answer).seq()).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(seqs(&log(&store, "t").await), [1, 2, 3]);
    assert_eq!(append(&store, vec![draft("t", "3")]).await, [4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stays_undecided_is_unavailable_in_time_and_can_be_sent_again() {
    let world = World::new().await;
    let options = Options { commit_limit: Duration::from_millis(1500), ..world.options() };
    let (store, trap) = world.victim(options).await;
    append(&store, vec![draft("t", "0")]).await;
    trap.set(1000, &["insert", "find"], doc! { "errorCode": 91 }).await;
    let id = fresh_id();
    let started = Instant::now();
    let answer = commit(&store, vec![draft_with("t", id, "1"), draft_with("t", id, "1")]).await;
    assert!(started.elapsed() < Duration::from_secs(10), "it gives up");
    for answer in &answer {
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    }
    let health = store.health();
    assert!(health.unavailable.is_some() && health.failed_commits == 1, "{health:?}");
    trap.off("failCommand").await;
    // The driver takes a moment to believe that the server is well again.
    let mut again = commit(&store, vec![draft_with("t", id, "1")]).await;
    while again[0].is_err() {
        again = commit(&store, vec![draft_with("t", id, "1")]).await;
    }
    assert!(
        matches!(again[0], Ok(Appended::New { .. } | Appended::Known { seq: 2, same: true, .. })),
        "{again:?}"
    );
    assert_eq!(seqs(&log(&store, "t").await), [1, 2]);
    assert_eq!(store.health().unavailable, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_that_no_time_heals_is_told_at_once() {
    let world = World::new().await;
    let (store, trap) = world.victim(world.options()).await;
    // Unauthorized.
    trap.set(1000, &["insert"], doc! { "errorCode": 13 }).await;
    let started = Instant::now();
    let answer = commit(&store, vec![draft("t", "1")]).await;
    assert!(matches!(&answer[0], Err(StoreError::Unavailable(why)) if why.contains("13")), "{answer:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
    trap.off("failCommand").await;
    assert_eq!(append(&store, vec![draft("t", "1")]).await, [1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_the_collection_refuses_does_not_take_others_along() {
    let world = World::new().await;
    let store = world.store().await;
    let rule = doc! { "collMod": "events", "validator": { "payload": { "$ne": "forbidden" } } };
    world.db.run_command(rule).await.unwrap();
    let answers = commit(&store, vec![draft("t", "1"), draft("t", "\"forbidden\""), draft("t", "3")]).await;
    assert!(matches!(&answers[1], Err(StoreError::Unavailable(why)) if why.contains("121")), "{answers:?}");
    let left: Vec<_> =
        answers.into_iter().filter_map(Result::ok).map(|answer| new(Ok(answer)).seq()).collect();
    assert_eq!(left, [1, 2]);
    assert_eq!(seqs(&log(&store, "t").await), [1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_save_that_failed_is_made_again() {
    use super::world::{T0, group, topic, write};
    use hub_core::store::{GroupRecord, Progress, Record};
    let world = World::new().await;
    let (store, trap) = world.victim(world.options()).await;
    let options = hub_core::GroupOptions::default();
    let (name, created) = (group("g"), T0);
    let record =
        GroupRecord { topic: topic("t"), name, options, created, idle_since: None, driven: false, born: 0 };
    let step = |floor| {
        let (settled, tries) = (vec![(floor + 2, floor + 3)], Vec::new());
        let step = Progress { epoch: 0, reset: false, floor, high: floor + 9, settled, tries };
        Record::Progress(topic("t"), group("g"), step)
    };
    let error = doc! { "code": 64, "errmsg": "nobody knows" };
    let ways = [
        doc! { "closeConnection": true },
        doc! { "errorCode": 91, "errorLabels": [] },
        doc! { "writeConcernError": error },
    ];
    for (floor, how) in (1..).map(|n| n * 100).zip(ways) {
        trap.set(2, &["bulkWrite"], how.clone()).await;
        let written = write(&store, 0, vec![Record::Group(record.clone()), step(floor)]).await;
        trap.off("failCommand").await;
        assert!(written.iter().all(Result::is_ok), "{how}: {written:?}");
        write(&store, 0, vec![step(floor + 1)]).await.remove(0).unwrap();
        let state = world.store().await.load().await.unwrap().groups.remove(0).state;
        assert_eq!((state.floor, state.high), (floor + 1, floor + 10), "{how}");
    }
}
