//! Handlers: what they return decides.

use super::super::Lab;
use super::tools::{fill, floor, soon, value};
use crate::{Bus, Position};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::mpsc;

async fn settled(bus: &Bus, upto: u64) {
    soon(async {
        while floor(bus, "t", "g").await < upto {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// The first of the seeds' two tests.
pub(in super::super) async fn publish_then_subscribe_from_earliest_delivers_and_advances_the_cursor(
    lab: Lab,
) {
    let bus = lab.bus().await;
    let (seen, mut got) = mpsc::unbounded_channel();
    let handler = move |delivery: Arc<crate::Delivery>| {
        seen.send(delivery.event().decode::<String>().unwrap()).unwrap();
        async { Ok::<_, String>(()) }
    };
    let _running = bus.subscribe("t").group("g").from(Position::Earliest).handler(handler).await.unwrap();
    bus.publish("t", serde_json::json!("one")).await.unwrap();
    let two = bus.publish("t", serde_json::json!("two")).await.unwrap();
    assert_eq!(soon(got.recv()).await.as_deref(), Some("one"));
    assert_eq!(soon(got.recv()).await.as_deref(), Some("two"));
    settled(&bus, 2).await;
    assert_eq!(bus.get_cursor("t", "g").await.unwrap().unwrap().last_id, Some(two.id));
}

pub(in super::super) async fn a_panic_is_a_nack(lab: Lab) {
    let bus = lab.bus().await;
    let (seen, mut got) = mpsc::unbounded_channel();
    let handler = move |delivery: Arc<crate::Delivery>| {
        seen.send((value(delivery.event()), delivery.attempt())).unwrap();
        async move {
            assert!(delivery.attempt() > 1, "this panic is part of the test");
            Ok::<_, String>(())
        }
    };
    let _running = bus.subscribe("t").group("g").handler(handler).await.unwrap();
    fill(&bus, "t", [1]).await;
    assert_eq!(soon(got.recv()).await, Some((1, 1)));
    assert_eq!(soon(got.recv()).await, Some((1, 2)));
    settled(&bus, 1).await;
}

pub(in super::super) async fn the_text_of_an_error_is_the_reason(lab: Lab) {
    let bus = lab.bus().await;
    let handler = |_| async { Err::<(), _>("out of ink") };
    let _running = bus.subscribe("t").group("g").max_attempts(1).handler(handler).await.unwrap();
    fill(&bus, "t", [1]).await;
    settled(&bus, 1).await;
    let letters = bus.scan("dlq.t", Position::Earliest, None).await.unwrap();
    assert_eq!(letters[0].decode::<serde_json::Value>().unwrap()["err"], "out of ink");
}

/// Runs a slow handler over ten events and answers how many were at work at once.
async fn most_at_work(lab: &Lab, concurrency: usize) -> usize {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=10).await;
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let handler = move |_| {
        let (now, most) = (now.clone(), seen.clone());
        async move {
            most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
            now.fetch_sub(1, SeqCst);
            Ok::<_, String>(())
        }
    };
    let group = bus.subscribe("t").group("g").from(Position::Earliest).concurrency(concurrency);
    let _running = group.handler(handler).await.unwrap();
    settled(&bus, 10).await;
    most.load(SeqCst)
}

pub(in super::super) async fn events_are_handled_one_after_the_other(lab: Lab) {
    assert_eq!(most_at_work(&lab, 1).await, 1);
}

pub(in super::super) async fn a_handler_can_work_on_several_at_once(lab: Lab) {
    assert_eq!(most_at_work(&lab, 4).await, 4);
}

pub(in super::super) async fn a_handler_that_stops_finishes_what_it_began(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=3).await;
    let (began, mut begun) = mpsc::unbounded_channel();
    let handler = move |_| {
        began.send(()).unwrap();
        async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok::<_, String>(())
        }
    };
    let running = bus.subscribe("t").group("g").from(Position::Earliest).handler(handler).await.unwrap();
    soon(begun.recv()).await.unwrap();
    soon(running.stop()).await;
    assert_eq!(floor(&bus, "t", "g").await, 1);
    let status = bus.group("t", "g").unwrap();
    assert_eq!((status.members, status.inflight), (0, 0));
}

pub(in super::super) async fn a_handler_with_manual_acks_settles_by_itself(lab: Lab) {
    let bus = lab.bus().await;
    let (hand_over, mut handed) = mpsc::unbounded_channel();
    let handler = move |delivery: Arc<crate::Delivery>| {
        hand_over.send(delivery).unwrap();
        async { Ok::<_, String>(()) }
    };
    let _running = bus.subscribe("t").group("g").manual_ack(true).handler(handler).await.unwrap();
    fill(&bus, "t", [1, 2]).await;
    let (first, second) = (soon(handed.recv()).await.unwrap(), soon(handed.recv()).await.unwrap());
    assert_eq!(floor(&bus, "t", "g").await, 0, "both have returned, and nothing is settled");
    second.ack().unwrap();
    first.ack().unwrap();
    assert_eq!(floor(&bus, "t", "g").await, 2);
}

pub(in super::super) async fn a_batch_brings_what_is_here_up_to_its_size(lab: Lab) {
    let bus = lab.bus().await;
    let mut subscription = bus.subscribe("t").group("g").batch_size(3).open().await.unwrap();
    fill(&bus, "t", 1..=4).await;
    let batch =
        |deliveries: Vec<crate::Delivery>| deliveries.iter().map(|d| d.event().seq()).collect::<Vec<_>>();
    let mut got = batch(soon(subscription.recv_batch()).await.unwrap());
    assert!(got.len() <= 3, "{got:?}");
    while got.len() < 4 {
        got.extend(batch(soon(subscription.recv_batch()).await.unwrap()));
    }
    assert_eq!(got, [1, 2, 3, 4]);
}
