//! An answer that is no text but a medium: passed on byte by byte, as it comes and as the client takes it.
//!
//! It commits with its first bytes. What breaks afterwards cannot be told inside of it: the body then ends in error, so
//! that no client takes the half for the whole.

use std::io;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use pointsman_core::controller::{Attempt, AttemptLimits, Failed, Limit};
use pointsman_core::kind::{FailureKind, Phase};
use pointsman_upstream::{Body, Response};
use pointsman_wire::chat::BadCompletion;
use pointsman_wire::error::{MAX_ERROR_BODY, UpstreamError};
use tokio::time::{Duration, Instant, timeout_at};

use crate::attempt::{AttemptEnd, in_band, next_deadline};
use crate::exchange::{AttemptFailure, Exchange};
use crate::relay::SLOW_CLIENT;
use crate::verdict::{self, Struck};

/// A medium whose first bytes are here: from now on nothing but this attempt may answer.
pub(crate) struct Piped {
    body: Body,
    first: Bytes,
    pub(crate) headers: HeaderMap,
    limits: AttemptLimits,
    started: Instant,
}

impl Piped {
    /// What the provider says that it is.
    pub(crate) fn content_type(&self) -> HeaderValue {
        let said = self.headers.get(http::header::CONTENT_TYPE).cloned();
        said.unwrap_or(HeaderValue::from_static("application/octet-stream"))
    }
}

/// Reads until the first bytes are here. What says that it is text is an error in a success.
pub(crate) async fn until_first(
    exchange: &mut Exchange,
    attempt: &Attempt,
    response: Response,
    started: Instant,
) -> Result<AttemptEnd, AttemptFailure> {
    let limits = attempt.limits;
    let Response { mut body, headers, .. } = response;
    let text = is_text(&headers);
    let mut seen = BytesMut::new();
    loop {
        let (until, which, limit) = next_deadline(!seen.is_empty(), &limits, started);
        match timeout_at(until, body.chunk()).await {
            Ok(Some(Ok(chunk))) if chunk.is_empty() => {}
            Ok(Some(Ok(chunk))) if !text => {
                exchange.commit(None);
                return Ok(AttemptEnd::Piped(Box::new(Piped {
                    body,
                    first: chunk,
                    headers,
                    limits,
                    started,
                })));
            }
            Ok(Some(Ok(chunk))) if seen.len() < MAX_ERROR_BODY => seen.extend_from_slice(&chunk),
            Ok(Some(Ok(_)) | None) => return Err(no_medium(exchange, attempt, &seen)),
            Ok(Some(Err(error))) => return Err(verdict::cut(&error, Phase::Headers)),
            Err(_) => return Err(verdict::struck(which, limit, Phase::Headers)),
        }
    }
}

fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(http::header::CONTENT_TYPE).map(|v| v.as_bytes().to_ascii_lowercase());
    kind.is_some_and(|kind| kind.starts_with(b"application/json") || kind.starts_with(b"text/"))
}

fn no_medium(exchange: &Exchange, attempt: &Attempt, body: &[u8]) -> AttemptFailure {
    match UpstreamError::parse(body) {
        Some(error) => in_band(exchange, attempt.target, &error, Phase::Headers),
        None if body.is_empty() => {
            verdict::bad_response(&BadCompletion::Empty.to_string(), Phase::Headers, false)
        }
        None => verdict::bad_response("the provider answered with text and no medium", Phase::Headers, false),
    }
}

/// A medium on its way to the client. Nothing is spawned: the upstream is read when the client asks for more.
pub(crate) struct Pipe {
    exchange: Box<Exchange>,
    piped: Box<Piped>,
    first: bool,
    /// When the client took the last bytes.
    yielded: Option<Instant>,
    slow_for: Duration,
}

impl Pipe {
    pub(crate) fn new(exchange: Box<Exchange>, piped: Box<Piped>) -> Self {
        Self { exchange, piped, first: true, yielded: None, slow_for: Duration::ZERO }
    }

    /// The next bytes for the client; `None` when all are there.
    pub(crate) async fn next(mut self) -> Option<(io::Result<Bytes>, Option<Self>)> {
        if std::mem::take(&mut self.first) {
            let first = std::mem::take(&mut self.piped.first);
            return Some((Ok(first), Some(self.taken())));
        }
        self.slow_for = self.slow_for.max(self.yielded.map_or(Duration::ZERO, |at| at.elapsed()));
        match self.read().await {
            Ok(Some(bytes)) => Some((Ok(bytes), Some(self.taken()))),
            Ok(None) => {
                self.exchange.succeed();
                self.exchange.settle();
                None
            }
            Err(failure) => Some((Err(self.broken(failure)), None)),
        }
    }

    fn taken(mut self) -> Self {
        self.yielded = Some(Instant::now());
        self
    }

    async fn read(&mut self) -> Result<Option<Bytes>, AttemptFailure> {
        let limits = self.piped.limits;
        let idle = (Instant::now() + limits.idle, Limit { within: limits.idle, own: true });
        let life = (self.piped.started + limits.stream, Limit { within: limits.stream, own: false });
        let (until, limit) = if life.0 < idle.0 { life } else { idle };
        let hard_stop = self.exchange.app.hard_stop.clone();
        loop {
            let chunk = hard_stop.run_until_cancelled(timeout_at(until, self.piped.body.chunk())).await;
            return match chunk {
                Some(Ok(Some(Ok(bytes)))) if bytes.is_empty() => continue,
                Some(Ok(Some(Ok(bytes)))) => Ok(Some(bytes)),
                Some(Ok(None)) => Ok(None),
                Some(Ok(Some(Err(error)))) => Err(verdict::cut(&error, Phase::Committed)),
                Some(Err(_)) => Err(verdict::struck(Struck::Idle, limit, Phase::Committed)),
                None => {
                    let mut ours =
                        verdict::bad_response("the gateway is shutting down", Phase::Committed, true);
                    ours.failed.excused = true;
                    Err(ours)
                }
            };
        }
    }

    /// Told to the controller and the ledger; the client learns it from a body that does not end.
    fn broken(&mut self, failure: AttemptFailure) -> io::Error {
        let excused = failure.failed.excused || self.slow_for >= SLOW_CLIENT;
        let failed =
            Failed { kind: FailureKind::PartialStream, phase: Phase::Committed, excused, ..failure.failed };
        self.exchange.fail(AttemptFailure { failed, ..failure });
        self.exchange.settle();
        io::Error::new(io::ErrorKind::UnexpectedEof, "the provider's answer broke off")
    }
}
