//! The tokens of a request, and which of them a cache had or was given. Dialects differ in what they add up.

use serde_json::{Value, json};

use crate::request::Ask;
use crate::script::Answer;

/// Tokens of a request: each counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prompt {
    /// Read anew.
    pub(crate) fresh: u64,
    /// Read from a cache.
    pub(crate) cached: u64,
    /// Read anew and written to a cache.
    pub(crate) written: u64,
}

impl Prompt {
    pub(crate) fn new(answer: &Answer, ask: &Ask) -> Self {
        Self { fresh: ask.prompt_tokens, cached: answer.cached, written: answer.cache_written }
    }

    /// All of them, which is what OpenAI and Google call the tokens of the prompt.
    pub(crate) fn total(self) -> u64 {
        self.fresh.saturating_add(self.cached).saturating_add(self.written)
    }

    /// The details that OpenAI gives of them; what was written only if something was.
    pub(crate) fn details(self) -> Value {
        let mut details = json!({"cached_tokens": self.cached});
        if let (1.., Some(details)) = (self.written, details.as_object_mut()) {
            details.insert("cache_write_tokens".to_owned(), json!(self.written));
        }
        details
    }
}
