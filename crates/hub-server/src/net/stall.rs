//! A socket on which a write has to get on.
//!
//! hyper and rustls know no end of a write: a peer that asks and never reads would keep its seat for ever. This is below
//! both of them, and so below a WebSocket too.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Fails once a write has made no progress for `patience`.
pub(super) struct Stall<S> {
    io: S,
    patience: Duration,
    /// Runs while a write waits. Most never do, and cost nothing.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S: Unpin> Stall<S> {
    pub fn new(io: S, patience: Duration) -> Self {
        Self { io, patience, waiting: None }
    }

    /// What came of a write, or the end of patience with it.
    fn watched<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let outcome = write(Pin::new(&mut self.io), cx);
        if outcome.is_ready() {
            self.waiting = None;
            return outcome;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(waiting.as_mut().poll(cx));
        // The timer stays: whoever tries again is told again.
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stall<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stall<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.watched(cx, |io, cx| io.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.watched(cx, |io, cx| io.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A socket has nothing to flush, so this says nothing about a write that waits.
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const PATIENCE: Duration = Duration::from_secs(120);

    #[tokio::test(start_paused = true)]
    async fn a_write_that_gets_on_has_all_the_time_it_needs_and_one_that_does_not_ends() {
        let (io, mut peer) = duplex(1);
        let mut io = Stall::new(io, PATIENCE);
        assert!(io.waiting.is_none());
        let slowly = tokio::spawn(async move {
            for _ in 0..3 {
                tokio::time::sleep(PATIENCE - Duration::from_secs(1)).await;
                peer.read_u8().await.unwrap();
            }
            peer
        });
        io.write_all(b"1234").await.unwrap();
        assert!(io.waiting.is_none(), "a connection that waits for nothing has no timer");
        let _peer = slowly.await.unwrap();
        let error = io.write_all(b"5").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
