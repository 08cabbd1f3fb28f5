//! A clean stop, and what comes after it.

use super::super::Lab;
use super::tools::{assert_silent, code, consume, end, fill, floor, hold, next, soon, value, values};
use crate::{Code, Filter, Ordering, Position};

pub(in super::super) async fn nothing_acked_comes_again(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=6).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let held = hold(&mut sub, 6).await;
    for at in [0, 2, 3, 5] {
        held[at].ack().unwrap();
    }
    let bus = lab.reopen(bus).await;
    assert_eq!(floor(&bus, "t", "g").await, 1);
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    let again = hold(&mut sub, 2).await;
    assert_eq!(values(&again), [2, 5]);
    assert!(again.iter().all(|delivery| delivery.attempt() == 2), "they were delivered once before");
    assert_silent(&mut sub).await;
    again.iter().for_each(|delivery| delivery.ack().unwrap());
    assert_eq!(floor(&bus, "t", "g").await, 6);
}

pub(in super::super) async fn attempts_and_failures_survive(lab: Lab) {
    let mut bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    for attempt in 1..=3 {
        let join = bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(3);
        let mut sub = join.open().await.unwrap();
        let delivery = next(&mut sub).await;
        assert_eq!(delivery.attempt(), attempt);
        delivery.nack_after(0, "again").unwrap();
        if attempt < 3 {
            bus = lab.reopen(bus).await;
        }
    }
    soon(async {
        while floor(&bus, "t", "g").await < 1 {
            lab.pass(1).await;
        }
    })
    .await;
    assert_eq!(bus.bounds("dlq.t").await.unwrap().last, 1, "three failures in three lives");
}

pub(in super::super) async fn a_stop_counts_no_failure(lab: Lab) {
    let mut bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    for _ in 0..3 {
        let join = bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1);
        let mut sub = join.open().await.unwrap();
        next(&mut sub).await;
        bus = lab.reopen(bus).await;
        drop(sub);
    }
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    assert_eq!(value(next(&mut sub).await.event()), 1);
    assert_eq!(bus.topics().len(), 1, "nothing became a dead letter");
}

pub(in super::super) async fn a_stop_ends_subscriptions_and_refuses_publishers(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    let mut pattern = bus.subscribe("none.*").group("g").open().await.unwrap();
    let mut watch = bus.subscribe("t").watch().await.unwrap();
    bus.stop().await.unwrap();
    assert_eq!(end(&mut sub).await, Code::Unavailable);
    assert_eq!(end(&mut pattern).await, Code::Unavailable);
    assert_eq!(code(soon(watch.recv()).await), Code::Unavailable);
    assert_eq!(code(bus.publish("t", serde_json::json!(1)).await), Code::Unavailable);
    assert_eq!(code(bus.subscribe("t").group("g").open().await), Code::Unavailable);
}

pub(in super::super) async fn an_ack_after_the_stop_is_refused(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let held = next(&mut sub).await;
    let stopping = {
        let bus = bus.clone();
        tokio::spawn(async move { bus.stop().await })
    };
    // Whenever the ack comes during the stop: either it counts after it, or it is refused.
    let mut acked = false;
    while !stopping.is_finished() {
        tokio::task::yield_now().await;
        acked = acked || held.ack().is_ok();
    }
    stopping.await.unwrap().unwrap();
    assert!(acked || code(held.ack()) == Code::UnknownId);
    drop((sub, bus));
    let bus = lab.bus().await;
    assert_eq!(floor(&bus, "t", "g").await, u64::from(acked));
}

pub(in super::super) async fn a_handler_finishes_what_it_began_and_that_is_saved(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=3).await;
    let (began, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let running = bus.subscribe("t").group("g").from(Position::Earliest).handler(move |_| {
        let began = began.clone();
        async move {
            began.send(()).unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            Ok::<_, String>(())
        }
    });
    let running = running.await.unwrap();
    soon(begun.recv()).await.unwrap();
    let bus = lab.reopen(bus).await;
    assert_eq!(
        floor(&bus, "t", "g").await,
        1,
        "the first was at work and came to its end; no other was begun"
    );
    running.stop().await;
}

