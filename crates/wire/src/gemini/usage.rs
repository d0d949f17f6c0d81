//! Token counts of an answer.

use serde::Serialize;

use crate::chat::Usage;
use crate::counts::each_count;

/// The counts so far. Each chunk of a stream carries them all anew, as they stand then: a later value replaces an earlier
/// one, and one that is missing leaves it as it was.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    prompt: Option<u64>,
    cached: Option<u64>,
    tools: Option<u64>,
    candidates: Option<u64>,
    thoughts: Option<u64>,
}

impl Counts {
    /// Takes a `usageMetadata` in; something else counts nothing.
    pub(super) fn take(&mut self, usage: &str) {
        let mut new = *self;
        let read = each_count(usage, |group, name, count| {
            let place = match (group, name) {
                ("", "promptTokenCount") => &mut new.prompt,
                ("", "cachedContentTokenCount") => &mut new.cached,
                ("", "toolUsePromptTokenCount") => &mut new.tools,
                ("", "candidatesTokenCount") => &mut new.candidates,
                ("", "thoughtsTokenCount") => &mut new.thoughts,
                _ => return,
            };
            *place = Some(count);
        });
        if read.is_some() {
            *self = new;
        }
    }

    /// The counts in the gateway's terms: Google counts thoughts beside the output, and what its own tools put into the
    /// prompt beside the input. `None` if nothing was counted.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.prompt.or(self.candidates)?;
        let reasoning_tokens = self.thoughts.unwrap_or(0);
        Some(Usage {
            input_tokens: self.prompt.unwrap_or(0).saturating_add(self.tools.unwrap_or(0)),
            cached_tokens: self.cached.unwrap_or(0),
            cache_write_tokens: 0,
            output_tokens: self.candidates.unwrap_or(0).saturating_add(reasoning_tokens),
            reasoning_tokens,
        })
    }
}

/// Token counts as they are written.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutUsage {
    prompt_token_count: u64,
    candidates_token_count: u64,
    total_token_count: u64,
    #[serde(skip_serializing_if = "is_zero")]
    cached_content_token_count: u64,
    #[serde(skip_serializing_if = "is_zero")]
    thoughts_token_count: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde hands out references
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl From<Usage> for OutUsage {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_token_count: usage.input_tokens,
            candidates_token_count: usage.output_tokens.saturating_sub(usage.reasoning_tokens),
            total_token_count: usage.input_tokens.saturating_add(usage.output_tokens),
            cached_content_token_count: usage.cached_tokens,
            thoughts_token_count: usage.reasoning_tokens,
        }
    }
}
