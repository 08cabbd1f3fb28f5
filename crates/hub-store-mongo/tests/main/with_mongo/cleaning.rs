//! Cleaning: announced before it happens, counted, and safe from those who come late.

use super::world::{
    Hands, T0, World, append, commit, commit_at, draft, draft_with, fresh_id, keyed, log, new, seqs, topic,
};
use hub_core::store::{Appended, CleanPolicy, EventStore};
use hub_core::{Bus, Clock, Config, Millis, SystemClock, TopicSettings};
use hub_store_mongo::{MongoStore, Options};
use hub_testbed::mongodb::bson::doc;
use std::time::Duration;

const MINUTE: u64 = 60;

/// Everything committed at `T0` goes, ids are remembered.
const OLD: CleanPolicy = CleanPolicy {
    committed_before: Some(T0 + 1),
    max_bytes: None,
    compact: false,
    tombstones_before: 0,
    keep_above: None,
    ids_since: T0,
};

const COMPACT: CleanPolicy = CleanPolicy { committed_before: None, compact: true, ..OLD };

/// A hub whose clock is in the test's hands.
async fn hub(world: &World, hands: &Hands) -> MongoStore {
    MongoStore::connect(Options { clock: hands.clock(), ..world.options() }).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_is_announced_ten_minutes_before() {
    let world = World::new().await;
    let hands = Hands::default();
    let store = hub(&world, &hands).await;
    let ids = [fresh_id(), fresh_id()];
    append(&store, ids.iter().map(|&id| draft_with("t", id, "1")).collect()).await;
    commit_at(&store, T0 + 10, vec![draft("t", "3")]).await;
    let clean = async || store.clean(&topic("t"), OLD).await.unwrap().removed;

    assert_eq!(clean().await, 0);
    let told = world.documents("topics").find_one(doc! { "_id": "t" }).await.unwrap().unwrap();
    assert_eq!(told.get_i64("clean_floor").unwrap(), 2);
    assert_eq!(world.documents("dedupe").count_documents(doc! { "topic": "t" }).await.unwrap(), 2);
    hands.pass(9 * MINUTE);
    assert_eq!(clean().await, 0, "not yet");
    assert_eq!(seqs(&log(&store, "t").await), [1, 2, 3]);
    hands.pass(MINUTE);
    assert_eq!(clean().await, 2);
    assert_eq!(seqs(&log(&store, "t").await), [3]);

    let again = commit(&store, vec![draft_with("t", ids[1], "1")]).await;
    assert!(matches!(again[0], Ok(Appended::Known { seq: 2, same: true, .. })), "{again:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_of_several_rounds_wait_beside_each_other() {
    let world = World::new().await;
    let hands = Hands::default();
    let store = hub(&world, &hands).await;
    let mut removed = 0;
    for round in 0..25 {
        commit_at(&store, T0, vec![keyed("t", "a", "1"), keyed("t", "b", "2")]).await;
        removed += store.clean(&topic("t"), COMPACT).await.unwrap().removed;
        assert_eq!(removed > 0, round >= 11, "round {round}");
        hands.pass(MINUTE);
    }
    hands.pass(10 * MINUTE);
    removed += store.clean(&topic("t"), COMPACT).await.unwrap().removed;
    assert_eq!(removed, 48);
    assert_eq!(seqs(&log(&store, "t").await), [49, 50]);
    let bounds = store.bounds(&topic("t")).await.unwrap();
    assert_eq!((bounds.events, bounds.first, bounds.last), (2, 49, 50));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_change_call_a_plan_off() {
    let world = World::new().await;
    let hands = Hands::default();
    let store = hub(&world, &hands).await;
    append(&store, vec![draft("t", "1"), draft("t", "2")]).await;
    store.clean(&topic("t"), OLD).await.unwrap();
    hands.pass(10 * MINUTE);
    assert_eq!(store.clean(&topic("t"), COMPACT).await.unwrap().removed, 0);
    assert_eq!(seqs(&log(&store, "t").await), [1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_right_over_many_blocks() {
    let world = World::new().await;
    // One hub alone may delete at once.
    let store =
        MongoStore::connect(Options { clean_delay: Duration::ZERO, ..world.options() }).await.unwrap();
    for batch in 0..5 {
        let drafts = (0..700).map(|n| keyed("t", &format!("k{}", n % 350), &format!("{batch}"))).collect();
        commit_at(&store, T0 + batch, drafts).await;
    }
    let exact = async || {
        let events = log(&store, "t").await;
        let bytes: u64 = events.iter().map(|event| event.json().len() as u64).sum();
        let bounds = store.bounds(&topic("t")).await.unwrap();
        assert_eq!((bounds.events, bounds.bytes), (events.len() as u64, bytes));
        assert_eq!((bounds.first, bounds.last), (events[0].seq(), 3500));
        events.len()
    };
    assert_eq!(exact().await, 3500);
    assert_eq!(store.clean(&topic("t"), OLD).await.unwrap().removed, 700);
    assert_eq!(exact().await, 2800);
    assert_eq!(store.clean(&topic("t"), COMPACT).await.unwrap().removed, 2800 - 350);
    assert_eq!(exact().await, 350);
    let third = store.bounds(&topic("t")).await.unwrap().bytes / 3;
    let by_size = CleanPolicy { max_bytes: Some(third), ..COMPACT };
    store.clean(&topic("t"), by_size).await.unwrap();
    assert!((115..=117).contains(&exact().await));
}

/// A hub that slept: its insert takes effect at a number that was used, read and cleaned meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_that_lands_in_a_hole_is_withdrawn_and_numbered_anew() {
    let world = World::new().await;
    let hands = Hands::default();
    let (sleeper, trap) = world.victim(Options { clock: hands.clock(), ..world.options() }).await;
    let other = world.store().await;
    append(&sleeper, vec![draft("t", "1")]).await;
    append(&other, (2..=5).map(|n| draft("t", &n.to_string())).collect()).await;
    // As a cleaner does, only sooner.
    let floor = doc! { "$set": { "clean_floor": 4_i64 } };
    world.documents("topics").update_one(doc! { "_id": "t" }, floor).upsert(true).await.unwrap();
    let holes = doc! { "topic": "t", "seq": { "$in": [2, 3, 4] } };
    world.documents("events").delete_many(holes).await.unwrap();

    trap.set(1, &["insert"], doc! { "blockConnection": true, "blockTimeMS": 700 }).await;
    let (answers, ()) = tokio::join!(commit(&sleeper, vec![draft("t", "6"), draft("t", "7")]), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        hands.pass(3 * MINUTE);
    });
    let events: Vec<_> = answers.into_iter().map(new).collect();
    assert_eq!(seqs(&events), [6, 7]);
    assert_eq!(seqs(&log(&other, "t").await), [1, 5, 6, 7]);
}

/// The same with an id that was published before, and cleaned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_that_comes_after_its_id_was_cleaned_is_withdrawn() {
    let world = World::new().await;
    let hands = Hands::default();
    let (sleeper, trap) = world.victim(Options { clock: hands.clock(), ..world.options() }).await;
    append(&sleeper, vec![draft("t", "1")]).await;
    let cleaner =
        MongoStore::connect(Options { clean_delay: Duration::ZERO, ..world.options() }).await.unwrap();
    let id = fresh_id();
    append(&cleaner, vec![draft_with("t", id, "2")]).await;
    commit_at(&cleaner, T0 + 5, vec![draft("t", "3")]).await;

    trap.set(1, &["insert"], doc! { "blockConnection": true, "blockTimeMS": 1500 }).await;
    let (answers, ()) =
        tokio::join!(commit(&sleeper, vec![draft_with("t", id, "2"), draft("t", "4")]), async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert_eq!(cleaner.clean(&topic("t"), OLD).await.unwrap().removed, 2);
            hands.pass(3 * MINUTE);
        });
    assert!(matches!(answers[0], Ok(Appended::Known { seq: 2, same: true, .. })), "{answers:?}");
    assert_eq!(new(answers.into_iter().nth(1).unwrap()).seq(), 4);
    assert_eq!(seqs(&log(&cleaner, "t").await), [3, 4]);
}

/// What a hub knows of a topic's end is good for a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_knowledge_is_not_relied_on() {
    let world = World::new().await;
    let hands = Hands::default();
    let (sleeper, trap) = world.victim(Options { clock: hands.clock(), ..world.options() }).await;
    let other = world.store().await;
    append(&sleeper, vec![draft("t", "1")]).await;
    append(&other, vec![draft("t", "2")]).await;
    hands.pass(MINUTE);
    // An insert that begins with a number that is taken would fail first, and then again because of this.
    trap.set(1, &["insert"], doc! { "errorCode": 13 }).await;
    let refused = commit(&sleeper, vec![draft("t", "0")]).await;
    assert!(refused[0].is_err());
    assert_eq!(append(&sleeper, vec![draft("t", "3")]).await, [3]);
    let inserts = doc! { "profile": 2, "slowms": 0 };
    world.db.run_command(inserts).await.unwrap();
    append(&other, vec![draft("t", "4")]).await;
    hands.pass(MINUTE);
    assert_eq!(append(&sleeper, vec![draft("t", "5")]).await, [5]);
    world.db.run_command(doc! { "profile": 0 }).await.unwrap();
    let ours = doc! { "appName": trap.app(), "command.insert": "events" };
    assert_eq!(
        world.documents("system.profile").count_documents(ours).await.unwrap(),
        1,
        "and it went through at once"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_deleted_is_hidden_at_once_and_removed_ten_minutes_later() {
    let world = World::new().await;
    let hands = Hands::default();
    let (store, other) = (hub(&world, &hands).await, hub(&world, &hands).await);
    let id = fresh_id();
    append(&store, vec![draft("t", "1"), draft_with("t", id, "2")]).await;
    let left = async || world.documents("events").count_documents(doc! { "topic": "t" }).await.unwrap();

    let deleted = store.delete(&topic("t"), 2, T0).await.unwrap();
    assert_eq!((deleted.removed, deleted.is_complete), (2, false));
    assert!(log(&store, "t").await.is_empty());
    assert_eq!(left().await, 2);
    // Another hub hides it once it is told, and upkeep of the topic does not disturb the deletion.
    other.learn_deleted(&topic("t"), 2);
    append(&other, vec![draft("t", "3")]).await;
    assert_eq!(seqs(&log(&other, "t").await), [3]);
    hands.pass(5 * MINUTE);
    store.clean(&topic("t"), OLD).await.unwrap();
    hands.pass(5 * MINUTE);
    // What was the newest record is not any more, and goes in its own time.
    assert!(!store.delete(&topic("t"), 2, T0).await.unwrap().is_complete);
    assert_eq!(left().await, 2);
    hands.pass(10 * MINUTE);
    assert!(store.delete(&topic("t"), 2, T0).await.unwrap().is_complete);
    assert_eq!(left().await, 1);
    let bounds = store.bounds(&topic("t")).await.unwrap();
    assert_eq!((bounds.first, bounds.last, bounds.events), (3, 3, 1));

    let again = commit(&store, vec![draft_with("t", id, "2")]).await;
    assert!(matches!(again[0], Ok(Appended::Known { seq: 2, same: true, .. })), "{again:?}");
    // A hub that starts later knows what is hidden.
    store.delete(&topic("t"), 3, T0).await.unwrap();
    let third = hub(&world, &hands).await;
    third.load().await.unwrap();
    assert!(log(&third, "t").await.is_empty());
    assert_eq!(left().await, 1, "the newest stays: the numbering goes by it");
}

/// The wall clock of a machine that is two months ahead.
struct ClockAhead(SystemClock);

impl Clock for ClockAhead {
    fn wall(&self) -> Millis {
        self.0.wall() + 60 * 24 * 60 * 60 * 1000
    }

    fn steady(&self) -> Millis {
        self.0.steady()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_whose_clock_is_ahead_of_the_server_removes_nothing_before_its_time() {
    let world = World::new().await;
    let hands = Hands::default();
    let settings = TopicSettings { retention_days: Some(1), ..TopicSettings::default() };
    // Even a hub that believes its clock at once goes by the server's.
    let config = Config { clock_jump_wait: 0, ..Config::default() }.topic("t", settings).unwrap();
    let bus = Bus::builder(hub(&world, &hands).await).config(config.clone()).open().await.unwrap();
    for n in 1..=3 {
        bus.publish("t", serde_json::json!(n)).await.unwrap();
    }
    bus.stop().await.unwrap();

    let builder = Bus::builder(hub(&world, &hands).await).clock(ClockAhead(SystemClock::new()));
    let bus = builder.config(config).open().await.unwrap();
    for _ in 0..3 {
        bus.clean("t").await.unwrap();
        hands.pass(11 * MINUTE);
    }
    assert_eq!(bus.bounds("t").await.unwrap().events, 3);
    let floor = world.documents("topics").find_one(doc! { "_id": "t" }).await.unwrap();
    assert!(floor.is_none_or(|topic| topic.get_i64("clean_floor").is_err()), "nothing is announced either");
    bus.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_cannot_be_made_does_not_keep_what_is_due() {
    let world = World::new().await;
    let hands = Hands::default();
    let (store, trap) = world.victim(Options { clock: hands.clock(), ..world.options() }).await;
    let policy = CleanPolicy { max_bytes: Some(1 << 30), ..OLD };
    append(&store, vec![draft("t", "1"), draft("t", "2"), draft("t", "3")]).await;
    assert!(store.clean(&topic("t"), policy).await.unwrap().is_partial, "it is called again");
    append(&store, vec![draft("t", "4")]).await;
    hands.pass(10 * MINUTE);
    // The log has become too long for a question of the planner.
    trap.set(1000, &["aggregate"], doc! { "errorCode": 50 }).await;
    assert!(store.clean(&topic("t"), policy).await.is_err());
    trap.off("failCommand").await;
    assert_eq!(seqs(&log(&store, "t").await), [3, 4]);
    assert_eq!(store.clean(&topic("t"), policy).await.unwrap().removed, 0);
    hands.pass(10 * MINUTE);
    let cleaned = store.clean(&topic("t"), policy).await.unwrap();
    assert_eq!((cleaned.removed, cleaned.is_partial), (1, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_are_remembered_a_thousand_at_a_time() {
    let world = World::new().await;
    let hands = Hands::default();
    let store = hub(&world, &hands).await;
    append(&store, (0..3001).map(|n| draft("t", &n.to_string())).collect()).await;
    world.db.run_command(doc! { "profile": 2 }).await.unwrap();
    store.clean(&topic("t"), OLD).await.unwrap();
    world.db.run_command(doc! { "profile": 0 }).await.unwrap();
    assert_eq!(world.documents("dedupe").count_documents(doc! { "topic": "t" }).await.unwrap(), 3000);
    let inserts = doc! { "ns": format!("{}.dedupe", world.database.name()), "op": "insert" };
    assert_eq!(world.documents("system.profile").count_documents(inserts).await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_ids_than_go_at_once_are_forgotten() {
    let world = World::new().await;
    let hands = Hands::default();
    let store = hub(&world, &hands).await;
    append(&store, vec![draft("t", "1")]).await;
    let old = (0..12_000).map(|n| doc! { "_id": n, "topic": "t", "committed": 5_i64 });
    world.documents("dedupe").insert_many(old).await.unwrap();
    world.documents("dedupe").insert_one(doc! { "_id": -1, "topic": "u", "committed": 5_i64 }).await.unwrap();
    store.clean(&topic("t"), OLD).await.unwrap();
    assert_eq!(world.documents("dedupe").count_documents(doc! {}).await.unwrap(), 1);
}
