//! The WebSocket of a session: tungstenite over the connection that HTTP gave up.
//!
//! axum's socket fixes the largest frame when the connection is upgraded. Here it can be raised later: a client that has not
//! said who it is may send little. A session is one task, so one waker is enough for both directions.

use super::handshake::Upgraded;
use super::session::size;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, WebSocket};

/// What is read from a socket in one go. Every idle connection keeps one of these.
const READ_BYTES: usize = 8 << 10;
/// Frames gather up to here before they are written without a flush.
const WRITE_BYTES: usize = 64 << 10;

/// The socket of a client, which speaks WebSocket from its first byte on.
pub(crate) struct Socket<S = Upgraded> {
    inner: WebSocket<Blocking<S>>,
    /// An error was answered, or the end: there is nothing more to read.
    is_over: bool,
    /// The last frame was taken, but found no room at once.
    is_blocked: bool,
    /// Bytes of frames that were taken, about.
    taken: u64,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// A socket that takes frames of at most `frame_bytes`.
    pub fn new(stream: S, frame_bytes: usize) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(WRITE_BYTES)
            .max_frame_size(Some(frame_bytes))
            .max_message_size(Some(frame_bytes));
        let stream = Blocking { stream, waker: Waker::noop().clone(), written: 0 };
        let inner = WebSocket::from_raw_socket(stream, Role::Server, Some(config));
        Self { inner, is_over: false, is_blocked: false, taken: 0 }
    }

    /// Bytes that were written.
    pub fn written(&self) -> u64 {
        self.inner.get_ref().written
    }

    /// Bytes that were taken and not written, about.
    pub fn queued(&self) -> usize {
        usize::try_from(self.taken.saturating_sub(self.written())).unwrap_or(usize::MAX)
    }

    /// From the next frame on, frames have at most so many bytes.
    pub fn set_frame_bytes(&mut self, frame_bytes: usize) {
        self.inner.set_config(|config| {
            config.max_frame_size = Some(frame_bytes);
            config.max_message_size = Some(frame_bytes);
        });
    }

    /// The next frame; `None` after the end, or after an error.
    pub fn poll_next(&mut self, context: &Context<'_>) -> Poll<Option<Result<Message, Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        self.wakes(context);
        match ready_unless_blocked(self.inner.read()) {
            Poll::Ready(Err(error)) => {
                self.is_over = true;
                let is_end = matches!(error, Error::AlreadyClosed | Error::ConnectionClosed);
                Poll::Ready(if is_end { None } else { Some(Err(error)) })
            }
            other => other.map(Some),
        }
    }

    /// Whether there is room for another frame.
    pub fn poll_ready(&mut self, context: &Context<'_>) -> Poll<Result<(), Error>> {
        if !self.is_blocked {
            return Poll::Ready(Ok(()));
        }
        self.wakes(context);
        ready_unless_blocked(self.inner.flush()).map(|flushed| {
            self.flushed();
            flushed
        })
    }

    /// Takes a frame; to be called once [`poll_ready`](Self::poll_ready) has said that there is room.
    pub fn start_send(&mut self, message: Message) -> Result<(), Error> {
        self.taken += size(&message) as u64;
        match ready_unless_blocked(self.inner.write(message)) {
            Poll::Ready(written) => written,
            // It is queued all the same.
            Poll::Pending => {
                self.is_blocked = true;
                Ok(())
            }
        }
    }

    /// Writes what was taken.
    pub fn poll_flush(&mut self, context: &Context<'_>) -> Poll<Result<(), Error>> {
        self.wakes(context);
        ready_unless_blocked(self.inner.flush()).map(|flushed| {
            self.flushed();
            match flushed {
                // The last frame was the end.
                Err(Error::ConnectionClosed) => Ok(()),
                flushed => flushed,
            }
        })
    }

    /// Everything that was taken is written.
    fn flushed(&mut self) {
        self.is_blocked = false;
        self.taken = self.written();
    }

    fn wakes(&mut self, context: &Context<'_>) {
        self.inner.get_mut().waker.clone_from(context.waker());
    }
}

fn ready_unless_blocked<T>(done: Result<T, Error>) -> Poll<Result<T, Error>> {
    match done {
        Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        done => Poll::Ready(done),
    }
}

/// An async stream for tungstenite, which expects one that says when it would block.
struct Blocking<S> {
    stream: S,
    /// Woken when there is more.
    waker: Waker,
    /// Bytes that were written.
    written: u64,
}

impl<S: Unpin> Blocking<S> {
    fn poll<T>(
        &mut self,
        act: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> io::Result<T> {
        match act(Pin::new(&mut self.stream), &mut Context::from_waker(&self.waker)) {
            Poll::Ready(done) => done,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl<S: AsyncRead + Unpin> Read for Blocking<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut into = ReadBuf::new(into);
        self.poll(|stream, context| stream.poll_read(context, &mut into))?;
        Ok(into.filled().len())
    }
}

impl<S: AsyncWrite + Unpin> Write for Blocking<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.poll(|stream, context| stream.poll_write(context, bytes))?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.poll(|stream, context| stream.poll_flush(context))
    }
}
