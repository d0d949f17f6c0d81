//! What there is to go by, brought into one form.

use serde_json::Value;

use crate::error::UpstreamError;

/// An answer as the rows see it.
#[derive(Debug)]
pub(super) struct Evidence {
    /// The status of the answer if it is an error status, else the one that the body names.
    pub(super) status: Option<u16>,
    /// The answer has a success status or none of its own (an event of a stream).
    pub(super) in_success: bool,
    /// The answer's own status.
    pub(super) own_status: Option<u16>,
    /// Code, type and the like, in lower case.
    codes: Vec<String>,
    /// Message and the like, in lower case, with straight apostrophes.
    text: String,
    /// The body holds an error that could be read.
    pub(super) has_error: bool,
    /// The body is a page for people.
    pub(super) html: bool,
    /// The provider asks to wait.
    pub(super) asks_to_wait: bool,
}

/// How much of a message is searched, in bytes.
const MAX_TEXT: usize = 8 * 1024;

impl Evidence {
    pub(super) fn new(status: Option<u16>, error: Option<&UpstreamError>) -> Self {
        let in_success = status.is_none_or(|status| status < 300);
        let status_in_body = error.and_then(UpstreamError::status).filter(|_| in_success);
        Self {
            status: status.filter(|status| *status >= 300).or(status_in_body),
            in_success,
            own_status: status,
            codes: error.map(codes).unwrap_or_default(),
            text: error.map(text).unwrap_or_default(),
            has_error: error.is_some(),
            asks_to_wait: false,
            html: false,
        }
    }

    pub(super) fn has_code(&self, code: &str) -> bool {
        self.codes.iter().any(|own| own == code)
    }

    pub(super) fn says(&self, phrase: &str) -> bool {
        self.text.contains(phrase)
    }

    pub(super) fn begins_with(&self, words: &str) -> bool {
        self.text.starts_with(words)
    }

    /// The message (without what another provider added to it) ends with these words.
    pub(super) fn ends_with(&self, words: &str) -> bool {
        self.text.lines().next().is_some_and(|line| line.trim_end_matches('.').ends_with(words))
    }

    /// `limit: 0`: a quota that is never there.
    pub(super) fn names_limit_of_zero(&self) -> bool {
        self.text
            .split("limit: 0")
            .skip(1)
            .any(|rest| !rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
    }

    /// `limit 30000, … requested 30601`: the request is larger than the limit ever is.
    pub(super) fn asks_more_than_limit(&self) -> bool {
        let limit = self.number_after("limit");
        let requested = self.number_after("requested");
        matches!((limit, requested), (Some(limit), Some(requested)) if requested > limit)
    }

    /// The first number that stands right after a word.
    fn number_after(&self, word: &str) -> Option<u64> {
        self.text.match_indices(word).find_map(|(at, _)| {
            let rest = self.text.get(at + word.len()..)?.trim_start_matches([':', ' ']);
            let digits: String =
                rest.chars().filter(|c| *c != ',').take_while(char::is_ascii_digit).take(18).collect();
            digits.parse().ok()
        })
    }
}

/// Everything in an error that is a word of the provider's own vocabulary.
fn codes(error: &UpstreamError) -> Vec<String> {
    let metadata = |key: &str| {
        error.extra.get("metadata").and_then(|metadata| metadata.get(key)).and_then(Value::as_str)
    };
    let inner = error.extra.get("innererror").or_else(|| error.extra.get("inner_error"));
    let words = [
        error.code.as_deref(),
        error.kind.as_deref(),
        error.extra.get("status").and_then(Value::as_str),
        error.extra.get("error_type").and_then(Value::as_str),
        inner.and_then(|inner| inner.get("code")).and_then(Value::as_str),
        error.extra.get("details").and_then(|details| details.get("error_code")).and_then(Value::as_str),
        metadata("error_type"),
        metadata("limit_source"),
    ];
    let reasons = details(error).filter_map(|detail| detail.get("reason").and_then(Value::as_str));
    words.into_iter().flatten().chain(reasons).map(str::to_ascii_lowercase).collect()
}

/// So many of Google's details are looked at.
const MAX_DETAILS: usize = 16;

/// Google's details: a list of objects.
fn details(error: &UpstreamError) -> impl Iterator<Item = &Value> {
    error.extra.get("details").and_then(Value::as_array).into_iter().flatten().take(MAX_DETAILS)
}

/// The quotas that are spent, by their ids: they say for which time they hold.
fn quotas(error: &UpstreamError) -> impl Iterator<Item = &str> {
    let violations =
        details(error).filter_map(|detail| detail.get("violations").and_then(Value::as_array)).flatten();
    violations.take(MAX_DETAILS).filter_map(|violation| violation.get("quotaId").and_then(Value::as_str))
}

/// The message, the underlying provider's own error that OpenRouter hands through, and the quotas that Google names.
fn text(error: &UpstreamError) -> String {
    let raw = error.extra.get("metadata").and_then(|metadata| metadata.get("raw")).and_then(Value::as_str);
    let mut text = String::new();
    for part in [Some(error.message.as_str()), raw].into_iter().flatten().chain(quotas(error)) {
        let end = part.floor_char_boundary(MAX_TEXT);
        text.push_str(&part.get(..end).unwrap_or_default().to_lowercase().replace('\u{2019}', "'"));
        text.push('\n');
    }
    text
}
