//! A client that reads what it gets.

use super::server::TOKEN;
use anyhow::{Context, Result, bail, ensure};
use futures_util::{FutureExt, SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::VecDeque;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

/// One connection.
pub struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    ready: VecDeque<Utf8Bytes>,
}

/// Any frame of the hub, as a client would read it.
#[derive(Deserialize)]
pub struct Frame<'a> {
    pub op: &'a str,
    #[serde(borrow, default)]
    pub event: Option<Event<'a>>,
    #[serde(borrow, default)]
    pub events: Vec<Part<'a>>,
    #[serde(default)]
    pub results: Vec<Receipt>,
    #[serde(default)]
    pub seq: u64,
    #[serde(borrow, default)]
    pub msg: Option<std::borrow::Cow<'a, str>>,
}

/// A part of EVENTS.
#[derive(Deserialize)]
pub struct Part<'a> {
    #[serde(borrow)]
    pub event: Event<'a>,
}

/// An event. What nobody looks at is read all the same.
#[derive(Deserialize)]
#[expect(dead_code, reason = "reading it is what is measured")]
pub struct Event<'a> {
    pub id: &'a str,
    pub seq: u64,
    pub ts: u64,
    pub topic: &'a str,
    #[serde(borrow)]
    pub payload: &'a RawValue,
}

/// A part of the answer to a batch.
#[derive(Deserialize)]
pub struct Receipt {
    pub seq: u64,
}

impl Client {
    /// Opens a connection to whatever is there.
    pub async fn open(address: &str) -> Result<Self> {
        // As browsers and Node do: nothing small waits for an answer to what went before.
        let (socket, _) = connect_async_with_config(address, None, true).await.context("connecting")?;
        Ok(Self { socket, ready: VecDeque::new() })
    }

    /// Opens a connection to the hub, and says who it is.
    pub async fn hub(address: &str) -> Result<Self> {
        let mut client = Self::open(address).await?;
        client.ask(&format!(r#"{{"op":"AUTH","token":"{TOKEN}"}}"#)).await?;
        Ok(client)
    }

    /// A connection that has a subscription.
    pub async fn subscriber(address: &str, topic: &str, rest: &str) -> Result<Self> {
        let mut client = Self::hub(address).await?;
        client.ask(&format!(r#"{{"op":"SUBSCRIBE","topic":"{topic}"{rest}}}"#)).await?;
        Ok(client)
    }

    /// Sends a request and reads its answer, which is to be OK.
    pub async fn ask(&mut self, request: &str) -> Result<()> {
        self.send(request.into()).await?;
        let answer = self.next().await?;
        let frame = read(&answer)?;
        ensure!(frame.op == "OK", "{request}: {:?}", frame.msg);
        Ok(())
    }

    /// Sends a frame.
    pub async fn send(&mut self, frame: Utf8Bytes) -> Result<()> {
        Ok(self.socket.send(Message::Text(frame)).await?)
    }

    /// Sends a frame with the next flush.
    pub async fn feed(&mut self, frame: Utf8Bytes) -> Result<()> {
        Ok(self.socket.feed(Message::Text(frame)).await?)
    }

    /// Sends what was fed.
    pub async fn flush(&mut self) -> Result<()> {
        Ok(self.socket.flush().await?)
    }

    /// The next frame.
    pub async fn next(&mut self) -> Result<Utf8Bytes> {
        if let Some(frame) = self.ready.pop_front() {
            return Ok(frame);
        }
        loop {
            let message = self.socket.next().await.context("the connection has ended")?;
            if let Message::Text(text) = message? {
                return Ok(text);
            }
        }
    }

    /// The next frame if it is here.
    pub fn try_next(&mut self) -> Option<Utf8Bytes> {
        loop {
            match self.socket.next().now_or_never()? {
                Some(Ok(Message::Text(text))) => return Some(text),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }
}

/// Reads a frame; an error of the hub is one.
pub fn read(text: &str) -> Result<Frame<'_>> {
    let frame: Frame<'_> = serde_json::from_str(text).with_context(|| text.to_owned())?;
    if frame.op == "ERR" {
        bail!("{text}");
    }
    Ok(frame)
}

/// A PUBLISH of 200 bytes.
pub fn publish(topic: &str) -> Utf8Bytes {
    let payload = crate::load::payload();
    publish_payload(topic, &String::from_utf8_lossy(payload.as_bytes()))
}

/// A PUBLISH with this payload.
pub fn publish_payload(topic: &str, payload: &str) -> Utf8Bytes {
    format!(r#"{{"op":"PUBLISH","topic":"{topic}","payload":{payload}}}"#).into()
}

/// A PUBLISH of so many of them.
pub fn publish_batch(topic: &str, events: usize) -> Utf8Bytes {
    let payload = crate::load::payload();
    let payload = String::from_utf8_lossy(payload.as_bytes()).into_owned();
    let event = format!(r#"{{"topic":"{topic}","payload":{payload}}}"#);
    format!(r#"{{"op":"PUBLISH","events":[{}]}}"#, vec![event; events].join(",")).into()
}
