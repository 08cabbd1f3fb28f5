//! News of what others commit.

use super::world::{World, append, draft, topic};
use hub_core::store::{EventStore, Shared};
use hub_proto::TopicName;
use std::collections::BTreeMap;
use std::time::Duration;

type Heard = BTreeMap<TopicName, u64>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_changes_come_at_once() {
    let world = World::new().await;
    let (one, two) = tokio::join!(world.store(), world.store());
    let mut changes = two.changes().await.unwrap();
    for batch in 0..5 {
        append(&one, (0..1000).map(|n| draft(&format!("t.{}", n % 10), &format!("{batch}"))).collect()).await;
    }
    let (mut heard, mut calls) = (Heard::new(), 0);
    while heard.len() < 10 || heard.values().any(|&seq| seq < 500) {
        heard.extend(changes.next().await.unwrap());
        calls += 1;
    }
    assert!(calls < 500, "{calls} calls for 5000 events");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_given_up_loses_nothing() {
    let world = World::new().await;
    let (one, two) = tokio::join!(world.store(), world.store());
    let mut changes = two.changes().await.unwrap();
    let writer = tokio::spawn(async move {
        for n in 0..60 {
            append(&one, vec![draft(&format!("t.{n}"), "1")]).await;
        }
    });
    let mut heard = Heard::new();
    let mut patience = (0..7).cycle().map(|n| Duration::from_micros(n * 300));
    while heard.len() < 60 {
        if let Ok(news) = tokio::time::timeout(patience.next().unwrap(), changes.next()).await {
            heard.extend(news.unwrap());
        }
    }
    writer.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn news_that_cannot_go_on_are_an_error() {
    let world = World::new().await;
    let store = world.store().await;
    let mut changes = store.changes().await.unwrap();
    append(&store, vec![draft("t", "1")]).await;
    assert_eq!(changes.next().await.unwrap(), [(topic("t"), 1)]);
    world.documents("events").drop().await.unwrap();
    let mut last = changes.next().await;
    while last.is_ok() {
        last = changes.next().await;
    }
    assert!(last.unwrap_err().to_string().contains("change stream"));
}

/// What the cleaner does is no news.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_is_appended_is_told() {
    let world = World::new().await;
    let store = world.store().await;
    append(&store, vec![draft("t", "1"), draft("t", "2")]).await;
    let mut changes = store.changes().await.unwrap();
    world.documents("events").delete_one(hub_testbed::mongodb::bson::doc! { "seq": 1 }).await.unwrap();
    append(&store, vec![draft("u", "1")]).await;
    assert_eq!(changes.next().await.unwrap(), [(topic("u"), 1)]);
    let bounds = store.bounds(&topic("u")).await.unwrap();
    assert_eq!(bounds.last, 1);
}

/// Names of this many topics do not fit one message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tails_and_groups_of_a_hundred_thousand_topics_can_be_asked_for() {
    let world = World::new().await;
    let store = world.store().await;
    let names: Vec<TopicName> = (0..100_000).map(|n| topic(&format!("{n:0>200}"))).collect();
    append(&store, vec![draft(&names[0], "1"), draft(&names[99_999], "1")]).await;
    let mut tails = store.tails(Some(&names)).await.unwrap();
    tails.sort_unstable();
    assert_eq!(tails, [(names[0].clone(), 1), (names[99_999].clone(), 1)]);
    assert!(store.groups(Some(&names)).await.unwrap().is_empty());
}
