//! Publishing with a client that comes back.

use crate::hub::{FakeHub, poll_once, soon};
use crate::requests::event;
use hub_client::{Code, ErrorKind, PublishOptions, State};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn an_event_without_an_id_gets_one_before_it_is_sent() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let options = PublishOptions { key: Some("k".into()), ..Default::default() };
    let (receipt, frame) =
        soon(async { tokio::join!(client.publish("orders", &[1, 2], options), peer.stored(7)) }).await;
    let receipt = receipt.unwrap();
    assert_eq!(
        (receipt.seq, frame["payload"].clone(), &frame["opts"]["key"]),
        (7, json!([1, 2]), &json!("k"))
    );
    assert_eq!(frame["opts"]["id"], receipt.id.to_string());
    assert_eq!(frame["opts"]["id"].as_str().unwrap().as_bytes()[14], b'7', "{frame}");
    let own = event(1).with_id(receipt.id);
    let (receipt, frame) =
        soon(async { tokio::join!(async { client.submit(own).await.unwrap().await }, peer.stored(7)) }).await;
    assert_eq!(frame["opts"]["id"], receipt.unwrap().id.to_string());
}

#[tokio::test]
async fn what_has_no_answer_is_sent_again_in_its_order_and_with_its_id() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let mut publishing = Vec::new();
    for n in 1..=5 {
        publishing.push(client.submit(event(n)).await.unwrap());
    }
    let ids: Vec<_> = publishing.iter().map(|publishing| publishing.id().to_string()).collect();
    // The first two are answered, the third was stored but nobody knows, and the hub is gone.
    peer.stored(1).await;
    peer.stored(2).await;
    peer.expect("PUBLISH").await;
    drop(peer);

    let mut peer = hub.welcome().await;
    // Published while the hub was away, or not: it comes behind the others.
    publishing.push(client.submit(event(6)).await.unwrap());
    for n in 3..=6 {
        let frame = peer.stored(n).await;
        assert_eq!(frame["payload"], n);
        if let Some(id) = ids.get(n as usize - 1) {
            assert_eq!(frame["opts"]["id"], *id);
        }
    }
    for (n, publishing) in (1..).zip(publishing) {
        assert_eq!(soon(publishing).await.unwrap().seq, n);
    }
}

#[tokio::test]
async fn garbage_from_the_hub_loses_no_event() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let publishing = client.submit(event(1)).await.unwrap();
    peer.expect("PUBLISH").await;
    peer.text("{\"op\":").await;
    let mut peer = hub.welcome().await;
    peer.stored(1).await;
    assert_eq!(soon(publishing).await.unwrap().seq, 1);
}

#[tokio::test]
async fn what_is_refused_for_a_while_is_tried_again_and_what_is_refused_is_not() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let publishing = client.submit(event(1)).await.unwrap();
    for (code, more) in [("unavailable", json!({})), ("rate_limited", json!({"retry_after_ms": 1}))] {
        let frame = peer.expect("PUBLISH").await;
        peer.err(&frame, code, more).await;
    }
    peer.stored(3).await;
    assert_eq!(soon(publishing).await.unwrap().seq, 3);
    for code in ["id_conflict", "forbidden", "bad_request"] {
        let publishing = client.submit(event(1)).await.unwrap();
        let frame = peer.expect("PUBLISH").await;
        peer.err(&frame, code, json!({})).await;
        assert_eq!(soon(publishing).await.unwrap_err().code_text(), Some(code));
    }
}

#[tokio::test]
async fn events_that_are_refused_for_a_while_are_stored_in_their_order() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let mut publishing = Vec::new();
    for n in 1..=20 {
        publishing.push(client.submit(event(n)).await.unwrap());
    }
    let mut refused = Vec::new();
    for _ in 1..=20 {
        refused.push(peer.expect("PUBLISH").await);
    }
    for frame in &refused {
        peer.err(frame, "unavailable", json!({})).await;
    }
    // One tries, and nothing overtakes it: neither what was refused with it, nor what is published from now on.
    for n in 21..=23 {
        let frame = peer.expect("PUBLISH").await;
        assert_eq!(frame["payload"], 1);
        publishing.push(client.submit(event(n)).await.unwrap());
        peer.err(&frame, "rate_limited", json!({"retry_after_ms": 1})).await;
    }
    for n in 1..=23 {
        assert_eq!(peer.stored(n).await["payload"], n);
    }
    for (n, publishing) in (1..).zip(publishing) {
        assert_eq!(soon(publishing).await.unwrap().seq, n);
    }
}

#[tokio::test]
async fn events_that_wait_when_a_connection_ends_are_sent_in_their_order_on_the_next() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let mut publishing = Vec::new();
    for n in 1..=10 {
        publishing.push(client.submit(event(n)).await.unwrap());
    }
    let mut frames = Vec::new();
    for _ in 1..=10 {
        frames.push(peer.expect("PUBLISH").await);
    }
    // The odd ones wait for another try, of the others nobody knows.
    for frame in frames.iter().step_by(2) {
        peer.err(frame, "unavailable", json!({})).await;
    }
    let again = peer.expect("PUBLISH").await;
    assert_eq!(again["payload"], 1);
    publishing.push(client.submit(event(11)).await.unwrap());
    drop(peer);
    publishing.push(client.submit(event(12)).await.unwrap());
    let mut peer = hub.welcome().await;
    for n in 1..=12 {
        assert_eq!(peer.stored(n).await["payload"], n);
    }
    for (n, publishing) in (1..).zip(publishing) {
        assert_eq!(soon(publishing).await.unwrap().seq, n);
    }
}

