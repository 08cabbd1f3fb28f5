//! The hub that a command talks to.

use crate::config::build;
use crate::secret;
use anyhow::{Context, Result, anyhow, bail};
use hub_client::Connection;
use hub_server::auth::Secret;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a hub has to answer the connection.
const PATIENCE: Duration = Duration::from_secs(15);

/// Where the hub is, and who asks.
#[derive(Clone, Debug, clap::Args)]
pub struct Target {
    /// The hub's WebSocket [default: ws://127.0.0.1:8090/, or the port in WS_PORT]
    #[arg(long, value_name = "URL", env = "EVENT_HUB_URL", help_heading = "Hub")]
    url: Option<String>,

    #[command(flatten)]
    token: TokenFor,
}

/// The token that a command shows to a hub.
#[derive(Clone, Debug, clap::Args)]
pub struct TokenFor {
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
    /// The same at another hub.
    pub fn at(self, url: &str) -> Self {
        Self { url: Some(url.to_owned()), ..self }
    }

    fn url(&self) -> Result<String> {
        if let Some(url) = &self.url {
            return Ok(url.clone());
        }
        let port = std::env::var("WS_PORT").unwrap_or_else(|_| "8090".into());
        let port: u16 = port.parse().map_err(|_| anyhow!("WS_PORT is {port:?}; it must be a port"))?;
        Ok(format!("ws://127.0.0.1:{port}/"))
    }
}

impl TokenFor {
    /// The data directory of the hub.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The token for a hub at `host`; `shown` names the hub in errors.
    pub fn find(&self, host: &str, shown: &str) -> Result<String> {
        if let Some(token) = self.token.as_ref().map(Secret::expose).filter(|token| !token.is_empty()) {
            return Ok(token.to_owned());
        }
        if !is_here(host) {
            bail!(
                "no token for {shown}: WS_TOKEN and the development secret are for hubs on this machine only; give one \
                 with EVENT_HUB_TOKEN or --token"
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

/// Connects, and says who it is.
pub async fn connect(target: &Target) -> Result<Connection> {
    let hub = hub_client::Target::new(target.url()?).map_err(plain)?.connect_timeout(PATIENCE);
    let token = target.token.find(hub.host(), &hub.shown())?;
    let connection = Connection::connect(&hub).await.map_err(explain)?;
    connection.authenticate(&token).await.map_err(plain)?;
    Ok(connection)
}

/// An error of a client, which says everything by itself: its causes would be said twice.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub fn plain(error: hub_client::Error) -> anyhow::Error {
    anyhow!("{error}")
}

fn explain(error: hub_client::Error) -> anyhow::Error {
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<io::Error>());
    match cause.is_some_and(|cause| cause.kind() == io::ErrorKind::ConnectionRefused) {
        true => anyhow!("{}: start one with `event-hub serve`, or name another with --url", error.text()),
        false => plain(error),
    }
}

/// Whether a hub is on this machine. What is made with its secret must not go to another.
pub fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(build::is_loopback)
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
    fn a_token_is_in_no_debug_output() {
        let token = Some(Secret::new("hunter2"));
        let target = Target { url: None, token: TokenFor { token, data: PathBuf::new() } };
        assert!(!format!("{target:?}").contains("hunter2"));
    }

    #[test]
    fn only_this_machine_is_here() {
        let is_here = |url: &str| is_here(hub_client::Target::new(url).expect("a URL").host());
        for here in ["ws://127.0.0.1:8090/", "ws://localhost", "wss://[::1]:1/", "ws://127.9.9.9/x"] {
            assert!(is_here(here), "{here}");
        }
        for elsewhere in [
            "ws://10.0.0.1:8090/",
            "wss://hub.example.com/",
            "ws://127.0.0.1.example.com/",
            "ws://127.0.0.1@host/",
        ] {
            assert!(!is_here(elsewhere), "{elsewhere}");
        }
    }
}