pub(in super::super) async fn options_survive(lab: Lab) {
    let bus = lab.bus().await;
    let filter = Filter { headers: vec![("h".into(), "v".into())], ..Filter::default() };
    let join = bus.subscribe("t").group("g").filter(filter).ordering(Ordering::Key).max_attempts(2);
    let _sub = join.open().await.unwrap();
    let before = bus.group_options("t", "g").unwrap();
    let bus = lab.reopen(bus).await;
    assert_eq!(bus.group_options("t", "g").unwrap(), before);
}

pub(in super::super) async fn a_new_group_is_there_before_it_did_anything(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=3).await;
    let sub = bus.subscribe("t").group("g").open().await.unwrap();
    let bus = lab.reopen(bus).await;
    drop(sub);
    fill(&bus, "t", [4]).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    assert_eq!(consume(&mut sub, 1).await, [4]);
}

pub(in super::super) async fn a_cursor_that_was_set_survives(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=5).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let held = hold(&mut sub, 5).await;
    held[4].ack().unwrap();
    consume_all(&held[..4]);
    bus.set_cursor("t", "g", Position::AfterSeq(2)).await.unwrap();
    sub.close();
    let bus = lab.reopen(bus).await;
    assert_eq!(floor(&bus, "t", "g").await, 2);
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    assert_eq!(consume(&mut sub, 3).await, [3, 4, 5]);
}

fn consume_all(held: &[crate::Delivery]) {
    held.iter().for_each(|delivery| delivery.ack().unwrap());
}

pub(in super::super) async fn a_deleted_group_stays_deleted(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=3).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    consume(&mut sub, 2).await;
    bus.delete_group("t", "g").await.unwrap();
    let bus = lab.reopen(bus).await;
    assert!(bus.groups("t").is_empty());
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    assert_eq!(consume(&mut sub, 3).await, [1, 2, 3]);
}

pub(in super::super) async fn a_pattern_goes_on_and_misses_nothing(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "a.x", [1]).await;
    let mut sub = bus.subscribe("a.*").group("g").open().await.unwrap();
    fill(&bus, "a.y", [2, 3]).await;
    assert_eq!(consume(&mut sub, 1).await, [2]);
    let bus = lab.reopen(bus).await;
    drop(sub);
    assert_eq!(bus.subscriptions().len(), 1);
    fill(&bus, "a.z", [4]).await;
    fill(&bus, "a.x", [5]).await;
    let bus = lab.reopen(bus).await;
    let mut sub = bus.subscribe("a.*").group("g").open().await.unwrap();
    let mut got = consume(&mut sub, 3).await;
    got.sort_unstable();
    assert_eq!(got, [3, 4, 5]);
    assert_silent(&mut sub).await;
}

pub(in super::super) async fn a_list_and_its_deletion_survive(lab: Lab) {
    let bus = lab.bus().await;
    let join = bus.subscribe_all("mine", ["a", "b"]).group("g").max_attempts(2);
    join.open().await.unwrap().close();
    fill(&bus, "a", [1]).await;
    let bus = lab.reopen(bus).await;
    let record = bus.subscriptions().remove(0);
    assert_eq!((&*record.label, record.topics.len(), record.options.max_attempts), ("mine", 2, 2));
    fill(&bus, "b", [2]).await;
    assert_eq!(bus.delete_list("mine", "g").await.unwrap(), 2);
    let bus = lab.reopen(bus).await;
    assert!(bus.subscriptions().is_empty() && bus.groups("a").is_empty() && bus.groups("b").is_empty());
}

pub(in super::super) async fn a_dead_letter_is_not_doubled(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let mut sub =
        bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1).open().await.unwrap();
    next(&mut sub).await.nack("no").unwrap();
    let bus = lab.reopen(bus).await;
    drop(sub);
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    assert_silent(&mut sub).await;
    assert_eq!(bus.bounds("dlq.t").await.unwrap().last, 1);
    assert_eq!(floor(&bus, "t", "g").await, 1);
}
