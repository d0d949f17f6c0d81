//! What can go wrong on the way to a provider and back, and how far the request had got.

use std::error::Error as StdError;
use std::fmt;
use std::io;

/// A request that got no whole answer. It carries no URL, header or content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportError {
    /// How far the request had got.
    pub phase: TransportPhase,
    /// What broke.
    pub kind: TransportErrorKind,
    /// The connection had answered an earlier request, so that its loss may be no more than staleness.
    pub reused: bool,
    /// It was lost with a shared connection, and another request has told of that loss: this is no second failure of the
    /// upstream.
    pub told: bool,
}

/// How far a request had got when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransportPhase {
    /// Nothing of the request left, or the peer declared that it processed nothing of it (HTTP/2 `REFUSED_STREAM`,
    /// or a stream above the last one of a `GOAWAY`: RFC 9113, sections 8.7 and 6.8).
    NotSent,
    /// Some or all of the request may have arrived; no response headers came.
    Sent,
    /// The response headers had come; the body broke.
    Headers,
}

/// What broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransportErrorKind {
    /// The host name has no address, or the lookup failed.
    Dns,
    /// Nothing listens there (connection refused).
    Refused,
    /// DNS, TCP, TLS and the HTTP/2 preface together took longer than [`SendLimits::connect`](crate::SendLimits).
    ConnectTimeout,
    /// The TLS handshake failed: certificate, name, version, alert.
    Tls,
    /// The connection broke, or spoke something else, before it was ready: during TLS, the HTTP/2 preface or the
    /// proxy's tunnel.
    Handshake,
    /// No response headers within [`SendLimits::headers`](crate::SendLimits).
    HeadersTimeout,
    /// The upstream took nothing for [`SendLimits::write`](crate::SendLimits).
    WriteStall,
    /// The connection or stream was reset.
    Reset,
    /// The upstream closed where more was due: no answer, or a truncated body.
    Closed,
    /// The upstream broke the rules of HTTP (or exceeded the bound on header size).
    Protocol,
    /// This process is out of file descriptors or local ports.
    TooManyConnections,
    /// Anything else: network unreachable, a request that cannot be written as HTTP.
    Other,
}

impl TransportError {
    pub(crate) fn new(phase: TransportPhase, kind: TransportErrorKind) -> Self {
        Self { phase, kind, reused: false, told: false }
    }

    pub(crate) fn not_sent(kind: TransportErrorKind) -> Self {
        Self::new(TransportPhase::NotSent, kind)
    }

    pub(crate) fn on_reused(self, reused: bool) -> Self {
        Self { reused, ..self }
    }

    pub(crate) fn already_told(self, told: bool) -> Self {
        Self { told, ..self }
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connection = if self.reused { "reused" } else { "new" };
        write!(f, "{}, {} (on a {connection} connection)", self.kind.sentence(), self.phase.sentence())
    }
}

impl StdError for TransportError {}

impl TransportPhase {
    /// Name for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotSent => "not_sent",
            Self::Sent => "sent",
            Self::Headers => "headers",
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::NotSent => "before anything of the request was sent or processed",
            Self::Sent => "after the request may have arrived and before the response headers",
            Self::Headers => "in the middle of the response body",
        }
    }
}

impl TransportErrorKind {
    /// Name for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Refused => "refused",
            Self::ConnectTimeout => "connect_timeout",
            Self::Tls => "tls",
            Self::Handshake => "handshake",
            Self::HeadersTimeout => "headers_timeout",
            Self::WriteStall => "write_stall",
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::Protocol => "protocol",
            Self::TooManyConnections => "too_many_connections",
            Self::Other => "other",
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::Dns => "the host name could not be resolved",
            Self::Refused => "the connection was refused",
            Self::ConnectTimeout => "the connection was not ready within the connect limit",
            Self::Tls => "the TLS handshake failed",
            Self::Handshake => "the connection broke during its handshake",
            Self::HeadersTimeout => "no response headers came within their limit",
            Self::WriteStall => "the upstream took no data for the write limit",
            Self::Reset => "the connection or stream was reset",
            Self::Closed => "the upstream closed the connection early",
            Self::Protocol => "the upstream violated the HTTP protocol",
            Self::TooManyConnections => "this process has no file descriptor or local port left",
            Self::Other => "the request could not be carried",
        }
    }
}

/// Kind of a failure of `connect(2)` and of what precedes it.
pub(crate) fn connect_kind(error: &io::Error) -> TransportErrorKind {
    if out_of_resources(error) {
        return TransportErrorKind::TooManyConnections;
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => TransportErrorKind::Refused,
        io::ErrorKind::TimedOut => TransportErrorKind::ConnectTimeout,
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => TransportErrorKind::Reset,
        _ => TransportErrorKind::Other,
    }
}

