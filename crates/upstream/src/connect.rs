//! From an origin to a connection that is ready for requests: DNS, TCP, the proxy's tunnel, TLS, HTTP.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderValue;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::{TransportError, TransportErrorKind, connect_kind, exchange_kind, handshake_kind};
use crate::meter::{HttpSide, Meter};
use crate::origin::Origin;
use crate::proxy::{Proxy, ProxyConfig};
use crate::request::{HttpVersion, RequestForm};
use crate::resolve::Resolver;
use crate::socket::{Duplex, OpenSocket, Probe, SocketSide, tune};
use crate::tls::Tls;
use crate::tunnel;
use crate::upload::Upload;

/// The bound on response headers, per response.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// The smallest share of the connect limit that one of several addresses gets.
const MIN_ADDRESS_SHARE: Duration = Duration::from_millis(250);
/// Receive window of one HTTP/2 stream; the connection gets this for each of its streams, so that a slow reader
/// cannot hold up the others.
const H2_STREAM_WINDOW: u32 = 256 * 1024;

/// Makes connections.
pub(crate) struct Connector {
    pub(crate) tls: Tls,
    pub(crate) proxy: ProxyConfig,
    pub(crate) resolver: Resolver,
    pub(crate) open: Arc<AtomicUsize>,
    pub(crate) h2_streams: usize,
}

/// A connection that is ready for requests, with its driver running.
pub(crate) enum Opened {
    Http1(Http1Parts),
    Http2(Http2Parts),
}

pub(crate) struct Http1Parts {
    pub(crate) sender: http1::SendRequest<Upload>,
    pub(crate) driver: tokio::task::AbortHandle,
    pub(crate) meter: Arc<Meter>,
    pub(crate) probe: Probe,
    pub(crate) form: RequestForm,
    pub(crate) proxy_credential: Option<HeaderValue>,
}

pub(crate) struct Http2Parts {
    pub(crate) sender: http2::SendRequest<Upload>,
    pub(crate) stop: DropGuard,
    pub(crate) meter: Arc<Meter>,
    pub(crate) probe: Probe,
    /// How many streams the peer allows, as last seen.
    pub(crate) peer_streams: Arc<AtomicUsize>,
}

impl Connector {
    pub(crate) fn with_own_count(&self) -> Self {
        Self {
            tls: self.tls.clone(),
            proxy: self.proxy.clone(),
            resolver: self.resolver.clone(),
            open: Arc::new(AtomicUsize::new(0)),
            h2_streams: self.h2_streams,
        }
    }

    /// Connects to `origin`. The caller bounds the whole by the connect limit, of which `limit` is what is left.
    pub(crate) async fn connect(
        &self,
        origin: &Origin,
        version: HttpVersion,
        limit: Duration,
    ) -> Result<Opened, TransportError> {
        let deadline = Instant::now() + limit;
        let meter = Arc::new(Meter::new());
        let proxy = self.proxy.proxy_for(origin);
        let (host, port) = match &proxy {
            Some(proxy) => (proxy.host(), proxy.port()),
            None => (origin.host(), origin.port()),
        };
        let tcp = self.tcp(host, port, deadline).await?;
        let open = OpenSocket::new(Arc::clone(&self.open));
        let (socket, probe) = SocketSide::new(tcp, Arc::clone(&meter), open);
        let mut stream: Box<dyn Duplex> = Box::new(socket);
        let mut form = RequestForm::OriginForm;
        let mut credential = None;
        if let Some(proxy) = &proxy {
            let in_the_clear = !origin.is_tls() && version != HttpVersion::Http2 && proxy.socks().is_none();
            stream = self.through(proxy, origin, stream, !in_the_clear).await?;
            if in_the_clear {
                form = RequestForm::AbsoluteForm;
                credential = proxy.basic_auth().cloned();
            }
        }
        let mut speaks_http2 = version == HttpVersion::Http2;
        if origin.is_tls() {
            let (tls, agreed) = self.tls.connect(origin.host(), version, stream).await?;
            if version == HttpVersion::Http2 && !agreed {
                return Err(TransportError::not_sent(TransportErrorKind::Handshake));
            }
            speaks_http2 = agreed;
            stream = Box::new(tls);
        }
        let io = TokioIo::new(HttpSide::new(stream, Arc::clone(&meter)));
        if speaks_http2 {
            return self.http2(io, meter, probe).await.map(Opened::Http2);
        }
        let (sender, driver) = http1(io).await?;
        let parts = Http1Parts { sender, driver, meter, probe, form, proxy_credential: credential };
        Ok(Opened::Http1(parts))
    }

