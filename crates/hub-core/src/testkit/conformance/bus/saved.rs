//! What a crash may cost: at most the last 200 ms.

use super::super::Lab;
use super::tools::{assert_silent, consume, fill, floor, hold, next, value};
use crate::Position;

pub(in super::super) async fn acks_are_saved_within_200_ms_without_any_publish(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=4).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let held = hold(&mut sub, 4).await;
    held[0].ack().unwrap();
    held[2].ack().unwrap();
    lab.pass(200).await;
    let bus = lab.crash((bus, sub, held)).await;
    assert_eq!(floor(&bus, "t", "g").await, 1);
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    assert_eq!(consume(&mut sub, 2).await, [2, 4]);
    assert_silent(&mut sub).await;
}

pub(in super::super) async fn failures_are_saved_within_200_ms(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let mut sub =
        bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(2).open().await.unwrap();
    next(&mut sub).await.nack_after(1_000, "one").unwrap();
    lab.pass(200).await;
    let bus = lab.crash((bus, sub)).await;
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    let again = next(&mut sub).await;
    assert_eq!(again.attempt(), 2);
    again.nack("two").unwrap();
    assert_silent(&mut sub).await;
    assert_eq!(bus.bounds("dlq.t").await.unwrap().last, 1);
}

pub(in super::super) async fn a_crash_counts_no_failure(lab: Lab) {
    let mut bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    for _ in 0..3 {
        let join = bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1);
        let mut sub = join.open().await.unwrap();
        assert_eq!(value(next(&mut sub).await.event()), 1);
        lab.pass(200).await;
        bus = lab.crash((bus, sub)).await;
    }
    assert_eq!(bus.topics().len(), 1, "nothing became a dead letter");
}

pub(in super::super) async fn an_ack_that_was_not_saved_comes_again(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    lab.pass(1_000).await;
    assert_eq!(consume(&mut sub, 1).await, [1]);
    let bus = lab.crash((bus, sub)).await;
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    assert_eq!(consume(&mut sub, 1).await, [1]);
}

pub(in super::super) async fn a_flush_saves_at_once(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    consume(&mut sub, 1).await;
    bus.flush().await.unwrap();
    let bus = lab.crash((bus, sub)).await;
    assert_eq!(floor(&bus, "t", "g").await, 1);
}

pub(in super::super) async fn the_epoch_survives_so_a_replayed_event_is_buried_again(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let mut sub =
        bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1).open().await.unwrap();
    next(&mut sub).await.nack("one").unwrap();
    lab.pass(500).await;
    bus.set_cursor("t", "g", Position::Earliest).await.unwrap();
    let bus = lab.crash((bus, sub)).await;
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    next(&mut sub).await.nack("two").unwrap();
    lab.pass(500).await;
    assert_eq!(bus.bounds("dlq.t").await.unwrap().last, 2);
}
