//! Responses to clients: bodies and headers.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use http_body::{Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use pointsman_config::Expose;
use pointsman_wire::dialect::Dialect;

/// The body of every response. It cannot fail: what breaks upstream is told in the dialect.
pub(crate) type ClientBody = UnsyncBoxBody<Bytes, Infallible>;

pub(crate) fn full(bytes: impl Into<Bytes>) -> ClientBody {
    Full::new(bytes.into()).boxed_unsync()
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
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
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
        async move { step.await.map(|(bytes, state)| (Ok::<_, Infallible>(Frame::data(bytes)), state)) }
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
#[derive(Clone, Debug, Default)]
pub(crate) struct Provenance {
    pub(crate) request_id: String,
    /// Further headers in which the client's SDK looks for the request id.
    pub(crate) id_names: &'static [&'static str],
    pub(crate) target: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) route: Option<String>,
    pub(crate) action: Option<&'static str>,
    pub(crate) attempts: usize,
    pub(crate) substituted: bool,
    pub(crate) reason: Option<String>,
    pub(crate) upstream_request_id: Option<String>,
    /// What the request lost in translation, in words.
    pub(crate) losses: Option<String>,
    /// The stream was opened before it was known who answers.
    pub(crate) early: bool,
}

impl Provenance {
    /// Writes them, as far as they are exposed.
    pub(crate) fn write(&self, headers: &mut HeaderMap, expose: Expose) {
        set(headers, "x-request-id", Some(&self.request_id));
        for name in self.id_names {
            set(headers, name, Some(&self.request_id));
        }
        if self.early {
            set(headers, "x-pointsman-early", Some("true"));
            if expose == Expose::Full {
                set(headers, "x-pointsman-route", self.route.as_deref());
            }
            return;
        }
        set(headers, "x-pointsman-action", self.action);
        set(headers, "x-pointsman-substituted", self.substituted.then_some("true"));
        set(headers, "x-pointsman-loss", self.losses.as_deref());
        set(headers, "x-pointsman-upstream-request-id", self.upstream_request_id.as_deref());
        if expose == Expose::Minimal {
            return;
        }
        set(headers, "x-pointsman-target", self.target.as_deref());
        set(headers, "x-pointsman-model", self.model.as_deref());
        set(headers, "x-pointsman-route", self.route.as_deref());
        set(headers, "x-pointsman-attempts", Some(&self.attempts.to_string()));
        set(headers, "x-pointsman-reason", self.reason.as_deref());
    }

    /// The same as a JSON object, for streams that were opened early.
    pub(crate) fn json(&self, expose: Expose) -> serde_json::Value {
        let full = expose == Expose::Full;
        let mut object = serde_json::json!({
            "request_id": self.request_id,
            "action": self.action,
            "substituted": self.substituted,
        });
        if let (Some(object), Some(losses)) = (object.as_object_mut(), &self.losses) {
            object.insert("loss".into(), losses.as_str().into());
        }
        if let Some(object) = object.as_object_mut().filter(|_| full) {
            object.insert("target".into(), self.target.clone().into());
            object.insert("model".into(), self.model.clone().into());
            object.insert("route".into(), self.route.clone().into());
            object.insert("attempts".into(), self.attempts.into());
            object.insert("reason".into(), self.reason.clone().into());
        }
        object
    }
}

fn set(headers: &mut HeaderMap, name: &'static str, value: Option<&str>) {
    // A name from the configuration that no header can carry is left out rather than failing the request.
    if let Some(value) = value.and_then(|v| HeaderValue::from_str(v).ok()) {
        headers.insert(HeaderName::from_static(name), value);
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

pub(crate) fn event_stream(body: ClientBody) -> Response<ClientBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
