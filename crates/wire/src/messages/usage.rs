//! Token counts of a message.

use serde_json::Value;

use crate::chat::Usage;

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
    /// Takes a usage object in.
    pub(super) fn take(&mut self, usage: &Value) {
        let count = |path: &str| usage.pointer(path).and_then(number);
        let by_lifetime =
            ["5m", "1h"].map(|life| count(&format!("/cache_creation/ephemeral_{life}_input_tokens")));
        let split: Option<u64> = by_lifetime.into_iter().flatten().reduce(u64::saturating_add);
        let keep = |slot: &mut Option<u64>, new: Option<u64>| *slot = new.or(*slot);
        keep(&mut self.input, count("/input_tokens"));
        keep(&mut self.cache_read, count("/cache_read_input_tokens"));
        keep(&mut self.cache_write, count("/cache_creation_input_tokens").or(split));
        keep(&mut self.output, count("/output_tokens"));
        keep(&mut self.thinking, count("/output_tokens_details/thinking_tokens"));
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

/// A count; some servers write it as `12.0`.
fn number(value: &Value) -> Option<u64> {
    value
        .as_u64()
        .or_else(|| value.as_f64().filter(|count| *count >= 0.0 && *count < 1e15).map(|count| count as u64))
}