#[tokio::test]
async fn a_topic_that_is_refused_for_a_while_holds_up_no_other() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let limited = client.submit(event(1)).await.unwrap();
    let frame = peer.expect("PUBLISH").await;
    peer.err(&frame, "rate_limited", json!({"retry_after_ms": 60_000})).await;
    let (other, frame) =
        soon(async { tokio::join!(client.publish("other", &2, PublishOptions::default()), peer.stored(1)) })
            .await;
    assert_eq!((other.unwrap().seq, frame["topic"].clone()), (1, json!("other")));
    drop(limited);
}

#[tokio::test]
async fn an_event_that_is_given_up_while_it_is_tried_holds_up_no_other() {
    let hub = FakeHub::start().await;
    let builder = hub.builder().publish_timeout(Duration::from_millis(100));
    let (client, mut peer) = hub.client(builder).await;
    let first = client.submit(event(1)).await.unwrap();
    let frame = peer.expect("PUBLISH").await;
    peer.err(&frame, "unavailable", json!({})).await;
    let tried = peer.expect("PUBLISH").await;
    assert_eq!(soon(first).await.unwrap_err().kind(), ErrorKind::TimedOut);
    let second = client.submit(event(2)).await.unwrap();
    peer.store(&tried, 1).await;
    assert_eq!(peer.stored(2).await["payload"], 2);
    assert_eq!(soon(second).await.unwrap().seq, 2);
}

#[tokio::test]
async fn a_frame_that_ends_the_connection_is_not_sent_for_ever() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let large = client.submit(event(123_456_789)).await.unwrap();
    let small = client.submit(event(1)).await.unwrap();
    peer.expect("PUBLISH").await;
    peer.close(1009, "too large").await;
    let mut peer = hub.welcome().await;
    assert_eq!(peer.stored(1).await["payload"], 1);
    assert_eq!(soon(large).await.unwrap_err().code(), Some(Code::TooLarge));
    assert_eq!(soon(small).await.unwrap().seq, 1);
}

#[tokio::test]
async fn no_more_is_kept_than_was_allowed() {
    for (events, bytes) in [(2, 1 << 20), (1000, 2)] {
        let hub = FakeHub::start().await;
        let (client, mut peer) = hub.client(hub.builder().unacknowledged(events, bytes)).await;
        let first = client.submit(event(1)).await.unwrap();
        let _second = client.submit(event(2)).await.unwrap();
        let mut third = Box::pin(client.submit(event(3)));
        // It waits, also while the task of the client has its turns.
        let frame = peer.expect("PUBLISH").await;
        peer.expect("PUBLISH").await;
        assert!(poll_once(third.as_mut()).await.is_pending());
        peer.store(&frame, 1).await;
        soon(first).await.unwrap();
        let _third = soon(third).await.unwrap();
        assert_eq!(peer.expect("PUBLISH").await["payload"], 3);
    }
}

#[tokio::test]
async fn an_event_is_given_up_after_its_time_and_the_error_names_its_id() {
    let hub = FakeHub::start().await;
    let builder = hub.builder().publish_timeout(Duration::from_millis(100));
    let (client, mut peer) = hub.client(builder).await;
    let publishing = client.submit(event(1)).await.unwrap();
    let id = publishing.id().to_string();
    peer.expect("PUBLISH").await;
    let error = soon(publishing).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.to_string().contains(&id), "{error}");
    // Without a connection, too.
    drop((peer, hub));
    let error = soon(client.submit(event(2)).await.unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[tokio::test]
async fn another_hub_is_tried_when_one_is_away() {
    let (one, other) = (FakeHub::start().await, FakeHub::start().await);
    let (client, peer) = one.client(one.builder().also(other.target())).await;
    let mut state = client.state();
    drop((peer, one));
    soon(state.wait_for(|state| matches!(state, State::Connecting { .. }))).await.unwrap();
    let mut peer = other.welcome().await;
    let (receipt, _) =
        soon(async { tokio::join!(client.publish("t", &1, PublishOptions::default()), peer.stored(1)) })
            .await;
    receipt.unwrap();
    assert!(matches!(*state.borrow_and_update(), State::Connected));
}

#[tokio::test]
async fn what_cannot_begin_says_why() {
    let hub = FakeHub::start().await;
    let no_token = hub_client::Client::builder(hub.target()).connect().await.unwrap_err();
    assert_eq!(no_token.kind(), ErrorKind::Usage);
    let refuse = async {
        let mut peer = hub.accept().await;
        let frame = peer.expect("AUTH").await;
        peer.err(&frame, "jwt_invalid", json!({})).await;
    };
    let (client, ()) = soon(async { tokio::join!(hub.builder().connect(), refuse) }).await;
    assert_eq!(client.unwrap_err().code(), Some(Code::JwtInvalid));
    let builder = hub.builder();
    drop(hub);
    assert_eq!(soon(builder.connect()).await.unwrap_err().kind(), ErrorKind::Connect);
}
