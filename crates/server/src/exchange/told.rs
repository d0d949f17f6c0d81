//! What the client is told when a request ends without an answer.

use bytes::Bytes;
use http::{Response, StatusCode};
use pointsman_config::Expose;
use pointsman_core::controller::{AttemptRecord, Cause, Stop};
use pointsman_core::kind::FailureKind;
use pointsman_wire::dialect::{Dialect, Fault, StreamFrame};
use serde_json::{Value, json};

use super::{Exchange, masked};
use crate::answer::{ClientBody, copy_rate_limits};
use crate::fail::{ApiError, cause_name};
use crate::snapshot::Upstream;

/// How Anthropic's API begins when a prompt does not fit.
const TOO_LONG: &str = "prompt is too long";

impl Exchange {
    /// The error that a stop comes to.
    pub(crate) fn error_of(&self, stop: &Stop) -> Box<ApiError> {
        let mut error = ApiError::of_cause(stop.cause, &self.sentence(stop), stop.retry_after);
        match stop.cause {
            Cause::RequestsOwn => self.pass_on(stop, &mut error),
            Cause::Exhausted if !self.looks_like_load(stop) => error.rename(Fault::NoUsableAnswer),
            _ => {}
        }
        error
    }

    /// The response to a client whose stream was not opened yet.
    pub(crate) fn refuse(&mut self, stop: &Stop) -> Response<ClientBody> {
        let error = self.error_of(stop);
        let dialect = self.inbound.envelope.dialect();
        self.status = error.status_in(dialect).as_u16();
        let mut response = error.response(dialect, &self.inbound.id, &self.disclosure(stop));
        if let Some(limits) = self.limits_of_the_only_target() {
            copy_rate_limits(dialect, limits, response.headers_mut());
        }
        self.provenance().write(response.headers_mut(), self.snapshot.config.server.expose);
        response
    }

    /// What a target says of its limits is the client's only where nobody else was asked.
    fn limits_of_the_only_target(&self) -> Option<&http::HeaderMap> {
        let (last, others) = self.controller.attempts().split_last()?;
        let only = others.iter().all(|other| other.candidate == last.candidate);
        self.notes.last().filter(|_| only).map(|note| &note.limits)
    }

    /// The event that ends a stream with this stop: a client that reads it must know whether to ask again, and there is
    /// no header left to say so.
    /// `frame`: what the client was told of its stream before, if anything.
    pub(crate) fn event_of(&self, stop: &Stop, frame: Option<&StreamFrame>) -> Bytes {
        let error = self.error_of(stop);
        let broken = stop.cause == Cause::Committed && self.controller.request().replay_safe;
        let mut disclosure = self.disclosure(stop);
        if let Some(object) = disclosure.as_object_mut() {
            object.insert("retryable".into(), json!(broken || error.should_retry == Some(true)));
        }
        error.event(self.inbound.envelope.dialect(), &self.inbound.id, &disclosure, frame)
    }

    /// What the error body says of the way: kinds and timings, no content.
    pub(crate) fn disclosure(&self, stop: &Stop) -> Value {
        let full = self.snapshot.config.server.expose == Expose::Full;
        let attempts: Vec<Value> =
            self.controller.attempts().iter().map(|a| self.attempt_json(a, full)).collect();
        let mut object = json!({
            "request_id": self.inbound.id,
            "terminal": stop.terminal.name(),
            "reason": cause_name(stop.cause),
            "attempts": attempts,
        });
        if let (Some(object), Some(after)) = (object.as_object_mut(), stop.retry_after) {
            object
                .insert("retry_after_ms".into(), json!(u64::try_from(after.as_millis()).unwrap_or(u64::MAX)));
        }
        object
    }

    fn attempt_json(&self, attempt: &AttemptRecord, full: bool) -> Value {
        let ended = attempt.ended.unwrap_or_else(|| self.app.clock.now());
        let mut object = json!({
            "action": attempt.action.name(),
            "failure": attempt.kind.map(FailureKind::name),
            "status": attempt.status,
            "phase": attempt.phase.name(),
            "ms": u64::try_from(ended.since(attempt.started).as_millis()).unwrap_or(u64::MAX),
        });
        if let Some(object) = object.as_object_mut().filter(|_| full) {
            object.insert("target".into(), json!(self.target_of(attempt.candidate)));
        }
        object
    }

