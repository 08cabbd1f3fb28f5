//! A small client for the commands: one connection, one task, frames as they come.

use crate::config::build;
use crate::secret;
use anyhow::{Context, Result, anyhow, bail};
use futures_util::{SinkExt, StreamExt};
use hub_server::auth::Secret;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

/// How long a hub has to answer the connection and the token.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long it has for any other answer: a publish is answered within 20 s, if need be with `unavailable`.
pub const ANSWER: Duration = Duration::from_secs(30);
/// The largest frame that is taken from a hub.
const FRAME_BYTES: usize = 64 << 20;

/// Where the hub is, and who asks.
#[derive(Clone, Debug, clap::Args)]
pub struct Target {
    /// The hub's WebSocket [default: ws://127.0.0.1:8090/, or the port in WS_PORT]
    #[arg(long, value_name = "URL", env = "EVENT_HUB_URL", help_heading = "Hub")]
    url: Option<String>,

    /// The token [default: for a hub on this machine WS_TOKEN, or one made with the development secret of the data
    /// directory]
    #[arg(
        long,
        value_name = "TOKEN",
        env = "EVENT_HUB_TOKEN",
        hide_env_values = true,
        help_heading = "Hub",
        value_parser = hidden
    )]
    token: Option<Secret>,

    /// The data directory, for its development secret
    #[arg(
        long,
        value_name = "DIR",
        env = "EVENT_HUB_DATA",
        default_value = "./event-hub-data",
        help_heading = "Hub"
    )]
    data: PathBuf,
}

fn hidden(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

impl Target {
    fn url(&self) -> Result<String> {
        if let Some(url) = &self.url {
            return Ok(url.clone());
        }
        let port = std::env::var("WS_PORT").unwrap_or_else(|_| "8090".into());
        let port: u16 = port.parse().map_err(|_| anyhow!("WS_PORT is {port:?}; it must be a port"))?;
        Ok(format!("ws://127.0.0.1:{port}/"))
    }

    fn token(&self, url: &str) -> Result<String> {
        if let Some(token) = self.token.as_ref().map(Secret::expose).filter(|token| !token.is_empty()) {
            return Ok(token.to_owned());
        }
        if !is_here(url) {
            bail!(
                "no token for {}: WS_TOKEN and the development secret are for hubs on this machine only; give one with \
                 EVENT_HUB_TOKEN or --token",
                shown(url)
            );
        }
        // It is the secret of a hub, which is here; a client's own token is EVENT_HUB_TOKEN.
        if let Some(token) = std::env::var("WS_TOKEN").ok().filter(|token| !token.is_empty()) {
            return Ok(token);
        }
        let split = |text: String| text.split(',').map(|one| one.trim().to_owned()).collect::<Vec<_>>();
        let audience = std::env::var("JWT_AUD").map(split).unwrap_or_default();
        let issuer = std::env::var("JWT_ISS").ok();
        match secret::load(&self.data)? {
            Some(secret) => Ok(secret::developer_token(&secret, &audience, issuer.as_deref())),
            None => bail!(
                "no token: give one with --token or EVENT_HUB_TOKEN (`event-hub token` makes one), or name the data \
                 directory of a development hub with --data; {} has no development secret",
                self.data.display()
            ),
        }
    }
}

/// What every frame of a hub has.
#[derive(Debug, Deserialize)]
pub struct Frame {
    /// What it is.
    pub op: String,
    /// Which request it answers.
    #[serde(default)]
    pub corr: Option<String>,
    /// Of an ERR.
    #[serde(default)]
    code: String,
    #[serde(default)]
    msg: String,
    /// After how long the request may be sent again.
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
    /// The whole frame.
    #[serde(skip)]
    pub text: Utf8Bytes,
}

/// What a hub refused.
#[derive(Debug)]
pub struct Refused {
    /// The hub's code.
    pub code: String,
    /// Its words.
    pub msg: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the hub answered {}: {}", self.code, self.msg)
    }
}

impl std::error::Error for Refused {}

impl Frame {
    /// The answer, or the error that it is.
    pub fn ok(self) -> Result<Self> {
        if self.op == "ERR" { Err(Refused { code: self.code, msg: self.msg }.into()) } else { Ok(self) }
    }

    /// Whether the hub asks to send it again later.
    pub fn is_rate_limited(&self) -> bool {
        self.op == "ERR" && self.code == "rate_limited"
    }

    /// The whole frame, as some type.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T> {
        serde_json::from_str(&self.text).context("a frame of the hub cannot be understood")
    }
}

