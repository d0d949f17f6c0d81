//! A plain answer: is it one?

use super::stream::{Chunk, parse};
use super::usage::Counts;
use crate::chat::{BadCompletion, CompletionFacts};
use crate::error::UpstreamError;
use crate::json;

/// Checks the body of a plain answer with a success status.
///
/// A candidate that ended without content is valid. So is a prompt that was blocked: that is an answer, not an error.
///
/// # Errors
/// [`BadCompletion`] if it is no answer.
pub fn check_generated(body: &[u8]) -> Result<CompletionFacts, BadCompletion> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii();
    match body.first() {
        None => return Err(BadCompletion::Empty),
        Some(b'<') => return Err(BadCompletion::Html),
        Some(b'{') => {}
        Some(_) => {
            return Err(UpstreamError::parse(body).map_or(BadCompletion::NotJson, BadCompletion::ErrorObject));
        }
    }
    if let Some(answer) = parse(body) {
        return facts(&answer, body);
    }
    let body = json::without_duplicates(body).ok_or(BadCompletion::NotJson)?;
    facts(&parse(&body).ok_or(BadCompletion::NotJson)?, &body)
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
