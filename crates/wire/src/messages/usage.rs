//! Token counts of a message.

use crate::chat::Usage;
use crate::counts::each_count;

/// The counts so far. Each is cumulative (Anthropic API, "Streaming messages"): a later value replaces an earlier
/// one, is never added to it, and one that is missing or null leaves it as it was.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    input: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    output: Option<u64>,
    thinking: Option<u64>,
}

impl Counts {
    /// Takes a usage object in; something else counts nothing.
    pub(super) fn take(&mut self, usage: &str) {
        let mut new = Self::default();
        let (mut five_minutes, mut one_hour) = (None, None);
        let read = each_count(usage, |group, name, count| match (group, name) {
            ("", "input_tokens") => new.input = Some(count),
            ("", "cache_read_input_tokens") => new.cache_read = Some(count),
            ("", "cache_creation_input_tokens") => new.cache_write = Some(count),
            ("", "output_tokens") => new.output = Some(count),
            ("output_tokens_details", "thinking_tokens") => new.thinking = Some(count),
            ("cache_creation", "ephemeral_5m_input_tokens") => five_minutes = Some(count),
            ("cache_creation", "ephemeral_1h_input_tokens") => one_hour = Some(count),
            _ => {}
        });
        if read.is_none() {
            return;
        }
        let by_lifetime = [five_minutes, one_hour].into_iter().flatten().reduce(u64::saturating_add);
        self.input = new.input.or(self.input);
        self.cache_read = new.cache_read.or(self.cache_read);
        self.cache_write = new.cache_write.or(by_lifetime).or(self.cache_write);
        self.output = new.output.or(self.output);
        self.thinking = new.thinking.or(self.thinking);
    }

    /// The counts in the gateway's terms: Anthropic's input leaves out what was cached, ours includes it. `None`
    /// if nothing was counted.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.input.or(self.output)?;
        let cached_tokens = self.cache_read.unwrap_or(0);
        let cache_write_tokens = self.cache_write.unwrap_or(0);
        let input = self.input.unwrap_or(0);
        Some(Usage {
            input_tokens: input.saturating_add(cached_tokens).saturating_add(cache_write_tokens),
            cached_tokens,
            cache_write_tokens,
            output_tokens: self.output.unwrap_or(0),
            reasoning_tokens: self.thinking.unwrap_or(0),
        })
    }
}
