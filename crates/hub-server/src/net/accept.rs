//! The loop that accepts.

use super::client::Clients;
use super::connection::Connection;
use super::full::turn_away;
use super::seat::{Capacity, Door, Full};
use super::seldom::{Seldom, SharedSeldom};
use super::{Patience, Place};
use axum::Router;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

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
        let (refused, mut failed) = (SharedSeldom::default(), Seldom::default());
        let bad_header = SharedSeldom::default();
        let draining = self.place.draining.clone();
        loop {
            let accepted = tokio::select! {
                biased;
                () = draining.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    if let Err(full) = self.admit(stream, peer, (&refused, &bad_header))
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
    fn admit(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        (refused, bad_header): (&SharedSeldom, &SharedSeldom),
    ) -> Result<(), Full> {
        let settings = self.place.settings.borrow().clone();
        let capacity = Capacity::connections(&settings.limits);
        let clients = Clients::of_peer(settings.proxies.trusted.clone(), peer.ip());
        // A proxy's connections are as many as its clients need; those are counted as soon as they are known.
        let entered = match clients.is_proxy() {
            true => self.door.enter_proxy(capacity),
            false => self.door.enter(peer.ip(), capacity),
        };
        let seat = match entered {
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
            has_header: settings.proxies.protocol && clients.is_proxy(),
            clients,
            settings: self.place.settings.clone(),
            refused: refused.clone(),
            bad_header: bad_header.clone(),
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
    fn running_out_of_files_is_waited_out_and_a_lost_peer_is_not() {
        // EMFILE, ENFILE, ENOBUFS, ENOMEM.
        for ours in [24, 23, 105, 12] {
            assert!(!is_the_peers(&io::Error::from_raw_os_error(ours)), "{ours}");
        }
        assert!(is_the_peers(&io::ErrorKind::ConnectionAborted.into()));
    }
}
