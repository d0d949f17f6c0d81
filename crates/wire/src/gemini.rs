//! The `gemini` dialect: Google's generateContent (Gemini API reference, "Generating content").
//!
//! The model and whether the answer streams stand in the path of a call and not in its body. A stream is a sequence of whole
//! answers, each of which holds the next parts; it has no end marker.

mod answer;
mod events;
mod finish;
mod gather;
mod models;
mod outgoing;
mod parts;
mod reply;
mod request;
mod schema;
mod seals;
mod stream;
#[cfg(test)]
mod tests;
mod usage;

pub use answer::check_generated;
pub(crate) use events::{EventReader, EventWriter};
pub use gather::Gather;
pub(crate) use reply::{decode as decode_answer, encode as encode_answer};
pub(crate) use request::{decode as decode_request, encode as encode_request};
pub(crate) use seals::without_foreign;
pub use stream::StreamDecoder;

/// What stands behind the model in the path of a call whose answer comes whole.
pub(crate) const WHOLE: &str = ":generateContent";
/// The end of a path that asks for the number of tokens.
pub(crate) const COUNTED: &str = ":countTokens";
/// And of one whose answer streams.
pub(crate) const STREAMED: &str = ":streamGenerateContent";

/// The canonical words for statuses (google.rpc.Code, whose comments give the HTTP mapping).
const STATUS_WORDS: [&str; 16] = [
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
];

/// A provider's word for a status if it is one of Google's, else the one that belongs to the HTTP status.
pub(crate) fn status_word(provider: Option<&str>, status: u16) -> &'static str {
    let own = provider.and_then(|word| STATUS_WORDS.iter().copied().find(|known| *known == word));
    own.unwrap_or(match status {
        401 => "UNAUTHENTICATED",
        402 | 429 => "RESOURCE_EXHAUSTED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        408 | 504 => "DEADLINE_EXCEEDED",
        409 => "ABORTED",
        499 => "CANCELLED",
        501 => "UNIMPLEMENTED",
        503 | 529 => "UNAVAILABLE",
        400..=499 => "INVALID_ARGUMENT",
        _ => "INTERNAL",
    })
}
