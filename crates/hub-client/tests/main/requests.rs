//! Requests and their answers.

use crate::hub::{FakeHub, id, soon};
use hub_client::connection::Identity;
use hub_client::{Code, Durability, ErrorKind, NewEvent, Payload, TopicName};
use serde_json::json;

pub fn event(n: u64) -> NewEvent {
    NewEvent::new(TopicName::parse("orders").unwrap(), Payload::of(&n).unwrap())
}

#[tokio::test]
async fn answers_are_matched_whatever_their_order() {
    let hub = FakeHub::start().await;
    let (connection, mut peer) = hub.pair().await;
    let first = connection.submit(&event(1)).await.unwrap();
    let second = connection.submit(&event(2)).await.unwrap();
    let frames = [peer.expect("PUBLISH").await, peer.expect("PUBLISH").await];
    assert_eq!((&frames[0]["payload"], &frames[1]["payload"]), (&json!(1), &json!(2)), "in their order");
    peer.ok(&frames[1], json!({"n": 2})).await;
    peer.ok(&frames[0], json!({"n": 1})).await;
    assert!(soon(first).await.unwrap().text().contains("\"n\":1"));
    assert!(soon(second).await.unwrap().text().contains("\"n\":2"));
}

#[tokio::test]
async fn an_answer_is_read_as_what_it_is() {
    let hub = FakeHub::start().await;
    let (connection, mut peer) = hub.pair().await;
    let answer = tokio::spawn(async move {
        let frame = peer.expect("AUTH").await;
        assert_eq!(frame["token"], "t");
        peer.ok(&frame, json!({"sub": "ada", "exp": 5})).await;
        let frame = peer.expect("PUBLISH").await;
        let receipt = json!({"id": id(1), "seq": 7, "ts": 5, "durable": "majority", "duplicate": true});
        peer.ok(&frame, receipt.clone()).await;
        let frame = peer.expect("PUBLISH").await;
        assert_eq!(frame["events"].as_array().unwrap().len(), 2);
        peer.ok(&frame, json!({"results": [receipt, {"code": "forbidden", "msg": "no"}]})).await;
        let frame = peer.expect("ACK").await;
        peer.ok(&frame, json!({"acked": 1, "unknown": [id(2)]})).await;
        let frame = peer.expect("RELEASE").await;
        assert_eq!(frame["blame"], 1);
        peer.ok(&frame, json!({"later": true})).await;
    });
    let identity = soon(connection.authenticate("t")).await.unwrap();
    assert_eq!(identity, Identity { sub: Some("ada".into()), exp: Some(5) });
    let receipt = soon(connection.publish(&event(1))).await.unwrap();
    assert_eq!((receipt.seq, receipt.durable, receipt.duplicate), (7, Durability::Majority, true));
    let results = soon(connection.publish_batch(&[event(1), event(2)])).await.unwrap();
    assert_eq!(results[0], Ok(receipt));
    assert_eq!(results[1].as_ref().unwrap_err().code, Code::Forbidden);
    let name = hub_client::Name::new("orders", Some("g"));
    let ids = [id(1).parse().unwrap(), id(2).parse().unwrap()];
    let acked = soon(connection.ack_now(&name, &ids, None)).await.unwrap();
    assert_eq!((acked.acked, acked.unknown), (1, vec![ids[1]]));
    let answer_of_raw = soon(connection.request("RELEASE", &json!({"blame": 1}))).await.unwrap();
    assert_eq!(answer_of_raw.read::<serde_json::Value>().unwrap()["later"], true);
    answer.await.unwrap();
}

#[tokio::test]
async fn a_refusal_says_what_the_hub_said() {
    let hub = FakeHub::start().await;
    let (connection, mut peer) = hub.pair().await;
    let answer = tokio::spawn(async move {
        let frame = peer.expect("PUBLISH").await;
        peer.err(&frame, "unavailable", json!({"id": id(1)})).await;
        let frame = peer.expect("PUBLISH").await;
        peer.err(&frame, "rate_limited", json!({"retry_after_ms": 250})).await;
        let frame = peer.expect("SUBSCRIBE").await;
        peer.err(&frame, "not_owner", json!({})).await;
    });
    let error = soon(connection.publish(&event(1))).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Refused, Some(Code::Unavailable)));
    assert_eq!(error.refusal().unwrap().id, Some(id(1).parse().unwrap()));
    let error = soon(connection.publish(&event(1))).await.unwrap_err();
    assert_eq!(error.refusal().unwrap().retry_after_ms, Some(250));
    let request = hub_client::SubscribeRequest::new("t", Some("g"));
    let members = [("held".to_owned(), json!([]))].into_iter().collect();
    let error = soon(connection.subscribe_with(request, &members)).await.err().unwrap();
    assert_eq!(error.code_text(), Some("not_owner"));
    answer.await.unwrap();
}

#[tokio::test]
async fn more_than_goes_out_at_once_goes_out_without_a_word_of_the_hub() {
    let hub = FakeHub::start().await;
    let (connection, mut peer) = hub.pair().await;
    let text = "x".repeat(32 << 10);
    let large = NewEvent::new(TopicName::parse("t").unwrap(), Payload::of(&text).unwrap());
    // All of them wait for the task before it has its first turn.
    let mut answers = Vec::new();
    for _ in 0..200 {
        answers.push(connection.submit(&large).await.unwrap());
    }
    for _ in 0..200 {
        peer.expect("PUBLISH").await;
    }
}

#[tokio::test]
async fn a_hub_that_writes_before_it_reads_does_not_block_a_client_that_does_the_same() {
    let hub = FakeHub::start().await;
    let (connection, mut peer) = hub.pair().await;
    let request = hub_client::SubscribeRequest::new("t", None);
    let (events, _) = tokio::join!(connection.subscribe(request), peer.subscribed());
    let mut events = events.unwrap();
    // More than any buffers between the two hold, in both directions.
    const FRAMES: u64 = 400;
    let text = "x".repeat(64 << 10);
    let flood = async {
        for n in 1..=FRAMES {
            let event = format!(r#"{{"id":"{}","ts":1,"topic":"t","payload":"{text}","seq":{n}}}"#, id(n));
            peer.text(&format!(r#"{{"op":"EVENT","topic":"t","event":{event}}}"#)).await;
        }
        for _ in 0..FRAMES {
            let frame = peer.expect("PUBLISH").await;
            peer.ok(&frame, json!({})).await;
        }
    };
    let large = NewEvent::new(TopicName::parse("t").unwrap(), Payload::of(&text).unwrap());
    let publish = async {
        let mut answers = Vec::new();
        for _ in 0..FRAMES {
            answers.push(connection.submit(&large).await.unwrap());
        }
        for answer in answers {
            answer.await.unwrap();
        }
    };
    let read = async {
        loop {
            if let hub_client::Arrival::Event(delivered) = events.recv().await.unwrap()
                && delivered.event.seq() == FRAMES
            {
                return;
            }
        }
    };
    soon(async { tokio::join!(flood, publish, read) }).await;
}
