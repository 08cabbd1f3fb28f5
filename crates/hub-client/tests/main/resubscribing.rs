//! Subscriptions that outlive connections.

use crate::hub::{FakeHub, Peer, poll_once, soon};
use hub_client::{Client, Message, Received, SubscribeOptions, Subscription};
use serde_json::{Value, json};
use std::pin::pin;

async fn subscribe(client: &Client, peer: &mut Peer, topic: &str, group: Option<&str>) -> Subscription {
    let subscribing = client.subscribe(topic, group, SubscribeOptions::default());
    let (subscription, _) = soon(async { tokio::join!(subscribing, peer.subscribed()) }).await;
    subscription.unwrap()
}

async fn message(subscription: &mut Subscription) -> Message {
    soon(subscription.recv()).await.unwrap().message().unwrap()
}

#[tokio::test]
async fn a_group_goes_on_and_acks_of_the_connection_before_are_dropped() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let mut orders = subscribe(&client, &mut peer, "orders", Some("g")).await;
    peer.event("orders", Some("g"), 1).await;
    peer.event("orders", Some("g"), 2).await;
    let before = message(&mut orders).await;
    assert_eq!((before.event().seq(), before.attempt(), before.max_attempts()), (1, 1, 5));
    assert_eq!(before.decode::<Value>().unwrap(), json!({"n": 1}));
    peer.close(1012, "the hub stops").await;

    let mut peer = hub.welcome().await;
    let frame = peer.subscribed().await;
    assert_eq!(
        (&frame["topic"], &frame["group"], &frame["opts"]),
        (&json!("orders"), &json!("g"), &json!({}))
    );
    before.ack().unwrap();
    soon(before.nack(None, "late")).await.unwrap();
    assert!(soon(before.extend(std::time::Duration::from_secs(1))).await.is_err());
    // The second one was not taken in time, and comes again.
    peer.event("orders", Some("g"), 2).await;
    let after = message(&mut orders).await;
    assert_eq!(after.event().seq(), 2);
    after.ack().unwrap();
    let ack = peer.expect("ACK").await;
    assert_eq!((&ack["ids"], &ack["attempt"]), (&json!([after.event().id()]), &json!(1)));
    drop(orders);
    peer.expect("UNSUBSCRIBE").await;
}

#[tokio::test]
async fn an_event_is_given_back_without_a_failure() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = soon(async {
        tokio::join!(hub.builder().connect(), async {
            let mut peer = hub.accept().await;
            let auth = peer.expect("AUTH").await;
            peer.ok(&auth, json!({"features": ["return"]})).await;
            peer
        })
    })
    .await;
    let client = client.unwrap();
    let mut orders = subscribe(&client, &mut peer, "orders", Some("g")).await;
    peer.event("orders", Some("g"), 1).await;
    let event = message(&mut orders).await;
    assert_eq!(event.epoch(), 0);
    let (given_back, frame) = soon(async {
        tokio::join!(event.give_back(std::time::Duration::from_millis(20)), async {
            let frame = peer.expect("RETURN").await;
            peer.ok(&frame, json!({"returned": 1, "unknown": []})).await;
            frame
        })
    })
    .await;
    given_back.unwrap();
    let id = json!([event.event().id()]);
    assert_eq!((&frame["ids"], &frame["attempt"], &frame["delay_ms"]), (&id, &json!(1), &json!(20)));
}

