//! What a client is told when there is no answer: one clear sentence, in its dialect, with its dialect's status.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use pointsman_core::controller::Cause;
use pointsman_wire::dialect::{Dialect, Fault, StreamFrame};
use pointsman_wire::endpoint::Endpoint;
use pointsman_wire::error::ErrorView;
use serde_json::{Map, Value};

use crate::answer::{ClientBody, full};

/// An error for the client. What it is called depends on the client's dialect; `status` and `code` are those of Chat.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) fault: Fault,
    pub(crate) status: StatusCode,
    /// The status is the provider's own.
    pub(crate) passed_on: bool,
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

/// How long a client is told to stay away where nothing better is known.
const COME_BACK: Duration = Duration::from_secs(1);

impl ApiError {
    fn new(fault: Fault, message: &str, cause: &'static str) -> Box<Self> {
        let said = Dialect::Chat.says(fault);
        Box::new(Self {
            fault,
            status: StatusCode::from_u16(said.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            passed_on: false,
            provider_kind: None,
            code: said.code.map(str::to_owned),
            param: None,
            message: message.to_owned(),
            extra: Map::new(),
            should_retry: Some(false),
            retry_after: None,
            cause,
        })
    }

    /// The same error under the name of another fault.
    pub(crate) fn rename(&mut self, fault: Fault) {
        let said = Dialect::Chat.says(fault);
        self.fault = fault;
        self.status = StatusCode::from_u16(said.status).unwrap_or(self.status);
        self.code = said.code.map(str::to_owned);
    }

    pub(crate) fn bad_request(message: &str, param: Option<&str>) -> Box<Self> {
        let mut error = Self::new(Fault::Invalid, message, "invalid_request");
        error.param = param.map(str::to_owned);
        error
    }

    pub(crate) fn too_large(message: &str) -> Box<Self> {
        Self::new(Fault::TooLarge, message, "too_large")
    }

    pub(crate) fn slow_body() -> Box<Self> {
        let message = "the request's body did not arrive in time";
        Self::new(Fault::SlowBody, message, "slow_body")
    }

    pub(crate) fn compressed() -> Box<Self> {
        let message = "compressed request bodies are not read: send the body without content-encoding";
        Self::new(Fault::Compressed, message, "compressed")
    }

    pub(crate) fn wrong_key() -> Box<Self> {
        let message = "the gateway key is missing or wrong: send a valid one as `Authorization: Bearer …`";
        Self::new(Fault::WrongKey, message, "wrong_key")
    }

    pub(crate) fn foreign(message: &str) -> Box<Self> {
        Self::new(Fault::Foreign, message, "foreign")
    }

    pub(crate) fn looped() -> Box<Self> {
        let message = "this request has passed this gateway before: one of its targets leads back to it";
        Self::new(Fault::Looped, message, "loop")
    }

    pub(crate) fn not_allowed(requested: &str) -> Box<Self> {
        let message = format!("this key may not use '{requested}'");
        Self::new(Fault::NotAllowed, &message, "not_allowed")
    }

    pub(crate) fn unknown_model(requested: &str, close: &[String]) -> Box<Self> {
        let hint = match close {
            [] => String::new(),
            names => format!(" Close names: {}.", names.join(", ")),
        };
        let message = format!("There is no model or route '{requested}'.{hint}");
        let mut error = Self::new(Fault::UnknownModel, &message, "unknown_model");
        error.param = Some("model".into());
        error
    }

    pub(crate) fn unknown_path(method: &http::Method, path: &str) -> Box<Self> {
        let known = Endpoint::OTHERS.into_iter().filter_map(Endpoint::name);
        let known = known.chain(["chat/completions", "messages", "models"]);
        let end = path.trim_start_matches("/openai").trim_start_matches("/v1").trim_start_matches('/');
        let close = pointsman_config::nearest(end, known);
        let hint = match close.as_slice() {
            [] => {
                "it serves conversations, completions, embeddings, moderations, rerank, images, audio and models"
            }
            names => &format!("close is /v1/{}", names.join(", /v1/")),
        };
        let message = format!("there is no {method} {path} here; {hint}");
        Self::new(Fault::UnknownPath, &message, "unknown_path")
    }

    pub(crate) fn not_built(what: &str) -> Box<Self> {
        let message = format!("{what} are not built yet: send requests over HTTP");
        Self::new(Fault::NotBuilt, &message, "not_built")
    }

    pub(crate) fn wrong_method(path: &str, allowed: &str) -> Box<Self> {
        let message = format!("{path} takes {allowed}");
        Self::new(Fault::WrongMethod, &message, "wrong_method")
    }

    pub(crate) fn unavailable(
        message: &str,
        cause: &'static str,
        retry_after: Option<Duration>,
    ) -> Box<Self> {
        let mut error = Self::new(Fault::Unavailable, message, cause);
        error.should_retry = Some(true);
        error.retry_after = Some(retry_after.unwrap_or(COME_BACK));
        error
    }

    /// What a cause without a provider's own words comes to; see the table of errors.
    pub(crate) fn of_cause(cause: Cause, message: &str, retry_after: Option<Duration>) -> Box<Self> {
        let (fault, should_retry) = match cause {
            Cause::CallerKeyMissing => (Fault::CallerKeyMissing, false),
            Cause::CostSpent => (Fault::BudgetSpent, false),
            Cause::Deadline | Cause::ExhaustedTimeout => (Fault::Timeout, false),
            Cause::ExhaustedQuota => (Fault::QuotaExhausted, false),
            Cause::ExhaustedRateLimit => (Fault::Limited, false),
            Cause::NothingHasRoom => (Fault::Limited, true),
            Cause::NoCapableTarget => (Fault::Unsupported, false),
            Cause::NoCompliantTarget => (Fault::NoCompliantTarget, false),
            Cause::RequestsOwn => (Fault::Invalid, false),
            Cause::SideEffect => (Fault::ReconciliationRequired, false),
            Cause::NothingHealthy | Cause::QueueFull => (Fault::Unavailable, true),
            // A stream that broke says nothing of load.
            Cause::Committed => (Fault::UpstreamFailed, false),
            Cause::Exhausted | Cause::ClientGone | Cause::Success => (Fault::Unavailable, false),
        };
        let mut error = Self::new(fault, message, cause_name(cause));
        error.should_retry = Some(should_retry);
        // Waiting helps only where it was load, a limit or an outage.
        let passes = matches!(cause, Cause::Exhausted | Cause::ExhaustedRateLimit) || should_retry;
        error.retry_after = retry_after.filter(|_| passes).or_else(|| should_retry.then_some(COME_BACK));
        error
    }

    /// The status that this error has in a dialect.
    pub(crate) fn status_in(&self, dialect: Dialect) -> StatusCode {
        if self.passed_on || matches!(dialect, Dialect::Chat | Dialect::Responses) {
            return self.status;
        }
        StatusCode::from_u16(dialect.says(self.fault).status).unwrap_or(self.status)
    }

    /// Does something with this error as a dialect words it.
    fn worded<T>(&self, dialect: Dialect, what: impl FnOnce(&ErrorView<'_>) -> T) -> T {
        let provider = self.provider_kind.as_deref();
        let kind = match provider {
            None if !self.passed_on => Some(dialect.says(self.fault).kind.into()),
            provider => dialect.error_kind(provider, self.status.as_u16()),
        };
        let fallback = dialect.says(self.fault).kind;
        what(&ErrorView {
            status: self.status_in(dialect).as_u16(),
            message: &self.message,
            kind: Some(kind.as_deref().unwrap_or(fallback)),
            param: self.param.as_deref(),
            code: self.code.as_deref(),
            extra: Some(&self.extra),
        })
    }

    /// The answer with this error in the client's dialect, its status and headers.
    pub(crate) fn response(
        &self,
        dialect: Dialect,
        request_id: &str,
        pointsman: &Value,
    ) -> Response<ClientBody> {
        let body = self.worded(dialect, |view| dialect.error_body(view, Some(request_id), Some(pointsman)));
        let mut response = Response::new(full(Bytes::from(body)));
        *response.status_mut() = self.status_in(dialect);
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

    /// The event that ends a stream with this error. `frame`: what the client was told of the stream before.
    pub(crate) fn event(
        &self,
        dialect: Dialect,
        request_id: &str,
        pointsman: &Value,
        frame: Option<&StreamFrame>,
    ) -> Bytes {
        self.worded(dialect, |view| dialect.error_event(view, Some(request_id), Some(pointsman), frame))
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
