//! Documents that somebody else changed, and databases that lost something.

use super::world::{ALL, Hands, T0, World, append, commit, draft, group, keyed, topic, write};
use hub_core::GroupOptions;
use hub_core::store::{EventStore, GroupRecord, Progress, Record, Shared, StoreError};
use hub_store_mongo::{MongoStore, Options};
use hub_testbed::mongodb::bson::{Document, doc};

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

fn record(name: &str, options: GroupOptions) -> Record {
    Record::Group(GroupRecord {
        topic: topic(name),
        name: group("g"),
        options,
        created: T0,
        idle_since: None,
        driven: false,
        born: 0,
    })
}

fn progress(name: &str, floor: u64) -> Record {
    let (settled, tries) = (Vec::new(), Vec::new());
    let step = Progress { epoch: 0, reset: false, floor, high: floor, settled, tries };
    Record::Progress(topic(name), group("g"), step)
}

async fn floors(store: &MongoStore) -> Vec<(String, u64)> {
    let groups = store.load().await.unwrap().groups;
    let floor = |name: &str| groups.iter().find(|group| group.record.topic.as_str() == name);
    let floors =
        ["a", "b", "c"].into_iter().filter_map(|name| Some((name.to_owned(), floor(name)?.state.floor)));
    floors.collect()
}

/// Three groups, the second of which cannot be read.
async fn with_a_bad_group(world: &World) {
    let store = world.store().await;
    let names = ["a", "b", "c"];
    let records = names.iter().map(|name| record(name, GroupOptions::default())).collect();
    assert!(write(&store, 1, records).await.iter().all(Result::is_ok));
    let bad = doc! { "$set": { "state.settled": "no document" } };
    world.documents("groups").update_one(doc! { "_id.topic": "b" }, bad).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_document_that_cannot_be_read_does_not_keep_a_hub_from_starting() {
    let world = World::new().await;
    with_a_bad_group(&world).await;
    let store = world.store().await;
    assert_eq!(floors(&store).await, [("a".into(), 0), ("c".into(), 0)]);
    let health = store.health();
    assert_eq!(health.damaged, 1, "{health:?}");
    assert!(
        health.warnings[0].contains("topic: \"b\"") || health.warnings[0].contains("\"b\""),
        "{health:?}"
    );
    assert_eq!(store.groups(None).await.unwrap().len(), 2);
    let estate = store.estate("g", 2).await.unwrap();
    assert_eq!(estate.groups.len(), 2, "a take-over serves the others");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_document_that_cannot_be_read_does_not_keep_the_others_from_being_saved() {
    let world = World::new().await;
    with_a_bad_group(&world).await;
    let store = world.store().await;
    let written = write(&store, 1, vec![progress("a", 1), progress("b", 2), progress("c", 3)]).await;
    assert!(written[0].is_ok() && written[2].is_ok(), "{written:?}");
    assert!(matches!(&written[1], Err(StoreError::Damaged(_))), "{written:?}");
    assert_eq!(floors(&store).await, [("a".into(), 1), ("c".into(), 3)]);
    let bad = world.documents("groups").find_one(doc! { "_id.topic": "b" }).await.unwrap().unwrap();
    assert_eq!(
        bad.get_document("state").unwrap().get_str("settled").unwrap(),
        "no document",
        "left as it is"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_does_not_fit_a_document_does_not_keep_the_others_from_being_saved() {
    let world = World::new().await;
    let store = world.store().await;
    let mut large = GroupOptions::default();
    large.filter.tags = vec!["x".repeat(17 << 20)];
    let records = ["a", "b", "c"].map(|name| match name {
        "b" => record(name, large.clone()),
        _ => record(name, GroupOptions::default()),
    });
    let written = write(&store, 1, records.into()).await;
    assert!(written[0].is_ok() && written[1].is_err() && written[2].is_ok(), "{written:?}");
    assert_eq!(floors(&store).await, [("a".into(), 0), ("c".into(), 0)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_the_collection_refuses_does_not_keep_the_others_from_being_saved() {
    let world = World::new().await;
    let store = world.store().await;
    let rule = doc! { "collMod": "groups", "validator": { "topic": { "$ne": "b" } } };
    world.db.run_command(rule).await.unwrap();
    let records = ["a", "b", "c"].map(|name| record(name, GroupOptions::default()));
    let written = write(&store, 1, records.into()).await;
    assert!(matches!(&written[1], Err(StoreError::Unavailable(why)) if why.contains("121")), "{written:?}");
    assert!(written[0].is_ok() && written[2].is_ok(), "{written:?}");
    assert_eq!(floors(&store).await, [("a".into(), 0), ("c".into(), 0)]);
}

/// Progress of a group that is not there counts as saved, and a primary that was just elected may not find what is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_save_is_based_on_is_read_behind_all_that_was_acknowledged() {
    let world = World::new().await;
    assert!(write(&world.store().await, 1, vec![record("a", GroupOptions::default())]).await[0].is_ok());
    let store = world.store().await;
    world.db.run_command(doc! { "profile": 2 }).await.unwrap();
    assert!(write(&store, 1, vec![progress("a", 7)]).await[0].is_ok());
    world.db.run_command(doc! { "profile": 0 }).await.unwrap();
    let ns = format!("{}.groups", world.database.name());
    let profile = world.db.collection::<Document>("system.profile");
    let reads = profile.count_documents(doc! { "ns": &ns, "command.find": "groups" }).await.unwrap();
    let behind = doc! { "ns": &ns, "command.find": "groups", "command.readConcern.afterClusterTime": { "$exists": true } };
    assert_eq!((reads, profile.count_documents(behind).await.unwrap()), (1, 1));
    assert_eq!(floors(&store).await, [("a".into(), 7)]);
}
