//! From what transport and codecs met to what the core understands.

use http::HeaderMap;
use pointsman_core::controller::{Attempt, Failed, Limit};
use pointsman_core::kind::{FailureKind, Phase};
use pointsman_core::policy::OnMismatch;
use pointsman_upstream::TransportError;
use pointsman_wire::classify::FailureClass;
use pointsman_wire::guidance::Headers;

use crate::exchange::{AttemptFailure, Exchange};
use crate::snapshot::Path;

/// Response headers, as the codecs look them up.
pub(crate) struct HeaderLookup<'a>(pub(crate) &'a HeaderMap);

impl Headers for HeaderLookup<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.to_str().ok()
    }
}

/// The same word in the core's language.
pub(crate) const fn kind_of(class: FailureClass) -> FailureKind {
    match class {
        FailureClass::RateLimit => FailureKind::RateLimit,
        FailureClass::QuotaExhausted => FailureKind::QuotaExhausted,
        FailureClass::Overloaded => FailureKind::Overloaded,
        FailureClass::ServerError => FailureKind::ServerError,
        FailureClass::BadResponse => FailureKind::BadResponse,
        FailureClass::Auth => FailureKind::Auth,
        FailureClass::Permission => FailureKind::Permission,
        FailureClass::ModelNotFound => FailureKind::ModelNotFound,
        FailureClass::Unsupported => FailureKind::Unsupported,
        FailureClass::ContextOverflow => FailureKind::ContextOverflow,
        FailureClass::InvalidRequest => FailureKind::InvalidRequest,
        FailureClass::Policy => FailureKind::Policy,
        FailureClass::Timeout => FailureKind::Timeout,
        FailureClass::Cancelled => FailureKind::Cancelled,
        FailureClass::Unknown => FailureKind::Unknown,
    }
}

/// Which of our limits struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Struck {
    FirstToken,
    Idle,
    Response,
    Whole,
}

/// A limit of ours struck: what the provider did with the request is not known.
pub(crate) fn struck(which: Struck, limit: Limit, phase: Phase) -> AttemptFailure {
    let name = match which {
        Struck::FirstToken => "no output within first_token",
        Struck::Idle => "no event within idle",
        Struck::Response => "no answer within response",
        Struck::Whole => "the time for this attempt was over",
    };
    let failed = Failed {
        kind: FailureKind::Timeout,
        phase,
        status: None,
        retry_after: None,
        lost: true,
        excused: !limit.own,
    };
    AttemptFailure { failed, error: None, detail: format!("{name} ({:.1} s)", limit.within.as_secs_f64()) }
}

/// An answer that cannot be used; `lost` when its connection broke.
pub(crate) fn bad_response(detail: &str, phase: Phase, lost: bool) -> AttemptFailure {
    let failed = Failed {
        kind: FailureKind::BadResponse,
        phase,
        status: None,
        retry_after: None,
        lost,
        excused: false,
    };
    AttemptFailure { failed, error: None, detail: detail.to_owned() }
}

/// An answer that does not have the form that it must have.
pub(crate) fn schema_invalid(detail: &str, phase: Phase) -> AttemptFailure {
    let mut failure = bad_response(detail, phase, false);
    failure.failed.kind = FailureKind::SchemaInvalid;
    failure
}

/// The connection broke within an answer.
pub(crate) fn cut(error: &TransportError, phase: Phase) -> AttemptFailure {
    let mut failure = bad_response(&error.to_string(), phase, true);
    failure.failed.excused = error.told;
    failure
}

/// There is no memory left for an answer: that is our trouble, not the target's.
pub(crate) fn no_room(phase: Phase) -> AttemptFailure {
    let mut failure = bad_response("the memory for bodies is used up", phase, true);
    failure.failed.excused = true;
    failure
}

/// Something of our own does not work: nothing was sent, and no target is to blame.
pub(crate) fn broken(detail: &str) -> AttemptFailure {
    let failed = Failed {
        kind: FailureKind::Connect,
        phase: Phase::NotSent,
        status: None,
        retry_after: None,
        lost: false,
        excused: true,
    };
    AttemptFailure { failed, error: None, detail: detail.to_owned() }
}

/// There is no credential to sign with: nothing was sent, and the account is to blame.
pub(crate) fn unsigned(detail: &str) -> AttemptFailure {
    let failed = Failed {
        kind: FailureKind::Auth,
        phase: Phase::NotSent,
        status: None,
        retry_after: None,
        lost: false,
        excused: false,
    };
    AttemptFailure { failed, error: None, detail: detail.to_owned() }
}

/// Notes when the provider answers with another model than it was asked for; the route may refuse that.
pub(crate) fn check_model(
    exchange: &mut Exchange,
    attempt: &Attempt,
    answered: &str,
) -> Result<(), AttemptFailure> {
    // An Azure deployment's name says nothing about its model.
    let upstream = exchange.snapshot.upstream(attempt.target);
    let unnamed = upstream.is_none_or(|u| matches!(u.path, Path::Azure { .. }));
    if unnamed || is_same_model(&attempt.upstream_model, answered) {
        return Ok(());
    }
    let answered: String = answered.chars().take(128).collect();
    exchange.model_mismatch = Some(answered);
    match exchange.controller.request().governance.on_model_mismatch {
        OnMismatch::Disclose => Ok(()),
        OnMismatch::Reject => {
            Err(bad_response("the provider answered with another model than asked", Phase::Preamble, false))
        }
    }
}

/// By the providers' own naming: an alias is answered with its dated version (`gpt-4o` with `gpt-4o-2024-08-06`), and a
/// path before the name (`org/model`, `models/model`) may be left out on either side.
pub(crate) fn is_same_model(asked: &str, answered: &str) -> bool {
    let bare = |name: &str| name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let (asked, answered) = (bare(asked), bare(answered));
    if asked == answered || answered.is_empty() {
        return true;
    }
    let dated = |short: &str, long: &str| {
        long.strip_prefix(short).is_some_and(|rest| {
            let rest = rest.strip_prefix(['-', '@', ':', '.']).unwrap_or("");
            rest == "latest" || (!rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit() || b == b'-'))
        })
    };
    dated(&asked, &answered) || dated(&answered, &asked)
}

#[cfg(test)]
mod tests {
    use super::is_same_model;

    #[test]
    fn an_alias_and_its_dated_version_are_the_same_model() {
        assert!(is_same_model("gpt-4o", "gpt-4o-2024-08-06"));
        assert!(is_same_model("gpt-4o-latest", "gpt-4o"));
        assert!(is_same_model("meta/llama-3", "llama-3"));
    }

    #[test]
    fn a_smaller_sibling_is_another_model() {
        assert!(!is_same_model("gpt-4o", "gpt-4o-mini"));
        assert!(!is_same_model("gpt-4o", "gpt-4.1"));
    }
}
