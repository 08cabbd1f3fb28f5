//! A hub on free ports, and clients of it.

use futures_util::{SinkExt, StreamExt};
use hub_core::{Bus, Config};
use hub_server::auth::mint::{Claims, mint};
use hub_server::auth::{AuthConfig, Authenticator, Secret};
use hub_server::{Hub, Settings};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, client_async, connect_async};

pub const SECRET: &str = "a secret of the tests, long enough for anybody";
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
        let config = AuthConfig { secret: Some(Secret::new(SECRET)), ..AuthConfig::default() };
        let hub = Hub::builder(bus, Authenticator::new(config).unwrap()).settings(settings).build();
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
        let mut client = self.stranger().await;
        let answer = client.ask(json!({"op": "AUTH", "token": token(scopes)})).await;
        assert_eq!(answer["op"], "OK", "{answer}");
        client
    }
}

/// A token of a nameless subject.
pub fn token(scopes: &[&str]) -> String {
    signed(None, scopes)
}

/// A token of a subject.
pub fn signed(subject: Option<&str>, scopes: &[&str]) -> String {
    let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
    mint(
        &Secret::new(SECRET),
        &Claims {
            sub: subject.map(str::to_owned),
            scopes,
            ttl: Some(Duration::from_secs(3600)),
            ..Claims::default()
        },
    )
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
        Self { socket, asked: 0, early: std::collections::VecDeque::new() }
    }

    /// A client whose system keeps little for it: what it does not read soon stays with the hub.
    pub async fn open_narrow(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 << 10).unwrap();
        let stream = MaybeTlsStream::Plain(socket.connect(address).await.unwrap());
        let (socket, _) = client_async(format!("ws://{address}/"), stream).await.unwrap();
        Self { socket, asked: 0, early: std::collections::VecDeque::new() }
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
