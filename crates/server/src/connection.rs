//! One connection from a client.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::app::App;
use crate::guard::Hosts;
use crate::pipeline;
use crate::run::{Stages, Worker};

/// A client that does not finish its headers within this is let go.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);
/// HTTP/1 needs at least this much of a buffer, in bytes.
const SMALLEST_BUFFER: usize = 8 * 1024;
const MAX_STREAMS: u32 = 256;
const MAX_HEADERS: usize = 128;

/// Serves one connection to its end.
pub(crate) async fn serve(
    stream: std::net::TcpStream,
    app: Arc<App>,
    worker: Arc<Worker>,
    hosts: Arc<Hosts>,
    stages: Stages,
) {
    let stream = match TcpStream::from_std(stream).and_then(|s| s.set_nodelay(true).map(|()| s)) {
        Ok(stream) => stream,
        Err(error) => return tracing::debug!(%error, "a connection was gone before it was served"),
    };
    let (max_header, stalled_after) = {
        let snapshot = app.snapshot.load();
        (snapshot.config.server.max_header, snapshot.config.catalog.defaults.budget.limits.write)
    };
    let service = service_fn(move |request| {
        let answer = pipeline::serve(app.clone(), worker.clone(), hosts.clone(), request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let builder = builder(max_header);
    let io = TokioIo::new(WriteGuard::new(stream, stalled_after));
    let connection = builder.serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stages.closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = stages.gone.cancelled() => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

pub(crate) fn builder(max_header: usize) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_headers(MAX_HEADERS)
        .max_buf_size(max_header.max(SMALLEST_BUFFER));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(max_header).unwrap_or(u32::MAX));
    builder
}

/// Ends a connection whose peer takes nothing for too long: nobody asks a stream for its next frame then, so no timer
/// inside it would run.
pub(crate) struct WriteGuard {
    stream: TcpStream,
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl WriteGuard {
    pub(crate) fn new(stream: TcpStream, patience: Duration) -> Self {
        Self { stream, patience, stalled: None }
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.stalled = None;
            return poll;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + patience)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for WriteGuard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for WriteGuard {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(cx, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