/// A connection that the hub knows.
pub struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Client {
    /// Connects and says who it is.
    pub async fn connect(target: &Target) -> Result<Self> {
        let url = target.url()?;
        let token = target.token(&url)?;
        let connected = tokio::time::timeout(PATIENCE, Self::open(&url, &token)).await;
        connected.map_err(|_| anyhow!("{} did not answer within {} s", shown(&url), PATIENCE.as_secs()))?
    }

    async fn open(url: &str, token: &str) -> Result<Self> {
        let config =
            WebSocketConfig::default().max_message_size(Some(FRAME_BYTES)).max_frame_size(Some(FRAME_BYTES));
        let connected = connect_async_with_config(url, Some(config), true).await;
        let (socket, _) = connected.map_err(|error| explain(url, &error))?;
        let mut client = Self { socket };
        client.send(&serde_json::json!({ "op": "AUTH", "token": token, "corr": "auth" })).await?;
        loop {
            let Some(frame) = client.recv().await? else {
                bail!("{} closed the connection before it answered", shown(url))
            };
            if frame.corr.as_deref() == Some("auth") || frame.op == "ERR" {
                frame.ok()?;
                return Ok(client);
            }
        }
    }

    /// Sends a frame.
    pub async fn send(&mut self, frame: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(frame)?;
        let sent = tokio::time::timeout(ANSWER, self.socket.send(Message::Text(text.into()))).await;
        sent.map_err(|_| too_late())?.context("the connection to the hub is lost")
    }

    /// The next frame; `None` once the hub has closed the connection.
    pub async fn recv(&mut self) -> Result<Option<Frame>> {
        loop {
            let text = match self.socket.next().await {
                None | Some(Err(tungstenite::Error::ConnectionClosed)) => return Ok(None),
                Some(Ok(Message::Close(close))) => {
                    let Some(close) = close else { return Ok(None) };
                    let reason = if close.reason.is_empty() { "no reason given" } else { &close.reason };
                    bail!("the hub closed the connection: {} ({})", reason, u16::from(close.code));
                }
                Some(Ok(Message::Text(text))) => text,
                // Pings are answered by the library.
                Some(Ok(_)) => continue,
                Some(Err(error)) => return Err(error).context("the connection to the hub is lost"),
            };
            let mut frame: Frame =
                serde_json::from_str(&text).context("a frame of the hub cannot be understood")?;
            frame.text = text;
            return Ok(Some(frame));
        }
    }

    /// The next frame of a hub that has nothing to answer, however long that takes.
    pub async fn expect(&mut self) -> Result<Frame> {
        self.recv().await?.ok_or_else(|| anyhow!("the hub closed the connection before it answered"))
    }

    /// The next frame of a hub that has something to answer.
    pub async fn answer(&mut self) -> Result<Frame> {
        tokio::time::timeout(ANSWER, self.expect()).await.map_err(|_| too_late())?
    }

    /// Says goodbye.
    pub async fn close(mut self) {
        let _ = tokio::time::timeout(Duration::from_secs(1), self.socket.close(None)).await;
    }
}

/// What to say of a hub that takes too long.
pub fn too_late() -> anyhow::Error {
    anyhow!("the hub did not answer within {} s", ANSWER.as_secs())
}

/// A URL for people: without a password or a token that may be in it.
fn shown(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let end = rest.find('/').unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    let colon = if scheme.is_empty() { "" } else { "://" };
    format!("{scheme}{colon}{host}{}", &rest[end..])
}

/// Whether a URL leads to this machine. What is made with its secret must not go to another.
fn is_here(url: &str) -> bool {
    let url: Result<tungstenite::http::Uri, _> = url.parse();
    let host = url.ok().and_then(|url| url.host().map(|host| host.trim_matches(['[', ']']).to_owned()));
    host.is_some_and(|host| host == "localhost" || host.parse().is_ok_and(build::is_loopback))
}

fn explain(url: &str, error: &tungstenite::Error) -> anyhow::Error {
    let url = shown(url);
    match error {
        tungstenite::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            anyhow!("no hub at {url}: start one with `event-hub serve`, or name another with --url")
        }
        tungstenite::Error::Http(response) => {
            let status = response.status();
            anyhow!(
                "{url} is no WebSocket of a hub (HTTP {status}); HTTP and WebSocket have ports of their own"
            )
        }
        tungstenite::Error::Url(_) => anyhow!("{url} is no WebSocket URL; one is like ws://127.0.0.1:8090/"),
        error => anyhow!("{url} cannot be reached: {error}"),
    }
}

/// A runtime for a command: one thread is enough.
pub fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting")?;
    let done = runtime.block_on(future);
    // Standard input may be read for ever.
    runtime.shutdown_background();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_what_may_be_secret() {
        for (url, expected) in [
            ("ws://127.0.0.1:8090/", "ws://127.0.0.1:8090/"),
            ("wss://me:hunter2@hub.example/a@b?token=hunter2", "wss://hub.example/a@b"),
            ("ws://a@b:hunter2@hub.example", "ws://hub.example"),
            ("me:hunter2@hub", "hub"),
        ] {
            assert_eq!(shown(url), expected);
        }
    }

    #[test]
    fn a_token_is_in_no_debug_output() {
        let token = Some(Secret::new("hunter2"));
        let target = Target { url: None, token, data: PathBuf::new() };
        assert!(!format!("{target:?}").contains("hunter2"));
    }

    #[test]
    fn only_this_machine_is_here() {
        for here in ["ws://127.0.0.1:8090/", "ws://localhost", "wss://[::1]:1/", "ws://127.9.9.9/x"] {
            assert!(is_here(here), "{here}");
        }
        for elsewhere in [
            "ws://10.0.0.1:8090/",
            "wss://hub.example.com/",
            "ws://127.0.0.1.example.com/",
            "ws://127.0.0.1@host/",
            "",
            "::",
        ] {
            assert!(!is_here(elsewhere), "{elsewhere}");
        }
    }
}
