//! One connection from a client.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::guard::Hosts;
use crate::pipeline;
use crate::run::{Stages, Worker};

mod stalls;
#[cfg(test)]
mod tests;

use stalls::{Stalls, Taken};

/// A client that does not begin within this is let go.
const BEGIN_WITHIN: Duration = Duration::from_secs(30);
/// A client that does not finish its headers within this is let go. It is also how long a connection is kept between two
/// requests: longer than the 60 s of common load balancers, which would else send a request into a connection that is
/// being closed, and answer 502 (AWS, "Troubleshoot your Application Load Balancers", keep-alive of the target).
const HEADERS_WITHIN: Duration = Duration::from_secs(75);
/// HTTP/1 needs at least this much of a buffer, in bytes.
const SMALLEST_BUFFER: usize = 8 * 1024;
/// How often an HTTP/2 client is asked whether it is still there, and how long it may take to say so: its connection may be
/// silent for as long as it likes.
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(20);
/// The same by TCP, for whoever waits for an answer by HTTP/1.1.
const PROBED_AFTER: Duration = Duration::from_secs(30);
const PROBED_EVERY: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;
const MAX_STREAMS: u32 = 256;
/// Until so many bytes came it may be unclear which version of HTTP is spoken: HTTP/2 begins with them (RFC 9113, section
/// 3.4), and every HTTP/1.1 request with its Host is longer.
const PREFACE: usize = 24;
/// Once the listener is closed, connections that are open can ask so much longer and be told to go elsewhere.
const LAST_REQUESTS: Duration = Duration::from_secs(1);

/// Serves one connection to its end.
pub(crate) async fn serve(
    stream: std::net::TcpStream,
    app: Arc<App>,
    worker: Arc<Worker>,
    hosts: Arc<Hosts>,
    stages: Stages,
) {
    let (max_header, stalled_after) = {
        let snapshot = app.snapshot.load();
        (snapshot.config.server.max_header, snapshot.config.catalog.defaults.budget.limits.write)
    };
    let stream = match TcpStream::from_std(stream).and_then(|s| tune(&s, stalled_after).map(|()| s)) {
        Ok(stream) => stream,
        Err(error) => return tracing::debug!(%error, "a connection was gone before it was served"),
    };
    let stalls = Stalls::new(stalled_after);
    let two = CancellationToken::new();
    let (watching, two_seen) = (stalls.clone(), two.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let watched = (request.version() == Version::HTTP_2).then(|| stalls.clone());
        if watched.is_some() {
            two_seen.cancel();
        }
        let answer = pipeline::serve(app.clone(), worker.clone(), hosts.clone(), request);
        async move {
            let answer = answer.await.map(|body| match watched {
                Some(stalls) => stalls.watched(body),
                None => Taken::Plain(body),
            });
            Ok::<_, Infallible>(answer)
        }
    });
    let builder = builder(max_header);
    let io = TokioIo::new(WriteGuard::new(stream, stalled_after));
    let mut connection = std::pin::pin!(builder.serve_connection(io, service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        never = watching.watch() => match never {},
        () = leave(&stages, &two) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                never = watching.watch() => match never {},
                () = stages.gone.cancelled() => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

/// A machine that lost its power or its network says no goodbye. While something is on its way to it, it counts as gone
/// once nothing was acknowledged for `stalled_after`, as one that takes nothing; while a request waits in silence, once
/// it answers no probe. Its upstream call then ends with it.
fn tune(stream: &TcpStream, stalled_after: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive =
        TcpKeepalive::new().with_time(PROBED_AFTER).with_interval(PROBED_EVERY).with_retries(PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(stalled_after))?;
    Ok(())
}

/// When a connection ends after what it is doing. HTTP/2 can say so while the drain's delay lasts, so that clients turn
/// elsewhere in time (but not before its first request: that would close it unanswered). HTTP/1.1 says so with each
/// answer; who asks only after the delay still gets to hear why not.
async fn leave(stages: &Stages, two: &CancellationToken) {
    let by_goaway = async {
        stages.draining.cancelled().await;
        two.cancelled().await;
    };
    let at_the_end = async {
        stages.closing.cancelled().await;
        sleep(LAST_REQUESTS).await;
    };
    tokio::select! {
        () = by_goaway => {}
        () = at_the_end => {}
    }
}

pub(crate) fn builder(max_header: usize) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // An HTTP/1 request has at most 100 headers, which is hyper's own bound: with another one it would take memory from the
    // heap to read each request.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(max_header.max(SMALLEST_BUFFER));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN)
        .max_header_list_size(u32::try_from(max_header).unwrap_or(u32::MAX));
    builder
}

/// Ends a connection whose peer takes nothing for too long: nobody asks a stream for its next frame then, so no timer
/// inside it would run. Ends one whose peer does not begin, too: which version it speaks, and whose timers hold, is known
/// by its first bytes.
pub(crate) struct WriteGuard {
    stream: TcpStream,
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    /// Until the beginning is here.
    opening: Option<Pin<Box<Sleep>>>,
    begun: usize,
}

impl WriteGuard {
    pub(crate) fn new(stream: TcpStream, patience: Duration) -> Self {
        let opening = Some(Box::pin(sleep(BEGIN_WITHIN)));
        Self { stream, patience, stalled: None, opening, begun: 0 }
    }

    fn begin(&mut self, cx: &mut Context<'_>, read: usize, pending: bool) -> Poll<io::Result<()>> {
        self.begun += read;
        if self.begun >= PREFACE {
            self.opening = None;
        }
        if !pending {
            return Poll::Ready(Ok(()));
        }
        match self.opening.as_mut().map(|opening| opening.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            _ => Poll::Pending,
        }
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
        let before = buf.filled().len();
        let poll = Pin::new(&mut self.stream).poll_read(cx, buf);
        if self.opening.is_none() || matches!(poll, Poll::Ready(Err(_))) {
            return poll;
        }
        let read = buf.filled().len() - before;
        self.begin(cx, read, poll.is_pending())
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
        // A socket has nothing of its own to flush: that says nothing of the peer.
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
