//! The body of a request on its way out.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::meter::Stamp;

/// One HTTP/2 DATA frame of the default maximum size (RFC 9113, section 4.2): h2 takes the next piece only when the
/// windows allow it, so the pieces taken measure what the upstream accepts.
const H2_PIECE: usize = 16 * 1024;

/// A whole body, handed to hyper in pieces without copying.
#[derive(Debug)]
pub(crate) struct Upload {
    rest: Bytes,
    piece: usize,
    progress: Arc<Progress>,
}

/// How far hyper has taken a body.
#[derive(Debug)]
pub(crate) struct Progress {
    taken: AtomicBool,
    took_at: Stamp,
    changed: Notify,
}

impl Upload {
    /// For HTTP/1.1: in one piece; the connection's meter shows what the socket took of it.
    pub(crate) fn whole(body: Bytes) -> (Self, Arc<Progress>) {
        Self::in_pieces(body, usize::MAX)
    }

    /// For HTTP/2, where the socket is shared.
    pub(crate) fn framed(body: Bytes) -> (Self, Arc<Progress>) {
        Self::in_pieces(body, H2_PIECE)
    }

    fn in_pieces(rest: Bytes, piece: usize) -> (Self, Arc<Progress>) {
        let progress = Arc::new(Progress {
            taken: AtomicBool::new(rest.is_empty()),
            took_at: Stamp::now(),
            changed: Notify::new(),
        });
        (Self { rest, piece, progress: Arc::clone(&progress) }, progress)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let count = self.piece.min(self.rest.len());
        let piece = self.rest.split_to(count);
        self.progress.took_at.touch();
        if self.rest.is_empty() {
            self.progress.taken.store(true, Ordering::Release);
            self.progress.changed.notify_one();
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

impl Progress {
    /// hyper has taken the whole body.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    pub(crate) fn last_taken(&self) -> Instant {
        self.took_at.last()
    }

    /// Waits until hyper has taken the whole body. One waiter.
    pub(crate) async fn taken(&self) {
        while !self.is_taken() {
            self.changed.notified().await;
        }
    }
}
