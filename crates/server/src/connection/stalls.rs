//! HTTP/2 streams whose client takes nothing.
//!
//! A flow-control window stops one stream while its connection goes on: no write stalls, and nobody asks the body for
//! its next frame, so that no timer inside it would run. Here each body is looked at from outside. One that was not asked
//! for too long is dropped, and with it the upstream connection and everything else that it holds.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::answer::ClientBody;

/// How often a stream is looked at within the time that it may stall.
const LOOKS: u32 = 4;
/// So much is handed over at once, in bytes: who takes a large frame slowly is seen to take it.
const PIECE: usize = 16 * 1024;

/// The streams of one connection.
#[derive(Clone)]
pub(crate) struct Stalls {
    patience: Duration,
    streams: Arc<Mutex<Vec<Weak<Mutex<Stream>>>>>,
    came: Arc<Notify>,
}

pub(crate) struct Stream {
    /// Taken when the client took nothing for too long.
    body: Option<ClientBody>,
    /// Of the last frame, what was not handed over yet.
    rest: Bytes,
    /// Since when nobody has asked for the frame after the last one.
    unasked: Option<Instant>,
}

impl Stalls {
    /// A client may take nothing for `patience`.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, streams: Arc::default(), came: Arc::default() }
    }

    /// A body that is looked at.
    pub(crate) fn watched(&self, body: ClientBody) -> Taken {
        let stream = Arc::new(Mutex::new(Stream { body: Some(body), rest: Bytes::new(), unasked: None }));
        lock(&self.streams).push(Arc::downgrade(&stream));
        self.came.notify_one();
        Taken::Watched(stream)
    }

    /// Looks at the streams as long as there are any, again and again.
    pub(crate) async fn watch(&self) -> Infallible {
        loop {
            self.came.notified().await;
            while self.look() {
                sleep(self.patience / LOOKS).await;
            }
        }
    }

    /// Drops what has stalled, and says whether there is something left to look at.
    fn look(&self) -> bool {
        let mut streams = lock(&self.streams);
        streams.retain(|stream| {
            let Some(stream) = stream.upgrade() else { return false };
            let mut stream = lock(&stream);
            let stalled = stream.unasked.is_some_and(|since| since.elapsed() >= self.patience);
            if stalled {
                stream.body = None;
                stream.rest = Bytes::new();
            }
            !stalled
        });
        !streams.is_empty()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A body on its way to a client.
pub(crate) enum Taken {
    /// Its connection's own guard suffices.
    Plain(ClientBody),
    Watched(Arc<Mutex<Stream>>),
}

impl Stream {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
        };
        if self.rest.is_empty() {
            match Pin::new(body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return other,
            }
        }
        let piece = self.rest.split_to(PIECE.min(self.rest.len()));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

impl Body for Taken {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Self::Plain(body) => Pin::new(body).poll_frame(cx),
            Self::Watched(stream) => {
                let mut stream = lock(stream);
                let poll = stream.poll(cx);
                stream.unasked = poll.is_ready().then(Instant::now);
                poll
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Plain(body) => body.is_end_stream(),
            Self::Watched(stream) => {
                let stream = lock(stream);
                stream.rest.is_empty() && stream.body.as_ref().is_some_and(Body::is_end_stream)
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Plain(body) => body.size_hint(),
            Self::Watched(stream) => {
                let stream = lock(stream);
                // Once a frame is begun nobody asks any more.
                stream
                    .body
                    .as_ref()
                    .filter(|_| stream.rest.is_empty())
                    .map(Body::size_hint)
                    .unwrap_or_default()
            }
        }
    }
}
