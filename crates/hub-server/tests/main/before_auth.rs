//! What a client may do before it has said who it is.

use crate::world::{ALL, World, token};
use futures_util::SinkExt;
use hub_core::Config;
use hub_server::Settings;
use hub_server::limits::Limits;
use serde_json::json;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

const LARGEST: usize = 32 << 10;

#[tokio::test]
async fn a_frame_before_auth_has_at_most_32_kib() {
    let world = World::new().await;
    let mut stranger = world.stranger().await;
    let fits = format!("{{\"op\":\"{}\"}}", "x".repeat(LARGEST - 10));
    assert_eq!(fits.len(), LARGEST - 1);
    stranger.send_text(fits).await;
    assert_eq!(stranger.next().await["code"], "unknown_op");
    stranger.send_text("x".repeat(LARGEST + 1)).await;
    let close = stranger.closed().await.unwrap();
    assert_eq!(u16::from(close.code), 1009);
    assert!(close.reason.contains("before AUTH a frame has at most 32768 bytes"), "{close:?}");
}

#[tokio::test]
async fn a_large_frame_right_behind_auth_is_carried_out() {
    let world = World::new().await;
    let mut client = world.stranger().await;
    let publish = json!({"op": "PUBLISH", "topic": "t", "payload": "x".repeat(900 << 10)});
    for frame in [json!({"op": "AUTH", "token": token(ALL)}), publish] {
        client.socket.feed(Message::text(frame.to_string())).await.unwrap();
    }
    client.socket.flush().await.unwrap();
    assert_eq!(client.next().await["op"], "OK");
    assert_eq!(client.next().await["seq"], 1);
}

#[tokio::test]
async fn a_stranger_that_only_talks_is_sent_away() {
    let world = World::new().await;
    let mut stranger = world.stranger().await;
    for _ in 0..32 {
        assert_eq!(stranger.err(json!({"op": "PUBLISH", "topic": "t", "payload": 1})).await, "unauthorized");
    }
    stranger.send(json!({"op": "PUBLISH", "topic": "t", "payload": 1})).await;
    let close = stranger.closed().await.unwrap();
    assert_eq!((u16::from(close.code), &*close.reason), (1008, "too many frames before AUTH"));
}

#[tokio::test]
async fn few_connections_wait_without_auth_and_those_that_have_it_do_not_count() {
    let limits = Limits { unauthenticated: 2, ..Limits::default() };
    let world = World::with(Config::default(), Settings { limits, ..Settings::default() }).await;
    let (mut one, _two) = (world.stranger().await, world.stranger().await);
    let ask =
        || async { connect_async(format!("ws://{}/", world.address).into_client_request().unwrap()).await };
    match ask().await {
        Err(Error::Http(answer)) => {
            assert_eq!(answer.status(), 503);
            assert!(answer.headers().contains_key("retry-after"));
        }
        other => panic!("{other:?}"),
    }
    one.ok(json!({"op": "AUTH", "token": token(ALL)})).await;
    let mut three = world.stranger().await;
    assert!(ask().await.is_err(), "one more than two wait");
    three.ok(json!({"op": "AUTH", "token": token(ALL)})).await;
    one.ok(json!({"op": "PUBLISH", "topic": "t", "payload": 1})).await;
}
