//! One delivery: a signed POST, and what its answer means.

use super::address::{Lookups, Resolver};
use super::definition::{PushEndpoint, PushMode};
use super::secret::signature;
use crate::cloudevents::{CloudEvent, STRUCTURED};
use hub_core::Millis;
use hub_proto::trace::{TRACEPARENT, TRACESTATE};
use hub_proto::{Event, TraceContext};
use parking_lot::Mutex;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Response, StatusCode};
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

/// What is read of an answer, so that its connection can be used again.
const ANSWER_BYTES: usize = 16 << 10;
/// How long the rest of an answer may take once its status is there.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a connection may take.
const CONNECT_TIMEOUT: Millis = 5_000;
/// How long a connection is kept that is not used.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// What became of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// 2xx.
    Delivered(u16),
    /// 410: the endpoint wants nothing more.
    Gone,
    /// 429 or 503: later, if it said so after this many milliseconds.
    Later(u16, Option<Millis>),
    /// It answered that it does not take this event.
    Refused(u16),
    /// It answered with a server error.
    ServerError(u16),
    /// A gateway in front of it did not reach it.
    BadGateway(u16),
    /// It did not answer in time.
    TimedOut(Millis),
    /// The connection broke before the answer was there.
    Interrupted(String),
    /// There was no connection.
    Unreachable(String),
}

impl Outcome {
    fn of(status: StatusCode, headers: &HeaderMap) -> Self {
        let code = status.as_u16();
        match code {
            200..=299 => Self::Delivered(code),
            410 => Self::Gone,
            429 | 503 => Self::Later(code, headers.get(RETRY_AFTER).and_then(retry_after)),
            502 | 504 => Self::BadGateway(code),
            500.. => Self::ServerError(code),
            _ => Self::Refused(code),
        }
    }

    /// The status that the endpoint answered with.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Delivered(code) | Self::Later(code, _) | Self::Refused(code) => Some(*code),
            Self::ServerError(code) | Self::BadGateway(code) => Some(*code),
            Self::Gone => Some(410),
            Self::TimedOut(_) | Self::Interrupted(_) | Self::Unreachable(_) => None,
        }
    }

    /// What went wrong, for people.
    pub fn reason(&self) -> String {
        match self {
            Self::Delivered(code) => format!("answered {code}"),
            Self::Gone => "the endpoint answered 410 (gone)".into(),
            Self::Refused(code) if (300..400).contains(code) => {
                format!("the endpoint answered {code}; redirects are not followed")
            }
            Self::Later(code, _) | Self::Refused(code) | Self::ServerError(code) | Self::BadGateway(code) => {
                format!("the endpoint answered {code}")
            }
            Self::TimedOut(ms) => format!("the endpoint did not answer within {ms} ms"),
            Self::Interrupted(error) => format!("the connection to the endpoint broke: {error}"),
            Self::Unreachable(error) => format!("the endpoint could not be reached: {error}"),
        }
    }

    /// The word in metrics.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Delivered(_) => "delivered",
            Self::Gone => "gone",
            Self::Later(..) => "deferred",
            Self::Refused(_) => "refused",
            Self::ServerError(_) => "server_error",
            Self::BadGateway(_) | Self::Unreachable(_) => "unreachable",
            Self::TimedOut(_) => "timeout",
            Self::Interrupted(_) => "interrupted",
        }
    }
}

/// Milliseconds of a `Retry-After`: seconds, or a date.
fn retry_after(value: &HeaderValue) -> Option<Millis> {
    let text = value.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(seconds.saturating_mul(1000));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    let left = at.duration_since(std::time::SystemTime::now()).unwrap_or_default();
    Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
}

/// Clients for endpoints; those that may connect in the same way share one with its connections.
#[derive(Default)]
pub(super) struct Clients {
    made: Mutex<Vec<(Kind, Client)>>,
    lookups: Lookups,
}

/// How a client connects.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind {
    https: bool,
    allow_private: bool,
    connect_timeout: Millis,
}

