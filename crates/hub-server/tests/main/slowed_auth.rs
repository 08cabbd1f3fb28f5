//! An address that fails to authenticate too often has to wait.

use crate::world::{ALL, Client, STATIC, World, signed};
use hub_core::{Bus, Clock, MemoryStore, Millis, SystemClock};
use hub_server::Settings;
use hub_server::limits::Limits;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use tokio::net::{TcpListener, TcpSocket};
use tokio_tungstenite::{MaybeTlsStream, client_async};

const BURST: usize = 10;
/// Another address of this machine.
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// A steady clock that stands still until the test moves it.
#[derive(Clone)]
struct Steady(Arc<(SystemClock, AtomicU64)>);

impl Steady {
    fn new() -> Self {
        Self(Arc::new((SystemClock::new(), AtomicU64::new(1_000))))
    }

    fn advance(&self, millis: Millis) {
        self.0.1.fetch_add(millis, SeqCst);
    }
}

impl Clock for Steady {
    fn wall(&self) -> Millis {
        self.0.0.wall()
    }

    fn steady(&self) -> Millis {
        self.0.1.load(SeqCst)
    }
}

async fn world(clock: &Steady, limits: Limits) -> (World, SocketAddr) {
    let bus = Bus::builder(MemoryStore::new()).open().await.unwrap();
    let world = World::by(clock.clone(), bus, Settings { limits, ..Settings::default() }).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ops = listener.local_addr().unwrap();
    tokio::spawn(hub_server::net::serve(listener, world.hub.ops(), None, world.hub.clone()));
    (world, ops)
}

fn limited() -> Limits {
    Limits { failed_auth_per_address: 60, ..Limits::default() }
}

async fn auth(client: &mut Client, token: &str) -> Value {
    client.ask(json!({"op": "AUTH", "token": token})).await
}

/// Uses up what the address may fail.
async fn exhaust(world: &World) {
    let mut stranger = world.stranger().await;
    for n in 0..BURST {
        assert_eq!(auth(&mut stranger, &format!("bad-{n}")).await["code"], "jwt_invalid");
    }
}

async fn get(ops: SocketAddr, path: &str, token: &str, from: Option<IpAddr>) -> (u16, Option<String>) {
    let client = reqwest::Client::builder().local_address(from).build().unwrap();
    let request = client.get(format!("http://{ops}{path}"));
    let request = if token.is_empty() { request } else { request.bearer_auth(token) };
    let answer = request.send().await.unwrap();
    let retry_after = answer.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    (answer.status().as_u16(), retry_after)
}

#[tokio::test]
async fn the_eleventh_failure_of_an_address_has_to_wait_on_both_ports() {
    let clock = Steady::new();
    let (world, ops) = world(&clock, limited()).await;
    exhaust(&world).await;
    let mut stranger = world.stranger().await;
    for token in ["bad", &signed(Some("ada"), ALL)] {
        let answer = auth(&mut stranger, token).await;
        assert_eq!((&answer["code"], &answer["retry_after_ms"]), (&json!("rate_limited"), &json!(1_000)));
        for path in ["/topics", "/metrics"] {
            assert_eq!(get(ops, path, token, None).await, (429, Some("1".into())), "{path}");
        }
    }
    assert_eq!(get(ops, "/topics", "", None).await.0, 401, "nothing was tried");
    clock.advance(999);
    let answer = auth(&mut stranger, "bad").await;
    assert_eq!((&answer["code"], &answer["retry_after_ms"]), (&json!("rate_limited"), &json!(1)));
}

#[tokio::test]
async fn failures_over_http_count_for_the_socket() {
    let (world, ops) = world(&Steady::new(), limited()).await;
    for path in ["/topics", "/metrics"] {
        for _ in 0..BURST / 2 {
            assert_eq!(get(ops, path, "bad", None).await.0, 401);
        }
    }
    assert_eq!(auth(&mut world.stranger().await, "bad").await["code"], "rate_limited");
}

#[tokio::test]
async fn a_good_token_is_taken_again_after_the_wait() {
    let clock = Steady::new();
    let (world, ops) = world(&clock, limited()).await;
    exhaust(&world).await;
    let mut stranger = world.stranger().await;
    let token = signed(Some("ada"), ALL);
    let wait = auth(&mut stranger, &token).await["retry_after_ms"].as_u64().unwrap();
    clock.advance(wait);
    assert_eq!(auth(&mut stranger, &token).await["op"], "OK");
    assert_eq!(get(ops, "/topics", &token, None).await.0, 200, "a success takes nothing from the bucket");
    assert_eq!(get(ops, "/topics", "bad", None).await.0, 401);
    assert_eq!(get(ops, "/topics", "bad", None).await.0, 429);
}

#[tokio::test]
async fn another_address_is_not_affected() {
    let (world, ops) = world(&Steady::new(), limited()).await;
    exhaust(&world).await;
    assert_eq!(get(ops, "/topics", "bad", None).await.0, 429);
    assert_eq!(get(ops, "/topics", "bad", Some(OTHER)).await.0, 401);
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(OTHER, 0)).unwrap();
    let stream = MaybeTlsStream::Plain(socket.connect(world.address).await.unwrap());
    let (socket, _) = client_async(format!("ws://{}/", world.address), stream).await.unwrap();
    let mut other = Client::over(socket);
    assert_eq!(auth(&mut other, &signed(Some("ada"), ALL)).await["op"], "OK");
}

#[tokio::test]
async fn clients_with_good_tokens_go_on_while_a_neighbour_fails() {
    let (world, ops) = world(&Steady::new(), limited()).await;
    let token = signed(Some("ada"), ALL);
    let mut open = world.client_with(&token).await;
    exhaust(&world).await;
    assert_eq!(get(ops, "/topics", &token, None).await.0, 200, "it was verified lately");
    let mut again = world.stranger().await;
    assert_eq!(auth(&mut again, &token).await["op"], "OK");
    let renewed = signed(Some("ada"), &["publish:**"]);
    assert_eq!(auth(&mut open, &renewed).await["op"], "OK", "an open connection renews its token");
    assert_eq!(get(ops, "/topics", STATIC, None).await.0, 429, "one that was never seen waits");
}

#[tokio::test]
async fn without_a_limit_nobody_waits_and_readiness_never_does() {
    let clock = Steady::new();
    let (unlimited, ops) = world(&clock, Limits::default()).await;
    for _ in 0..3 * BURST {
        assert_eq!(get(ops, "/topics", "bad", None).await.0, 401);
    }
    assert_eq!(auth(&mut unlimited.stranger().await, "bad").await["code"], "jwt_invalid");
    let (limited, ops) = world(&clock, limited()).await;
    for _ in 0..2 * BURST {
        assert_eq!(get(ops, "/readyz", "bad", None).await.0, 200);
    }
    assert_eq!(auth(&mut limited.stranger().await, "bad").await["code"], "rate_limited", "a token was tried");
}
