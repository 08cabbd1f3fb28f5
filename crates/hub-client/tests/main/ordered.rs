//! Batches that are published in order.

use crate::hub::{FakeHub, Peer, id, soon};
use crate::requests::event;
use hub_client::connection::ORDERED;
use hub_client::{Code, Connection, ErrorKind, NewEvent, Payload, TopicName};
use serde_json::{Value, json};

/// A connection to a hub with these features.
async fn pair(features: Value) -> (Connection, Peer) {
    let hub = FakeHub::start().await;
    let (connection, mut peer) = hub.pair().await;
    let welcome = async {
        let frame = peer.expect("AUTH").await;
        peer.ok(&frame, features).await;
    };
    let (identity, ()) = tokio::join!(connection.authenticate("t"), welcome);
    identity.unwrap();
    (connection, peer)
}

fn receipt(seq: u64) -> Value {
    json!({"id": id(seq), "seq": seq, "ts": 5, "durable": "fsync"})
}

#[tokio::test]
async fn a_batch_in_order_is_not_sent_to_a_hub_that_does_not_have_it() {
    for features in [json!({}), json!({"features": []}), json!({"features": ["something", "else"]})] {
        let (connection, mut peer) = pair(features).await;
        assert!(!connection.has_feature(ORDERED));
        let error = soon(connection.publish_in_order(&[event(1), event(2)])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("one at a time"), "{error}");
        let asked = tokio::spawn(async move { connection.publish(&event(3)).await });
        assert_eq!(peer.stored(1).await["payload"], 3, "nothing came before it");
        drop(asked);
    }
}

#[tokio::test]
async fn the_features_of_a_hub_are_known_to_a_client_with_a_certificate_too() {
    let hub = FakeHub::start().await;
    let (connection, mut peer) = hub.pair().await;
    assert!(!connection.has_feature(ORDERED), "nobody has said so yet");
    let welcome = async {
        let frame = peer.expect("AUTH").await;
        assert_eq!(frame.get("token"), None);
        peer.ok(&frame, json!({"features": ["ordered"]})).await;
    };
    let (identity, ()) = tokio::join!(connection.authenticate_by_certificate(), welcome);
    identity.unwrap();
    assert!(connection.has_feature(ORDERED));
}

#[tokio::test]
async fn a_batch_in_order_has_a_result_for_each_event() {
    let (connection, mut peer) = pair(json!({"features": ["ordered", "later"]})).await;
    let hub = tokio::spawn(async move {
        let frame = peer.expect("PUBLISH").await;
        assert_eq!(frame["ordered"], true);
        let payloads: Vec<&Value> =
            frame["events"].as_array().unwrap().iter().map(|event| &event["payload"]).collect();
        assert_eq!(payloads, [&json!(1), &json!(2), &json!(3)]);
        let refused = json!({"code": "forbidden", "msg": "no"});
        let unsent = json!({"code": "unavailable", "msg": "not published"});
        peer.ok(&frame, json!({"results": [receipt(1), refused, unsent], "ordered": true})).await;
        let frame = peer.expect("PUBLISH").await;
        peer.ok(&frame, json!({"results": [receipt(1), receipt(2)]})).await;
    });
    let results = soon(connection.publish_in_order(&[event(1), event(2), event(3)])).await.unwrap();
    assert_eq!(results[0].as_ref().unwrap().seq, 1);
    let codes: Vec<Code> = results[1..].iter().map(|result| result.as_ref().unwrap_err().code).collect();
    assert_eq!(codes, [Code::Forbidden, Code::Unavailable]);
    let error = soon(connection.publish_in_order(&[event(1), event(2)])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "the answer to an ordinary batch");
    assert!(soon(connection.publish_in_order(&[])).await.unwrap().is_empty(), "nothing is sent");
    hub.await.unwrap();
}

#[tokio::test]
async fn more_than_a_frame_takes_goes_in_several_and_stops_with_the_first_that_is_refused() {
    let (connection, mut peer) = pair(json!({"features": ["ordered"]})).await;
    let large = NewEvent::new(TopicName::parse("t").unwrap(), Payload::of(&"x".repeat(1 << 20)).unwrap());
    let hub = tokio::spawn(async move {
        for frames in [3, 3] {
            let frame = peer.expect("PUBLISH").await;
            assert_eq!(frame["events"].as_array().unwrap().len(), frames);
            let results = vec![receipt(1); frames];
            peer.ok(&frame, json!({"results": results, "ordered": true})).await;
        }
        let frame = peer.expect("PUBLISH").await;
        peer.err(&frame, "too_large", json!({})).await;
        let frame = peer.expect("PUBLISH").await;
        assert_eq!(frame.get("events"), None, "the fourth was not sent");
        peer.store(&frame, 7).await;
    });
    let results = soon(connection.publish_in_order(&vec![large; 10])).await.unwrap();
    assert_eq!(results.len(), 10);
    assert!(results[..6].iter().all(Result::is_ok));
    // The frame was refused, and not its first event: that one is not said to be bad.
    for result in &results[6..] {
        assert_eq!(result.as_ref().unwrap_err().code, Code::Unavailable);
    }
    soon(connection.publish(&event(1).with_id(id(1).parse().unwrap()))).await.unwrap();
    hub.await.unwrap();
}