impl Clients {
    /// The client for an endpoint.
    ///
    /// # Errors
    /// Why there cannot be one: this machine has no certificates.
    pub fn get(&self, endpoint: &PushEndpoint) -> Result<Client, String> {
        let definition = &endpoint.definition;
        let kind = Kind {
            https: endpoint.url.scheme() == "https",
            allow_private: definition.allow_private,
            // A connection that takes longer than this is one that does not come, whatever the time for an answer.
            connect_timeout: CONNECT_TIMEOUT.min(definition.timeout_ms * 4 / 5),
        };
        let mut made = self.made.lock();
        if let Some((_, client)) = made.iter().find(|(known, _)| *known == kind) {
            return Ok(client.clone());
        }
        let client = build(kind, &self.lookups).map_err(|error| chain(&error))?;
        // Times differ rarely; should they, older clients go with the endpoints that hold them.
        if made.len() >= 16 {
            made.remove(0);
        }
        made.push((kind, client.clone()));
        Ok(client)
    }
}

fn build(kind: Kind, lookups: &Lookups) -> reqwest::Result<Client> {
    let mut client = Client::builder()
        .redirect(Policy::none())
        // A proxy of the environment would connect to where the hub must not.
        .no_proxy()
        .dns_resolver(Arc::new(Resolver::new(lookups, kind.allow_private)))
        .referer(false)
        .connect_timeout(Duration::from_millis(kind.connect_timeout))
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(256)
        .tcp_nodelay(true);
    if !kind.https {
        // Without TLS, a machine without certificates can do this.
        client = client.tls_certs_only(Vec::<Certificate>::new());
    }
    client.build()
}

/// Sends an event. `now` is the wall clock in milliseconds, `trace` the trace that the endpoint can join.
pub(super) async fn deliver(
    client: &Client,
    endpoint: &PushEndpoint,
    event: &Event,
    trace: Option<TraceContext>,
    now: Millis,
) -> Outcome {
    let (mut headers, body) = match endpoint.definition.mode {
        PushMode::Structured => {
            let mut body = Vec::new();
            CloudEvent::write(event, &mut body);
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(STRUCTURED));
            (headers, body.into())
        }
        PushMode::Binary => CloudEvent::binary(event),
    };
    let (id, timestamp) = (event.id().to_string(), now / 1000);
    let signature = signature(endpoint.secrets(), &id, timestamp, &body);
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("event-hub/", env!("CARGO_PKG_VERSION"))));
    for (name, value) in
        [("webhook-id", id), ("webhook-timestamp", timestamp.to_string()), ("webhook-signature", signature)]
    {
        // An id, a number and base64 have nothing that a header cannot have.
        headers.insert(name, HeaderValue::try_from(value).expect("plain ASCII"));
    }
    if let Some(trace) = trace {
        headers.insert(TRACEPARENT, HeaderValue::try_from(trace.to_string()).expect("hexadecimal numbers"));
        let state = event.header(TRACESTATE).and_then(|state| HeaderValue::from_str(state).ok());
        if let Some(state) = state {
            headers.insert(TRACESTATE, state);
        }
    }
    let timeout = endpoint.definition.timeout_ms;
    let request = client.post(endpoint.url.clone()).headers(headers).body(body);
    match request.timeout(Duration::from_millis(timeout)).send().await {
        Ok(response) => {
            let outcome = Outcome::of(response.status(), response.headers());
            read_to_end(response).await;
            outcome
        }
        Err(error) if error.is_connect() => Outcome::Unreachable(chain(&error.without_url())),
        Err(error) if error.is_timeout() => Outcome::TimedOut(timeout),
        Err(error) => Outcome::Interrupted(chain(&error.without_url())),
    }
}

/// Reads what is left of a short answer, so that the connection can be used again. Nobody looks at it.
async fn read_to_end(mut response: Response) {
    let rest = async {
        let mut read = 0;
        while read <= ANSWER_BYTES
            && let Ok(Some(chunk)) = response.chunk().await
        {
            read += chunk.len();
        }
    };
    let _ = tokio::time::timeout(ANSWER_TIMEOUT, rest).await;
}

/// An error with its causes, short: reqwest itself says little.
fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text.truncate(text.floor_char_boundary(300));
    text
}
