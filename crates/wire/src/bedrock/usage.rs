//! Token counts of an answer (Amazon Bedrock API Reference, "TokenUsage").

use crate::chat::Usage;
use crate::counts::each_count;

/// The counts in the gateway's terms: Bedrock's input leaves out what was cached, ours includes it. `None` if nothing was
/// counted.
pub(super) fn usage(json: &str) -> Option<Usage> {
    let (mut input, mut output, mut read, mut written) = (None, None, 0, 0);
    each_count(json, |group, name, count| match (group, name) {
        ("", "inputTokens") => input = Some(count),
        ("", "outputTokens") => output = Some(count),
        ("", "cacheReadInputTokens") => read = count,
        ("", "cacheWriteInputTokens") => written = count,
        _ => {}
    })?;
    input.or(output)?;
    Some(Usage {
        input_tokens: input.unwrap_or(0_u64).saturating_add(read).saturating_add(written),
        cached_tokens: read,
        cache_write_tokens: written,
        output_tokens: output.unwrap_or(0),
        reasoning_tokens: 0,
    })
}
