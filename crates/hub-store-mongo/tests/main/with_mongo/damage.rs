//! Documents that somebody else changed, and databases that lost something.

use super::world::{ALL, Hands, World, append, commit, draft, keyed, topic};
use hub_core::store::{EventStore, StoreError};
use hub_store_mongo::{MongoStore, Options};
use hub_testbed::mongodb::bson::doc;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_is_missing_is_said_aloud() {
    let world = World::new().await;
    let store = world.store().await;
    append(&store, (1..=5).map(|n| draft("t", &n.to_string())).collect()).await;
    world.documents("events").delete_one(doc! { "seq": 3 }).await.unwrap();
    for after in [0, 1, 2] {
        let read = store.read(&topic("t"), after, ALL).await;
        assert!(
            matches!(&read, Err(StoreError::Damaged(what)) if what.contains("event 3 of topic t")),
            "{read:?}"
        );
    }
    let health = store.health();
    assert_eq!((health.damaged, health.warnings.len()), (1, 1), "said once: {health:?}");
    assert_eq!(store.read(&topic("t"), 3, ALL).await.unwrap().len(), 2);
}

/// A backup was restored under a hub that runs: what it knows is more than there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_became_shorter_is_not_written_to() {
    let world = World::new().await;
    let hands = Hands::default();
    let store = MongoStore::connect(Options { clock: hands.clock(), ..world.options() }).await.unwrap();
    append(&store, (1..=3).map(|n| draft("t", &n.to_string())).collect()).await;
    world.documents("events").delete_many(doc! { "seq": { "$gt": 1 } }).await.unwrap();
    hands.pass(60);
    for _ in 0..2 {
        let refused = commit(&store, vec![draft("t", "4"), draft("u", "1")]).await;
        let damaged = matches!(&refused[0], Err(StoreError::Damaged(what)) if what.contains("had 3 events and ends at 1"));
        assert!(damaged && refused[1].is_ok(), "{refused:?}");
    }
    assert_eq!(
        append(&world.store().await, vec![draft("t", "2")]).await,
        [2],
        "a hub that starts takes it as it is"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_event_is_never_served_as_one() {
    let world = World::new().await;
    let store = world.store().await;
    append(&store, vec![keyed("t", "k", "1")]).await;
    let spoil = [
        doc! { "$set": { "payload_json": "{\"a\":" } },
        doc! { "$set": { "payload_json": "1\n2" } },
        doc! { "$set": { "payload": hub_testbed::mongodb::bson::oid::ObjectId::new() }, "$unset": { "payload_json": "" } },
        doc! { "$unset": { "payload": "" } },
        doc! { "$set": { "payload": 1, "id": "no uuid" } },
    ];
    for spoiled in spoil {
        world.documents("events").update_one(doc! { "seq": 1 }, spoiled.clone()).await.unwrap();
        let read = store.read(&topic("t"), 0, ALL).await;
        assert!(
            matches!(&read, Err(StoreError::Damaged(what)) if what.contains("topic t")),
            "{spoiled}: {read:?}"
        );
        let newest = store.newest(&topic("t"), &["k".into()]).await;
        assert!(matches!(newest, Err(StoreError::Damaged(_))), "{spoiled}: {newest:?}");
    }
}