    /// The request's own fault: the provider's status, type, code, param and message reach the client.
    fn pass_on(&self, stop: &Stop, error: &mut ApiError) {
        let shown = stop.shown.and_then(|place| self.controller.attempts().get(place).map(|a| (place, a)));
        let Some((place, attempt)) = shown else { return };
        let callers = self.controller.candidate(attempt.candidate).map(|c| c.target);
        let callers = callers.and_then(|t| self.snapshot.upstream(t)).is_some_and(Upstream::is_callers);
        let passes = |s: &u16| match s {
            400 | 409 | 413 | 415 | 422 => true,
            // Of the caller's own credential the caller must hear what the provider says.
            401..=404 | 429 => callers,
            _ => false,
        };
        if let Some(status) = attempt.status.filter(passes) {
            error.status = StatusCode::from_u16(status).unwrap_or(error.status);
            error.passed_on = true;
        }
        if callers {
            error.retry_after = self.notes.get(place).and_then(|n| n.retry_after);
        }
        if let Some(provider) = self.notes.get(place).and_then(|n| n.error.as_deref()) {
            let provider = provider.clone().masked();
            error.message = provider.message;
            error.provider_kind = provider.kind;
            error.code = provider.code;
            error.param = provider.param;
            error.extra = provider.extra;
        }
        if attempt.kind == Some(FailureKind::ContextOverflow) {
            self.too_long(error);
        }
    }

    /// The one name that clients of each dialect know a prompt by that is too long.
    fn too_long(&self, error: &mut ApiError) {
        let messages = self.inbound.envelope.dialect() == Dialect::Messages;
        // There a request that is too large in bytes has a status and a type of its own.
        if messages && error.status == StatusCode::PAYLOAD_TOO_LARGE {
            return;
        }
        error.status = StatusCode::BAD_REQUEST;
        error.provider_kind = None;
        error.code = Some("context_length_exceeded".into());
        // There is no code there: clients that shorten a conversation look for these words.
        if messages && !error.message.to_ascii_lowercase().contains(TOO_LONG) {
            error.message = format!("{TOO_LONG}: {}", error.message);
        }
    }

    /// Whether a client may take it for load, which passes.
    fn looks_like_load(&self, stop: &Stop) -> bool {
        let shown = stop.shown.and_then(|place| self.controller.attempts().get(place)).and_then(|a| a.kind);
        matches!(
            shown,
            Some(
                FailureKind::Overloaded
                    | FailureKind::ServerError
                    | FailureKind::Connect
                    | FailureKind::RateLimit
            )
        )
    }

    fn sentence(&self, stop: &Stop) -> String {
        let attempts = self.controller.attempts();
        let shown = stop.shown.and_then(|place| attempts.get(place).map(|a| (place, a)));
        let full = self.snapshot.config.server.expose == Expose::Full;
        let cause = shown.map(|(place, a)| {
            let who = if full { self.target_of(a.candidate) } else { "the provider" };
            let kind = a.kind.map_or("unknown", FailureKind::name);
            // Never the words of a refusal of our own credential: they may name it.
            let ours = matches!(a.kind, Some(FailureKind::Auth | FailureKind::Permission));
            let said = self.notes.get(place).and_then(|n| n.error.as_deref()).filter(|_| !ours).map(masked);
            let said = said.map_or(String::new(), |words| format!(" ({words})"));
            format!("{who} failed with {kind}{said}")
        });
        let cause = cause.unwrap_or_else(|| "nothing was sent".into());
        match stop.cause {
            Cause::CallerKeyMissing => {
                "every target for this model needs your own credential: send it as x-pointsman-provider-key-<provider>"
                    .into()
            }
            Cause::ClientGone => "The gateway is shutting down.".into(),
            Cause::Committed => format!("The answer broke after its beginning had been sent: {cause}."),
            Cause::CostSpent => "no attempt fits into the max_cost of this route, or its price is unknown".into(),
            Cause::Deadline => format!("The request's time is over; {cause}."),
            Cause::NoCapableTarget => self.why_nobody("No target can serve this request"),
            Cause::NoCompliantTarget => self.why_nobody("No target keeps what the request asks of data handling"),
            Cause::NothingHasRoom => "Every target for this model is at a rate limit now; come back later.".into(),
            Cause::NothingHealthy => "Every target for this model is out of service now; come back later.".into(),
            Cause::QueueFull => "Too many requests wait for this model already; come back later.".into(),
            Cause::SideEffect => format!(
                "A side effect may have happened and its outcome is unknown ({cause}): the request was not sent again."
            ),
            _ => format!("No target answered after {} attempt(s); first, {cause}.", attempts.len()),
        }
    }

    fn why_nobody(&self, head: &str) -> String {
        let full = self.snapshot.config.server.expose == Expose::Full;
        let excluded = self.controller.plan().excluded.iter().take(8);
        let reasons = excluded.map(|e| match full {
            true => format!("{}: {}", self.snapshot.target_name(e.target), e.why),
            false => e.why.to_string(),
        });
        format!("{head}: {}.", reasons.collect::<Vec<_>>().join("; "))
    }
}
