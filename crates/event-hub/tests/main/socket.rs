//! A client of the gateway.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// Nothing takes so long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs clients.
pub fn clients<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

pub struct Socket(pub WebSocketStream<MaybeTlsStream<TcpStream>>);

/// Why nothing comes any more.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// Closed with this code.
    Closed(u16),
    /// Gone without a word.
    Gone,
}

impl Socket {
    /// A connection that has said who it is.
    pub async fn open(url: &str, token: &str) -> Self {
        let mut socket = Self(connect_async(url).await.unwrap().0);
        socket.ok(json!({"op": "AUTH", "token": token})).await;
        socket
    }

    pub async fn send(&mut self, frame: &Value) -> Result<(), End> {
        self.0.send(Message::text(frame.to_string())).await.map_err(|_| End::Gone)
    }

    /// The next frame.
    pub async fn next(&mut self) -> Result<Value, End> {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.0.next()).await.expect("a frame in time");
            match message {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(close))) => {
                    return Err(close.map_or(End::Gone, |close| End::Closed(close.code.into())));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(End::Gone),
            }
        }
    }

    /// Sends a request and waits for the OK, which has to be the next frame.
    pub async fn ok(&mut self, frame: Value) -> Value {
        self.send(&frame).await.unwrap();
        let answer = self.next().await.unwrap();
        assert_eq!(answer["op"], "OK", "{answer}");
        answer
    }
}
