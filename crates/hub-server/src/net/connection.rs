//! One connection, from its first byte until it is closed or is no longer HTTP.

use super::busy::{Busy, Counted};
use super::stall::Stall;
use super::{Patience, Seat, Tls};
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// A head of a request may be this long: room for the longest token and for what proxies add. hyper begins with 8 KiB, grows, and
/// gives up at twice this at the latest: what anybody can have the hub keep.
const HEAD_BYTES: usize = 24 << 10;

/// When the hub drains, half a request has this long to become a whole one.
const LAST_WORDS: Duration = Duration::from_secs(1);

pub(super) struct Connection {
    pub peer: SocketAddr,
    pub seat: Seat,
    pub router: Router,
    pub draining: CancellationToken,
    pub patience: Patience,
}

impl Connection {
    pub async fn plain(self, stream: TcpStream) {
        no_delay(&stream);
        let stream = Stall::new(stream, self.patience.write);
        self.http(stream).await;
    }

    pub async fn secure(self, stream: TcpStream, tls: Tls) {
        no_delay(&stream);
        let stream = Stall::new(stream, self.patience.write);
        let handshake = tokio::time::timeout(self.patience.handshake, tls.accept(stream));
        let outcome = tokio::select! {
            biased;
            () = self.draining.cancelled() => return,
            outcome = handshake => outcome,
        };
        let peer = self.peer;
        match outcome {
            Ok(Ok(stream)) => self.http(stream).await,
            Ok(Err(err)) => tracing::debug!(%peer, %err, "no TLS"),
            Err(_) => tracing::debug!(%peer, "no TLS in time"),
        }
    }

    pub async fn http<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, stream: S) {
        let Self { peer, seat, router, draining, patience } = self;
        let busy = Busy::default();
        let service = {
            let busy = busy.clone();
            service_fn(move |mut request: hyper::Request<Incoming>| {
                let answer = busy.begin();
                request.extensions_mut().insert(ConnectInfo(peer));
                request.extensions_mut().insert(seat.clone());
                let response = router.clone().oneshot(request.map(Body::new));
                async move { response.await.map(|it| it.map(|body| Counted { body, _answer: answer })) }
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

/// Small frames go out at once. A peer that is gone already will be noticed by whoever reads.
fn no_delay(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
}
