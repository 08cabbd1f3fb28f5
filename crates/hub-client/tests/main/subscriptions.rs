//! What a subscription delivers, and what it says when it is slow.

use crate::hub::{FakeHub, Peer, event_frame, id, soon};
use hub_client::{Arrival, Connection, Deliveries, ErrorKind, SubscribeOptions, SubscribeRequest, WhenFull};
use serde_json::json;

async fn subscribe(
    connection: &Connection,
    peer: &mut Peer,
    group: Option<&str>,
    options: SubscribeOptions,
) -> Deliveries {
    let request = SubscribeRequest::new("orders", group).options(options);
    let (deliveries, _) = tokio::join!(connection.subscribe(request), peer.subscribed());
    deliveries.unwrap()
}

async fn seq(deliveries: &mut Deliveries) -> u64 {
    match soon(deliveries.recv()).await.unwrap() {
        Arrival::Event(delivered) => delivered.event.seq(),
        lagged => panic!("{lagged:?}"),
    }
}

/// Waits until the client has read whatever was sent: an answer comes behind it.
async fn all_read(connection: &Connection, peer: &mut Peer) {
    let nothing = json!({});
    let answer = async {
        let frame = peer.expect("HELLO").await;
        peer.ok(&frame, json!({})).await;
    };
    soon(async { tokio::join!(connection.request("HELLO", &nothing), answer) }).await.0.unwrap();
}

