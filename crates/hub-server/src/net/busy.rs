//! Whether a connection has a request of which the answer is not written yet.

use super::Seat;
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

/// Counts the answers that are under way.
#[derive(Clone, Default)]
pub(super) struct Busy(Arc<AtomicUsize>);

/// One answer under way, until it is dropped.
pub(super) struct Answer(Arc<AtomicUsize>);

impl Busy {
    pub fn begin(&self) -> Answer {
        self.0.fetch_add(1, Ordering::Relaxed);
        Answer(self.0.clone())
    }

    pub fn is_busy(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An answer's body, which is under way until hyper lets go of it.
pub(super) struct Counted {
    pub body: Body,
    pub _answer: Answer,
    /// A client behind a proxy has it as long as it is answered.
    pub _seat: Option<Seat>,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
