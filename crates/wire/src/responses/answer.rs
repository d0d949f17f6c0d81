//! A plain answer: is it one?

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::chat::{BadCompletion, CompletionFacts, Usage, checked};
use crate::error::UpstreamError;
use crate::json::{is_falsy, word};

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    output: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Checks the body of a plain answer with a success status.
///
/// A response that ended before the model was done is an answer, and so is one that is still queued: whoever asked for the
/// background asks again.
///
/// # Errors
/// [`BadCompletion`] if it is no answer.
pub fn check_response(body: &[u8]) -> Result<CompletionFacts, BadCompletion> {
    checked(body, |body| Some(facts(&serde_json::from_slice(body).ok()?, body)))
}

fn facts(response: &Response<'_>, body: &[u8]) -> Result<CompletionFacts, BadCompletion> {
    let status = response.status.and_then(word);
    let error = response.error.filter(|error| !is_falsy(error.get()));
    if error.is_some() || matches!(status.as_deref(), Some("failed" | "cancelled")) {
        let error = error.and_then(|error| UpstreamError::parse(error.get().as_bytes()));
        let unreadable =
            || UpstreamError::of_kind("server_error", "the provider reported an error that cannot be read");
        return Err(BadCompletion::ErrorObject(
            error.or_else(|| UpstreamError::parse(body)).unwrap_or_else(unreadable),
        ));
    }
    let Some(output) = &response.output else {
        return Err(UpstreamError::parse(body).map_or(BadCompletion::NoContent, BadCompletion::ErrorObject));
    };
    Ok(CompletionFacts {
        usage: response.usage.and_then(|usage| Usage::parse(usage.get())),
        model: response.model.and_then(word),
        finish_reasons: status.into_iter().collect(),
        has_output: output.iter().any(|item| !is_falsy(item.get())),
        amended: None,
    })
}
