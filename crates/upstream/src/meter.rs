//! Watches the bytes of one connection, to know what hyper does not tell: whether anything of a request reached the
//! socket, whether all of it did, and since when the upstream takes nothing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::socket::Duplex;

/// A moment that one task sets and another reads.
#[derive(Debug)]
pub(crate) struct Stamp {
    base: Instant,
    nanos: AtomicU64,
}

impl Stamp {
    pub(crate) fn now() -> Self {
        Self { base: Instant::now(), nanos: AtomicU64::new(0) }
    }

    pub(crate) fn touch(&self) {
        let nanos = u64::try_from(self.base.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.nanos.store(nanos, Ordering::Release);
    }

    pub(crate) fn last(&self) -> Instant {
        self.base + Duration::from_nanos(self.nanos.load(Ordering::Acquire))
    }
}

/// What is known of the bytes of one connection.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Bytes that the socket took (below TLS).
    written: AtomicU64,
    /// `written` when hyper's buffers were last empty and flushed.
    flushed: AtomicU64,
    /// Bytes of HTTP that came (above TLS, whose own records do not count).
    read: AtomicU64,
    /// All bytes that had come are parsed: hyper asked for more and there was none.
    drained: AtomicU64,
    /// The socket refused the last write.
    blocked: AtomicBool,
    wrote_at: Stamp,
    read_at: Stamp,
    changed: Notify,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self {
            written: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            read: AtomicU64::new(0),
            drained: AtomicU64::new(0),
            blocked: AtomicBool::new(false),
            wrote_at: Stamp::now(),
            read_at: Stamp::now(),
            changed: Notify::new(),
        }
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    pub(crate) fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    pub(crate) fn read(&self) -> u64 {
        self.read.load(Ordering::Acquire)
    }

    pub(crate) fn drained(&self) -> u64 {
        self.drained.load(Ordering::Acquire)
    }

    pub(crate) fn blocked(&self) -> bool {
        self.blocked.load(Ordering::Acquire)
    }

    pub(crate) fn last_write(&self) -> Instant {
        self.wrote_at.last()
    }

    pub(crate) fn last_read(&self) -> Instant {
        self.read_at.last()
    }

    /// Waits for the next flush or drain. One waiter: the only exchange of an HTTP/1.1 connection, or the handshake.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(crate) fn note_write(&self, written: &Poll<io::Result<usize>>) {
        self.blocked.store(written.is_pending(), Ordering::Release);
        if let Poll::Ready(Ok(count)) = written {
            self.written.fetch_add(*count as u64, Ordering::AcqRel);
            self.wrote_at.touch();
        }
    }
}

/// The HTTP side: counts what hyper reads, and knows when it has nothing left to write.
pub(crate) struct HttpSide {
    inner: Box<dyn Duplex>,
    meter: Arc<Meter>,
}

impl HttpSide {
    pub(crate) fn new(inner: Box<dyn Duplex>, meter: Arc<Meter>) -> Self {
        Self { inner, meter }
    }
}

impl AsyncRead for HttpSide {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        let count = buf.filled().len().saturating_sub(before);
        if count > 0 {
            self.meter.read.fetch_add(count as u64, Ordering::AcqRel);
            self.meter.read_at.touch();
        } else if self.meter.drained() < self.meter.read() || polled.is_ready() {
            self.meter.drained.store(self.meter.read(), Ordering::Release);
            self.meter.changed.notify_one();
        }
        polled
    }
}

impl AsyncWrite for HttpSide {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        let written = self.meter.written();
        if self.meter.flushed.swap(written, Ordering::AcqRel) != written {
            self.meter.changed.notify_one();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
