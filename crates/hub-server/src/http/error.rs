//! How a refusal looks: a status, and `{error, code}` as JSON.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hub_proto::{Code, Error, EventId};
use serde::Serialize;
use std::borrow::Cow;
use std::time::Duration;

/// The answer to a request, or why there is none.
pub(super) type Answer = Result<Response, Failure>;

/// A call to the bus that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why a request was refused.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    body: Body,
    retry_after_ms: Option<u64>,
    /// The rest of the body may still come, and is not the next request: the connection ends.
    closes: bool,
}

/// What the client gets to read.
#[derive(Debug, Serialize)]
struct Body {
    error: Cow<'static, str>,
    code: &'static str,
    /// The event it is about; after `unavailable`, sending this id again is safe.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<EventId>,
}

impl Failure {
    fn new(status: StatusCode, code: &'static str, error: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            body: Body { error: error.into(), code, id: None },
            retry_after_ms: None,
            closes: false,
        }
    }

    pub fn bad_request(error: impl Into<Cow<'static, str>>) -> Self {
        Error::bad_request(error).into()
    }

    pub fn no_such_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path; see docs/http.md")
    }

    pub fn no_such_method() -> Self {
        let error = "this path does not take this method; the header Allow names those that it takes";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", error)
    }

    pub fn no_such_topic(topic: &str) -> Self {
        Self::not_found(format!("topic {topic} does not exist"))
    }

    pub fn not_found(error: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", error)
    }

    /// Whether there is no such thing.
    pub fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// The code that a program goes by.
    pub fn code(&self) -> &'static str {
        self.body.code
    }

    /// It may be well in a moment.
    pub fn later(error: Error) -> Self {
        Self { retry_after_ms: Some(1_000), ..error.into() }
    }

    /// The client took too long to send its body.
    pub fn too_slow(limit_ms: u64) -> Self {
        let error = format!("the body was not complete after {limit_ms} ms; send it faster");
        Self { closes: true, ..Self::new(StatusCode::REQUEST_TIMEOUT, "timeout", error) }
    }

    /// The body is larger than allowed, and was not read to its end.
    pub fn body_too_large(limit: usize) -> Self {
        let error = format!("the body has more than {limit} bytes, which is the limit");
        Self { closes: true, ..Error::too_large(error).into() }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.body.error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match error.code {
            Code::NoToken
            | Code::JwtInvalid
            | Code::TokenExpired
            | Code::TokenRevoked
            | Code::Unauthorized => StatusCode::UNAUTHORIZED,
            // Waiting does not help against a quota.
            Code::Forbidden | Code::QuotaExceeded => StatusCode::FORBIDDEN,
            Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::SchemaViolation => StatusCode::UNPROCESSABLE_ENTITY,
            Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Code::IdConflict | Code::GroupConflict => StatusCode::CONFLICT,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        };
        if error.code == Code::Internal {
            tracing::error!(error = %error.msg, "a request failed inside the hub");
        }
        let Error { code, msg, id, retry_after_ms } = error;
        Self { status, body: Body { error: msg, code: code.as_str(), id }, retry_after_ms, closes: false }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut answer = (self.status, Json(self.body)).into_response();
        let headers = answer.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.closes {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(ms) = self.retry_after_ms {
            headers.insert(header::RETRY_AFTER, ms.div_ceil(1000).max(1).into());
        }
        answer
    }
}

/// Waits for the bus, but not for ever: a store that hangs must not keep connections.
pub(super) async fn in_time<T, E: Into<Failure>>(
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(PATIENCE, call).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => {
            let waited = PATIENCE.as_secs();
            Err(Error::unavailable(format!("the store did not answer within {waited} s; try again")).into())
        }
    }
}

/// A value of a stranger's, for a message: quoted, escaped and short.
pub(super) fn shown(value: &str) -> String {
    const MAX: usize = 48;
    match value.len() <= MAX {
        true => format!("{value:?}"),
        false => format!("{:?}", format!("{}…", &value[..value.floor_char_boundary(MAX)])),
    }
}
