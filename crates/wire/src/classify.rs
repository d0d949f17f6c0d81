//! What kind of failure an answer is.
//!
//! Each provider has one table of rows, read from the top; the first row that fits decides. The order is: what
//! the body says by code or type, then what its message says, then the status. A status alone is never trusted
//! while the body says more: 400 and 429 mean very different things.
//!
//! Providers quote requests in their messages. A row that takes an account or a model out of service for
//! everybody must therefore not hang on words anywhere in the message of a 400 or 422: it asks for a code, for
//! another status, or for a message that *begins* with the words.

mod evidence;
mod row;
mod rows;
pub(crate) mod tables;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::error::UpstreamError;
use crate::guidance::{self, Resets};
use crate::provider::Provider;

pub use crate::guidance::Headers;
use evidence::Evidence;
pub use tables::Table;

/// The kinds of failure that an answer can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureClass {
    /// Too many requests or tokens for now.
    RateLimit,
    /// The account's money or allowance is spent; waiting a little does not help.
    QuotaExhausted,
    /// The provider has no capacity right now.
    Overloaded,
    /// The provider failed.
    ServerError,
    /// An answer that is none: HTML, an empty body, no choices.
    BadResponse,
    /// The credential is refused.
    Auth,
    /// The credential is good, but not for this.
    Permission,
    /// The provider does not have this model or deployment.
    ModelNotFound,
    /// This target refuses something that another may accept: a parameter, a feature, a size.
    Unsupported,
    /// The prompt is too long for the model.
    ContextOverflow,
    /// The request is wrong, for whoever reads it.
    InvalidRequest,
    /// The provider's content policy refuses the request.
    Policy,
    /// The provider gave up waiting.
    Timeout,
    /// The request was cancelled.
    Cancelled,
    /// Nothing of the above. A 5xx never is.
    Unknown,
}

/// The outcome of a classification.
#[derive(Debug, Clone, PartialEq)]
pub struct Classified {
    /// The kind.
    pub class: FailureClass,
    /// Which row decided, in words; for `explain` and the log. Holds nothing of the answer.
    pub rule: &'static str,
    /// The provider's error, if its body has one.
    pub error: Option<UpstreamError>,
    /// How long the provider asks to wait. Not capped.
    pub retry_after: Option<Duration>,
}

/// Classifies an answer that is no success.
///
/// `status` is `None` for an error event in a stream that began with 200. A 2xx status with a body that is no
/// error is [`FailureClass::BadResponse`]: call this only after the body was found not to be a good answer.
/// `body` may be cut; only [`crate::error::MAX_ERROR_BODY`] bytes of it are read.
#[must_use]
pub fn classify(
    provider: &Provider,
    status: Option<u16>,
    headers: &dyn Headers,
    body: &[u8],
    unix_now_ms: i64,
) -> Classified {
    let html = body.trim_ascii_start().starts_with(b"<");
    let error = typed(UpstreamError::parse(body), headers);
    decide(provider, Answer { status, headers, error, html }, unix_now_ms)
}

/// Classifies an error that came inside a stream, or in a body with a success status.
#[must_use]
pub fn classify_error(provider: &Provider, error: &UpstreamError, unix_now_ms: i64) -> Classified {
    let answer = Answer { status: None, headers: &[], error: Some(error.clone()), html: false };
    decide(provider, answer, unix_now_ms)
}

/// AWS says in a header what kind of error a body holds: `ThrottlingException:http://…` (AWS restJson protocol, "Operation error
/// serialization"). Nobody else has the header.
fn typed(error: Option<UpstreamError>, headers: &dyn Headers) -> Option<UpstreamError> {
    let Some(word) = headers.get("x-amzn-errortype").filter(|word| word.len() <= MAX_WORD) else {
        return error;
    };
    let word = word.split(':').next().unwrap_or_default();
    let word = word.rsplit('#').next().unwrap_or_default().trim();
    if word.is_empty() {
        return error;
    }
    Some(UpstreamError { kind: Some(word.to_owned()), ..error.unwrap_or_default() })
}

/// The longest name of an error that is believed, in bytes.
const MAX_WORD: usize = 256;

struct Answer<'a> {
    status: Option<u16>,
    headers: &'a dyn Headers,
    error: Option<UpstreamError>,
    html: bool,
}

fn decide(provider: &Provider, answer: Answer<'_>, unix_now_ms: i64) -> Classified {
    let Answer { status, headers, error, html } = answer;
    let wait = |resets| guidance::retry_after_of_error(headers, error.as_ref(), resets, unix_now_ms);
    let mut evidence = Evidence::new(status, error.as_ref());
    evidence.asks_to_wait = wait(Resets::Ignore).is_some();
    evidence.html = html;
    let row = provider.table.rows().find(|row| row.fits(&evidence));
    let (class, rule) = row.map_or((FailureClass::Unknown, "nothing fits"), |row| (row.class, row.rule));
    let about_rate = matches!(class, FailureClass::RateLimit | FailureClass::QuotaExhausted);
    let retry_after = wait(if about_rate { Resets::Count } else { Resets::Ignore });
    Classified { class, rule, error, retry_after }
}
