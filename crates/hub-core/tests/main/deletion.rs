//! Deleting topics while things go wrong, and beside others.

use crate::world::{World, code, next};
use hub_core::testkit::Fault;
use hub_core::{Code, Position, Quota, QuotaOf};
use serde_json::json;

/// What a deletion asks of the store, in order: the bounds, entries and groups (`commit`), and the events (`delete`).
const CALLS: [&str; 3] = ["bounds", "commit", "delete"];

#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_cut_off_anywhere_happens_as_a_whole_or_not_at_all() {
    let mut outcomes = (0, 0);
    for call in CALLS {
        for fault in [Fault::Refuse, Fault::LoseAnswer] {
            for nth in 1.. {
                let world = World::new().await;
                world.fill("t", 1..=3).await;
                let mut sub =
                    world.bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
                next(&mut sub).await.ack().unwrap();
                world.bus.flush().await.unwrap();
                // From the nth call on the store is gone, as it is in a crash.
                let mut calls = 0;
                world.store.script(move |called| {
                    calls += usize::from(called == call);
                    match calls {
                        calls if calls > nth => Some(Fault::Refuse),
                        calls if calls == nth && called == call => Some(fault),
                        _ => None,
                    }
                });
                let deleted = world.bus.delete_topic("t").await;
                let world = world.crashed(sub).await;
                let done = world.bus.delete_topic("t");
                match deleted {
                    // The store did not fail: every call of this kind was tried.
                    Ok(_) => {
                        assert_eq!(code(done.await), Code::BadRequest, "{call} {nth}");
                        break;
                    }
                    Err(error) => assert_eq!(error.code, Code::Unavailable, "{call} {nth}"),
                }
                let there = world.bus.scan("t", Position::Earliest, None).await.unwrap_or_default().len();
                match there {
                    3 => {
                        // It was not decided, or is about to happen.
                        outcomes.0 += 1;
                        world.clock.advance(1000).await;
                        if world.bus.has_topic("t") {
                            assert!(
                                world.bus.group("t", "g").is_some(),
                                "{call} {nth} {fault:?}: half of it is gone"
                            );
                        }
                    }
                    0 => outcomes.1 += 1,
                    other => panic!("{call} {nth} {fault:?}: {other} events are left"),
                }
                if world.bus.has_topic("t") {
                    world.bus.delete_topic("t").await.unwrap();
                }
                assert!(!world.bus.has_topic("t") && world.bus.group("t", "g").is_none());
                assert_eq!(world.fill("t", [4]).await[0].seq, 4, "{call} {nth} {fault:?}");
                assert_eq!(world.bus.scan("t", Position::Earliest, None).await.unwrap().len(), 1);
            }
        }
    }
    assert!(outcomes.0 > 0 && outcomes.1 > 0, "both outcomes were seen: {outcomes:?}");
}

#[tokio::test(start_paused = true)]
async fn publishes_and_groups_are_refused_while_a_topic_is_deleted() {
    let world = World::new().await;
    world.fill("t", 1..=3).await;
    world.break_all("delete", Fault::Refuse);
    assert_eq!(code(world.bus.delete_topic("t").await), Code::Unavailable);
    let refused = world.bus.publish("t", json!(4)).await.unwrap_err();
    assert_eq!(refused.code, Code::Unavailable);
    assert!(refused.msg.contains("being deleted"), "{refused}");
    assert_eq!(code(world.bus.subscribe("t").group("g").open().await), Code::Unavailable);
    // A subscription to a pattern does not wait for it.
    let mut all = world.bus.subscribe("*").group("all").from(Position::Earliest).open().await.unwrap();
    world.store.heal();
    // The hub continues by itself.
    world.clock.advance(60_000).await;
    assert!(!world.bus.has_topic("t"));
    world.fill("t", [4]).await;
    assert_eq!(next(&mut all).await.event().seq(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_topic_counts_for_nobody() {
    let world = World::new().await;
    let quota = Quota { of: QuotaOf::EverySubject, topics: Some(1), groups: None, stored_bytes: None };
    world.bus.set_quotas(vec![quota]);
    let event = |topic: &str| hub_core::NewEvent::new(topic.parse().unwrap(), json!(1).into());
    world.bus.send_for("eve", event("a")).await.unwrap();
    assert_eq!(code(world.bus.send_for("eve", event("b")).await), Code::QuotaExceeded);
    world.bus.delete_topic("a").await.unwrap();
    assert_eq!(world.bus.quota_of("eve").1.topics, 0);
    assert_eq!(world.bus.maker_of(&"a".parse().unwrap()), None);
    world.bus.send_for("eve", event("b")).await.unwrap();
    let world = world.crashed(()).await;
    assert_eq!(world.bus.quota_of("eve").1.topics, 1);
}
