//! Reading a body: so much, and in so much time.

use super::error::Failure;
use crate::limits::Limits;
use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use std::time::Duration;

/// The whole body. One that says beforehand that it is too large is not read at all.
pub(super) async fn read(headers: &HeaderMap, body: Body, limits: &Limits) -> Result<Bytes, Failure> {
    let said =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|said| said > limits.frame_bytes as u64) {
        return Err(Failure::body_too_large(limits.frame_bytes));
    }
    let patience = Duration::from_millis(limits.body_timeout);
    match tokio::time::timeout(patience, collect(body, limits)).await {
        Ok(done) => done,
        Err(_) => Err(Failure::too_slow(limits.body_timeout)),
    }
}

async fn collect(body: Body, limits: &Limits) -> Result<Bytes, Failure> {
    let mut chunks = body.into_data_stream();
    let mut whole = BytesMut::new();
    while let Some(chunk) = chunks.next().await {
        // The client went away in mid-sentence, or its chunks are malformed.
        let chunk = chunk.map_err(|_| Failure::bad_request("the body ended before it was complete"))?;
        if whole.len() + chunk.len() > limits.frame_bytes {
            return Err(Failure::body_too_large(limits.frame_bytes));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.freeze())
}
