//! The end of a client.

use crate::hub::{FakeHub, soon};
use crate::requests::event;
use hub_client::{ErrorKind, State, SubscribeOptions};
use std::time::Duration;

#[tokio::test]
async fn a_close_waits_for_answers_and_sends_acks() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let subscribing = client.subscribe("t", Some("g"), SubscribeOptions::default());
    let (orders, _) = soon(async { tokio::join!(subscribing, peer.subscribed()) }).await;
    let mut orders = orders.unwrap();
    peer.event("t", Some("g"), 1).await;
    let message = soon(orders.recv()).await.unwrap().message().unwrap();
    let publishing = client.submit(event(1)).await.unwrap();
    let frame = peer.expect("PUBLISH").await;
    message.ack().unwrap();
    let closing = tokio::spawn({
        let client = client.clone();
        async move { client.close().await }
    });
    peer.expect("ACK").await;
    soon(client.state().wait_for(|state| matches!(state, State::Closing))).await.unwrap();
    // Nothing new, while it waits for what is under way.
    assert_eq!(soon(client.submit(event(2))).await.unwrap_err().kind(), ErrorKind::Closed);
    peer.store(&frame, 1).await;
    assert_eq!(soon(publishing).await.unwrap().seq, 1);
    assert_eq!(peer.next().await, None);
    soon(closing).await.unwrap();
    assert_eq!(soon(orders.recv()).await.unwrap_err().to_string(), "the client was closed");
}

#[tokio::test]
async fn a_close_sends_again_what_the_connection_took_along() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let publishing = client.submit(event(1)).await.unwrap();
    peer.expect("PUBLISH").await;
    let closing = tokio::spawn({
        let client = client.clone();
        async move { client.close().await }
    });
    soon(client.state().wait_for(|state| matches!(state, State::Closing))).await.unwrap();
    drop(peer);
    let mut peer = hub.welcome().await;
    peer.stored(1).await;
    assert_eq!(soon(publishing).await.unwrap().seq, 1);
    assert_eq!(peer.next().await, None);
    soon(closing).await.unwrap();
}

#[tokio::test]
async fn a_close_does_not_wait_for_ever() {
    for connected in [true, false] {
        let hub = FakeHub::start().await;
        let builder = hub.builder().close_timeout(Duration::from_millis(50));
        let (client, mut peer) = hub.client(builder).await;
        let publishing = client.submit(event(1)).await.unwrap();
        peer.expect("PUBLISH").await;
        let held = if connected {
            Some((hub, peer))
        } else {
            drop((hub, peer));
            None
        };
        soon(client.close()).await;
        assert_eq!(soon(publishing).await.unwrap_err().kind(), ErrorKind::Closed);
        drop(held);
    }
}

#[tokio::test]
async fn a_client_that_nobody_holds_closes() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let state = client.state();
    let subscribing = client.subscribe("t", Some("g"), SubscribeOptions::default());
    let (orders, _) = soon(async { tokio::join!(subscribing, peer.subscribed()) }).await;
    drop(client);
    // A subscription holds it.
    peer.event("t", Some("g"), 1).await;
    let mut orders = orders.unwrap();
    soon(orders.recv()).await.unwrap().message().unwrap().ack().unwrap();
    peer.expect("ACK").await;
    assert!(matches!(*state.borrow(), State::Connected));
    drop(orders);
    while let Some(frame) = peer.next().await {
        assert_eq!(frame["op"], "UNSUBSCRIBE");
    }
}
