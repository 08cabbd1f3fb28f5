//! The HTTP port of the hub that a command talks to.

use crate::client::{TokenFor, is_here};
use crate::exit::Usage;
use anyhow::{Context, Result, anyhow};
use reqwest::header::RETRY_AFTER;
use reqwest::{Method, Response, Url};
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a hub has to answer a request: longer than it waits for its store.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a hub may send nothing of a stream: longer than a limit of bytes per second makes it wait.
const SILENCE: Duration = Duration::from_secs(90);
/// How long a request that is refused as too much at once is asked again.
const RATE_LIMIT_PATIENCE: Duration = Duration::from_secs(60);

/// Where the hub is, and the token to show.
#[derive(Clone, Debug, clap::Args)]
pub struct HttpTarget {
    /// The hub's HTTP port [default: http://127.0.0.1:8082/, or the port in OPS_PORT]
    #[arg(long, alias = "url", value_name = "URL", env = "EVENT_HUB_OPS_URL", help_heading = "Hub")]
    ops_url: Option<String>,

    #[command(flatten)]
    token: TokenFor,
}

impl HttpTarget {
    /// The data directory of the hub.
    pub fn data(&self) -> &Path {
        self.token.data()
    }
}

/// A request that the hub refused.
#[derive(Debug)]
pub struct Refusal {
    pub status: u16,
    pub code: String,
    text: String,
    /// What the user can do.
    advice: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.text)?;
        self.advice.iter().try_for_each(|advice| write!(f, "; {advice}"))
    }
}

impl std::error::Error for Refusal {}

/// Whether the hub answered and refused the request.
pub fn is_refusal(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refusal>().is_some()
}

/// Whether the hub answered with this status.
pub fn has_status(error: &anyhow::Error, status: u16) -> bool {
    error.downcast_ref::<Refusal>().is_some_and(|refusal| refusal.status == status)
}

/// A hub, over HTTP.
pub struct HttpHub {
    client: reqwest::Client,
    url: Url,
    token: String,
    /// The right that the command needs, for the advice after a 403.
    right: Option<String>,
}

impl HttpHub {
    /// # Errors
    /// A mistake of usage: the address is none, or there is no token.
    pub fn new(target: &HttpTarget) -> Result<Self> {
        Self::open(target).map_err(Usage::of)
    }

    fn open(target: &HttpTarget) -> Result<Self> {
        let url = match &target.ops_url {
            Some(url) => url.clone(),
            None => {
                let port = std::env::var("OPS_PORT").unwrap_or_else(|_| "8082".into());
                let port: u16 =
                    port.parse().map_err(|_| anyhow!("OPS_PORT is {port:?}; it must be a port"))?;
                format!("http://127.0.0.1:{port}/")
            }
        };
        let mut url = Url::parse(&url).with_context(|| format!("{url:?} is no URL"))?;
        if !matches!(url.scheme(), "http" | "https") {
            anyhow::bail!("{url} is not an address of HTTP; it must begin with http:// or https://");
        }
        if !url.username().is_empty() || url.password().is_some() {
            anyhow::bail!(
                "the address has credentials in it; give the token with EVENT_HUB_TOKEN or --token"
            );
        }
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        let host = url.host_str().unwrap_or_default();
        let token = target.token.find(host, url.as_str())?;
        // The hub redirects nobody, and a token must not follow a redirect.
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        let mut client = client.connect_timeout(TIMEOUT).read_timeout(SILENCE);
        if is_here(host) {
            // No proxy reaches a hub on this machine, and none must see its development token.
            client = client.no_proxy();
        }
        Ok(Self { client: client.build().context("starting")?, url, token, right: None })
    }

    /// Names the right that is needed, such as `admin:orders`: a refusal says how to get a token with it.
    pub fn needing(self, right: impl Into<String>) -> Self {
        Self { right: Some(right.into()), ..self }
    }

    /// The address, for people.
    pub fn shown(&self) -> &str {
        self.url.as_str()
    }

    pub async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value> {
        self.parse(&self.get_bytes(path, query).await?)
    }

    /// The answer as it came.
    pub async fn get_bytes(&self, path: &str, query: &[(&str, &str)]) -> Result<Vec<u8>> {
        self.ask(Method::GET, path, query, None).await
    }

    pub async fn delete(&self, path: &str, query: &[(&str, &str)]) -> Result<Value> {
        self.parse(&self.ask(Method::DELETE, path, query, None).await?)
    }

    pub async fn post(&self, path: &str, body: &impl Serialize) -> Result<Value> {
        self.parse(&self.ask(Method::POST, path, &[], Some(serde_json::to_vec(body)?)).await?)
    }

