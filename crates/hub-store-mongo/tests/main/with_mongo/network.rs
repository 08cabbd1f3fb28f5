//! A network that is cut, and servers that are elected.

use super::world::{World, append, assert_log_is, commit, draft, draft_with, fresh_id, log, seqs};
use hub_core::store::{Appended, EventStore, StoreError};
use hub_proto::EventId;
use hub_store_mongo::{MongoStore, Options};
use hub_testbed::{Proxy, ReplicaSet, Sharded, database_on};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_cannot_be_reached_is_told_until_it_can_be() {
    let world = World::new().await;
    let proxy = Proxy::start(world.database.server()).await.unwrap();
    let options = Options {
        commit_limit: Duration::from_secs(1),
        call_limit: Duration::from_secs(1),
        ..Options::new(proxy.database_uri(world.database.name()))
    };
    let store = MongoStore::connect(options).await.unwrap();
    append(&store, vec![draft("t", "1")]).await;
    proxy.cut().await.unwrap();
    let id = fresh_id();
    let refused = commit(&store, vec![draft_with("t", id, "2")]).await;
    assert!(matches!(refused[0], Err(StoreError::Unavailable(_))), "{refused:?}");
    assert!(store.health().unavailable.is_some());
    assert!(store.load().await.is_err());
    proxy.heal().await.unwrap();
    // Nobody publishes to a hub that is not ready: it finds out by itself.
    while store.health().unavailable.is_some() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let again = loop {
        let mut again = commit(&store, vec![draft_with("t", id, "2")]).await;
        match again.remove(0) {
            Ok(answer) => break answer,
            Err(StoreError::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert!(matches!(again, Appended::New { .. } | Appended::Known { seq: 2, same: true, .. }), "{again:?}");
    assert_eq!(store.health().unavailable, None);
    assert_eq!(seqs(&log(&store, "t").await), [1, 2]);
}

/// Publishes until told to stop, each event again until it is answered. Ids in the order of their answers.
async fn publish(store: MongoStore, stop: Arc<AtomicBool>) -> Vec<(EventId, u64)> {
    let mut told = Vec::new();
    while !stop.load(Relaxed) {
        let ids: Vec<_> = (0..3).map(|_| fresh_id()).collect();
        let mut open = ids.clone();
        while !open.is_empty() {
            let answers =
                commit(&store, open.iter().map(|&id| draft_with("t", id, "{\"n\":1}")).collect()).await;
            let mut left = Vec::new();
            for (id, answer) in open.into_iter().zip(answers) {
                match answer {
                    Ok(Appended::New { event, .. }) => told.push((id, event.seq())),
                    Ok(Appended::Known { seq, same, .. }) => {
                        assert!(same);
                        told.push((id, seq));
                    }
                    Ok(twin @ Appended::Twin { .. }) => panic!("it is small: {twin:?}"),
                    Err(StoreError::Unavailable(_)) => left.push(id),
                    Err(error) => panic!("{error}"),
                }
            }
            open = left;
        }
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn elections_and_kills_lose_nothing_and_leave_no_gap() {
    let set = ReplicaSet::start(3).await.unwrap();
    let world = World::on(database_on(&set.uri())).await;
    let (one, two) = tokio::join!(world.store(), world.store());
    let stop = Arc::new(AtomicBool::new(false));
    let tasks =
        [tokio::spawn(publish(one.clone(), stop.clone())), tokio::spawn(publish(two.clone(), stop.clone()))];
    let beat = Duration::from_millis(700);
    tokio::time::sleep(beat).await;
    set.step_down().await.unwrap();
    tokio::time::sleep(beat).await;
    let killed = set.primary().await.unwrap();
    killed.kill().unwrap();
    set.primary().await.unwrap();
    tokio::time::sleep(beat).await;
    killed.restart().await.unwrap();
    tokio::time::sleep(beat).await;
    stop.store(true, Relaxed);
    let mut told = Vec::new();
    for task in tasks {
        told.extend(task.await.unwrap());
    }
    told.sort_unstable_by_key(|(_, seq)| *seq);
    let ids: Vec<_> = told.iter().map(|(id, _)| *id).collect();
    assert!(ids.len() > 100, "{} events", ids.len());
    assert_log_is(&one, "t", &ids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_spread_over_shards() {
    use super::world::{T0, topic};
    use hub_core::store::{Claim, CleanPolicy, GroupRecord, HubId, Record, Shared};
    use hub_testbed::mongodb::bson::doc;

    let cluster = Sharded::start(2).await.unwrap();
    let world = World::on(database_on(&cluster.uri())).await;
    let name = world.database.name();
    let admin = world.db.client().database("admin");
    let key = doc! { "shardCollection": format!("{name}.events"), "key": { "topic": "hashed" } };
    admin.run_command(key).await.unwrap();
    let options = Options { clean_delay: Duration::ZERO, ..world.options() };
    let store = MongoStore::connect(options).await.unwrap();
    let mut changes = store.changes().await.unwrap();
    let names: Vec<String> = (0..12).map(|n| format!("t.{n}")).collect();
    append(&store, (0..120).map(|n| draft(&names[n % 12], &n.to_string())).collect()).await;
    for name in &names {
        assert_eq!(seqs(&log(&store, name).await), (1..=10).collect::<Vec<_>>());
    }
    assert_eq!(store.tails(None).await.unwrap().len(), 12);
    let image = store.load().await.unwrap();
    assert!(image.topics.iter().all(|(_, bounds)| bounds.last == 10 && bounds.events == 10), "{image:?}");
    let old = CleanPolicy { committed_before: Some(T0 + 1), ids_since: T0, ..CleanPolicy::default() };
    assert_eq!(store.clean(&topic("t.3"), old).await.unwrap().removed, 9);
    assert_eq!(append(&store, vec![draft("t.3", "11")]).await, [11]);
    let mut heard = std::collections::BTreeMap::new();
    while heard.len() < 12 || heard[&topic("t.3")] < 11 {
        heard.extend(changes.next().await.unwrap());
    }
    let me = HubId::random();
    assert!(matches!(store.claim("g", 0, me).await.unwrap(), Claim::Won { epoch: 1, .. }));
    assert_eq!(store.owner("g").await.unwrap().hub, Some(me));
    let record = GroupRecord {
        topic: topic("t.1"),
        name: super::world::group("g"),
        options: hub_core::GroupOptions::default(),
        created: T0,
        idle_since: None,
        driven: false,
        born: 0,
    };
    super::world::write(&store, 1, vec![Record::Group(record.clone())]).await.remove(0).unwrap();
    assert_eq!(store.estate("g", 2).await.unwrap().groups[0].record, record);
    let late = super::world::write(&store, 1, vec![Record::Group(record)]).await.remove(0);
    assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
    for shard in cluster.shards() {
        let client = hub_testbed::mongodb::Client::with_uri_str(shard.uri()).await.unwrap();
        let events = client.database(name).collection::<hub_testbed::mongodb::bson::Document>("events");
        assert!(events.count_documents(doc! {}).await.unwrap() > 0, "every shard has some");
    }
}
