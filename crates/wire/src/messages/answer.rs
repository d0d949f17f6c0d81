//! A plain answer: is it one?

use serde::Deserialize;
use serde_json::value::RawValue;

use super::usage::Counts;
use crate::chat::{BadCompletion, CompletionFacts};
use crate::error::UpstreamError;
use crate::json::{self, is_falsy};

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    stop_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Checks the body of a plain answer with a success status.
///
/// A message with a stop reason and no content is valid. So is a refusal: it is an answer, not an error.
///
/// # Errors
/// [`BadCompletion`] if it is no answer.
pub fn check_message(body: &[u8]) -> Result<CompletionFacts, BadCompletion> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii();
    match body.first() {
        None => return Err(BadCompletion::Empty),
        Some(b'<') => return Err(BadCompletion::Html),
        Some(b'{') => {}
        Some(_) => {
            return Err(UpstreamError::parse(body).map_or(BadCompletion::NotJson, BadCompletion::ErrorObject));
        }
    }
    match serde_json::from_slice(body) {
        Ok(message) => facts(&message, body),
        Err(_) => {
            let body = json::without_duplicates(body).ok_or(BadCompletion::NotJson)?;
            facts(&serde_json::from_slice(&body).map_err(|_| BadCompletion::NotJson)?, &body)
        }
    }
}

fn facts(message: &Message<'_>, body: &[u8]) -> Result<CompletionFacts, BadCompletion> {
    if let Some(error) = error_of(message, body) {
        return Err(BadCompletion::ErrorObject(error));
    }
    let Some(content) = &message.content else { return Err(BadCompletion::NoContent) };
    let mut counts = Counts::default();
    if let Some(usage) = message.usage {
        counts.take(usage.get());
    }
    Ok(CompletionFacts {
        usage: counts.usage(),
        model: message.model.and_then(word),
        finish_reasons: message.stop_reason.and_then(word).into_iter().collect(),
        has_output: content.iter().any(|block| !is_falsy(block.get())),
        amended: None,
    })
}

fn error_of(message: &Message<'_>, body: &[u8]) -> Option<UpstreamError> {
    let named = message.error.is_some_and(|error| !is_falsy(error.get()));
    let typed = message.kind.and_then(word).is_some_and(|kind| kind == "error");
    if named || typed || message.content.is_none() { UpstreamError::parse(body) } else { None }
}

fn word(raw: &RawValue) -> Option<String> {
    json::text(raw.get().as_bytes()).filter(|text| !text.is_empty()).map(std::borrow::Cow::into_owned)
}
