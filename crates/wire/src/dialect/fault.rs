//! What the gateway's own errors are called in each dialect.
//!
//! Statuses and words are chosen with the retry habits of the official SDKs in view: they retry 408, 409, 429
//! and all from 500 by themselves. Types for Messages are those of the Anthropic API's documentation ("Errors").

use super::Dialect;
use crate::gemini;

/// A fault that the gateway itself reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The request is malformed, or no provider accepts it.
    Invalid,
    /// No target can do what the request needs.
    Unsupported,
    /// The body is too large.
    TooLarge,
    /// The body did not arrive in time.
    SlowBody,
    /// The body has an encoding that is not read.
    Compressed,
    /// There is no gateway key, or a wrong one.
    WrongKey,
    /// The caller must bring a credential of the provider and did not.
    CallerKeyMissing,
    /// The request comes from a foreign page or for a foreign host.
    Foreign,
    /// The request has passed this gateway before.
    Looped,
    /// The key may not use this model, route or target.
    NotAllowed,
    /// Compliance leaves no target.
    NoCompliantTarget,
    /// There is no such model or route.
    UnknownModel,
    /// There is no such path.
    UnknownPath,
    /// The path takes another method.
    WrongMethod,
    /// What is asked for is known and not built.
    NotBuilt,
    /// A limit of the key or its group is reached, or every target is throttled, or all causes were rate limits.
    Limited,
    /// The budget of the key or its group is spent.
    BudgetSpent,
    /// The accounts of all targets are spent.
    QuotaExhausted,
    /// Nothing has room or health: all open, draining, a full queue, or every attempt met load or trouble.
    Unavailable,
    /// An answer broke: nothing that a client should take for load.
    UpstreamFailed,
    /// Every attempt met a fault that no waiting mends: answers that are none, credentials of the gateway's own.
    NoUsableAnswer,
    /// The deadline has passed, or all that was tried timed out.
    Timeout,
    /// A side effect may have happened and must be looked into first.
    ReconciliationRequired,
    /// A request with the same idempotency key is running.
    InProgress,
}

/// The words for a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Said {
    /// The HTTP status.
    pub status: u16,
    /// `error.type`; `error.status` in Gemini.
    pub kind: &'static str,
    /// `error.code`; Messages has none, and Gemini tells it among the details.
    pub code: Option<&'static str>,
}

pub(super) fn said(dialect: Dialect, fault: Fault) -> Said {
    match dialect {
        Dialect::Chat | Dialect::Responses | Dialect::Bedrock => chat(fault),
        Dialect::Messages => {
            let (status, kind) = messages(fault);
            Said { status, kind, code: None }
        }
        // The same statuses; the words are the canonical ones for them.
        Dialect::Gemini => {
            let said = chat(fault);
            Said { kind: gemini::status_word(None, said.status), ..said }
        }
    }
}

const INVALID: &str = "invalid_request_error";

fn chat(fault: Fault) -> Said {
    let (status, kind, code) = match fault {
        Fault::Invalid => (400, INVALID, ""),
        Fault::Unsupported => (400, INVALID, "unsupported"),
        Fault::TooLarge => (413, INVALID, "request_too_large"),
        Fault::SlowBody => (408, INVALID, "request_timeout"),
        Fault::Compressed => (415, INVALID, "unsupported_encoding"),
        Fault::WrongKey => (401, INVALID, "invalid_api_key"),
        Fault::CallerKeyMissing => (401, INVALID, "provider_key_missing"),
        Fault::Foreign => (403, INVALID, "forbidden"),
        Fault::Looped => (508, INVALID, "loop_detected"),
        Fault::NotAllowed => (403, INVALID, "model_not_allowed"),
        Fault::NoCompliantTarget => (403, INVALID, "no_compliant_target"),
        Fault::UnknownModel => (404, INVALID, "model_not_found"),
        Fault::UnknownPath => (404, INVALID, "unknown_url"),
        Fault::WrongMethod => (405, INVALID, "method_not_allowed"),
        Fault::NotBuilt => (501, INVALID, "not_built"),
        Fault::Limited => (429, "rate_limit_error", "rate_limit_exceeded"),
        Fault::BudgetSpent => (429, "insufficient_quota", "budget_exceeded"),
        Fault::QuotaExhausted => (429, "insufficient_quota", "insufficient_quota"),
        Fault::Unavailable => (503, "service_unavailable_error", "server_is_overloaded"),
        Fault::UpstreamFailed => (503, "upstream_stream_error", "upstream_failed"),
        Fault::NoUsableAnswer => (503, "service_unavailable_error", "upstream_failed"),
        Fault::Timeout => (504, "timeout", "timeout"),
        Fault::ReconciliationRequired => (409, INVALID, "reconciliation_required"),
        Fault::InProgress => (409, INVALID, "request_in_progress"),
    };
    Said { status, kind, code: Some(code).filter(|code| !code.is_empty()) }
}

fn messages(fault: Fault) -> (u16, &'static str) {
    match fault {
        Fault::Invalid | Fault::Unsupported => (400, INVALID),
        Fault::TooLarge => (413, "request_too_large"),
        Fault::SlowBody => (408, "timeout_error"),
        Fault::Compressed => (415, INVALID),
        Fault::WrongKey | Fault::CallerKeyMissing => (401, "authentication_error"),
        Fault::Foreign | Fault::NotAllowed | Fault::NoCompliantTarget => (403, "permission_error"),
        Fault::Looped => (508, INVALID),
        Fault::UnknownModel | Fault::UnknownPath => (404, "not_found_error"),
        Fault::WrongMethod => (405, INVALID),
        Fault::NotBuilt => (501, INVALID),
        Fault::Limited => (429, "rate_limit_error"),
        Fault::BudgetSpent | Fault::QuotaExhausted => (402, "billing_error"),
        Fault::Unavailable => (529, "overloaded_error"),
        Fault::UpstreamFailed | Fault::NoUsableAnswer => (500, "api_error"),
        Fault::Timeout => (504, "timeout_error"),
        Fault::ReconciliationRequired | Fault::InProgress => (409, INVALID),
    }
}
