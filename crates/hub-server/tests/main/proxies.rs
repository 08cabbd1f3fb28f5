//! Proxies in front of the hub: whose word about a client counts, and what its clients are counted by.

#[path = "proxies/header.rs"]
mod header;

use crate::net::{PATIENT, answer, rest, send, soon, until};
use crate::world::SECRET;
use axum::routing::get;
use axum::{Extension, Router};
use hub_core::Bus;
use hub_server::auth::{AuthConfig, Authenticator, Secret};
use hub_server::limits::Limits;
use hub_server::net::{ClientAddress, Patience, Proxies, Tls, TrustedProxies, serve_with};
use hub_server::{Hub, Settings};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;

/// The proxies of these tests are at 127.0.0.2 and 127.0.0.3.
const PROXY: [u8; 4] = [127, 0, 0, 2];
const OTHER_PROXY: [u8; 4] = [127, 0, 0, 3];
const STRANGER: [u8; 4] = [127, 0, 0, 4];

/// A hub with its gateway at `/`, its HTTP, and `/client`, which answers whom a request counts for.
struct Front {
    hub: Hub,
    at: SocketAddr,
    /// Lets `/wait` answer.
    go: Arc<Notify>,
    /// Says that `/wait` was asked.
    asked: Arc<Notify>,
}

impl Front {
    async fn new(limits: Limits, protocol: bool) -> Self {
        Self::with(limits, protocol, None, PATIENT).await
    }

    async fn with(limits: Limits, protocol: bool, tls: Option<Tls>, patience: Patience) -> Self {
        let trusted = TrustedProxies::parse(&["127.0.0.2/31"]).unwrap();
        let proxies = Proxies { trusted, protocol };
        // As on loopback: metrics are open to local clients.
        let settings = Settings { limits, proxies, open_metrics: true, ..Settings::default() };
        let auth = AuthConfig { secret: Some(Secret::new(SECRET)), ..AuthConfig::default() };
        let hub = Hub::builder(Bus::in_memory().await.unwrap(), Authenticator::new(auth).unwrap());
        let hub = hub.settings(settings).build();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (go, asked) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (going, asking) = (go.clone(), asked.clone());
        let wait = || async move {
            asking.notify_one();
            going.notified().await;
            "waited"
        };
        let client = async |Extension(client): Extension<ClientAddress>| {
            format!("{client} {}", if client.is_forwarded { "forwarded" } else { "direct" })
        };
        let router = Router::new().route("/client", get(client)).route("/wait", get(wait));
        let router = hub.gateway().merge(router).fallback_service(hub.ops());
        tokio::spawn(serve_with(listener, router, tls, hub.clone(), patience));
        Self { hub, at, go, asked }
    }

    async fn connect(&self, from: [u8; 4]) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        soon(socket.connect(self.at)).await.unwrap()
    }

    /// Whom a request with these headers counts for.
    async fn client(&self, from: [u8; 4], headers: &str) -> String {
        client(&mut self.connect(from).await, headers).await
    }

    /// The status of a request, on a connection of its own that stays open.
    async fn status(&self, from: [u8; 4], path: &str, headers: &str) -> (TcpStream, u16) {
        let mut stream = self.connect(from).await;
        let status = status(&mut stream, path, headers).await;
        (stream, status)
    }
}

/// Whom a request on an open connection counts for.
async fn client(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), headers: &str) -> String {
    send(stream, &format!("GET /client HTTP/1.1\r\nhost: 127.0.0.1\r\n{headers}\r\n")).await;
    answer(stream).await
}