/// What is in hand is named on the next connection, and so are acks that the hub may not have heard.
#[tokio::test]
async fn a_member_goes_on_with_what_is_in_hand_and_says_its_acks_again() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let member = "0b6f2c1e-8d4a-4f7b-9c3d-5e6f7a8b9c0d";
    let options = SubscribeOptions { member: Some(member.parse().unwrap()), ..Default::default() };
    let subscribing = client.subscribe("orders", Some("g"), options);
    let (orders, frame) = soon(async { tokio::join!(subscribing, peer.subscribed()) }).await;
    let mut orders = orders.unwrap();
    assert_eq!(frame["opts"], json!({"member": member}));
    let mut events = Vec::new();
    for n in 1..=5 {
        peer.event("orders", Some("g"), n).await;
        events.push(message(&mut orders).await);
    }
    let ids: Vec<Value> = events.iter().map(|event| json!(event.event().id())).collect();
    events[1].ack().unwrap();
    assert_eq!(peer.expect("ACK").await["ids"], json!([ids[1]]));
    soon(async {
        tokio::join!(events[4].nack(None, "bad"), async {
            let nack = peer.expect("NACK").await;
            peer.ok(&nack, json!({})).await;
        })
    })
    .await
    .0
    .unwrap();
    // One more is under way when the connection is lost: the program never had it.
    peer.event("orders", Some("g"), 6).await;
    peer.close(1012, "the hub stops").await;
    let mut peer = hub.welcome().await;
    events[0].ack().unwrap();
    let frame = peer.expect("SUBSCRIBE").await;
    let mut held: Vec<Value> = frame["opts"]["held"].as_array().unwrap().clone();
    held.sort_unstable_by_key(ToString::to_string);
    assert_eq!(held, [0, 1, 2, 3].map(|at: usize| ids[at].clone()));
    // The hub has the first ack not, and the second one; the lease of the fourth is lost.
    peer.ok(&frame, json!({"held": [ids[0], ids[2]]})).await;
    let again = peer.expect("ACK").await;
    // The hub may have delivered it once more, over the connection that was lost.
    assert_eq!((&again["ids"], &again["attempt"]), (&json!([ids[0]]), &Value::Null));
    events[3].ack().unwrap();
    events[0].ack().unwrap();
    events[2].ack().unwrap();
    assert_eq!(peer.expect("ACK").await["ids"], json!([ids[2]]), "and no other");
    peer.event("orders", Some("g"), 6).await;
    assert_eq!(message(&mut orders).await.event().seq(), 6);
}

#[tokio::test]
async fn without_a_group_it_goes_on_behind_what_was_seen() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let mut orders = subscribe(&client, &mut peer, "orders", None).await;
    for n in 1..=3 {
        peer.event("orders", None, n).await;
    }
    assert_eq!(message(&mut orders).await.event().seq(), 1);
    drop(peer);
    let mut peer = hub.welcome().await;
    // Two events that came before are not taken yet, so they are asked for again, and seen once.
    assert_eq!(peer.subscribed().await["opts"], json!({"from": "afterSeq", "afterSeq": 1}));
    for n in 2..=4 {
        peer.event("orders", None, n).await;
    }
    for n in 2..=4 {
        assert_eq!(message(&mut orders).await.event().seq(), n);
    }
}

#[tokio::test]
async fn a_reader_of_a_pattern_is_told_that_it_may_have_missed_something() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let mut all = subscribe(&client, &mut peer, "o.**", None).await;
    let event = json!({"id": crate::hub::id(1), "seq": 1, "ts": 1, "topic": "o.a", "payload": 1});
    let frame = json!({"op": "EVENT", "topic": "o.**", "event": event});
    peer.send(frame.clone()).await;
    assert_eq!(message(&mut all).await.event().topic().as_str(), "o.a");
    drop(peer);
    let mut peer = hub.welcome().await;
    assert_eq!(peer.subscribed().await["opts"], json!({}));
    peer.send(frame).await;
    let lagged = soon(all.recv()).await.unwrap();
    assert!(matches!(lagged, Received::Lagged { topic: None, missed: 0 }), "{lagged:?}");
    assert_eq!(message(&mut all).await.event().seq(), 1);
}

#[tokio::test]
async fn the_places_of_a_list_are_not_compared_whatever_its_label() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let options = SubscribeOptions { topics: vec!["a".into(), "b".into()], ..Default::default() };
    let (list, _) =
        soon(async { tokio::join!(client.subscribe("a", None, options), peer.subscribed()) }).await;
    let mut list = list.unwrap();
    for (topic, seq) in [("a", 7), ("b", 3)] {
        let event = json!({"id": crate::hub::id(seq), "seq": seq, "ts": 1, "topic": topic, "payload": 1});
        peer.send(json!({"op": "EVENT", "topic": "a", "event": event})).await;
        assert_eq!(message(&mut list).await.event().seq(), seq);
    }
    drop(peer);
    let mut peer = hub.welcome().await;
    assert_eq!(peer.subscribed().await["opts"], json!({"topics": ["a", "b"]}));
}

