//! One HTTP request for a key set.

use super::config::is_loopback;
use super::keys::KeySet;
use hub_proto::Error;
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Certificate, Client, Response, Url, header};
use std::error::Error as _;
use std::time::Duration;

/// The whole request has to end within this.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

const MAX_BODY_BYTES: usize = 1 << 20;
const MAX_REDIRECTS: usize = 3;

/// Where a key set is, and how it is asked for.
pub(super) struct Source {
    url: Url,
    client: Client,
}

impl Source {
    /// Asks at `url`.
    pub(super) fn new(url: &str, timeout: Duration) -> hub_proto::Result<Self> {
        let refuse = |why: &str| Error::bad_request(format!("JWT_JWKS_URL cannot be used: {why}"));
        let url = Url::parse(url).map_err(|error| refuse(&error.to_string()))?;
        // Requests are minutes apart: a connection that is kept would only be in the way.
        let mut client =
            Client::builder().timeout(timeout).redirect(Policy::custom(redirect)).pool_max_idle_per_host(0);
        if url.scheme() == "http" {
            // Redirects stay where they are, so there is no TLS; a machine without certificates can do this.
            client = client.tls_certs_only(Vec::<Certificate>::new());
        }
        if is_loopback(&url) {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| refuse(&chain(&error)))?;
        Ok(Self { url, client })
    }

    /// For logs. A URL may have a password or a key in it, so only the host of it.
    pub(super) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// The key set as it is now.
    pub(super) async fn fetch(&self) -> Result<KeySet, String> {
        let request = self.client.get(self.url.clone()).header(header::ACCEPT, "application/json");
        let response = request.send().await.map_err(said)?;
        if response.status() != reqwest::StatusCode::OK {
            return Err(format!("answered {}", response.status()));
        }
        KeySet::parse(&body(response).await?)
    }
}

async fn body(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(said)? {
        if body.len() + chunk.len() > MAX_BODY_BYTES {
            return Err(format!("answered more than {MAX_BODY_BYTES} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Keys come from the scheme, host and port that the operator named, and from nowhere else.
fn redirect(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let first = attempt.previous().first().map(Url::origin);
    if first.as_ref() != Some(&attempt.url().origin()) {
        attempt.error("redirected to another host, port or scheme")
    } else if attempt.previous().len() > MAX_REDIRECTS {
        attempt.error("redirected too often")
    } else {
        attempt.follow()
    }
}

fn said(error: reqwest::Error) -> String {
    chain(&error.without_url())
}

/// An error with its causes: reqwest itself says little.
fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