    /// Tries the addresses in the resolver's order (RFC 6724), each within its share of what is left.
    async fn tcp(&self, host: &str, port: u16, deadline: Instant) -> Result<TcpStream, TransportError> {
        let addresses = self.resolve(host, port).await?;
        let mut left = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        let mut kind = TransportErrorKind::Dns;
        for address in addresses {
            let remaining = deadline.saturating_duration_since(Instant::now());
            let share = (remaining / left.max(1)).max(MIN_ADDRESS_SHARE).min(remaining);
            left = left.saturating_sub(1);
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    tune(&stream);
                    return Ok(stream);
                }
                Ok(Err(error)) => kind = connect_kind(&error),
                Err(_) => kind = TransportErrorKind::ConnectTimeout,
            }
        }
        self.resolver.doubt(host);
        Err(TransportError::not_sent(kind))
    }

    async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, TransportError> {
        let addresses = self.resolver.resolve(host, port).await;
        match addresses.is_empty() {
            true => Err(TransportError::not_sent(TransportErrorKind::Dns)),
            false => Ok(addresses),
        }
    }

    /// Passes through `proxy`: TLS to the proxy itself if it asks for it, then its tunnel if one is wanted.
    async fn through(
        &self,
        proxy: &Proxy,
        origin: &Origin,
        mut stream: Box<dyn Duplex>,
        tunnel: bool,
    ) -> Result<Box<dyn Duplex>, TransportError> {
        if proxy.is_tls() {
            let (tls, _) = self.tls.connect(proxy.host(), HttpVersion::Http1, stream).await?;
            stream = Box::new(tls);
        }
        if !tunnel {
            return Ok(stream);
        }
        let resolved = match proxy.resolves_here() {
            true => Some(self.resolve(origin.host(), origin.port()).await?),
            false => None,
        };
        tunnel::open(proxy, origin, resolved.as_deref(), stream).await
    }

    async fn http2(
        &self,
        io: TokioIo<HttpSide>,
        meter: Arc<Meter>,
        probe: Probe,
    ) -> Result<Http2Parts, TransportError> {
        let stop = CancellationToken::new();
        let streams = u32::try_from(self.h2_streams.max(1)).unwrap_or(u32::MAX);
        let handshake = http2::Builder::new(ConnectionTasks { stop: stop.clone() })
            .timer(TokioTimer::new())
            .initial_stream_window_size(H2_STREAM_WINDOW)
            .initial_connection_window_size(H2_STREAM_WINDOW.saturating_mul(streams))
            .max_header_list_size(u32::try_from(MAX_HEADER_BYTES).unwrap_or(u32::MAX))
            .handshake::<_, Upload>(io)
            .await;
        let (sender, mut connection) = handshake.map_err(|error| failed(&error))?;
        let unless_dropped = stop.clone().drop_guard();
        tokio::select! {
            biased;
            _ended = &mut connection => return Err(not_ready()),
            () = settings_received(&meter) => {}
        }
        let peer_streams = Arc::new(AtomicUsize::new(connection.current_max_send_streams()));
        let noted = Arc::clone(&peer_streams);
        let driver = poll_fn(move |cx| {
            let polled = Pin::new(&mut connection).poll(cx);
            noted.store(connection.current_max_send_streams(), Ordering::Release);
            polled
        });
        tokio::spawn(stop.run_until_cancelled_owned(driver));
        Ok(Http2Parts { sender, stop: unless_dropped, meter, probe, peer_streams })
    }
}

/// A new HTTP/2 connection is ready only when the peer's SETTINGS came (RFC 9113, section 3.4): they bound the number
/// of streams, and a peer that never sends them would hang every request.
async fn settings_received(meter: &Meter) {
    const FRAME_HEADER: u64 = 9;
    while meter.drained() < FRAME_HEADER {
        meter.changed().await;
    }
}

async fn http1(
    io: TokioIo<HttpSide>,
) -> Result<(http1::SendRequest<Upload>, tokio::task::AbortHandle), TransportError> {
    let handshake = http1::Builder::new().max_buf_size(MAX_HEADER_BYTES).handshake::<_, Upload>(io).await;
    let (sender, connection) = handshake.map_err(|error| failed(&error))?;
    let driver = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(kind = ?exchange_kind(&error), "connection ended with an error");
        }
    });
    Ok((sender, driver.abort_handle()))
}

/// Runs hyper's tasks of one HTTP/2 connection until they end or the connection is stopped.
#[derive(Clone)]
struct ConnectionTasks {
    stop: CancellationToken,
}

impl<F> hyper::rt::Executor<F> for ConnectionTasks
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(task));
    }
}

fn not_ready() -> TransportError {
    TransportError::not_sent(TransportErrorKind::Handshake)
}

fn failed(error: &hyper::Error) -> TransportError {
    TransportError::not_sent(handshake_kind(error))
}
