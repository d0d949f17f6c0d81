//! The TCP socket under everything: its options, its bytes, and whether it is still there.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::meter::Meter;

/// Time without traffic before the first probe.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// Time between probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Unanswered probes after which the peer counts as dead.
const KEEPALIVE_PROBES: u32 = 3;
/// How long sent data may stay unacknowledged; above the longest write limit of the built-in profiles (60 s), so that
/// ours strikes first.
#[cfg(target_os = "linux")]
const USER_TIMEOUT: Duration = Duration::from_secs(75);

/// Sets the options of a new socket. They are an improvement, not a condition: a platform that refuses one still gets
/// its connection.
pub(crate) fn tune(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_PROBES);
    let socket = SockRef::from(stream);
    let mut failed = socket.set_tcp_nodelay(true).is_err();
    failed |= socket.set_tcp_keepalive(&keepalive).is_err();
    #[cfg(target_os = "linux")]
    {
        failed |= socket.set_tcp_user_timeout(Some(USER_TIMEOUT)).is_err();
    }
    if failed {
        tracing::debug!("a socket option could not be set");
    }
}

/// Either end of a byte stream, so that TCP, TLS and TLS in a tunnel are one type.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Counts a socket as open for as long as it lives.
#[derive(Debug)]
pub(crate) struct OpenSocket(Arc<AtomicUsize>);

impl OpenSocket {
    pub(crate) fn new(open: Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::AcqRel);
        Self(open)
    }
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Looks at a socket that somebody else reads and writes. It does not keep the socket open.
#[derive(Debug)]
pub(crate) struct Probe(Weak<Mutex<TcpStream>>);

/// What a look at a socket shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketState {
    /// Open, nothing to read.
    Quiet,
    /// Open, with something to read (which may be followed by the end).
    Talking,
    /// Closed by the peer, broken, or gone.
    Ended,
}

impl Probe {
    /// Asks the kernel, since the runtime learns of a close only when it next polls for events.
    pub(crate) fn state(&self) -> SocketState {
        let Some(socket) = self.0.upgrade() else { return SocketState::Ended };
        let stream = lock(&socket);
        match SockRef::from(&*stream).peek(&mut [MaybeUninit::uninit(); 1]) {
            Ok(0) => SocketState::Ended,
            Ok(_) => SocketState::Talking,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => SocketState::Quiet,
            Err(_) => SocketState::Ended,
        }
    }
}

/// The socket, counting what the kernel took.
pub(crate) struct SocketSide {
    // Its one driver is the only regular user, so the lock is free but for the moment of a probe. (Sharing the stream
    // without a lock would forgo the runtime's own `poll_read`, which saves a system call per burst.)
    socket: Arc<Mutex<TcpStream>>,
    meter: Arc<Meter>,
    _open: OpenSocket,
}

impl SocketSide {
    pub(crate) fn new(socket: TcpStream, meter: Arc<Meter>, open: OpenSocket) -> (Self, Probe) {
        let socket = Arc::new(Mutex::new(socket));
        let probe = Probe(Arc::downgrade(&socket));
        (Self { socket, meter, _open: open }, probe)
    }
}

impl AsyncRead for SocketSide {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.socket)).poll_read(cx, buf)
    }
}

impl AsyncWrite for SocketSide {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut *lock(&self.socket)).poll_write(cx, buf);
        self.meter.note_write(&written);
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut *lock(&self.socket)).poll_write_vectored(cx, bufs);
        self.meter.note_write(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.socket)).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.socket)).poll_shutdown(cx)
    }
}

fn lock(socket: &Mutex<TcpStream>) -> MutexGuard<'_, TcpStream> {
    socket.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (near, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn small_writes_leave_at_once_and_a_dead_peer_is_noticed() {
        let (near, _far) = pair().await;
        tune(&near);
        let socket = SockRef::from(&near);
        assert!(socket.tcp_nodelay().unwrap());
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEPALIVE_IDLE);
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(USER_TIMEOUT));
    }

    /// Waits for the kernel only: the runtime is not asked.
    fn until(probe: &Probe, wanted: SocketState) {
        let started = std::time::Instant::now();
        while probe.state() != wanted {
            assert!(started.elapsed() < Duration::from_secs(10), "still {:?}", probe.state());
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn a_probe_sees_what_the_peer_did_without_the_runtime_and_takes_nothing_away() {
        let (near, mut far) = pair().await;
        let open = Arc::new(AtomicUsize::new(0));
        let (side, probe) = SocketSide::new(near, Arc::new(Meter::new()), OpenSocket::new(Arc::clone(&open)));
        assert_eq!(probe.state(), SocketState::Quiet);
        far.write_all(b"!").await.unwrap();
        until(&probe, SocketState::Talking);
        assert_eq!(probe.state(), SocketState::Talking, "the byte is still there");
        assert_eq!(open.load(Ordering::SeqCst), 1);
        drop(side);
        assert_eq!(probe.state(), SocketState::Ended, "the probe keeps no socket open");
        assert_eq!(open.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_probe_sees_a_close() {
        let (near, far) = pair().await;
        let open = OpenSocket::new(Arc::default());
        let (_side, probe) = SocketSide::new(near, Arc::new(Meter::new()), open);
        drop(far);
        until(&probe, SocketState::Ended);
    }
}
