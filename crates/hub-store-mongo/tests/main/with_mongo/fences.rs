//! Saves of who has lost a group, and saves that come late.

use super::world::{T0, World, group, topic, write};
use hub_core::GroupOptions;
use hub_core::store::{EventStore, GroupRecord, Progress, Record, Shared, StoreError};
use hub_testbed::mongodb::bson::doc;
use std::time::Duration;

fn record(name: &str) -> GroupRecord {
    GroupRecord {
        topic: topic(name),
        name: group("g"),
        options: GroupOptions::default(),
        created: T0,
        idle_since: None,
        driven: false,
        born: 0,
    }
}

fn step(name: &str, floor: u64) -> Record {
    let step =
        Progress { epoch: 0, reset: false, floor, high: floor, settled: Vec::new(), tries: Vec::new() };
    Record::Progress(topic(name), group("g"), step)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_is_made_during_a_take_over_is_not_left_behind() {
    let world = World::new().await;
    let (old, trap) = world.victim(world.options()).await;
    let new = world.store().await;
    write(&old, 4, vec![Record::Group(record("t"))]).await.remove(0).unwrap();
    // The old owner has looked at the fence and is about to insert when the name is taken over.
    trap.set(1, &["bulkWrite"], doc! { "blockConnection": true, "blockTimeMS": 2500 }).await;
    let made = vec![Record::Group(record("u")), Record::Group(record("v")), step("v", 7)];
    let (written, estate) = tokio::join!(write(&old, 4, made), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        new.estate("g", 5).await.unwrap()
    });
    assert!(written.iter().all(|written| matches!(written, Err(StoreError::Fenced(_)))), "{written:?}");
    assert_eq!(estate.groups.iter().map(|group| &group.record).collect::<Vec<_>>(), [&record("t")]);
    assert_eq!(new.estate("g", 6).await.unwrap().groups.len(), 1, "and nothing turns up later");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_save_that_is_under_way_during_a_take_over_changes_nothing() {
    let world = World::new().await;
    let (old, trap) = world.victim(world.options()).await;
    let new = world.store().await;
    write(&old, 4, vec![Record::Group(record("t")), step("t", 3)]).await;
    trap.set(1, &["bulkWrite"], doc! { "blockConnection": true, "blockTimeMS": 2500 }).await;
    let (written, estate) = tokio::join!(write(&old, 4, vec![step("t", 9)]), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        new.estate("g", 5).await.unwrap()
    });
    assert!(matches!(written[0], Err(StoreError::Fenced(_))), "{written:?}");
    assert_eq!(estate.groups[0].state.floor, 3);
    write(&new, 5, vec![step("t", 4)]).await.remove(0).unwrap();
    assert_eq!(new.estate("g", 5).await.unwrap().groups[0].state.floor, 4);
}

/// Only what changes is sent. If that were the difference to something that is not there any more, the result would be a
/// state that nobody ever had; and a save that was given up and takes effect late would undo a later one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saves_build_on_what_is_there_and_not_on_what_was() {
    let world = World::new().await;
    let (one, two) = tokio::join!(world.store(), world.store());
    let progress = |reset, floor, high, settled| {
        let step = Progress { epoch: 0, reset, floor, high, settled, tries: Vec::new() };
        Record::Progress(topic("t"), group("g"), step)
    };
    write(&one, 0, vec![Record::Group(record("t")), progress(false, 3, 9, vec![(7, 8)])]).await;
    write(&two, 0, vec![progress(true, 20, 30, vec![(25, 26)])]).await.remove(0).unwrap();
    write(&one, 0, vec![progress(false, 4, 9, vec![])]).await.remove(0).unwrap();
    let state = two.load().await.unwrap().groups.remove(0).state;
    assert_eq!((state.floor, state.high), (4, 9), "the last save counts, as a whole");
    assert_eq!(state.settled.iter().collect::<Vec<_>>(), [(25, 26)], "on top of the one before it");

    write(&two, 0, vec![Record::GroupGone(topic("t"), group("g"))]).await.remove(0).unwrap();
    write(&one, 0, vec![step("t", 6)]).await.remove(0).unwrap();
    assert!(one.load().await.unwrap().groups.is_empty(), "progress brings no group back");
}