#[tokio::test]
async fn a_refusal_ends_a_subscription_unless_it_passes() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let refuse = async {
        let frame = peer.expect("SUBSCRIBE").await;
        peer.err(&frame, "unavailable", json!({})).await;
        let frame = peer.expect("SUBSCRIBE").await;
        peer.err(&frame, "forbidden", json!({})).await;
    };
    let subscribing = client.subscribe("secrets", Some("g"), SubscribeOptions::default());
    let (refused, ()) = soon(async { tokio::join!(subscribing, refuse) }).await;
    assert_eq!(refused.err().unwrap().code_text(), Some("forbidden"));

    let mut orders = subscribe(&client, &mut peer, "orders", Some("g")).await;
    let end = |code: &str| json!({"op": "ERR", "code": code, "msg": "m", "topic": "orders", "group": "g"});
    peer.send(end("unavailable")).await;
    let (event, ()) = soon(async {
        tokio::join!(orders.recv(), async {
            peer.subscribed().await;
            peer.event("orders", Some("g"), 1).await;
        })
    })
    .await;
    event.unwrap().message().unwrap();
    peer.send(end("forbidden")).await;
    for _ in 0..2 {
        assert_eq!(soon(orders.recv()).await.unwrap_err().code_text(), Some("forbidden"));
    }
    // Neither is asked for again.
    drop(peer);
    let mut peer = hub.welcome().await;
    let mut other = subscribe(&client, &mut peer, "other", Some("g")).await;
    peer.event("other", Some("g"), 1).await;
    message(&mut other).await;
}

#[tokio::test]
async fn a_pause_holds_on_the_next_connection() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let mut orders = subscribe(&client, &mut peer, "orders", Some("g")).await;
    let paused = async {
        let frame = peer.expect("PAUSE").await;
        peer.ok(&frame, json!({})).await;
    };
    soon(async { tokio::join!(orders.pause(), paused) }).await.0.unwrap();
    drop(peer);
    let mut peer = hub.welcome().await;
    peer.subscribed().await;
    let frame = peer.expect("PAUSE").await;
    assert_eq!((&frame["topic"], &frame["group"]), (&json!("orders"), &json!("g")));
    // The program is not there to take it over, so the next connection is.
    let mut resumed = Box::pin(async {
        let _ = poll_once(pin!(orders.recv())).await;
        orders.resume().await
    });
    let resume = async {
        let frame = peer.expect("RESUME").await;
        peer.ok(&frame, json!({})).await;
    };
    soon(async { tokio::join!(&mut resumed, resume) }).await.0.unwrap();
}

#[tokio::test]
async fn a_subscription_that_the_hub_and_its_connection_ended_is_asked_for_once() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let mut orders = subscribe(&client, &mut peer, "orders", Some("g")).await;
    // The hub ends it, and is gone before the program has heard of that.
    peer.send(json!({"op": "ERR", "code": "unavailable", "msg": "m", "topic": "orders", "group": "g"})).await;
    drop(peer);
    let mut peer = hub.welcome().await;
    let frame = peer.expect("SUBSCRIBE").await;
    // The program hears of it while the next connection is asked, and later of what comes over that.
    assert!(poll_once(pin!(orders.recv())).await.is_pending());
    let refuse_twice = async {
        let again = tokio::time::timeout(std::time::Duration::from_millis(300), peer.next()).await;
        if let Ok(Some(again)) = &again {
            peer.err(again, "already_subscribed", json!({})).await;
        }
        peer.ok(&frame, json!({})).await;
        peer.event("orders", Some("g"), 1).await;
        again.is_ok()
    };
    let (event, asked_again) = soon(async { tokio::join!(orders.recv(), refuse_twice) }).await;
    assert_eq!(event.unwrap().message().unwrap().event().seq(), 1);
    assert!(!asked_again, "it was asked for twice over one connection");
}

#[tokio::test]
async fn a_name_that_the_hub_still_has_is_asked_for_until_it_is_free() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let mut orders = subscribe(&client, &mut peer, "orders", Some("g")).await;
    peer.close(1012, "the hub stops").await;
    let mut peer = hub.welcome().await;
    for _ in 0..3 {
        let frame = peer.expect("SUBSCRIBE").await;
        peer.err(&frame, "already_subscribed", json!({})).await;
    }
    peer.subscribed().await;
    peer.event("orders", Some("g"), 1).await;
    assert_eq!(message(&mut orders).await.event().seq(), 1);
    // A program that asks twice is told.
    let refuse = async {
        let frame = peer.expect("SUBSCRIBE").await;
        peer.err(&frame, "already_subscribed", json!({})).await;
    };
    let twice = client.subscribe("orders", Some("g"), SubscribeOptions::default());
    let (twice, ()) = soon(async { tokio::join!(twice, refuse) }).await;
    assert_eq!(twice.err().unwrap().code_text(), Some("already_subscribed"));
    peer.event("orders", Some("g"), 2).await;
    assert_eq!(message(&mut orders).await.event().seq(), 2);
}
