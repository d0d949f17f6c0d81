//! Responses to clients: bodies and headers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use http_body::{Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use pointsman_config::Expose;
use pointsman_wire::dialect::Dialect;

use crate::names::{self, Names};

/// The body of every response. What breaks upstream is told in the dialect; only a medium, which cannot tell, ends in error.
pub(crate) type ClientBody = UnsyncBoxBody<Bytes, io::Error>;

pub(crate) fn full(bytes: impl Into<Bytes>) -> ClientBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A whole body in pieces, so that it is taken only as fast as the client reads; `held` is dropped with the last piece.
pub(crate) fn in_pieces(bytes: Bytes, held: impl Send + Unpin + 'static) -> ClientBody {
    Pieces { rest: bytes, _held: held }.boxed_unsync()
}

struct Pieces<T> {
    rest: Bytes,
    _held: T,
}

/// Large enough to cost nothing, small beside what a connection buffers, in bytes.
const PIECE: usize = 64 * 1024;

impl<T: Unpin> http_body::Body for Pieces<T> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let length = self.rest.len().min(PIECE);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

/// A body that asks `next` for its frames, one after the other; dropping the body drops the state.
pub(crate) fn streamed<S, F, Fut>(state: S, next: F) -> ClientBody
where
    S: Send + 'static,
    F: FnMut(S) -> Fut + Send + 'static,
    Fut: Future<Output = Option<(Bytes, S)>> + Send + 'static,
{
    let mut next = next;
    let frames = futures_util::stream::unfold(state, move |state| {
        let step = next(state);
        async move { step.await.map(|(bytes, state)| (Ok(Frame::data(bytes)), state)) }
    });
    StreamBody::new(frames).boxed_unsync()
}

/// The same for frames that may fail; after an error, or without a next state, nothing is asked any more.
pub(crate) fn piped<S, F, Fut>(state: S, next: F) -> ClientBody
where
    S: Send + 'static,
    F: FnMut(S) -> Fut + Send + 'static,
    Fut: Future<Output = Option<(io::Result<Bytes>, Option<S>)>> + Send + 'static,
{
    let mut next = next;
    let frames = futures_util::stream::unfold(Some(state), move |state| {
        let step = state.map(&mut next);
        async move { step?.await.map(|(bytes, state)| (bytes.map(Frame::data), state)) }
    });
    StreamBody::new(frames).boxed_unsync()
}

pub(crate) fn json(status: http::StatusCode, value: &serde_json::Value) -> Response<ClientBody> {
    let mut response = Response::new(full(value.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The headers that say who answered and how it came about.
#[derive(Clone, Debug)]
pub(crate) struct Provenance<'a> {
    pub(crate) request_id: &'a str,
    pub(crate) dialect: Dialect,
    pub(crate) target: Option<&'a str>,
    pub(crate) model: Option<&'a str>,
    pub(crate) route: Option<&'a str>,
    pub(crate) action: Option<&'static str>,
    pub(crate) attempts: usize,
    pub(crate) substituted: bool,
    pub(crate) reason: Option<String>,
    pub(crate) upstream_request_id: Option<&'a str>,
    /// What the request lost in translation, in words.
    pub(crate) losses: Option<&'a str>,
    /// The stream was opened before it was known who answers.
    pub(crate) early: bool,
    /// The answer is an estimate of the gateway's own.
    pub(crate) estimated: bool,
}

impl<'a> Provenance<'a> {
    /// Of a request that nobody answered yet.
    pub(crate) const fn of(request_id: &'a str, dialect: Dialect) -> Self {
        Self {
            request_id,
            dialect,
            target: None,
            model: None,
            route: None,
            action: None,
            attempts: 0,
            substituted: false,
            reason: None,
            upstream_request_id: None,
            losses: None,
            early: false,
            estimated: false,
        }
    }

    /// Writes them, as far as they are exposed.
    pub(crate) fn write(&self, headers: &mut HeaderMap, expose: Expose) {
        if let Ok(id) = HeaderValue::from_str(self.request_id) {
            for name in &Names::of(self.dialect).client_request_ids {
                headers.insert(name, id.clone());
            }
        }
        if self.early {
            headers.insert(&names::EARLY, HeaderValue::from_static("true"));
            if expose == Expose::Full {
                set(headers, &names::ROUTE, self.route);
            }
            return;
        }
        if let Some(action) = self.action {
            headers.insert(&names::ACTION, HeaderValue::from_static(action));
        }
        if self.substituted {
            headers.insert(&names::SUBSTITUTED, HeaderValue::from_static("true"));
        }
        if self.estimated {
            headers.insert(&names::ESTIMATED, HeaderValue::from_static("true"));
        }
        set(headers, &names::LOSS, self.losses);
        set(headers, &names::UPSTREAM_REQUEST_ID, self.upstream_request_id);
        if expose == Expose::Minimal {
            return;
        }
        set(headers, &names::TARGET, self.target);
        set(headers, &names::MODEL, self.model);
        set(headers, &names::ROUTE, self.route);
        headers.insert(&names::ATTEMPTS, HeaderValue::from(self.attempts));
        set(headers, &names::REASON, self.reason.as_deref());
    }

    /// The same as a JSON object, for streams that were opened early.
    pub(crate) fn json(&self, expose: Expose) -> serde_json::Value {
        let full = expose == Expose::Full;
        let mut object = serde_json::json!({
            "request_id": self.request_id,
            "action": self.action,
            "substituted": self.substituted,
        });
        if let (Some(object), Some(losses)) = (object.as_object_mut(), self.losses) {
            object.insert("loss".into(), losses.into());
        }
        if let Some(object) = object.as_object_mut().filter(|_| full) {
            object.insert("target".into(), self.target.into());
            object.insert("model".into(), self.model.into());
            object.insert("route".into(), self.route.into());
            object.insert("attempts".into(), self.attempts.into());
            object.insert("reason".into(), self.reason.clone().into());
        }
        object
    }
}

fn set(headers: &mut HeaderMap, name: &'static HeaderName, value: Option<&str>) {
    // A name from the configuration that no header can carry is left out rather than failing the request.
    if let Some(value) = value.and_then(|v| HeaderValue::from_str(v).ok()) {
        headers.insert(name, value);
    }
}

/// The provider's own rate-limit headers, which the client's SDK may read.
pub(crate) fn copy_rate_limits(dialect: Dialect, from: &HeaderMap, to: &mut HeaderMap) {
    for (name, value) in from {
        if dialect.copies_header(name.as_str()) {
            to.append(name.clone(), value.clone());
        }
    }
}

/// The headers of a stream of events.
pub(crate) fn event_stream_headers() -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(16);
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    headers
}

/// A response with these headers.
pub(crate) fn answer(headers: HeaderMap, body: ClientBody) -> Response<ClientBody> {
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    response
}
