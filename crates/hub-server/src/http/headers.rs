//! Which headers of a request become headers of the event.
//!
//! Those that begin with `x-`, by their names in lower case, and the trace that the request belongs to. Left behind are headers that come from proxies, gateways and
//! browsers and not from whoever publishes: an event is kept and read by others, and somebody's address or credentials
//! have no place in it. `x-hub-…` is refused, when the event is checked. The lists are best effort: nobody knows all names.

use super::error::Failure;
use axum::http::HeaderMap;
use hub_proto::trace::{TRACEPARENT, TRACESTATE};

/// Names that are not the publisher's.
const LEFT_BEHIND: &[&str] = &[
    "x-api-key",
    "x-arr-ssl",
    "x-client-ip",
    "x-cloud-trace-context",
    "x-cluster-client-ip",
    "x-forwarded",
    "x-real-ip",
    "x-real-port",
    "x-request-id",
    "x-request-start",
    "x-requested-with",
    "x-scheme",
];

/// Beginnings of such names.
const LEFT_BEHIND_STARTS: &[&str] = &[
    "x-amz-",
    "x-amzn-",
    "x-appengine-",
    "x-auth-",
    "x-azure-",
    "x-csrf-",
    "x-envoy-",
    "x-forwarded-",
    "x-goog-",
    "x-ms-",
    "x-original-",
    "x-vercel-",
    "x-xsrf-",
];

/// Parts of names that tell of credentials, wherever they stand.
const LEFT_BEHIND_PARTS: &[&str] = &["authorization", "cookie", "jwt", "password", "secret", "token"];

/// The event's headers, in the order they came.
pub(super) fn of_request(headers: &HeaderMap) -> Result<Vec<(String, String)>, Failure> {
    let mut taken = Vec::new();
    // Names are in lower case here already.
    for (name, value) in headers.iter().filter(|(name, _)| is_the_publishers(name.as_str())) {
        let value = std::str::from_utf8(value.as_bytes())
            .map_err(|_| Failure::bad_request(format!("header {name} is not UTF-8")))?;
        taken.push((name.as_str().to_owned(), value.to_owned()));
    }
    Ok(taken)
}

fn is_the_publishers(name: &str) -> bool {
    is_of_x(name) || name == TRACEPARENT || name == TRACESTATE
}

fn is_of_x(name: &str) -> bool {
    name.starts_with("x-")
        && !LEFT_BEHIND.contains(&name)
        && !LEFT_BEHIND_STARTS.iter().any(|start| name.starts_with(start))
        && !LEFT_BEHIND_PARTS.iter().any(|part| name.contains(part))
}
