//! What the engine does when the store does not do its part.

use crate::world::{World, assert_silent, code, consume, next, value};
use hub_core::testkit::{Fault, FaultyStore};
use hub_core::{Bus, Clock, Code, Config, EventId, MemoryStore, Position, Reason, TopicSettings, Watched};
use serde_json::json;
use std::sync::Arc;

const ID: EventId = EventId::from_bytes([7; 16]);

/// A few bytes: readers always have to ask the store.
fn no_tail() -> Config {
    Config { tail_bytes: 1, ..Config::default() }
}

#[tokio::test(start_paused = true)]
async fn a_refused_commit_is_unavailable_and_can_be_sent_again() {
    let world = World::new().await;
    world.break_once("commit", Fault::Refuse);
    let error = world.bus.publish("t", json!(1)).id(ID).await.unwrap_err();
    assert_eq!((error.code, error.id), (Code::Unavailable, Some(ID)));
    let receipt = world.bus.publish("t", json!(1)).id(ID).await.unwrap();
    assert_eq!((receipt.seq, receipt.duplicate), (1, false));
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_answer_sending_again_is_a_duplicate() {
    let world = World::new().await;
    world.break_once("commit", Fault::LoseAnswer);
    assert_eq!(code(world.bus.publish("t", json!(1)).id(ID).await), Code::Unavailable);
    let receipt = world.bus.publish("t", json!(1)).id(ID).await.unwrap();
    assert_eq!((receipt.seq, receipt.duplicate), (1, true));
    assert_eq!(world.bus.scan("t", Position::Earliest, None).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_answer_was_lost_reaches_its_readers_all_the_same() {
    let world = World::new().await;
    let mut sub = world.bus.subscribe("t").group("g").open().await.unwrap();
    let mut watch = world.bus.subscribe("t").watch().await.unwrap();
    world.break_once("commit", Fault::LoseAnswer);
    assert_eq!(code(world.bus.publish("t", json!(1)).await), Code::Unavailable);
    assert_eq!(consume(&mut sub, 1).await, [1]);
    assert!(matches!(watch.recv().await.unwrap(), Watched::Event(event) if event.seq() == 1));
}

#[tokio::test(start_paused = true)]
async fn a_publish_is_answered_in_time_however_slow_the_store_is() {
    let world = World::new().await;
    let mut sub = world.bus.subscribe("t").group("g").open().await.unwrap();
    world.break_once("commit", Fault::Delay(60_000));
    let start = world.clock.steady();
    let error = world.bus.publish("t", json!(1)).id(ID).await.unwrap_err();
    assert_eq!((error.code, error.id), (Code::Unavailable, Some(ID)));
    assert!(world.clock.steady() - start <= 20_000, "{} ms", world.clock.steady() - start);
    world.clock.advance(50_000).await;
    assert_eq!(consume(&mut sub, 1).await, [1], "it was committed in the end");
}

#[tokio::test(start_paused = true)]
async fn a_publish_behind_a_slow_commit_is_answered_in_time() {
    let world = World::new().await;
    world.break_all("commit", Fault::Delay(15_000));
    let (bus, clock) = (world.bus.clone(), world.clock.clone());
    let first = tokio::spawn(async move { bus.publish("t", json!(1)).await });
    clock.advance(1_000).await;
    let start = clock.steady();
    assert_eq!(code(world.bus.publish("t", json!(2)).await), Code::Unavailable);
    assert!(clock.steady() - start <= 21_000, "{} ms", clock.steady() - start);
    assert_eq!(first.await.unwrap().unwrap().seq, 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_holds_publishers_back_and_tells_them_in_time() {
    let world = World::with(Config { queue_bytes: 2_000, ..Config::default() }).await;
    world.break_all("commit", Fault::Delay(60_000));
    let publish = |n: u64| {
        let bus = world.bus.clone();
        tokio::spawn(async move { bus.publish("t", json!([n, "x".repeat(900)])).await })
    };
    let start = world.clock.steady();
    let all: Vec<_> = (0..10).map(publish).collect();
    for task in all {
        assert_eq!(code(task.await.unwrap()), Code::Unavailable);
    }
    assert!(world.clock.steady() - start <= 21_000, "{} ms", world.clock.steady() - start);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_fails_names_every_id() {
    let world = World::new().await;
    world.break_once("commit", Fault::Refuse);
    let event = |n| hub_core::NewEvent::new("t".parse().unwrap(), json!(n).into());
    let results = world.bus.publish_batch(vec![event(1).with_id(ID), event(2)]).await;
    let ids: Vec<_> = results.into_iter().map(|result| result.unwrap_err().id).collect();
    assert_eq!(ids[0], Some(ID));
    assert!(ids[1].is_some_and(|id| id != ID));
}

#[tokio::test(start_paused = true)]
async fn acks_are_saved_when_the_store_is_back() {
    let world = World::new().await;
    world.fill("t", 1..=3).await;
    let mut sub = world.bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    world.break_all("commit", Fault::Refuse);
    consume(&mut sub, 2).await;
    world.clock.advance(5_000).await;
    assert_eq!(code(world.bus.flush().await), Code::Unavailable);
    world.store.heal();
    world.clock.advance(1_000).await;
    let world = world.crashed(sub).await;
    assert_eq!(world.floor("t").await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_cannot_be_saved_does_not_keep_the_others_from_being_saved() {
    let world = World::new().await;
    world.fill("t", [1]).await;
    // More than are saved with one commit.
    let names: Vec<String> = (0..700).map(|n| format!("g{n}")).collect();
    let mut subs = Vec::new();
    for name in &names {
        subs.push(world.bus.subscribe("t").group(name).from(Position::Earliest).open().await.unwrap());
    }
    world.store.refuse_records(|record| record.group().as_str() == "g0");
    for sub in &mut subs {
        consume(sub, 1).await;
    }
    assert_eq!(code(world.bus.flush().await), Code::Unavailable);
    let world = world.crashed(subs).await;
    for name in &names {
        let floor = world.bus.get_cursor("t", name).await.unwrap().unwrap().seq;
        assert_eq!(floor, u64::from(name != "g0"), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_that_could_not_be_saved_is_saved_later() {
    let world = World::new().await;
    world.fill("t", 1..=3).await;
    let mut sub = world.bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    world.store.refuse_records(|_| true);
    consume(&mut sub, 2).await;
    assert_eq!(code(world.bus.flush().await), Code::Unavailable);
    world.store.heal();
    world.clock.advance(1_000).await;
    let world = world.crashed(sub).await;
    assert_eq!(world.floor("t").await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_save_whose_answer_was_lost_does_no_harm() {
    let world = World::new().await;
    world.fill("t", 1..=4).await;
    let mut sub = world.bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let (one, two) = (next(&mut sub).await, next(&mut sub).await);
    two.ack().unwrap();
    world.break_once("commit", Fault::LoseAnswer);
    world.clock.advance(1_000).await;
    one.ack().unwrap();
    next(&mut sub).await.nack_after(60_000, "later").unwrap();
    world.clock.advance(1_000).await;
    let world = world.crashed((sub, one, two)).await;
    assert_eq!(world.floor("t").await, 2);
    let mut sub = world.bus.subscribe("t").group("g").open().await.unwrap();
    let third = next(&mut sub).await;
    assert_eq!((value(&third), third.attempt()), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn a_group_that_cannot_read_says_so_and_goes_on_when_it_can() {
    let world = World::with(no_tail()).await;
    world.fill("t", 1..=3).await;
    world.break_all("read", Fault::Refuse);
    let mut sub = world.bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    assert_silent(&mut sub).await;
    assert_eq!(world.bus.group("t", "g").unwrap().reason, Some(Reason::StoreUnavailable));
    world.store.heal();
    assert_eq!(consume(&mut sub, 3).await, [1, 2, 3]);
    assert_eq!(world.bus.group("t", "g").unwrap().reason, Some(Reason::CaughtUp));
}

#[tokio::test(start_paused = true)]
async fn a_redelivery_that_cannot_be_read_comes_when_it_can() {
    let world = World::with(no_tail()).await;
    world.fill("t", 1..=2).await;
    let mut sub = world.bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let first = next(&mut sub).await;
    world.break_all("read", Fault::Refuse);
    first.nack_after(0, "again").unwrap();
    assert_eq!(consume(&mut sub, 1).await, [2]);
    assert_silent(&mut sub).await;
    world.store.heal();
    assert_eq!(consume(&mut sub, 1).await, [1]);
}

#[tokio::test(start_paused = true)]
async fn a_coalescing_group_waits_for_a_store_that_knows_the_newest() {
    let world = World::new().await;
    for n in 1..=3 {
        world.bus.publish("t", json!(n)).key("a").await.unwrap();
    }
    world.break_all("newest", Fault::Refuse);
    let join = world.bus.subscribe("t").group("g").from(Position::Earliest).coalesce(true);
    let mut sub = join.open().await.unwrap();
    assert_silent(&mut sub).await;
    world.store.heal();
    assert_eq!(consume(&mut sub, 1).await, [3]);
}

#[tokio::test(start_paused = true)]
async fn leases_run_out_while_the_store_hangs() {
    let world = World::with(no_tail()).await;
    let mut sub = world.bus.subscribe("t").group("g").ack_timeout(1_000).open().await.unwrap();
    world.fill("t", [1]).await;
    let held = next(&mut sub).await;
    world.break_all("read", Fault::Delay(60_000));
    world.fill("t", [2]).await;
    world.clock.advance(2_000).await;
    assert_eq!(code(held.ack()), Code::UnknownId);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_cannot_be_written_leaves_its_event_unsettled() {
    let world = World::new().await;
    world.fill("t", 1..=2).await;
    let mut sub =
        world.bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1).open().await.unwrap();
    let first = next(&mut sub).await;
    world.break_all("commit", Fault::Refuse);
    first.nack("no").unwrap();
    assert_eq!(consume(&mut sub, 1).await, [2], "others go on");
    world.clock.advance(5_000).await;
    assert_eq!(world.floor("t").await, 0);
    world.store.heal();
    world.clock.advance(1_000).await;
    assert_eq!(world.floor("t").await, 2);
    assert_eq!(world.bus.bounds("dlq.t").await.unwrap().last, 1);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_whose_answer_was_lost_is_not_doubled() {
    let world = World::new().await;
    world.fill("t", [1]).await;
    let mut sub =
        world.bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1).open().await.unwrap();
    let first = next(&mut sub).await;
    world.clock.advance(1_000).await;
    world.break_once("commit", Fault::LoseAnswer);
    first.nack("no").unwrap();
    world.clock.advance(5_000).await;
    assert_eq!(world.floor("t").await, 1);
    assert_eq!(world.bus.bounds("dlq.t").await.unwrap().last, 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_dead_letter_and_save_doubles_nothing() {
    let world = World::new().await;
    world.fill("t", [1]).await;
    let mut sub =
        world.bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(2).open().await.unwrap();
    next(&mut sub).await.nack("one").unwrap();
    let second = next(&mut sub).await;
    world.clock.advance(1_000).await;
    second.nack("two").unwrap();
    // The letter is written with the first commit from here; the group's progress is not.
    let mut commits = 0;
    world.store.script(move |call| {
        commits += u32::from(call == "commit");
        (call == "commit" && commits > 1).then_some(Fault::Refuse)
    });
    world.clock.advance(1_000).await;
    assert_eq!(world.bus.bounds("dlq.t").await.unwrap().last, 1);
    let world = world.crashed((sub, second)).await;
    let mut sub = world.bus.subscribe("t").group("g").open().await.unwrap();
    let again = next(&mut sub).await;
    world.clock.advance(1_000).await;
    again.nack("three").unwrap();
    world.clock.advance(1_000).await;
    assert_eq!(world.floor("t").await, 1);
    assert_eq!(world.bus.bounds("dlq.t").await.unwrap().last, 1);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_set_without_an_answer_is_set_and_saved_later() {
    let world = World::new().await;
    world.fill("t", 1..=3).await;
    let mut sub = world.bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    consume(&mut sub, 3).await;
    world.clock.advance(1_000).await;
    world.break_all("commit", Fault::Refuse);
    assert_eq!(code(world.bus.set_cursor("t", "g", Position::AfterSeq(1)).await), Code::Unavailable);
    let held = next(&mut sub).await;
    assert_eq!(value(&held), 2);
    world.store.heal();
    world.clock.advance(1_000).await;
    let world = world.crashed((sub, held)).await;
    assert_eq!(world.floor("t").await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_topic_cannot_be_read_while_the_store_is_away() {
    let world = World::with(no_tail()).await;
    world.fill("t", 1..=2).await;
    let mut watch = world.bus.subscribe("t").from(Position::Earliest).watch().await.unwrap();
    for call in ["read", "bounds", "newest", "newest_page", "seq_of", "seq_before"] {
        world.break_all(call, Fault::Refuse);
        let bus = &world.bus;
        let error = match call {
            "read" => code(bus.scan("t", Position::Earliest, None).await),
            "bounds" => code(bus.bounds("t").await),
            "newest" => code(bus.latest_by_key("t", &["a"]).await),
            "newest_page" => code(bus.latest_page("t", None, None).await),
            "seq_of" => code(bus.subscribe("t").group("g").from(Position::AfterId(ID)).open().await),
            _ => code(bus.scan("t", Position::Time(0), None).await),
        };
        assert_eq!(error, Code::Unavailable, "{call}");
    }
    world.break_once("read", Fault::Refuse);
    assert_eq!(code(watch.recv().await), Code::Unavailable);
    assert!(
        matches!(watch.recv().await.unwrap(), Watched::Event(event) if event.seq() == 1),
        "it can be asked again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_hub_does_not_open_without_its_store() {
    let store = FaultyStore::new(Arc::new(MemoryStore::new()));
    store.script(|call| (call == "load").then_some(Fault::Refuse));
    assert_eq!(code(Bus::builder(store).open().await), Code::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_stop_comes_to_its_end_without_the_store() {
    let world = World::new().await;
    world.fill("t", [1]).await;
    let mut sub = world.bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    consume(&mut sub, 1).await;
    world.break_all("commit", Fault::Refuse);
    assert_eq!(code(world.bus.stop().await), Code::Unavailable, "it says that something was not saved");
    assert_eq!(code(sub.recv().await), Code::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_snapshot_doubles_nothing() {
    let settings = TopicSettings { compaction: true, ..TopicSettings::default() };
    let world = World::with(Config::default().topic("t", settings).unwrap()).await;
    for (key, n) in [("a", 1), ("b", 2)] {
        world.bus.publish("t", json!(n)).key(key).await.unwrap();
    }
    for call in ["commit", "newest", "clean"] {
        world.break_once(call, Fault::LoseAnswer);
        assert_eq!(code(world.bus.clean("t").await), Code::Unavailable, "{call}");
    }
    world.clock.advance(1_000).await;
    world.bus.clean("t").await.unwrap();
    assert_eq!(world.bus.bounds("t.snapshot").await.unwrap().last, 3, "two keys and how far it reaches");
}
