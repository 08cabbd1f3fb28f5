//! What a client is told for which there is no seat.

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::io::{Read, Write};
use tokio::net::TcpStream;

macro_rules! body {
    () => {
        "{\"error\":\"too many connections; close some or try again later\",\"code\":\"unavailable\"}"
    };
}

/// What a connection too many is told.
const FULL: &str = concat!(
    "HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/json\r\n\
    content-length: 84\r\n\
    retry-after: 1\r\n\
    connection: close\r\n\
    \r\n",
    body!()
);

/// Says why, if that needs no waiting, and hangs up.
pub(super) fn turn_away(stream: TcpStream) {
    // The socket itself, for tokio would first have to hear that it is ready. It does not block: tokio had it.
    let Ok(mut stream) = stream.into_std() else { return };
    // A close over bytes that nobody read is a reset, and the client would not see the answer.
    let _ = stream.read(&mut [0; 1024]);
    let _ = stream.write(FULL.as_bytes());
}

/// The same as the answer to one request.
pub(super) fn answer() -> Response<Body> {
    let head = [(header::CONTENT_TYPE, "application/json"), (header::RETRY_AFTER, "1")];
    (StatusCode::SERVICE_UNAVAILABLE, head, body!()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_connection_too_many_is_told_is_whole() {
        let (head, body) = FULL.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(body["code"], "unavailable");
    }
}