    /// Puts a body that is JSON already.
    pub async fn put(&self, path: &str, query: &[(&str, &str)], body: Vec<u8>) -> Result<Value> {
        self.parse(&self.ask(Method::PUT, path, query, Some(body)).await?)
    }

    /// Every answer of a hub is a JSON object: another server's page is not taken for an empty list.
    pub fn parse(&self, answer: &[u8]) -> Result<Value> {
        let answer = serde_json::from_slice(answer).ok().filter(Value::is_object);
        answer.ok_or_else(|| self.no_hub("with success"))
    }

    fn no_hub(&self, answered: &str) -> anyhow::Error {
        let url = &self.url;
        anyhow!("{url} answered {answered}, and not as a hub does; name the hub's HTTP port with --ops-url")
    }

    /// The body of a probe, whatever its status: one that says no says why.
    pub async fn probe(&self, path: &str) -> Result<Value> {
        let url =
            self.url.join(path.trim_start_matches('/')).with_context(|| format!("{path} at {}", self.url))?;
        let asked = self.client.get(url).bearer_auth(&self.token).timeout(TIMEOUT).send().await;
        let body = asked.map_err(|error| self.unreachable(&error))?.bytes().await;
        Ok(serde_json::from_slice(&body.map_err(|error| self.unreachable(&error))?).unwrap_or_default())
    }

    /// An answer that may take as long as it takes, if only it goes on.
    pub async fn stream(&self, path: &str, query: &[(&str, &str)]) -> Result<Response> {
        self.send(Method::GET, path, query, None, None).await
    }

    /// The same for a request that asks the hub to do something as long as the answer is read.
    pub async fn post_stream(&self, path: &str) -> Result<Response> {
        self.send(Method::POST, path, &[], None, None).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<Vec<u8>> {
        let answer = self.send(method, path, query, body, Some(TIMEOUT)).await?;
        let body = answer.bytes().await.map_err(|error| self.unreachable(&error))?;
        Ok(body.into())
    }

    /// Sends a request, again after a while if it is too much at once; only an answer that is a success is one.
    async fn send(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<Vec<u8>>,
        timeout: Option<Duration>,
    ) -> Result<Response> {
        let path = path.trim_start_matches('/');
        let mut url = self.url.join(path).with_context(|| format!("{path} at {}", self.url))?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let began = Instant::now();
        loop {
            let mut request = self.client.request(method.clone(), url.clone()).bearer_auth(&self.token);
            if let Some(body) = &body {
                request = request.header("content-type", "application/json").body(body.clone());
            }
            if let Some(timeout) = timeout {
                request = request.timeout(timeout);
            }
            let answer = request.send().await.map_err(|error| self.unreachable(&error))?;
            let status = answer.status();
            if status.is_success() {
                return Ok(answer);
            }
            let wait = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            let wait = Duration::from_secs(wait.unwrap_or(1));
            if status.as_u16() == 429 && began.elapsed() + wait < RATE_LIMIT_PATIENCE {
                tokio::time::sleep(wait).await;
                continue;
            }
            let body = answer.bytes().await.map_err(|error| self.unreachable(&error))?;
            return Err(self.refusal(status.as_u16(), path, &body));
        }
    }

    fn refusal(&self, status: u16, path: &str, body: &[u8]) -> anyhow::Error {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let (Some(code), Some(text)) = (body["code"].as_str(), body["error"].as_str()) else {
            return self.no_hub(&status.to_string());
        };
        let advice = match status {
            401 => {
                Some("give a valid token with EVENT_HUB_TOKEN or --token; `event-hub token` makes one".into())
            }
            403 => self.right.as_ref().map(|right| {
                format!(
                    "a token with the scope {right} is needed; `event-hub token --scope '{right}'` makes one"
                )
            }),
            404 if text.contains("at this path") => Some(format!(
                "the hub at {} has no /{path}: it is of another version than this program",
                self.url
            )),
            404 if text.starts_with("topic ") => {
                Some("`event-hub topics ls` lists the topics that there are".into())
            }
            429 => Some("wait, or ask for less".into()),
            503 => Some("try again; `event-hub topics ls` works once the hub is ready".into()),
            _ => None,
        };
        Refusal { status, code: code.to_owned(), text: text.to_owned(), advice }.into()
    }

    fn unreachable(&self, error: &reqwest::Error) -> anyhow::Error {
        let url = &self.url;
        match error {
            error if error.is_connect() => anyhow!(
                "no hub answers at {url}: start one with `event-hub serve`, or name another with --ops-url"
            ),
            error if error.is_timeout() => {
                anyhow!("{url} did not answer within {} s; is it overloaded?", TIMEOUT.as_secs())
            }
            error => anyhow!("{url} did not answer: {error}"),
        }
    }
}
