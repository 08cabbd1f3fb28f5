//! Reading a body: so much, and in so much time.

use super::error::Failure;
use crate::limits::Limits;
use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use hub_proto::Error;
use serde::de::DeserializeOwned;
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

/// An object of JSON in a body, of which `shape` says what it has.
pub(super) fn object<T: DeserializeOwned>(body: &[u8], shape: &str) -> Result<T, Failure> {
    let wrong = |error: &str| {
        let error = &error[..error.floor_char_boundary(200)];
        Failure::bad_request(format!("the body is not {shape}: {error}"))
    };
    // A derived reader takes an array for an object.
    let is_object = body.trim_ascii_start().first() == Some(&b'{');
    match serde_json::from_slice(body) {
        Ok(asked) if is_object => Ok(asked),
        Err(error) if !error.is_data() => {
            Err(Error::bad_json(format!("the body is not JSON: {error}")).into())
        }
        Ok(_) => Err(wrong("not an object")),
        Err(error) => Err(wrong(&error.to_string())),
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