#[tokio::test]
async fn events_come_with_their_lease_however_they_are_framed() {
    let hub = FakeHub::start().await;
    let (connection, mut peer) = hub.pair().await;
    let mut orders = subscribe(&connection, &mut peer, Some("g"), SubscribeOptions::default()).await;
    peer.event("orders", Some("g"), 1).await;
    let event =
        |n: u64| json!({"payload": {"n": n}, "seq": n, "topic": "orders", "id": id(n), "ts": 5, "key": "k"});
    let ctx = json!({"attempt": 3, "maxAttempts": 4, "ack_deadline_ms": 1000, "cursor": {}});
    peer.send(json!({"op": "EVENT", "topic": "orders", "group": "g", "event": event(2), "ctx": ctx})).await;
    let events = [json!({"event": event(3), "ctx": ctx}), json!({"event": event(4), "ctx": ctx})];
    peer.send(json!({"op": "EVENTS", "topic": "orders", "group": "g", "events": events})).await;
    // Of others: nothing that concerns this one.
    peer.event("orders", None, 9).await;
    peer.event("orders", Some("other"), 9).await;
    peer.send(json!({"op": "SOMETHING", "new": true})).await;
    let Arrival::Event(first) = soon(orders.recv()).await.unwrap() else { panic!() };
    assert_eq!((first.event.seq(), first.attempt, first.max_attempts), (1, 1, 5));
    assert_eq!((first.event.payload(), first.event.committed()), (&br#"{"n":1}"#[..], 1));
    for n in 2..=4 {
        let Arrival::Event(delivered) = soon(orders.recv()).await.unwrap() else { panic!() };
        assert_eq!((delivered.event.seq(), delivered.attempt, delivered.max_attempts), (n, 3, 4));
        assert_eq!((&*delivered.name.topic, delivered.event.key().unwrap().as_ref()), ("orders", "k"));
        assert!(delivered.ack_deadline.is_some());
    }
}

#[tokio::test]
async fn acks_that_come_together_go_in_one_frame_and_before_a_goodbye() {
    let hub = FakeHub::start().await;
    let (connection, mut peer) = hub.pair().await;
    let orders = subscribe(&connection, &mut peer, Some("g"), SubscribeOptions::default()).await;
    let name = orders.name().clone();
    // On this thread alone: the task cannot run in between.
    for n in 1..=500 {
        connection.ack(&name, &[id(n).parse().unwrap()], Some(1)).unwrap();
    }
    connection.ack(&name, &[id(501).parse().unwrap()], Some(2)).unwrap();
    let leave = tokio::spawn(orders.unsubscribe());
    let mut acks = [peer.expect("ACK").await, peer.expect("ACK").await];
    acks.sort_by_key(|ack| ack["attempt"].as_u64());
    let ids: Vec<_> = (1..=500).map(id).collect();
    assert_eq!((&acks[0]["ids"], acks[0].get("corr")), (&json!(ids), None));
    assert_eq!(
        acks[1],
        json!({"op": "ACK", "topic": "orders", "group": "g", "ids": [id(501)], "attempt": 2})
    );
    let goodbye = peer.expect("UNSUBSCRIBE").await;
    peer.ok(&goodbye, json!({})).await;
    soon(leave).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_err_with_its_name_ends_a_subscription_and_nothing_else() {
    let hub = FakeHub::start().await;
    let (connection, mut peer) = hub.pair().await;
    let mut one = subscribe(&connection, &mut peer, Some("g"), SubscribeOptions::default()).await;
    let mut other = subscribe(&connection, &mut peer, None, SubscribeOptions::default()).await;
    let mut notices = connection.notices();
    peer.send(json!({"op": "ERR", "code": "unknown_id", "msg": "m", "unknown": [id(1)]})).await;
    peer.event("orders", Some("g"), 1).await;
    peer.send(json!({"op": "ERR", "code": "forbidden", "msg": "m", "topic": "orders", "group": "g"})).await;
    peer.event("orders", None, 2).await;
    assert_eq!(seq(&mut other).await, 2);
    // What was not taken is no longer in hand.
    for _ in 0..2 {
        assert_eq!(soon(one.recv()).await.unwrap_err().code_text(), Some("forbidden"));
    }
    assert_eq!(soon(notices.recv()).await.unwrap().code_text(), Some("unknown_id"));
    assert!(connection.is_closed().is_none());
}

#[tokio::test]
async fn a_subscription_that_is_dropped_is_ended_at_the_hub() {
    let hub = FakeHub::start().await;
    let (connection, mut peer) = hub.pair().await;
    drop(subscribe(&connection, &mut peer, Some("g"), SubscribeOptions::default()).await);
    let goodbye = peer.expect("UNSUBSCRIBE").await;
    assert_eq!((&goodbye["topic"], &goodbye["group"]), (&json!("orders"), &json!("g")));
    peer.event("orders", Some("g"), 1).await;
    peer.err(&goodbye, "not_subscribed", json!({})).await;
    // One that is given up before it is there, too.
    let request = SubscribeRequest::new("orders", Some("g"));
    let asking = tokio::spawn({
        let connection = connection.clone();
        async move { connection.subscribe(request).await.map(drop) }
    });
    let frame = peer.expect("SUBSCRIBE").await;
    asking.abort();
    let _ = asking.await;
    peer.ok(&frame, json!({})).await;
    peer.expect("UNSUBSCRIBE").await;
    // One that was released otherwise is not.
    subscribe(&connection, &mut peer, Some("h"), SubscribeOptions::default()).await.detach();
    drop(connection);
    assert_eq!(peer.next().await, None);
}

#[tokio::test]
async fn a_group_keeps_no_more_than_its_window_and_lets_go_of_the_oldest() {
    let hub = FakeHub::start().await;
    let (connection, mut peer) = hub.pair().await;
    let window = SubscribeOptions { max_in_flight: Some(3), ..Default::default() };
    let mut orders = subscribe(&connection, &mut peer, Some("g"), window).await;
    // As if two leases had run out meanwhile.
    for n in 1..=5 {
        peer.event("orders", Some("g"), n).await;
    }
    all_read(&connection, &mut peer).await;
    for n in 3..=5 {
        assert_eq!(seq(&mut orders).await, n);
    }
}

#[tokio::test]
async fn without_a_group_what_is_left_out_is_told() {
    let hub = FakeHub::start().await;
    let (connection, mut peer) = hub.pair().await;
    let mut orders = subscribe(&connection, &mut peer, None, SubscribeOptions::default()).await;
    for n in 1..=1500 {
        peer.event("orders", None, n).await;
    }
    peer.send(json!({"op": "LAGGED", "topic": "orders", "of": "orders.x", "missed": 40})).await;
    peer.event("orders", None, 2000).await;
    all_read(&connection, &mut peer).await;
    let (mut seen, mut missed, mut told) = (0, 0, None);
    loop {
        match soon(orders.recv()).await.unwrap() {
            Arrival::Event(delivered) if delivered.event.seq() == 2000 => break,
            Arrival::Event(_) => seen += 1,
            Arrival::Lagged { topic: None, missed: more } => missed += more,
            Arrival::Lagged { topic: Some(topic), missed } => told = Some((topic, missed)),
        }
    }
    assert_eq!((seen + missed, told), (1500, Some(("orders.x".into(), 40))));
    assert!(missed > 0 && seen > 0, "{missed} {seen}");
}

#[tokio::test]
async fn who_would_rather_wait_misses_nothing() {
    let hub = FakeHub::start().await;
    let (connection, mut peer) = hub.pair().await;
    let options = SubscribeOptions { when_full: WhenFull::Wait, ..Default::default() };
    let mut orders = subscribe(&connection, &mut peer, None, options).await;
    const EVENTS: u64 = 5000;
    let flood = tokio::spawn(async move {
        for n in 1..=EVENTS {
            peer.text(&event_frame("orders", None, n)).await;
        }
        peer
    });
    for n in 1..=EVENTS {
        assert_eq!(seq(&mut orders).await, n);
    }
    let mut peer = flood.await.unwrap();
    peer.close(1000, "").await;
    assert_eq!(soon(orders.recv()).await.unwrap_err().kind(), ErrorKind::Closed);
}
