//! A hub that does what the test says: it accepts connections, and the test reads and writes their frames.

use futures_util::{SinkExt, StreamExt};
use hub_client::client::Builder;
use hub_client::{Client, Connection, Target};
use serde_json::{Value, json};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// Longer than anything takes on a busy machine; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Fails a test that would hang.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes too long")
}

/// Looks whether a future is done, once.
pub async fn poll_once<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

pub struct FakeHub {
    listener: TcpListener,
}

impl FakeHub {
    pub async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub fn url(&self) -> String {
        format!("ws://{}/", self.listener.local_addr().unwrap())
    }

    pub fn target(&self) -> Target {
        Target::new(self.url()).unwrap()
    }

    /// The next connection.
    pub async fn accept(&self) -> Peer {
        let (stream, _) = soon(self.listener.accept()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Peer { socket: soon(Box::pin(tokio_tungstenite::accept_async(stream))).await.unwrap() }
    }

    /// A connection and its other end.
    pub async fn pair(&self) -> (Connection, Peer) {
        self.pair_with(&self.target()).await
    }

    pub async fn pair_with(&self, target: &Target) -> (Connection, Peer) {
        let (connection, peer) = tokio::join!(Connection::connect(target), self.accept());
        (connection.unwrap(), peer)
    }
}

impl FakeHub {
    /// A builder that is quick to try again.
    pub fn builder(&self) -> Builder {
        let (first, longest) = (Duration::from_millis(1), Duration::from_millis(50));
        Client::builder(self.target()).token("t").backoff(first, longest).reconnect_within(first)
    }

    /// A client and its other end.
    pub async fn client(&self, builder: Builder) -> (Client, Peer) {
        let (client, peer) = soon(async { tokio::join!(builder.connect(), self.welcome()) }).await;
        (client.unwrap(), peer)
    }

    /// The next connection, which says who it is.
    pub async fn welcome(&self) -> Peer {
        let mut peer = self.accept().await;
        peer.welcome().await;
        peer
    }
}

/// The hub's end of a connection.
pub struct Peer {
    pub socket: WebSocketStream<TcpStream>,
}

impl Peer {
    /// The next frame; `None` when the client has closed.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            match soon(self.socket.next()).await {
                Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
                // The answer to a close goes out with the next read.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Close(_))) => {}
                Some(Err(_)) | None => return None,
                Some(Ok(other)) => panic!("{other:?}"),
            }
        }
    }

    /// The next frame, which has this `op`.
    #[track_caller]
    pub fn expect(&mut self, op: &str) -> impl Future<Output = Value> {
        let op = op.to_owned();
        async move {
            let frame = self.next().await.unwrap_or_else(|| panic!("closed instead of {op}"));
            assert_eq!(frame["op"], op, "{frame}");
            frame
        }
    }

    pub async fn send(&mut self, frame: Value) {
        self.text(&frame.to_string()).await;
    }

    pub async fn text(&mut self, text: &str) {
        soon(self.socket.send(Message::Text(text.into()))).await.unwrap();
    }

    /// `OK` to a frame, with these members.
    pub async fn ok(&mut self, to: &Value, members: Value) {
        self.answer("OK", to, members).await;
    }

    pub async fn err(&mut self, to: &Value, code: &str, members: Value) {
        let mut members = members;
        members["code"] = json!(code);
        members["msg"] = json!(format!("because of {code}"));
        self.answer("ERR", to, members).await;
    }

    async fn answer(&mut self, op: &str, to: &Value, members: Value) {
        // As a hub writes it: op and corr first.
        let rest = members.to_string();
        let rest = rest.trim_start_matches('{').trim_end_matches('}');
        let comma = if rest.is_empty() { "" } else { "," };
        self.text(&format!("{{\"op\":\"{op}\",\"corr\":{}{comma}{rest}}}", to["corr"])).await;
    }

    /// Takes an AUTH; its token.
    pub async fn welcome(&mut self) -> String {
        let frame = self.expect("AUTH").await;
        self.ok(&frame, json!({})).await;
        frame["token"].as_str().unwrap().to_owned()
    }

    /// Takes a PUBLISH, and stores it.
    pub async fn stored(&mut self, seq: u64) -> Value {
        let frame = self.expect("PUBLISH").await;
        self.store(&frame, seq).await;
        frame
    }

    pub async fn store(&mut self, publish: &Value, seq: u64) {
        let id = &publish["opts"]["id"];
        self.ok(publish, json!({"id": id, "seq": seq, "ts": 5, "durable": "fsync"})).await;
    }

    /// Takes a SUBSCRIBE.
    pub async fn subscribed(&mut self) -> Value {
        let frame = self.expect("SUBSCRIBE").await;
        self.ok(&frame, json!({})).await;
        frame
    }

    /// Sends event `n` of a topic to a subscription, as a hub writes it.
    pub async fn event(&mut self, topic: &str, group: Option<&str>, n: u64) {
        self.text(&event_frame(topic, group, n)).await;
    }

    pub async fn close(&mut self, code: u16, reason: &'static str) {
        let frame = CloseFrame { code: code.into(), reason: reason.into() };
        soon(self.socket.close(Some(frame))).await.unwrap();
        while self.next().await.is_some() {}
    }
}

pub fn id(n: u64) -> String {
    format!("0190a1b2-0000-7000-8000-{n:012x}")
}

pub fn event_frame(topic: &str, group: Option<&str>, n: u64) -> String {
    let event = format!(r#"{{"id":"{}","ts":{n},"topic":"{topic}","payload":{{"n":{n}}},"seq":{n}}}"#, id(n));
    match group {
        Some(group) => format!(
            r#"{{"op":"EVENT","topic":"{topic}","group":"{group}","event":{event},"ctx":{{"attempt":1,"maxAttempts":5,"ack_deadline_ms":30000}}}}"#
        ),
        None => format!(r#"{{"op":"EVENT","topic":"{topic}","event":{event}}}"#),
    }
}
