//! A plain answer: is it one?

use super::stream::{Chunk, parse};
use super::usage::Counts;
use crate::chat::{BadCompletion, CompletionFacts, checked};
use crate::error::UpstreamError;

/// Checks the body of a plain answer with a success status.
///
/// A candidate that ended without content is valid. So is a prompt that was blocked: that is an answer, not an error.
///
/// # Errors
/// [`BadCompletion`] if it is no answer.
pub fn check_generated(body: &[u8]) -> Result<CompletionFacts, BadCompletion> {
    checked(body, |body| Some(facts(&parse(body)?, body)))
}

fn facts(answer: &Chunk<'_>, body: &[u8]) -> Result<CompletionFacts, BadCompletion> {
    if let Some(error) = answer.error_of(body) {
        return Err(BadCompletion::ErrorObject(error));
    }
    let blocked = answer.blocked();
    if answer.candidates().is_empty() && blocked.is_none() {
        return Err(UpstreamError::parse(body).map_or(BadCompletion::NoChoices, BadCompletion::ErrorObject));
    }
    Ok(CompletionFacts {
        usage: answer.count(&mut Counts::default()),
        model: answer.model(),
        finish_reasons: answer.candidates().iter().filter_map(|c| c.finish()).chain(blocked).collect(),
        has_output: answer.candidates().iter().any(|candidate| candidate.output().0 > 0),
        amended: None,
    })
}
