//! What goes to a provider and what comes back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri};

use crate::body::Body;
use crate::error::{TransportError, TransportErrorKind};
use crate::origin::Origin;

/// One request to one provider. Cloning shares the body.
#[derive(Clone)]
pub struct Request {
    /// Where to.
    pub origin: Arc<Origin>,
    /// Usually `POST`.
    pub method: Method,
    /// Begins with `/`.
    pub path_and_query: String,
    /// `host`, `content-length` and hop-by-hop headers are set here and ignored if given; `accept-encoding` is
    /// `identity` unless given, since a compressed event stream arrives late.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// Which HTTP to speak.
    pub http: HttpVersion,
    /// May be sent again, once and on a fresh connection, when a *reused* connection was lost before the first byte
    /// of an answer. The provider may then have executed it twice, so this is for replay-safe requests only.
    pub replay_on_stale: bool,
}

/// Which HTTP to speak to a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HttpVersion {
    /// HTTP/2 if ALPN agrees on it over TLS; HTTP/1.1 in the clear.
    #[default]
    Auto,
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/2 only; in the clear by prior knowledge (RFC 9113, section 3.3).
    Http2,
}

/// How long each phase may take. They do not overlap; none covers the response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendLimits {
    /// DNS, TCP, the proxy's tunnel, TLS and the HTTP/2 preface together.
    pub connect: Duration,
    /// From the request fully sent to the response headers. `None`: unlimited here.
    pub headers: Option<Duration>,
    /// The longest time during which the upstream takes nothing of the request.
    pub write: Duration,
}

impl SendLimits {
    /// With limits that mean "never" made finite, so that a deadline can be computed.
    pub(crate) fn bounded(&self) -> Self {
        const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        Self { connect: self.connect.min(NEVER), headers: self.headers, write: self.write.min(NEVER) }
    }
}

/// The head of an answer, with the body still to be read.
pub struct Response {
    /// Status code.
    pub status: StatusCode,
    /// Response headers, at most 64 KiB.
    pub headers: HeaderMap,
    /// The body, unread.
    pub body: Body,
    /// How the connection was got.
    pub timing: Timing,
}

/// How the connection of a response was got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// The connection had answered an earlier request.
    pub reused: bool,
    /// How long the connection took to become ready, if this request opened it.
    pub connect: Option<Duration>,
    /// The request was repeated on this connection because a reused one was lost (or refused the stream).
    pub stale_replaced: bool,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers hold credentials, the query may, and the body is the caller's own.
        f.debug_struct("Request")
            .field("origin", &self.origin)
            .field("method", &self.method)
            .field("http", &self.http)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}

/// A request made ready for the wire, from which each try is built afresh.
pub(crate) struct Prepared {
    pub(crate) origin: Arc<Origin>,
    pub(crate) body: Bytes,
    method: Method,
    path: Uri,
    headers: HeaderMap,
}

/// In which form the target stands in the request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestForm {
    /// HTTP/1.1 to the origin itself or through a tunnel: `/path`, with a `host` header.
    OriginForm,
    /// HTTP/1.1 in the clear through a proxy: `http://host/path` (RFC 9112, section 3.2.2).
    AbsoluteForm,
    /// HTTP/2: `:scheme`, `:authority` and `:path`, no `host` header.
    Http2,
}

/// Headers that belong to one connection (RFC 9110, section 7.6.1) or that this crate sets itself.
const CONNECTION_HEADERS: [HeaderName; 8] = [
    header::CONNECTION,
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::UPGRADE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
];

impl Prepared {
    pub(crate) fn new(request: Request, user_agent: &HeaderValue) -> Result<Self, TransportError> {
        let Request { origin, method, path_and_query, mut headers, body, .. } = request;
        let unusable = || TransportError::not_sent(TransportErrorKind::Other);
        if !path_and_query.starts_with('/') {
            return Err(unusable());
        }
        let path = Uri::try_from(path_and_query).map_err(|_| unusable())?;
        for name in CONNECTION_HEADERS {
            headers.remove(name);
        }
        let entry = headers.entry(header::ACCEPT_ENCODING);
        entry.or_insert_with(|| HeaderValue::from_static("identity"));
        headers.entry(header::USER_AGENT).or_insert_with(|| user_agent.clone());
        Ok(Self { origin, body, method, path, headers })
    }

    /// The request for one try; `extra` are headers of this connection only (the proxy's credential).
    pub(crate) fn build<B>(
        &self,
        form: RequestForm,
        body: B,
        extra: Option<&HeaderValue>,
    ) -> Result<http::Request<B>, TransportError> {
        let mut request = http::Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.headers_mut() = self.headers.clone();
        *request.uri_mut() = self.uri(form)?;
        if form == RequestForm::Http2 {
            *request.version_mut() = http::Version::HTTP_2;
        } else {
            request.headers_mut().insert(header::HOST, self.origin.host_header().clone());
        }
        if let Some(credential) = extra {
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, credential.clone());
        }
        Ok(request)
    }

    fn uri(&self, form: RequestForm) -> Result<Uri, TransportError> {
        if form == RequestForm::OriginForm {
            return Ok(self.path.clone());
        }
        let mut parts = self.path.clone().into_parts();
        parts.authority = Some(self.origin.authority().clone());
        parts.scheme = Some(match self.origin.is_tls() {
            true => http::uri::Scheme::HTTPS,
            false => http::uri::Scheme::HTTP,
        });
        Uri::from_parts(parts).map_err(|_| TransportError::not_sent(TransportErrorKind::Other))
    }
}
