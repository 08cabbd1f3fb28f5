//! A hub on free ports, and clients of it.

use futures_util::{SinkExt, StreamExt};
use hub_core::{Bus, Clock, Config, Millis, SystemClock};
use hub_server::auth::mint::{Claims, mint, mint_at};
use hub_server::auth::{AuthConfig, Authenticator, Secret};
use hub_server::{Hub, Settings};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, client_async, connect_async};

pub const SECRET: &str = "a secret of the tests, long enough for anybody";
/// The one that may do everything and is bound by nothing.
pub const STATIC: &str = "the static token of the tests";
/// Everything.
pub const ALL: &[&str] = &["publish:**", "subscribe:**", "admin:**"];
/// Nothing in a test takes so long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A hub with an open gateway.
pub struct World {
    pub hub: Hub,
    pub address: SocketAddr,
}

impl World {
    pub async fn new() -> Self {
        Self::with(Config::default(), Settings::default()).await
    }

    pub async fn with(config: Config, settings: Settings) -> Self {
        let bus = Bus::builder(hub_core::MemoryStore::new()).config(config).open().await.unwrap();
        Self::over(bus, settings).await
    }

    pub async fn over(bus: Bus, settings: Settings) -> Self {
        Self::by(SystemClock::new(), bus, settings).await
    }

    /// A hub that sees by `clock` which tokens hold. The bus should have the same clock.
    pub async fn by(clock: impl Clock, bus: Bus, settings: Settings) -> Self {
        let config = AuthConfig {
            secret: Some(Secret::new(SECRET)),
            static_token: Some(Secret::new(STATIC)),
            leeway_secs: 0,
            ..AuthConfig::default()
        };
        let auth = Authenticator::with_clock(config, Arc::new(clock)).unwrap();
        let hub = Hub::builder(bus, auth).settings(settings).build();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(hub_server::net::serve(listener, hub.gateway(), None, hub.clone()));
        Self { hub, address }
    }

    pub fn bus(&self) -> &Bus {
        self.hub.bus()
    }

    /// A connection that has said nothing yet.
    pub async fn stranger(&self) -> Client {
        Client::open(self.address).await
    }

    /// A connection with these scopes.
    pub async fn client(&self, scopes: &[&str]) -> Client {
        self.client_with(&token(scopes)).await
    }

    /// A connection with this token.
    pub async fn client_with(&self, token: &str) -> Client {
        let mut client = self.stranger().await;
        client.ok(json!({"op": "AUTH", "token": token})).await;
        client
    }
}

/// A wall clock that a test can set forward. Tokens hold for whole seconds: to have one run out soon, the clock is put
/// shortly before the end of a second.
#[derive(Clone)]
pub struct Wall(Arc<(SystemClock, AtomicU64)>);

impl Wall {
    pub fn new() -> Self {
        Self(Arc::new((SystemClock::new(), AtomicU64::new(0))))
    }

    /// A token that runs out after so many milliseconds, at most 1,000.
    pub fn short(&self, subject: Option<&str>, scopes: &[&str], millis: Millis) -> String {
        let past = self.wall() % 1000;
        self.0.1.fetch_add((2000 - millis - past) % 1000, SeqCst);
        self.signed(subject, scopes, 1)
    }

    /// Time passes.
    pub fn advance(&self, millis: Millis) {
        self.0.1.fetch_add(millis, SeqCst);
    }

    pub fn signed(&self, subject: Option<&str>, scopes: &[&str], seconds: u64) -> String {
        mint_at(&Secret::new(SECRET), &claims(subject, scopes, seconds), self.wall())
    }
}

impl Clock for Wall {
    fn wall(&self) -> Millis {
        self.0.0.wall() + self.0.1.load(SeqCst)
    }

    fn steady(&self) -> Millis {
        self.0.0.steady()
    }
}

/// A token of a nameless subject.
pub fn token(scopes: &[&str]) -> String {
    signed(None, scopes)
}

/// A token of a subject.
pub fn signed(subject: Option<&str>, scopes: &[&str]) -> String {
    mint(&Secret::new(SECRET), &claims(subject, scopes, 3600))
}

/// A token with rules.
pub fn ruled(rules: &Value) -> String {
    let policy = Some(json!({ "rules": rules }));
    mint(&Secret::new(SECRET), &Claims { policy, ..claims(None, &[], 3600) })
}

fn claims(subject: Option<&str>, scopes: &[&str], seconds: u64) -> Claims {
    Claims {
        sub: subject.map(str::to_owned),
        scopes: scopes.iter().map(|&scope| scope.to_owned()).collect(),
        ttl: Some(Duration::from_secs(seconds)),
        ..Claims::default()
    }
}

/// The other end of a socket.
pub struct Client {
    pub socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    asked: u64,
    /// What came while an answer was waited for.
    early: std::collections::VecDeque<Value>,
}

impl Client {
    pub async fn open(address: SocketAddr) -> Self {
        let request = format!("ws://{address}/").into_client_request().unwrap();
        let (socket, _) = connect_async(request).await.unwrap();
        Self::over(socket)
    }

    /// A client over a connection that is open.
    pub fn over(socket: WebSocketStream<MaybeTlsStream<TcpStream>>) -> Self {
        Self { socket, asked: 0, early: std::collections::VecDeque::new() }
    }

    /// A client whose system keeps little for it: what it does not read soon stays with the hub.
    pub async fn open_narrow(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 << 10).unwrap();
        let stream = MaybeTlsStream::Plain(socket.connect(address).await.unwrap());
        let (socket, _) = client_async(format!("ws://{address}/"), stream).await.unwrap();
        Self::over(socket)
    }

    /// Sends a frame.
    pub async fn send(&mut self, frame: Value) {
        self.send_text(frame.to_string()).await;
    }

    pub async fn send_text(&mut self, text: impl Into<String>) {
        self.socket.send(Message::text(text.into())).await.unwrap();
    }

    /// The next frame.
    pub async fn next(&mut self) -> Value {
        match self.early.pop_front() {
            Some(frame) => frame,
            None => self.read().await,
        }
    }

    async fn read(&mut self) -> Value {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.socket.next()).await.expect("a frame in time");
            match message.expect("an open connection").unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("not a frame: {other:?}"),
            }
        }
    }

    /// Sends a request and waits for its answer; what comes before it is kept.
    pub async fn ask(&mut self, mut frame: Value) -> Value {
        self.asked += 1;
        let corr = format!("ask-{}", self.asked);
        frame["corr"] = json!(corr);
        self.send(frame).await;
        loop {
            let answer = self.read().await;
            if answer["corr"] == json!(corr) {
                return answer;
            }
            self.early.push_back(answer);
        }
    }

    /// Sends a request that has to succeed.
    pub async fn ok(&mut self, frame: Value) -> Value {
        let answer = self.ask(frame).await;
        assert_eq!(answer["op"], "OK", "{answer}");
        answer
    }

    /// Sends a request that has to fail, and answers the code.
    pub async fn err(&mut self, frame: Value) -> String {
        let answer = self.ask(frame).await;
        assert_eq!(answer["op"], "ERR", "{answer}");
        answer["code"].as_str().unwrap().to_owned()
    }

    /// Whether nothing came but what was asked for.
    pub fn is_quiet(&self) -> bool {
        self.early.is_empty()
    }

    /// Waits until the hub closes the connection; what comes before that is passed over.
    pub async fn closed(&mut self) -> Option<CloseFrame> {
        loop {
            match tokio::time::timeout(PATIENCE, self.socket.next()).await.expect("a close in time") {
                Some(Ok(Message::Close(frame))) => return frame,
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }
}