/// Kind of a failure while a new connection shakes hands.
pub(crate) fn handshake_kind(error: &(dyn StdError + 'static)) -> TransportErrorKind {
    match find::<rustls::Error>(error) {
        Some(_) => TransportErrorKind::Tls,
        None => TransportErrorKind::Handshake,
    }
}

/// Kind of a failure that hyper reports once a request or response is under way.
pub(crate) fn exchange_kind(error: &hyper::Error) -> TransportErrorKind {
    if let Some(h2) = find::<h2::Error>(error) {
        return h2_kind(h2);
    }
    if let Some(io) = find_io(error) {
        return io_kind(io);
    }
    if task_gone(error) {
        return TransportErrorKind::Closed;
    }
    if error.is_parse() {
        return TransportErrorKind::Protocol;
    }
    TransportErrorKind::Other
}

/// The peer declared that it did not process this stream (RFC 9113, section 8.7).
///
/// h2 hands a remote `GOAWAY` only to streams above its last-stream-id; the others go on or break with the socket.
pub(crate) fn unprocessed(error: &hyper::Error) -> bool {
    find::<h2::Error>(error).is_some_and(|h2| {
        h2.is_remote() && (h2.is_go_away() || h2.reason() == Some(h2::Reason::REFUSED_STREAM))
    })
}

/// The whole HTTP/2 connection broke, not only this stream.
pub(crate) fn lost_connection(error: &hyper::Error) -> bool {
    match find::<h2::Error>(error) {
        Some(h2) => h2.is_io() || h2.is_go_away(),
        None => find_io(error).is_some() || task_gone(error),
    }
}

/// hyper's task of the connection ended with the request in its hands.
fn task_gone(error: &hyper::Error) -> bool {
    error.is_canceled() || error.is_closed() || error.is_incomplete_message()
}

fn h2_kind(error: &h2::Error) -> TransportErrorKind {
    if let Some(io) = error.get_io() {
        // h2 reports the end of the socket under open streams as a broken pipe.
        return match io.kind() {
            io::ErrorKind::BrokenPipe => TransportErrorKind::Closed,
            _ => io_kind(io),
        };
    }
    if error.is_remote() { TransportErrorKind::Reset } else { TransportErrorKind::Protocol }
}

fn io_kind(error: &io::Error) -> TransportErrorKind {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero => TransportErrorKind::Closed,
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => TransportErrorKind::Protocol,
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::NotConnected
        | io::ErrorKind::TimedOut => TransportErrorKind::Reset,
        _ => TransportErrorKind::Other,
    }
}

fn out_of_resources(error: &io::Error) -> bool {
    // EMFILE and ENFILE have no stable `io::ErrorKind`; the numbers are those of Linux and the BSDs alike.
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE)) || error.kind() == io::ErrorKind::AddrNotAvailable
}

fn find_io<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a io::Error> {
    find::<io::Error>(error)
}

/// The first `E` in the chain of causes. An `io::Error` hides the error it wraps from `source`, so it is opened.
fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref::<E>() {
            return Some(found);
        }
        let wrapped = current.downcast_ref::<io::Error>().and_then(|io| io.get_ref());
        next = match wrapped {
            Some(inner) => Some(inner as &(dyn StdError + 'static)),
            None => current.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn failures_to_connect_are_told_apart_by_their_error_number() {
        // Numbers of Linux, errno(3).
        for (errno, kind) in [
            (111, TransportErrorKind::Refused),
            (110, TransportErrorKind::ConnectTimeout),
            (104, TransportErrorKind::Reset),
            (24, TransportErrorKind::TooManyConnections),
            (23, TransportErrorKind::TooManyConnections),
            (99, TransportErrorKind::TooManyConnections),
            (101, TransportErrorKind::Other),
            (113, TransportErrorKind::Other),
        ] {
            assert_eq!(connect_kind(&io::Error::from_raw_os_error(errno)), kind, "errno {errno}");
        }
    }

    #[test]
    fn a_tls_failure_is_found_inside_the_io_error_that_wraps_it() {
        let tls = rustls::Error::DecryptError;
        let wrapped = io::Error::new(io::ErrorKind::InvalidData, tls);
        assert_eq!(handshake_kind(&wrapped), TransportErrorKind::Tls);
        let plain = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(handshake_kind(&plain), TransportErrorKind::Handshake);
    }
}
