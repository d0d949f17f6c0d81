//! Error bodies: read leniently from providers, written strictly for clients.

mod mask;
mod parse;
mod render;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::{Map, Value};

pub use mask::mask_credentials;
pub use render::{ErrorView, chat_error_body, chat_error_event, gemini_error_body, messages_error_body};

/// The longest error body that is read, in bytes.
pub const MAX_ERROR_BODY: usize = 64 * 1024;

/// What a provider said went wrong. It holds the provider's own text: pass it on to the client that caused it,
/// after [`UpstreamError::masked`], and to nobody else.
#[derive(Clone, Default, PartialEq)]
pub struct UpstreamError {
    /// The message; empty if there was none.
    pub message: String,
    /// `type`.
    pub kind: Option<String>,
    /// `param`.
    pub param: Option<String>,
    /// `code`, also if it came as a number.
    pub code: Option<String>,
    /// What else the error object held, for example Azure's `innererror`.
    pub extra: Map<String, Value>,
}

impl std::fmt::Debug for UpstreamError {
    /// Leaves out the message and the extra fields, which may quote a prompt or a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpstreamError")
            .field("kind", &self.kind)
            .field("code", &self.code)
            .finish_non_exhaustive()
    }
}

impl UpstreamError {
    /// The same with everything masked that looks like a credential, in all its texts: for the client.
    #[must_use]
    pub fn masked(mut self) -> Self {
        for text in [Some(&mut self.message), self.kind.as_mut(), self.param.as_mut(), self.code.as_mut()] {
            text.into_iter().for_each(mask_text);
        }
        self.extra.values_mut().for_each(mask_value);
        self
    }

    /// An error that a provider's stream implied without an error object.
    pub(crate) fn of_kind(kind: &str, message: &str) -> Self {
        Self { message: message.to_owned(), kind: Some(kind.to_owned()), ..Self::default() }
    }

    /// Reads an error body of any shape that is known: `{"error": {…}}`, `{"error": "text"}`, a bare
    /// `{"object": "error", …}`, a list around one of these, FastAPI's `{"detail": …}`, `{"message": …}`.
    ///
    /// `None` for anything else (HTML, an empty body, more than [`MAX_ERROR_BODY`] bytes, no error in it).
    #[must_use]
    pub fn parse(body: &[u8]) -> Option<Self> {
        parse::parse(body)
    }

    /// The numeric `code` if it is an HTTP error status: several providers put the status there.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.code.as_ref()?.parse().ok().filter(|status| (400..600).contains(status))
    }
}

fn mask_text(text: &mut String) {
    if let Cow::Owned(masked) = mask_credentials(text) {
        *text = masked;
    }
}

/// The value was parsed under a depth limit, which bounds this too.
fn mask_value(value: &mut Value) {
    match value {
        Value::String(text) => mask_text(text),
        Value::Array(list) => list.iter_mut().for_each(mask_value),
        Value::Object(map) => map.values_mut().for_each(mask_value),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
