//! The loop that accepts.

use super::connection::Connection;
use super::seat::{Capacity, Door, Full};
use super::seldom::Seldom;
use super::{Patience, Place};
use axum::Router;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// What a connection too many is told.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/json\r\n\
    content-length: 84\r\n\
    retry-after: 1\r\n\
    connection: close\r\n\
    \r\n\
    {\"error\":\"too many connections; close some or try again later\",\"code\":\"unavailable\"}";

/// After an error that is the machine's: out of files, out of memory. It passes when connections end.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Acceptor<'a> {
    pub listener: &'a TcpListener,
    pub router: Router,
    pub place: Place,
    /// Of this listener alone.
    pub door: Door,
    pub patience: Patience,
}

impl Acceptor<'_> {
    pub async fn run(self) {
        let (mut refused, mut failed) = (Seldom::default(), Seldom::default());
        let draining = self.place.draining.clone();
        loop {
            let accepted = tokio::select! {
                biased;
                () = draining.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    if let Err(full) = self.admit(stream, peer)
                        && let Some(skipped) = refused.due()
                    {
                        tracing::warn!(%peer, %full, skipped, "connection refused");
                    }
                }
                Err(err) if is_the_peers(&err) => {
                    tracing::debug!(%err, "connection gone before it was accepted");
                }
                Err(err) => {
                    if let Some(skipped) = failed.due() {
                        tracing::error!(%err, skipped, "cannot accept connections");
                    }
                    tokio::select! {
                        () = draining.cancelled() => return,
                        () = tokio::time::sleep(PAUSE) => {}
                    }
                }
            }
        }
    }

    /// Gives a connection a seat and a task, or turns it away.
    fn admit(&self, stream: TcpStream, peer: SocketAddr) -> Result<(), Full> {
        let settings = self.place.settings.borrow().clone();
        let seat = match self.door.enter(peer.ip(), Capacity::connections(&settings.limits)) {
            Ok(seat) => seat,
            Err(full) => {
                // Somebody who expects TLS cannot read it, and a handshake is not cheap.
                if self.place.tls.is_none() {
                    turn_away(stream);
                }
                return Err(full);
            }
        };
        let connection = Connection {
            peer,
            seat,
            router: self.router.clone(),
            draining: self.place.draining.clone(),
            patience: self.patience,
        };
        // A future of its own kind for each: TLS costs those without it nothing.
        let sessions = &self.place.sessions;
        match &self.place.tls {
            Some(tls) => drop(sessions.spawn(connection.secure(stream, tls.clone()))),
            None => drop(sessions.spawn(connection.plain(stream))),
        }
        Ok(())
    }
}

/// Says why, if that needs no waiting, and hangs up.
fn turn_away(stream: TcpStream) {
    // The socket itself, for tokio would first have to hear that it is ready. It does not block: tokio had it.
    let Ok(mut stream) = stream.into_std() else { return };
    // A close over bytes that nobody read is a reset, and the client would not see the answer.
    let _ = stream.read(&mut [0; 1024]);
    let _ = stream.write(FULL);
}

/// Errors of the one connection that was to be accepted: the next may be well.
fn is_the_peers(err: &io::Error) -> bool {
    matches!(
        err.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_connection_too_many_is_told_is_whole() {
        let text = std::str::from_utf8(FULL).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(body["code"], "unavailable");
    }

    #[test]
    fn running_out_of_files_is_waited_out_and_a_lost_peer_is_not() {
        // EMFILE, ENFILE, ENOBUFS, ENOMEM.
        for ours in [24, 23, 105, 12] {
            assert!(!is_the_peers(&io::Error::from_raw_os_error(ours)), "{ours}");
        }
        assert!(is_the_peers(&io::ErrorKind::ConnectionAborted.into()));
    }
}
