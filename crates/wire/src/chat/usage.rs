//! Token counts, in each shape that providers send.

use serde_json::Value;

/// The tokens of one answer. Input includes what was cached, output includes reasoning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// All input tokens.
    pub input_tokens: u64,
    /// Of these, read from the provider's cache.
    pub cached_tokens: u64,
    /// Of these, written to the provider's cache.
    pub cache_write_tokens: u64,
    /// All output tokens.
    pub output_tokens: u64,
    /// Of these, reasoning.
    pub reasoning_tokens: u64,
}

impl Usage {
    /// Reads a usage object; `None` if it holds no count.
    pub(super) fn parse(json: &str) -> Option<Self> {
        Self::from_value(&serde_json::from_str(json).ok()?)
    }

    pub(super) fn from_value(usage: &Value) -> Option<Self> {
        let find = |paths: &[&str]| paths.iter().find_map(|path| count(at(usage, path)?));
        let total = find(&["total_tokens"]);
        let hit = find(&["prompt_cache_hit_tokens"]);
        let miss = find(&["prompt_cache_miss_tokens"]);
        let output = find(&["completion_tokens", "output_tokens"]);
        // DeepSeek splits the prompt; others leave out one of the three sums.
        let input = find(&["prompt_tokens", "input_tokens"])
            .or_else(|| Some(hit.unwrap_or(0) + miss?))
            .or_else(|| Some(total?.saturating_sub(output?)));
        let output = output.or_else(|| Some(total?.saturating_sub(input?)));
        if input.is_none() && output.is_none() {
            return None;
        }
        Some(Self {
            input_tokens: input.unwrap_or(0),
            cached_tokens: find(&[
                "prompt_tokens_details.cached_tokens",
                "input_tokens_details.cached_tokens",
                "cached_tokens",
                "cache_read_input_tokens",
            ])
            .or(hit)
            .unwrap_or(0),
            cache_write_tokens: find(&[
                "prompt_tokens_details.cache_write_tokens",
                "input_tokens_details.cache_write_tokens",
                "cache_creation_input_tokens",
            ])
            .unwrap_or(0),
            output_tokens: output.unwrap_or(0),
            reasoning_tokens: find(&[
                "completion_tokens_details.reasoning_tokens",
                "output_tokens_details.reasoning_tokens",
                "reasoning_tokens",
            ])
            .unwrap_or(0),
        })
    }
}

/// The value at a path such as `details.count`. A JSON pointer would do, at a cost: it allocates for each step.
fn at<'a>(usage: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(usage, |value, key| value.get(key))
}

/// A count; some servers write it as `12.0`.
fn count(value: &Value) -> Option<u64> {
    value
        .as_u64()
        .or_else(|| value.as_f64().filter(|count| *count >= 0.0 && *count < 1e15).map(|count| count as u64))
}
