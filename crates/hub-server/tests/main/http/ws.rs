//! `/ws` of the HTTP port: the gateway for those who have one port only.

use crate::world::{ALL, Client, STATIC, World, token};
use futures_util::StreamExt;
use hub_core::Config;
use hub_server::limits::{Limits, SubjectQuota};
use hub_server::{Origins, Settings};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

/// A hub whose HTTP port is open beside its gateway.
async fn world(settings: Settings) -> (World, SocketAddr) {
    let world = World::with(Config::default(), settings).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ops = listener.local_addr().unwrap();
    tokio::spawn(hub_server::net::serve(listener, world.hub.ops(), None, world.hub.clone()));
    (world, ops)
}

/// Opens a socket; the status if that is refused.
async fn open(address: SocketAddr, headers: &[(&'static str, &str)]) -> Result<Client, u16> {
    let mut request = format!("ws://{address}/ws").into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    match connect_async(request).await {
        Ok((socket, _)) => Ok(Client::over(socket)),
        Err(Error::Http(answer)) => Err(answer.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

async fn authenticated(address: SocketAddr) -> Client {
    let mut client = open(address, &[]).await.unwrap();
    client.ok(json!({"op": "AUTH", "token": token(ALL)})).await;
    client
}

#[tokio::test]
async fn both_ports_are_the_same_gateway() {
    let (world, ops) = world(Settings { open_metrics: true, ..Settings::default() }).await;
    let mut reader = authenticated(ops).await;
    reader.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g"})).await;
    let mut writer = world.client(ALL).await;
    writer.ok(json!({"op": "PUBLISH", "topic": "t", "payload": {"n": 1}})).await;
    let event = reader.next().await;
    assert_eq!((&event["op"], &event["event"]["payload"]["n"]), (&json!("EVENT"), &json!(1)));
    reader.ok(json!({"op": "ACK", "topic": "t", "group": "g", "id": event["event"]["id"]})).await;
    let metrics = reqwest::get(format!("http://{ops}/metrics")).await.unwrap().text().await.unwrap();
    assert!(metrics.contains("ws_connections 2"), "both are counted");
    let mut stranger = open(ops, &[]).await.unwrap();
    assert_eq!(stranger.err(json!({"op": "PUBLISH", "topic": "t", "payload": 1})).await, "unauthorized");
}

#[tokio::test]
async fn without_an_upgrade_it_is_426() {
    let (_world, ops) = world(Settings::default()).await;
    let http = reqwest::Client::new();
    for method in ["GET", "POST"] {
        let request = http.request(method.parse().unwrap(), format!("http://{ops}/ws")).bearer_auth(STATIC);
        let answer = request.send().await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["upgrade"]),
            (426, &"websocket".parse().unwrap())
        );
        let body: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        assert_eq!(body["code"], "upgrade_required");
        assert!(body["error"].as_str().unwrap().contains("WebSocket"));
    }
}

#[tokio::test]
async fn pages_are_let_in_as_on_the_other_port() {
    let origins = Origins::Listed(vec!["https://app.example".into()]);
    // What may read answers may not for that reason open sockets.
    let cors_origins = vec!["https://other.example".into()];
    let (_world, ops) = world(Settings { origins, cors_origins, ..Settings::default() }).await;
    assert!(open(ops, &[("origin", "https://app.example")]).await.is_ok());
    for origin in ["https://evil.example", "https://other.example", "null"] {
        assert_eq!(open(ops, &[("origin", origin)]).await.err(), Some(403), "{origin}");
    }
}

#[tokio::test]
async fn connections_before_auth_are_counted_on_both_ports_together() {
    let limits = Limits { unauthenticated: 2, ..Limits::default() };
    let (world, ops) = world(Settings { limits, ..Settings::default() }).await;
    let _first = world.stranger().await;
    let mut second = open(ops, &[]).await.unwrap();
    assert_eq!(open(ops, &[]).await.err(), Some(503));
    second.ok(json!({"op": "AUTH", "token": token(ALL)})).await;
    assert!(open(ops, &[]).await.is_ok(), "who has said who it is takes no seat there");
}

#[tokio::test]
async fn a_socket_keeps_its_seat_among_the_connections_of_the_port() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let (_world, ops) = world(Settings { limits, ..Settings::default() }).await;
    let first = authenticated(ops).await;
    let _second = authenticated(ops).await;
    assert_eq!(open(ops, &[]).await.err(), Some(503));
    drop(first);
    let patience = tokio::time::Instant::now() + Duration::from_secs(20);
    while open(ops, &[]).await.is_err() {
        assert!(tokio::time::Instant::now() < patience, "a seat that nobody has is taken");
    }
}

#[tokio::test]
async fn a_subject_s_connections_are_counted_on_both_ports_together() {
    let quota = SubjectQuota { connections: Some(2), ..SubjectQuota::default() };
    let limits = Limits { subject_quotas: vec![quota], ..Limits::default() };
    let (world, ops) = world(Settings { limits, ..Settings::default() }).await;
    let _first = world.client(ALL).await;
    let _second = authenticated(ops).await;
    let mut third = open(ops, &[]).await.unwrap();
    assert_eq!(third.err(json!({"op": "AUTH", "token": token(ALL)})).await, "quota_exceeded");
}

#[tokio::test]
async fn a_client_that_says_nothing_is_closed() {
    let limits = Limits { auth_timeout: 50, ..Limits::default() };
    let (_world, ops) = world(Settings { limits, ..Settings::default() }).await;
    let mut silent = open(ops, &[]).await.unwrap();
    silent.closed().await;
}

#[tokio::test]
async fn a_drain_tells_sockets_of_the_http_port_to_come_back() {
    let (world, ops) = world(Settings::default()).await;
    let mut client = authenticated(ops).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "t"})).await;
    let hub = world.hub.clone();
    let drained = tokio::spawn(async move { hub.drain(Duration::from_secs(20)).await });
    let code = loop {
        match client.socket.next().await {
            Some(Ok(Message::Close(close))) => break u16::from(close.unwrap().code),
            Some(Ok(_)) => {}
            other => panic!("no close: {other:?}"),
        }
    };
    assert_eq!(code, 1012);
    drop(client);
    assert_eq!(drained.await.unwrap(), 0);
}
