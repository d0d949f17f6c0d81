//! A plain answer: is it one?

use serde::Deserialize;
use serde_json::value::RawValue;

use super::usage::Counts;
use crate::chat::{BadCompletion, CompletionFacts, checked};
use crate::error::UpstreamError;
use crate::json::{is_falsy, word};

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
    checked(body, |body| Some(facts(&serde_json::from_slice(body).ok()?, body)))
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
