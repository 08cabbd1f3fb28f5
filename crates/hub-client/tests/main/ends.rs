//! How connections end, and how they do not begin.

use crate::hub::{FakeHub, soon};
use crate::requests::event;
use hub_client::{Closed, Connection, ErrorKind, SubscribeRequest, Target};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn a_hub_that_drains_says_so_to_everybody() {
    let hub = FakeHub::start().await;
    let (connection, mut peer) = hub.pair().await;
    let request = SubscribeRequest::new("t", Some("g"));
    let (deliveries, _) = tokio::join!(connection.subscribe(request), peer.subscribed());
    let mut deliveries = deliveries.unwrap();
    let answer = connection.submit(&event(1)).await.unwrap();
    peer.expect("PUBLISH").await;
    peer.close(1012, "the hub stops").await;
    let error = soon(answer).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(error.to_string(), "the hub closed the connection: the hub stops (1012)");
    assert_eq!(soon(deliveries.recv()).await.unwrap_err().kind(), ErrorKind::Closed);
    assert!(soon(connection.closed()).await.is_drain());
    assert_eq!(soon(connection.publish(&event(2))).await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn a_hub_that_is_gone_is_no_drain() {
    let hub = FakeHub::start().await;
    let (connection, peer) = hub.pair().await;
    drop(peer);
    let closed = soon(connection.closed()).await;
    assert!(matches!(&closed, Closed::Lost(error) if error.kind() == ErrorKind::Closed), "{closed:?}");
}

#[tokio::test]
async fn what_no_hub_sends_ends_the_connection() {
    for (message, said) in [
        (Message::Text("no JSON".into()), "no JSON"),
        (Message::Text("{\"op\":\"EVENTS\",\"topic\":\"t\",\"events\":[{}]}".into()), "another shape"),
        (Message::Binary(vec![0; 3].into()), "a binary frame of 3 bytes"),
    ] {
        let hub = FakeHub::start().await;
        let (connection, mut peer) = hub.pair().await;
        futures_util::SinkExt::send(&mut peer.socket, message).await.unwrap();
        let closed = soon(connection.closed()).await;
        let Closed::Lost(error) = closed else { panic!("{closed:?}") };
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert!(error.to_string().contains(said), "{error}");
    }
    // An event that is none, for a subscription that is there.
    let hub = FakeHub::start().await;
    let (connection, mut peer) = hub.pair().await;
    let request = SubscribeRequest::new("t", None);
    let (deliveries, _) = tokio::join!(connection.subscribe(request), peer.subscribed());
    peer.text(r#"{"op":"EVENT","topic":"t","event":{"id":"1","payload":1}}"#).await;
    assert_eq!(soon(deliveries.unwrap().recv()).await.unwrap_err().kind(), ErrorKind::Protocol);
}

#[tokio::test]
async fn a_frame_that_is_too_large_ends_the_connection() {
    let hub = FakeHub::start().await;
    let (connection, mut peer) = hub.pair_with(&hub.target().frame_bytes(1000)).await;
    let text = format!("{{\"op\":\"{}\"}}", "x".repeat(2000));
    futures_util::SinkExt::send(&mut peer.socket, Message::Text(text.into())).await.unwrap();
    let closed = soon(connection.closed()).await;
    assert!(matches!(&closed, Closed::Lost(error) if error.kind() == ErrorKind::Protocol), "{closed:?}");
}

#[tokio::test]
async fn a_hub_that_does_not_answer_is_given_up() {
    let hub = FakeHub::start().await;
    let target = hub.target().answer_timeout(Duration::from_millis(50));
    let (connection, _peer) = hub.pair_with(&target).await;
    let error = soon(connection.publish(&event(1))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(matches!(soon(connection.closed()).await, Closed::Lost(_)));
}

#[tokio::test]
async fn a_hub_that_is_silent_is_pinged_and_then_given_up() {
    let hub = FakeHub::start().await;
    let target = hub.target().idle_timeout(Duration::from_millis(200));
    // This one reads, and so answers pings: the connection stays.
    let (alive, mut peer) = hub.pair_with(&target).await;
    let (dead, _peer) = hub.pair_with(&target).await;
    let pings = tokio::spawn(async move { while peer.next().await.is_some() {} });
    let closed = soon(dead.closed()).await;
    assert!(matches!(&closed, Closed::Lost(error) if error.kind() == ErrorKind::TimedOut), "{closed:?}");
    assert!(alive.is_closed().is_none());
    drop(alive);
    soon(pings).await.unwrap();
}

#[tokio::test]
async fn a_goodbye_comes_after_what_was_asked_before() {
    let hub = FakeHub::start().await;
    let (connection, mut peer) = hub.pair().await;
    let answer = connection.submit(&event(1)).await.unwrap();
    let close = tokio::spawn({
        let connection = connection.clone();
        async move { connection.close().await }
    });
    peer.expect("PUBLISH").await;
    assert_eq!(peer.next().await, None);
    soon(close).await.unwrap();
    assert_eq!(soon(answer).await.unwrap_err().to_string(), "the connection was closed on this side");
}

#[tokio::test]
async fn where_no_hub_is_that_is_said() {
    let free = FakeHub::start().await.target();
    let error = soon(Connection::connect(&free)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert!(error.to_string().starts_with("no hub at ws://127.0.0.1:"), "{error}");

    // A server of another kind, and one that says nothing.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://me:hunter2@{}/?token=hunter2", listener.local_addr().unwrap());
    let target = Target::new(url).unwrap().connect_timeout(Duration::from_millis(100));
    for (answer, kind) in [
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", ErrorKind::NotAHub),
        ("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n", ErrorKind::Connect),
        ("SSH-2.0-server\r\n\r\n", ErrorKind::NotAHub),
        ("", ErrorKind::TimedOut),
    ] {
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await;
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream
        };
        let (connected, _stream) = soon(async { tokio::join!(Connection::connect(&target), serve) }).await;
        let error = connected.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
}
