//! One connection, from its first byte until it is closed or is no longer HTTP.

use super::busy::{Busy, Counted};
use super::certificate::ClientCertificate;
use super::client::Clients;
use super::full::{self, turn_away};
use super::proxy_protocol::{self, Source};
use super::seat::{Capacity, Full};
use super::seldom::SharedSeldom;
use super::stall::Stall;
use super::{Patience, Seat, Tls};
use crate::Settings;
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// A head of a request may be this long: room for the longest token and for what proxies add. hyper begins with 8 KiB, grows, and
/// gives up at twice this at the latest: what anybody can have the hub keep.
const HEAD_BYTES: usize = 24 << 10;

/// When the hub drains, half a request has this long to become a whole one.
const LAST_WORDS: Duration = Duration::from_secs(1);

pub(super) struct Connection {
    /// The other end of the socket.
    pub peer: SocketAddr,
    pub seat: Seat,
    /// Whether a header of the PROXY protocol comes first.
    pub has_header: bool,
    pub clients: Clients,
    /// How many connections a client behind a proxy may have.
    pub settings: watch::Receiver<Arc<Settings>>,
    /// When a client behind a proxy was refused last.
    pub refused: SharedSeldom,
    /// When a connection without a header was closed last.
    pub bad_header: SharedSeldom,
    pub router: Router,
    pub draining: CancellationToken,
    pub patience: Patience,
}

impl Connection {
    pub async fn plain(mut self, mut stream: TcpStream) {
        no_delay(&stream);
        if self.has_header {
            match Box::pin(self.source(&mut stream)).await {
                Ok(()) => {}
                Err(NotServed::Full) => return turn_away(stream),
                Err(NotServed::Closed) => return,
            }
        }
        let stream = Stall::new(stream, self.patience.write);
        self.http(stream, None).await;
    }

    pub async fn secure(mut self, mut stream: TcpStream, tls: Tls) {
        no_delay(&stream);
        if self.has_header && Box::pin(self.source(&mut stream)).await.is_err() {
            return;
        }
        let stream = Stall::new(stream, self.patience.write);
        let handshake = tokio::time::timeout(self.patience.handshake, tls.accept(stream));
        let outcome = tokio::select! {
            biased;
            () = self.draining.cancelled() => return,
            outcome = handshake => outcome,
        };
        let peer = self.peer;
        match outcome {
            Ok(Ok((stream, certificate))) => self.http(stream, certificate).await,
            Ok(Err(err)) => tracing::debug!(%peer, %err, "no TLS"),
            Err(_) => tracing::debug!(%peer, "no TLS in time"),
        }
    }

    /// Reads the header of a trusted proxy, and takes a seat of the client that it names.
    async fn source(&mut self, stream: &mut TcpStream) -> Result<(), NotServed> {
        let header = tokio::time::timeout(self.patience.handshake, proxy_protocol::read(stream));
        let outcome = tokio::select! {
            biased;
            () = self.draining.cancelled() => return Err(NotServed::Closed),
            outcome = header => outcome,
        };
        let peer = self.peer;
        let source = match outcome {
            Ok(Ok(source)) => source,
            Ok(Err(err)) => {
                if let Some(skipped) = self.bad_header.due() {
                    tracing::warn!(%peer, %err, skipped, "connection of a proxy closed");
                }
                return Err(NotServed::Closed);
            }
            Err(_) => {
                if let Some(skipped) = self.bad_header.due() {
                    let err = "no PROXY header in time";
                    tracing::warn!(%peer, err, skipped, "connection of a proxy closed");
                }
                return Err(NotServed::Closed);
            }
        };
        if let Source::Client(client) = source {
            self.clients.set_source(client.ip());
            if !self.clients.is_proxy() {
                self.seat = self.seat_for(client.ip()).map_err(|_| NotServed::Full)?;
            }
        }
        Ok(())
    }

    /// The connection's seat, with one for a client behind the proxy.
    fn seat_for(&self, client: IpAddr) -> Result<Seat, Full> {
        let capacity = Capacity::connections(&self.settings.borrow().limits);
        self.seat.for_client(client, capacity).inspect_err(|full| {
            if let Some(skipped) = self.refused.due() {
                let proxy = self.peer;
                tracing::warn!(%client, %proxy, %full, skipped, "client behind a proxy refused");
            }
        })
    }

    pub async fn http<S>(self, stream: S, certificate: Option<ClientCertificate>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (peer, draining, patience) = (self.peer, self.draining.clone(), self.patience);
        let busy = Busy::default();
        let service = {
            let busy = busy.clone();
            service_fn(move |mut request: hyper::Request<Incoming>| {
                let answer = busy.begin();
                let client = self.clients.of_request(request.headers());
                // Requests of many clients take turns on a proxy's connection, so each counts for itself.
                let seat = match self.clients.is_behind_proxy(&client) {
                    true => self.seat_for(client.ip),
                    false => Ok(self.seat.clone()),
                };
                let response = seat.map(|seat| {
                    let extensions = request.extensions_mut();
                    extensions.insert(ConnectInfo(peer));
                    extensions.insert(client);
                    extensions.insert(seat.clone());
                    if let Some(certificate) = &certificate {
                        extensions.insert(certificate.clone());
                    }
                    (self.router.clone().oneshot(request.map(Body::new)), seat)
                });
                async move {
                    let (response, seat) = match response {
                        Ok((response, seat)) => (response.await?, Some(seat)),
                        Err(_) => (full::answer(), None),
                    };
                    Ok::<_, Infallible>(response.map(|body| Counted { body, _answer: answer, _seat: seat }))
                }
            })
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(patience.head)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut connection = pin!(connection);
        let mut outcome = tokio::select! {
            outcome = connection.as_mut() => Some(outcome),
            () = draining.cancelled() => None,
        };
        if outcome.is_none() {
            // One that is idle is closed by this; an answer under way is the last one.
            connection.as_mut().graceful_shutdown();
        }
        while outcome.is_none() {
            match tokio::time::timeout(LAST_WORDS, connection.as_mut()).await {
                Ok(done) => outcome = Some(done),
                Err(_) if busy.is_busy() => {}
                Err(_) => return,
            }
        }
        if let Some(Err(err)) = outcome {
            tracing::debug!(%peer, %err, "connection ended");
        }
    }
}

/// Why a proxy's connection goes no further.
enum NotServed {
    /// Its client has too many.
    Full,
    /// It has no header, or the hub stops.
    Closed,
}

/// Small frames go out at once. A peer that is gone already will be noticed by whoever reads.
fn no_delay(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
}
