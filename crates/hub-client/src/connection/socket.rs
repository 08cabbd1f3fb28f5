//! Opening the socket.

use std::io;

use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self};
use tokio_tungstenite::{Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config};

use crate::{Error, ErrorKind, Result, Target};

pub(super) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// What is read in one go.
const READ_BYTES: usize = 64 << 10;
/// What gathers before it is written without a flush.
const WRITE_BYTES: usize = 64 << 10;

/// Connects in time.
pub(super) async fn open(target: &Target) -> Result<Socket> {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(WRITE_BYTES)
        .max_message_size(Some(target.frame_bytes))
        .max_frame_size(Some(target.frame_bytes));
    let connector = match target.tls()? {
        Some(tls) => Connector::Rustls(tls),
        None => Connector::Plain,
    };
    // Without delay: frames are gathered here, and whoever waits for an ack of TCP waits for nothing.
    let connecting = connect_async_tls_with_config(&target.url, Some(config), true, Some(connector));
    match tokio::time::timeout(target.connect_timeout, Box::pin(connecting)).await {
        Ok(connected) => connected.map(|(socket, _)| socket).map_err(|error| explain(target, error)),
        Err(_) => {
            let text = format!(
                "{} did not answer within {} s",
                target.shown(),
                target.connect_timeout.as_secs_f32()
            );
            Err(Error::new(ErrorKind::TimedOut, text))
        }
    }
}

fn explain(target: &Target, error: tungstenite::Error) -> Error {
    let url = target.shown();
    match error {
        tungstenite::Error::Http(response) => {
            let status = response.status();
            let text = format!(
                "{url} is no WebSocket of a hub (HTTP {status}); HTTP and WebSocket have ports of their own"
            );
            // A hub that stops, or a proxy without one: not a wrong address.
            let kind = if status.is_server_error() { ErrorKind::Connect } else { ErrorKind::NotAHub };
            Error::new(kind, text)
        }
        tungstenite::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Error::new(ErrorKind::Connect, format!("no hub at {url}")).with(error)
        }
        tungstenite::Error::Io(error) => {
            Error::new(ErrorKind::Connect, format!("{url} cannot be reached")).with(error)
        }
        error @ (tungstenite::Error::Protocol(_) | tungstenite::Error::HttpFormat(_)) => {
            Error::new(ErrorKind::NotAHub, format!("{url} is no WebSocket of a hub")).with(error)
        }
        error => Error::new(ErrorKind::Connect, format!("{url} cannot be reached")).with(error),
    }
}
