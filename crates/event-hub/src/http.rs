//! The HTTP port of the hub that a command talks to.

use crate::client::TokenFor;
use anyhow::{Context, Result, anyhow, bail};
use reqwest::{Method, Url};
use serde_json::Value;
use std::time::Duration;

/// How long a hub has to answer a request: longer than it waits for its store.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Where the hub is, and the token to show.
#[derive(Clone, Debug, clap::Args)]
pub struct HttpTarget {
    /// The hub's HTTP port [default: http://127.0.0.1:8082/, or the port in OPS_PORT]
    #[arg(long, value_name = "URL", env = "EVENT_HUB_OPS_URL", help_heading = "Hub")]
    ops_url: Option<String>,

    #[command(flatten)]
    token: TokenFor,
}

/// A hub, over HTTP.
pub struct HttpHub {
    client: reqwest::Client,
    url: Url,
    token: String,
}

impl HttpHub {
    pub fn new(target: &HttpTarget) -> Result<Self> {
        let url = match &target.ops_url {
            Some(url) => url.clone(),
            None => {
                let port = std::env::var("OPS_PORT").unwrap_or_else(|_| "8082".into());
                let port: u16 =
                    port.parse().map_err(|_| anyhow!("OPS_PORT is {port:?}; it must be a port"))?;
                format!("http://127.0.0.1:{port}/")
            }
        };
        let url = Url::parse(&url).with_context(|| format!("{url:?} is no URL"))?;
        if !matches!(url.scheme(), "http" | "https") {
            bail!("{url} is not an address of HTTP; it must begin with http:// or https://");
        }
        let token = target.token.find(url.host_str().unwrap_or_default(), url.as_str())?;
        // The hub redirects nobody, and a token must not follow a redirect.
        let client = reqwest::Client::builder().timeout(TIMEOUT).redirect(reqwest::redirect::Policy::none());
        Ok(Self { client: client.build().context("starting")?, url, token })
    }

    pub async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value> {
        self.ask(Method::GET, path, query).await
    }

    pub async fn delete(&self, path: &str, query: &[(&str, &str)]) -> Result<Value> {
        self.ask(Method::DELETE, path, query).await
    }

    async fn ask(&self, method: Method, path: &str, query: &[(&str, &str)]) -> Result<Value> {
        let mut url = self.url.join(path).with_context(|| format!("{path} at {}", self.url))?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let asked = self.client.request(method, url).bearer_auth(&self.token).send().await;
        let answer = asked.map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        let body = answer.bytes().await.with_context(|| format!("reading the answer of {}", self.url))?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        match status.is_success() {
            true => Ok(body),
            false => match (body["code"].as_str(), body["error"].as_str()) {
                (Some(code), Some(error)) => bail!("{code}: {error}"),
                _ => bail!("{} answered {status}", self.url),
            },
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> anyhow::Error {
        match error.is_connect() {
            true => anyhow!(
                "no hub answers at {}: start one with `event-hub serve`, or name another with --ops-url",
                self.url
            ),
            false => anyhow!("{} did not answer: {error}", self.url),
        }
    }
}
