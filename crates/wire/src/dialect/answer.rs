//! A plain answer: is it one?

use super::Dialect;
use crate::bedrock::check_converse;
use crate::chat::{BadCompletion, CompletionFacts, check_completion};
use crate::gemini::check_generated;
use crate::messages::check_message;
use crate::responses::check_response;

/// Checks the body of a plain answer with a success status.
///
/// # Errors
/// [`BadCompletion`] if it is no answer.
pub fn check_answer(dialect: Dialect, body: &[u8]) -> Result<CompletionFacts, BadCompletion> {
    match dialect {
        Dialect::Chat => check_completion(body),
        Dialect::Messages => check_message(body),
        Dialect::Responses => check_response(body),
        Dialect::Gemini => check_generated(body),
        Dialect::Bedrock => check_converse(body),
    }
}
