//! A plain answer: is it one?

use serde::Deserialize;
use serde_json::value::RawValue;

use super::is_failure;
use super::usage::usage;
use crate::chat::{BadCompletion, CompletionFacts, checked};
use crate::error::UpstreamError;
use crate::json::{is_falsy, word};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Converse<'a> {
    #[serde(borrow)]
    output: Option<Output<'a>>,
    #[serde(borrow)]
    stop_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Output<'a> {
    #[serde(borrow)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<Vec<&'a RawValue>>,
}

/// Checks the body of a plain answer with a success status.
///
/// A message that ended without content is valid. So is one that a guardrail stopped: that is an answer, not an error.
///
/// # Errors
/// [`BadCompletion`] if it is no answer.
pub fn check_converse(body: &[u8]) -> Result<CompletionFacts, BadCompletion> {
    checked(body, |body| Some(facts(&serde_json::from_slice(body).ok()?, body)))
}

fn facts(answer: &Converse<'_>, body: &[u8]) -> Result<CompletionFacts, BadCompletion> {
    let message = answer.output.as_ref().and_then(|output| output.message.as_ref());
    let Some(content) = message.and_then(|message| message.content.as_ref()) else {
        return Err(UpstreamError::parse(body).map_or(BadCompletion::NoContent, BadCompletion::ErrorObject));
    };
    let reason = answer.stop_reason.and_then(word);
    if let Some(reason) = reason.as_deref().filter(|reason| is_failure(reason)) {
        return Err(BadCompletion::ErrorObject(broken_off(reason)));
    }
    Ok(CompletionFacts {
        usage: answer.usage.and_then(|json| usage(json.get())),
        model: None,
        finish_reasons: reason.into_iter().collect(),
        has_output: content.iter().any(|block| !is_falsy(block.get())),
        amended: None,
    })
}

pub(super) fn broken_off(reason: &str) -> UpstreamError {
    UpstreamError::of_kind(reason, "the provider's model broke off its answer")
}
