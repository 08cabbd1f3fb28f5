//! Tags of answers that a client may keep.

use axum::http::{HeaderMap, HeaderValue, header};

/// Whether `If-None-Match` has a tag. Tags are compared weakly.
pub(super) fn is_listed(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let Ok(tag) = tag.to_str() else { return false };
    let given = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut given = given.flat_map(|value| value.split(','));
    given.any(|listed| listed.trim() == "*" || opaque(listed) == opaque(tag))
}