/// The status of a request on an open connection; its body is read.
async fn status(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), path: &str, headers: &str) -> u16 {
    send(stream, &format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{headers}\r\n")).await;
    let head = until(stream, "\r\n\r\n").await.to_ascii_lowercase();
    let length = head.split_once("content-length: ").and_then(|(_, rest)| rest.lines().next());
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    soon(stream.read_exact(&mut body)).await.unwrap();
    head[9..12].parse().unwrap()
}

/// Asks until the answer is 200: a seat is free a moment after the answer that had it.
async fn is_served(stream: &mut TcpStream, headers: &str) {
    soon(async { while status(stream, "/client", headers).await != 200 {} }).await;
}

const UPGRADE: &str = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                       sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

fn xff(list: &str) -> String {
    format!("x-forwarded-for: {list}\r\n")
}

#[tokio::test]
async fn a_trusted_proxy_names_the_client_and_no_other_peer_can() {
    let front = Front::new(Limits::default(), false).await;
    for (from, headers, counts) in [
        (PROXY, xff("192.0.2.1"), "192.0.2.1 forwarded"),
        (OTHER_PROXY, xff("2001:db8::1"), "2001:db8::1 forwarded"),
        // What the client itself sent stands left, what proxies have added right.
        (PROXY, xff("203.0.113.9, 192.0.2.1, 127.0.0.3"), "192.0.2.1 forwarded"),
        (PROXY, xff("203.0.113.9") + &xff("192.0.2.1") + &xff("127.0.0.3"), "192.0.2.1 forwarded"),
        (PROXY, xff("192.0.2.1, unknown"), "127.0.0.2 forwarded"),
        (PROXY, String::new(), "127.0.0.2 direct"),
        (STRANGER, xff("192.0.2.1"), "127.0.0.4 forwarded"),
        (STRANGER, xff("127.0.0.2"), "127.0.0.4 forwarded"),
        (STRANGER, String::new(), "127.0.0.4 direct"),
    ] {
        assert_eq!(front.client(from, &headers).await, counts, "{from:?} {headers}");
    }
}

#[tokio::test]
async fn requests_of_several_clients_on_one_connection_count_for_each() {
    let front = Front::new(Limits::default(), false).await;
    let mut stream = front.connect(PROXY).await;
    for ip in ["192.0.2.1", "192.0.2.2", "192.0.2.1"] {
        assert_eq!(client(&mut stream, &xff(ip)).await, format!("{ip} forwarded"));
    }
}

#[tokio::test]
async fn nobody_behind_a_proxy_is_local() {
    let front = Front::new(Limits::default(), false).await;
    for (from, headers, status) in [
        (PROXY, xff("127.0.0.1"), 401),
        (PROXY, xff("192.0.2.1"), 401),
        (STRANGER, xff("127.0.0.1"), 401),
        (STRANGER, String::new(), 200),
    ] {
        assert_eq!(front.status(from, "/metrics", &headers).await.1, status, "{from:?} {headers}");
    }
}

fn per_address(connections_per_address: usize) -> Limits {
    Limits { connections_per_address, ..Limits::default() }
}

#[tokio::test]
async fn a_proxy_has_any_number_of_connections_and_each_client_behind_it_its_share() {
    let front = Front::new(per_address(1), false).await;
    let (mut one, mut two) = (front.connect(PROXY).await, front.connect(PROXY).await);
    for stream in [&mut one, &mut two] {
        assert_eq!(status(stream, "/client", "").await, 200, "the proxy itself is not bounded");
    }
    let wait = format!("GET /wait HTTP/1.1\r\nhost: hub\r\n{}\r\n", xff("192.0.2.1"));
    send(&mut one, &wait).await;
    soon(front.asked.notified()).await;
    assert_eq!(status(&mut two, "/client", &xff("192.0.2.1")).await, 503, "it has a request already");
    assert_eq!(status(&mut two, "/client", &xff("192.0.2.2")).await, 200, "another client is not concerned");
    front.go.notify_one();
    assert_eq!(answer(&mut one).await, "waited");
    is_served(&mut two, &xff("192.0.2.1")).await;
}

#[tokio::test]
async fn a_header_of_a_stranger_gives_it_no_other_seat() {
    let front = Front::new(per_address(1), false).await;
    let mut one = front.connect(STRANGER).await;
    assert_eq!(status(&mut one, "/client", &xff("192.0.2.1")).await, 200);
    let mut two = front.connect(STRANGER).await;
    let _ = two.write_all(format!("GET /client HTTP/1.1\r\n{}\r\n", xff("192.0.2.2")).as_bytes()).await;
    let told = rest(&mut two).await;
    assert!(told.starts_with("HTTP/1.1 503 "), "{told}");
}

#[tokio::test]
async fn a_websocket_behind_a_proxy_keeps_its_clients_seats() {
    let limits = Limits { unauthenticated_per_address: 1, ..per_address(2) };
    let front = Front::new(limits, false).await;
    let headers = |ip: &str| xff(ip) + UPGRADE;
    let (one, first) = front.status(PROXY, "/", &headers("192.0.2.1")).await;
    assert_eq!(first, 101);
    // It has not said who it is, and one may do that at a time.
    assert_eq!(front.status(PROXY, "/", &headers("192.0.2.1")).await.1, 503);
    let (_other, second) = front.status(PROXY, "/", &headers("192.0.2.2")).await;
    assert_eq!(second, 101);
    // Two seats of its address: one has the socket, and one is left.
    let mut waiting = front.connect(PROXY).await;
    send(&mut waiting, &format!("GET /wait HTTP/1.1\r\nhost: hub\r\n{}\r\n", xff("192.0.2.1"))).await;
    soon(front.asked.notified()).await;
    let mut third = front.connect(PROXY).await;
    assert_eq!(status(&mut third, "/client", &xff("192.0.2.1")).await, 503);
    drop(one);
    is_served(&mut third, &xff("192.0.2.1")).await;
}

#[tokio::test]
async fn connections_of_proxies_count_among_all_of_the_port() {
    let front = Front::new(Limits { connections: 1, ..Limits::default() }, false).await;
    let mut one = front.connect(PROXY).await;
    assert_eq!(status(&mut one, "/client", "").await, 200);
    assert!(rest(&mut front.connect(PROXY).await).await.starts_with("HTTP/1.1 503 "));
}
