//! One connection.

use super::{connection, run, soon, target};
use crate::hub::{Hub, Place};
use hub_client::{
    Arrival, Code, Connection, Delivered, Deliveries, ErrorKind, NewEvent, Payload, Position,
    SubscribeOptions, SubscribeRequest, TopicName,
};
use serde_json::json;
use std::time::Duration;

fn event(topic: &str, n: u64) -> NewEvent {
    NewEvent::new(TopicName::parse(topic).unwrap(), Payload::of(&json!({ "n": n })).unwrap())
}

async fn next(deliveries: &mut Deliveries) -> Delivered {
    match soon(deliveries.recv()).await.unwrap() {
        Arrival::Event(delivered) => delivered,
        lagged => panic!("{lagged:?}"),
    }
}

fn earliest() -> SubscribeOptions {
    SubscribeOptions { from: Some(Position::Earliest), ..SubscribeOptions::default() }
}

#[test]
fn everything_that_can_be_asked_is_answered() {
    let place = Place::new();
    let hub = Hub::start(&place.path("data"), &[], &[]);
    run(async {
        let connection = connection(&hub).await;
        let receipt = soon(connection.publish(&event("orders.a", 1).with_key("k"))).await.unwrap();
        assert_eq!(receipt.seq, 1);
        let again = soon(connection.publish(&event("orders.a", 1).with_key("k").with_id(receipt.id))).await;
        assert!(again.unwrap().duplicate);
        let conflict = soon(connection.publish(&event("orders.a", 2).with_id(receipt.id))).await.unwrap_err();
        assert_eq!((conflict.kind(), conflict.code()), (ErrorKind::Refused, Some(Code::IdConflict)));
        let mut reserved = event("orders.a", 3);
        reserved.options.headers.push(("x-hub-no".into(), "v".into()));
        let results = soon(connection.publish_batch(&[event("orders.b", 1), reserved])).await.unwrap();
        assert_eq!(results[0].as_ref().unwrap().seq, 1);
        assert_eq!(results[1].as_ref().unwrap_err().code, Code::BadRequest);

        // A pattern, in batches: two topics, one event each.
        let options =
            SubscribeOptions { batch: Some(true), ordering: Some(hub_client::Ordering::Key), ..earliest() };
        let request = SubscribeRequest::new("orders.*", Some("g")).options(options);
        let mut orders = soon(connection.subscribe(request.clone())).await.unwrap();
        let twice = soon(connection.subscribe(request)).await.err().unwrap();
        assert_eq!(twice.code(), Some(Code::AlreadySubscribed));
        let mut events = [next(&mut orders).await, next(&mut orders).await];
        events.sort_by_key(|delivered| delivered.event.topic().clone());
        let topics = events.each_ref().map(|delivered| delivered.event.topic().as_str());
        assert_eq!(topics, ["orders.a", "orders.b"]);
        let (first, name) = (&events[0], orders.name().clone());
        assert_eq!((first.attempt, first.max_attempts, first.event.key().unwrap().as_ref()), (1, 5, "k"));

        let id = first.event.id();
        let left = soon(connection.modack(&name, id, Some(1), Duration::from_secs(60))).await.unwrap();
        assert!(left > Duration::from_secs(30), "{left:?}");
        soon(connection.pause(&name)).await.unwrap();
        soon(connection.resume(&name)).await.unwrap();
        soon(connection.nack(&name, id, Some(1), Some(Duration::ZERO), "not yet")).await.unwrap();
        let second = next(&mut orders).await;
        assert_eq!((second.event.id(), second.attempt), (id, 2));
        let late = soon(connection.modack(&name, id, Some(1), Duration::from_secs(60))).await.unwrap_err();
        assert_eq!(late.code(), Some(Code::UnknownId));
        let acked =
            soon(connection.ack_now(&name, &[id, receipt.id, events[1].event.id()], None)).await.unwrap();
        assert_eq!((acked.acked, acked.unknown), (2, vec![id]), "one was named twice");
        let mut notices = connection.notices();
        connection.ack(&name, &[id], None).unwrap();
        assert_eq!(soon(notices.recv()).await.unwrap().code(), Some(Code::UnknownId));
        soon(orders.unsubscribe()).await.unwrap();
        soon(connection.close()).await;
    });
    hub.stop();
}

#[test]
fn acks_said_before_a_goodbye_are_taken() {
    let place = Place::new();
    let hub = Hub::start(&place.path("data"), &[], &[]);
    run(async {
        let connection = connection(&hub).await;
        let events: Vec<_> = (0..500).map(|n| event("t", n)).collect();
        soon(connection.publish_batch(&events)).await.unwrap();
        let request = SubscribeRequest::new("t", Some("g")).options(earliest());
        let mut deliveries = soon(connection.subscribe(request)).await.unwrap();
        for seq in 1..=500 {
            let delivered = next(&mut deliveries).await;
            assert_eq!(delivered.event.seq(), seq);
            connection.ack(&delivered.name, &[delivered.event.id()], Some(delivered.attempt)).unwrap();
        }
        soon(deliveries.unsubscribe()).await.unwrap();
        let request = SubscribeRequest::new("t", Some("g"));
        let mut deliveries = soon(connection.subscribe(request)).await.unwrap();
        soon(connection.publish(&event("t", 501))).await.unwrap();
        assert_eq!(next(&mut deliveries).await.event.seq(), 501);
    });
    hub.stop();
}

#[test]
fn what_the_hub_does_not_take_is_told_and_its_stop_is_a_drain() {
    let place = Place::new();
    let mut hub = Hub::start(&place.path("data"), &[], &[]);
    run(async {
        let stranger = soon(Connection::connect(&target(&hub))).await.unwrap();
        let error = soon(stranger.publish(&event("t", 1))).await.unwrap_err();
        assert_eq!(error.code(), Some(Code::Unauthorized));
        let error = soon(stranger.authenticate("hunter2")).await.unwrap_err();
        assert_eq!(error.code(), Some(Code::JwtInvalid));
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        let unknown = soon(stranger.request("HELLO", &json!({}))).await.unwrap_err();
        assert_eq!(unknown.code(), Some(Code::UnknownOp));

        let connection = connection(&hub).await;
        let mut deliveries = soon(connection.subscribe(SubscribeRequest::new("t", Some("g")))).await.unwrap();
        hub.process.signal("TERM");
        assert!(soon(connection.closed()).await.is_drain());
        assert_eq!(soon(deliveries.recv()).await.unwrap_err().kind(), ErrorKind::Closed);
        drop(stranger);
    });
    assert_eq!(hub.process.ended(), 0);
}

#[test]
fn history_is_read_at_the_pace_of_who_waits() {
    let place = Place::new();
    let hub = Hub::start(&place.path("data"), &[], &[]);
    run(async {
        let connection = connection(&hub).await;
        // More than this side keeps, and more than is under way.
        let payload = Payload::of(&"x".repeat(1000)).unwrap();
        let events = vec![NewEvent::new(TopicName::parse("t").unwrap(), payload); 1000];
        for _ in 0..20 {
            soon(connection.publish_batch(&events)).await.unwrap();
        }
        let options = SubscribeOptions { when_full: hub_client::WhenFull::Wait, ..earliest() };
        let request = SubscribeRequest::new("t", None).options(options);
        let mut deliveries = soon(connection.subscribe(request)).await.unwrap();
        for seq in 1..=20_000 {
            let delivered = next(&mut deliveries).await;
            assert_eq!((delivered.event.seq(), delivered.attempt), (seq, 0));
        }
    });
    hub.stop();
}
