//! Sockets, seen from outside: strangers that are slow, many, or speak something else.

#[path = "net/limits.rs"]
mod limits;
#[path = "net/slow.rs"]
mod slow;
#[path = "net/tls.rs"]
mod tls;

use axum::extract::{ConnectInfo, Request};
use axum::routing::get;
use axum::{Extension, Router};
use hub_core::Bus;
use hub_server::auth::{AuthConfig, Authenticator, Secret};
use hub_server::limits::Limits;
use hub_server::net::{self, Patience, Seat, Tls};
use hub_server::{Hub, Settings};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Far longer than anything takes, far shorter than a test that hangs.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// For strangers that are to be cut off.
pub(crate) const IMPATIENT: Patience = Patience {
    handshake: Duration::from_millis(100),
    head: Duration::from_millis(100),
    write: Duration::from_millis(100),
};

pub(crate) const PATIENT: Patience = Patience { handshake: LONG, head: LONG, write: LONG };

/// A server with a small router.
struct Server {
    hub: Hub,
    at: SocketAddr,
    serving: JoinHandle<()>,
    /// Lets `/wait` answer.
    go: Arc<Notify>,
    /// Says that `/wait` was asked.
    asked: Arc<Notify>,
}

async fn server(limits: Limits, tls: Option<Tls>, patience: Patience) -> Server {
    let config = AuthConfig { static_token: Some(Secret::new("a-token-for-tests")), ..AuthConfig::default() };
    let auth = Authenticator::new(config).unwrap();
    let settings = Settings { limits, ..Settings::default() };
    let hub = Hub::builder(Bus::in_memory().await.unwrap(), auth).settings(settings).build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (go, asked) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let router = router(hub.clone(), go.clone(), asked.clone());
    let serving = tokio::spawn(net::serve_with(listener, router, tls, hub.clone(), patience));
    Server { hub, at, serving, go, asked }
}

fn router(hub: Hub, go: Arc<Notify>, asked: Arc<Notify>) -> Router {
    let wait = || async move {
        asked.notify_one();
        go.notified().await;
        "waited"
    };
    Router::new()
        .route("/who", get(|ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { peer.to_string() }))
        .route("/wait", get(wait))
        .route("/upgrade", get(move |seat, request| upgrade(hub, seat, request)))
}

/// A protocol of its own after the upgrade: the session echoes until the client closes.
async fn upgrade(
    hub: Hub,
    Extension(seat): Extension<Seat>,
    mut request: Request,
) -> impl axum::response::IntoResponse {
    let upgraded = hyper::upgrade::on(&mut request);
    hub.sessions().spawn(async move {
        let _seat = seat;
        let mut io = hyper_util::rt::TokioIo::new(upgraded.await.unwrap());
        let mut bytes = [0; 64];
        while let Ok(n @ 1..) = io.read(&mut bytes).await {
            if io.write_all(&bytes[..n]).await.is_err() {
                break;
            }
        }
    });
    let head = [("connection", "upgrade"), ("upgrade", "echo")];
    (axum::http::StatusCode::SWITCHING_PROTOCOLS, head)
}

impl Server {
    async fn connect(&self) -> TcpStream {
        soon(TcpStream::connect(self.at)).await.unwrap()
    }
}

/// Waits for what must happen.
pub(crate) async fn soon<F: Future>(it: F) -> F::Output {
    tokio::time::timeout(LONG, it).await.expect("it did not happen")
}

pub(crate) async fn send(io: &mut (impl AsyncWrite + Unpin), text: &str) {
    soon(io.write_all(text.as_bytes())).await.unwrap();
    soon(io.flush()).await.unwrap();
}

