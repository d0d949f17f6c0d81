//! What a client is told when there is no answer: one clear sentence, in its dialect, with its dialect's status.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use pointsman_core::controller::Cause;
use pointsman_wire::error::{ErrorView, chat_error_body, chat_error_event};
use serde_json::{Map, Value};

use crate::answer::{ClientBody, full};

/// An error for the client.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) kind: &'static str,
    /// The provider's own type, where the request's own fault is passed on.
    pub(crate) provider_kind: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) param: Option<String>,
    pub(crate) message: String,
    pub(crate) extra: Map<String, Value>,
    /// `None` leaves the header out: the client's own habit then holds.
    pub(crate) should_retry: Option<bool>,
    pub(crate) retry_after: Option<Duration>,
    /// For logs and the ledger.
    pub(crate) cause: &'static str,
}

const INVALID: &str = "invalid_request_error";
/// How long a client is told to stay away where nothing better is known.
const COME_BACK: Duration = Duration::from_secs(1);

impl ApiError {
    fn new(
        status: StatusCode,
        kind: &'static str,
        code: &str,
        message: &str,
        cause: &'static str,
    ) -> Box<Self> {
        Box::new(Self {
            status,
            kind,
            provider_kind: None,
            code: Some(code.to_owned()).filter(|c| !c.is_empty()),
            param: None,
            message: message.to_owned(),
            extra: Map::new(),
            should_retry: Some(false),
            retry_after: None,
            cause,
        })
    }

    pub(crate) fn bad_request(message: &str, param: Option<&str>) -> Box<Self> {
        let mut error = Self::new(StatusCode::BAD_REQUEST, INVALID, "", message, "invalid_request");
        error.param = param.map(str::to_owned);
        error
    }

