//! A hub that takes every event, with the features that a test gives it, and keeps the frames.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;

pub struct FakeHub {
    pub url: String,
    publishes: Arc<Mutex<Vec<Value>>>,
}

impl FakeHub {
    /// Starts one; `welcome` is what its answer to AUTH has.
    pub async fn start(welcome: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/", listener.local_addr().unwrap());
        let publishes = Arc::new(Mutex::new(Vec::new()));
        let kept = publishes.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, welcome.clone(), kept.clone()));
            }
        });
        Self { url, publishes }
    }

    /// The PUBLISH frames that came.
    pub fn publishes(&self) -> Vec<Value> {
        self.publishes.lock().unwrap().clone()
    }
}

async fn serve(stream: TcpStream, welcome: Value, publishes: Arc<Mutex<Vec<Value>>>) {
    let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
    let receipt = |event: &Value| json!({"id": event["opts"]["id"], "seq": 1, "ts": 1, "durable": "fsync"});
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        let frame: Value = serde_json::from_str(&text).unwrap();
        let mut answer = match (frame["op"].as_str().unwrap(), frame["events"].as_array()) {
            ("AUTH", _) => welcome.clone(),
            ("PUBLISH", None) => receipt(&frame),
            ("PUBLISH", Some(events)) => {
                json!({"results": events.iter().map(receipt).collect::<Vec<_>>(), "ordered": true})
            }
            other => panic!("{other:?}"),
        };
        (answer["op"], answer["corr"]) = (json!("OK"), frame["corr"].clone());
        if frame["op"] == "PUBLISH" {
            publishes.lock().unwrap().push(frame);
        }
        if socket.send(Message::text(answer.to_string())).await.is_err() {
            return;
        }
    }
}