/// Everything until the other side closes; a reset is an end too.
pub(crate) async fn rest(io: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let _ = soon(io.read_to_end(&mut bytes)).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads until `end` came.
pub(crate) async fn until(io: &mut (impl AsyncRead + Unpin), end: &str) -> String {
    let mut text = Vec::new();
    while !text.ends_with(end.as_bytes()) {
        text.push(soon(io.read_u8()).await.unwrap());
    }
    String::from_utf8(text).unwrap()
}

/// One request on a connection that stays open: its body.
async fn ask(io: &mut (impl AsyncRead + AsyncWrite + Unpin), path: &str) -> String {
    send(io, &format!("GET {path} HTTP/1.1\r\nhost: hub\r\n\r\n")).await;
    answer(io).await
}

pub(crate) async fn answer(io: &mut (impl AsyncRead + Unpin)) -> String {
    let head = until(io, "\r\n\r\n").await.to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    let (_, length) = head.split_once("content-length: ").unwrap();
    let mut body = vec![0; length.lines().next().unwrap().parse().unwrap()];
    soon(io.read_exact(&mut body)).await.unwrap();
    String::from_utf8(body).unwrap()
}

#[tokio::test]
async fn a_request_carries_the_address_of_its_client() {
    let server = server(Limits::default(), None, PATIENT).await;
    let mut client = server.connect().await;
    let me = client.local_addr().unwrap().to_string();
    assert_eq!(ask(&mut client, "/who").await, me);
    assert_eq!(ask(&mut client, "/who").await, me, "kept alive");
}

#[tokio::test]
async fn a_head_with_the_largest_token_fits_and_one_of_64_kib_does_not() {
    let server = server(Limits::default(), None, PATIENT).await;
    let request = |bytes| {
        format!("GET /who HTTP/1.1\r\nhost: hub\r\nauthorization: Bearer {}\r\n\r\n", "x".repeat(bytes))
    };
    let mut client = server.connect().await;
    send(&mut client, &request(16 << 10)).await;
    answer(&mut client).await;
    let mut client = server.connect().await;
    let _ = client.write_all(request(64 << 10).as_bytes()).await;
    assert!(!rest(&mut client).await.contains(" 200 "));
}

#[tokio::test]
async fn draining_closes_what_is_idle_and_lets_an_answer_end() {
    let server = server(Limits::default(), None, PATIENT).await;
    let (mut kept, mut fresh, mut busy) =
        (server.connect().await, server.connect().await, server.connect().await);
    ask(&mut kept, "/who").await;
    send(&mut busy, "GET /wait HTTP/1.1\r\nhost: hub\r\n\r\n").await;
    soon(server.asked.notified()).await;

    let drain = tokio::spawn({
        let hub = server.hub.clone();
        async move { hub.drain(LONG).await }
    });
    soon(server.serving).await.unwrap();
    assert_eq!(rest(&mut kept).await, "");
    assert_eq!(rest(&mut fresh).await, "");
    assert!(TcpStream::connect(server.at).await.is_err(), "nobody listens any more");
    assert!(!drain.is_finished(), "one answer is under way");

    server.go.notify_one();
    assert_eq!(answer(&mut busy).await, "waited");
    assert_eq!(rest(&mut busy).await, "");
    assert_eq!(soon(drain).await.unwrap(), 0);
}

#[tokio::test]
async fn half_a_request_does_not_hold_up_a_drain() {
    let server = server(Limits::default(), None, PATIENT).await;
    let mut client = server.connect().await;
    // The first one is answered, so half of the second is in the server's hands or on its way there.
    ask(&mut client, "/who").await;
    send(&mut client, "GET /who HTTP/1.1\r\nhost: h").await;
    assert_eq!(server.hub.drain(LONG).await, 0);
}

#[tokio::test]
async fn an_upgraded_connection_outlives_http_and_is_waited_for() {
    let server = server(Limits::default(), None, PATIENT).await;
    let mut client = server.connect().await;
    upgraded(&mut client).await;
    let drain = tokio::spawn({
        let hub = server.hub.clone();
        async move { hub.drain(LONG).await }
    });
    soon(server.serving).await.unwrap();
    send(&mut client, "still here").await;
    until(&mut client, "still here").await;
    assert!(!drain.is_finished());
    drop(client);
    assert_eq!(soon(drain).await.unwrap(), 0);
}

async fn upgraded(client: &mut TcpStream) {
    send(client, "GET /upgrade HTTP/1.1\r\nhost: hub\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n").await;
    let head = until(client, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
}