    pub(crate) fn too_large(message: &str) -> Box<Self> {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, INVALID, "request_too_large", message, "too_large")
    }

    pub(crate) fn slow_body() -> Box<Self> {
        let message = "the request's body did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, INVALID, "request_timeout", message, "slow_body")
    }

    pub(crate) fn compressed() -> Box<Self> {
        let message = "compressed request bodies are not read: send the body without content-encoding";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, INVALID, "unsupported_encoding", message, "compressed")
    }

    pub(crate) fn wrong_key() -> Box<Self> {
        let message = "the gateway key is missing or wrong: send a valid one as `Authorization: Bearer …`";
        Self::new(StatusCode::UNAUTHORIZED, INVALID, "invalid_api_key", message, "wrong_key")
    }

    pub(crate) fn foreign(message: &str) -> Box<Self> {
        Self::new(StatusCode::FORBIDDEN, INVALID, "forbidden", message, "foreign")
    }

    pub(crate) fn looped() -> Box<Self> {
        let message = "this request has passed this gateway before: one of its targets leads back to it";
        Self::new(StatusCode::LOOP_DETECTED, INVALID, "loop_detected", message, "loop")
    }

    pub(crate) fn not_allowed(requested: &str) -> Box<Self> {
        let message = format!("this key may not use '{requested}'");
        Self::new(StatusCode::FORBIDDEN, INVALID, "model_not_allowed", &message, "not_allowed")
    }

    pub(crate) fn unknown_model(requested: &str, close: &[String]) -> Box<Self> {
        let hint = match close {
            [] => String::new(),
            names => format!(" Close names: {}.", names.join(", ")),
        };
        let message = format!("There is no model or route '{requested}'.{hint}");
        let mut error =
            Self::new(StatusCode::NOT_FOUND, INVALID, "model_not_found", &message, "unknown_model");
        error.param = Some("model".into());
        error
    }

    pub(crate) fn unknown_path(method: &http::Method, path: &str) -> Box<Self> {
        let message = format!("there is no {method} {path} here");
        Self::new(StatusCode::NOT_FOUND, INVALID, "unknown_url", &message, "unknown_path")
    }

    pub(crate) fn wrong_method(path: &str, allowed: &str) -> Box<Self> {
        let message = format!("{path} takes {allowed}");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, INVALID, "method_not_allowed", &message, "wrong_method")
    }

    pub(crate) fn unavailable(
        message: &str,
        cause: &'static str,
        retry_after: Option<Duration>,
    ) -> Box<Self> {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let mut error =
            Self::new(status, "service_unavailable_error", "server_is_overloaded", message, cause);
        error.should_retry = Some(true);
        error.retry_after = Some(retry_after.unwrap_or(COME_BACK));
        error
    }

    /// What a cause without a provider's own words comes to; see the table of errors.
    pub(crate) fn of_cause(cause: Cause, message: &str, retry_after: Option<Duration>) -> Box<Self> {
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        let overloaded = ("service_unavailable_error", "server_is_overloaded");
        let limited = StatusCode::TOO_MANY_REQUESTS;
        let (status, (kind, code), should_retry) = match cause {
            Cause::CallerKeyMissing => (StatusCode::UNAUTHORIZED, (INVALID, "provider_key_missing"), false),
            Cause::CostSpent => (limited, ("insufficient_quota", "budget_exceeded"), false),
            Cause::Deadline | Cause::ExhaustedTimeout => {
                (StatusCode::GATEWAY_TIMEOUT, ("timeout", "timeout"), false)
            }
            Cause::ExhaustedQuota => (limited, ("insufficient_quota", "insufficient_quota"), false),
            Cause::ExhaustedRateLimit => (limited, ("rate_limit_error", "rate_limit_exceeded"), false),
            Cause::NothingHasRoom => (limited, ("rate_limit_error", "rate_limit_exceeded"), true),
            Cause::NoCapableTarget => (StatusCode::BAD_REQUEST, (INVALID, "unsupported"), false),
            Cause::NoCompliantTarget => (StatusCode::FORBIDDEN, (INVALID, "no_compliant_target"), false),
            Cause::RequestsOwn => (StatusCode::BAD_REQUEST, (INVALID, ""), false),
            Cause::SideEffect => (StatusCode::CONFLICT, (INVALID, "reconciliation_required"), false),
            Cause::NothingHealthy | Cause::QueueFull => (unavailable, overloaded, true),
            // A stream that broke says nothing of load.
            Cause::Committed => (unavailable, ("upstream_stream_error", "upstream_failed"), false),
            Cause::Exhausted | Cause::ClientGone | Cause::Success => (unavailable, overloaded, false),
        };
        let mut error = Self::new(status, kind, code, message, cause_name(cause));
        error.should_retry = Some(should_retry);
        // Waiting helps only where it was load, a limit or an outage.
        let passes = matches!(cause, Cause::Exhausted | Cause::ExhaustedRateLimit) || should_retry;
        error.retry_after = retry_after.filter(|_| passes).or_else(|| should_retry.then_some(COME_BACK));
        error
    }

    fn view(&self) -> ErrorView<'_> {
        ErrorView {
            message: &self.message,
            kind: Some(self.provider_kind.as_deref().unwrap_or(self.kind)),
            param: self.param.as_deref(),
            code: self.code.as_deref(),
            extra: Some(&self.extra),
        }
    }

    /// The answer with this error, its status and headers.
    pub(crate) fn response(&self, pointsman: &Value) -> Response<ClientBody> {
        let body = chat_error_body(&self.view(), Some(pointsman));
        let mut response = Response::new(full(Bytes::from(body)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(retry) = self.should_retry {
            headers.insert("x-should-retry", HeaderValue::from_static(if retry { "true" } else { "false" }));
        }
        if let Some(after) = self.retry_after {
            // Rounded up: a client that comes back too early is turned away once more.
            headers.insert(http::header::RETRY_AFTER, HeaderValue::from(whole_seconds_up(after)));
        }
        response
    }

    /// The event that ends a stream with this error.
    pub(crate) fn event(&self, pointsman: &Value) -> Bytes {
        chat_error_event(&self.view(), Some(pointsman))
    }
}

fn whole_seconds_up(d: Duration) -> u64 {
    let up = if d.subsec_nanos() > 0 { 1 } else { 0 };
    d.as_secs().saturating_add(up).max(1)
}

/// The name of a cause in logs, the ledger and error bodies.
pub(crate) const fn cause_name(cause: Cause) -> &'static str {
    match cause {
        Cause::CallerKeyMissing => "caller_key_missing",
        Cause::ClientGone => "client_gone",
        Cause::Committed => "broken_after_commit",
        Cause::CostSpent => "cost_spent",
        Cause::Deadline => "deadline",
        Cause::Exhausted => "exhausted",
        Cause::ExhaustedQuota => "exhausted_quota",
        Cause::ExhaustedRateLimit => "exhausted_rate_limit",
        Cause::ExhaustedTimeout => "exhausted_timeout",
        Cause::NoCompliantTarget => "no_compliant_target",
        Cause::NoCapableTarget => "no_capable_target",
        Cause::NothingHealthy => "nothing_healthy",
        Cause::NothingHasRoom => "nothing_has_room",
        Cause::RequestsOwn => "requests_own",
        Cause::QueueFull => "queue_full",
        Cause::SideEffect => "side_effect",
        Cause::Success => "success",
    }
}
