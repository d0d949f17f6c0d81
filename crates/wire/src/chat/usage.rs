//! Token counts, in each shape that providers send.

use crate::counts::each_count;

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
    pub(crate) fn parse(json: &str) -> Option<Self> {
        let mut said = Said::default();
        each_count(json, |group, name, count| {
            if let Some(place) = said.place(group, name) {
                *place = Some(count);
            }
        })?;
        said.usage()
    }
}

/// The counts by the names under which they come.
#[derive(Default)]
struct Said {
    prompt: Option<u64>,
    input: Option<u64>,
    completion: Option<u64>,
    output: Option<u64>,
    total: Option<u64>,
    /// DeepSeek splits the prompt.
    hit: Option<u64>,
    miss: Option<u64>,
    /// The places where a count may stand, the first that has one holds.
    cached: [Option<u64>; 4],
    cache_write: [Option<u64>; 3],
    reasoning: [Option<u64>; 3],
}

impl Said {
    fn place(&mut self, group: &str, name: &str) -> Option<&mut Option<u64>> {
        let [cached_in_prompt, cached_in_input, cached, cache_read] = &mut self.cached;
        let [written_in_prompt, written_in_input, cache_creation] = &mut self.cache_write;
        let [reasoning_in_completion, reasoning_in_output, reasoning] = &mut self.reasoning;
        Some(match (group, name) {
            ("", "prompt_tokens") => &mut self.prompt,
            ("", "input_tokens") => &mut self.input,
            ("", "completion_tokens") => &mut self.completion,
            ("", "output_tokens") => &mut self.output,
            ("", "total_tokens") => &mut self.total,
            ("", "prompt_cache_hit_tokens") => &mut self.hit,
            ("", "prompt_cache_miss_tokens") => &mut self.miss,
            ("", "cached_tokens") => cached,
            ("", "cache_read_input_tokens") => cache_read,
            ("", "cache_creation_input_tokens") => cache_creation,
            ("", "reasoning_tokens") => reasoning,
            ("prompt_tokens_details", "cached_tokens") => cached_in_prompt,
            ("input_tokens_details", "cached_tokens") => cached_in_input,
            ("prompt_tokens_details", "cache_write_tokens") => written_in_prompt,
            ("input_tokens_details", "cache_write_tokens") => written_in_input,
            ("completion_tokens_details", "reasoning_tokens") => reasoning_in_completion,
            ("output_tokens_details", "reasoning_tokens") => reasoning_in_output,
            _ => return None,
        })
    }

    fn usage(&self) -> Option<Usage> {
        let (total, hit) = (self.total, self.hit);
        let output = self.completion.or(self.output);
        // Some leave out one of the three sums.
        let input = self
            .prompt
            .or(self.input)
            .or_else(|| Some(hit.unwrap_or(0).saturating_add(self.miss?)))
            .or_else(|| Some(total?.saturating_sub(output?)));
        let output = output.or_else(|| Some(total?.saturating_sub(input?)));
        input.or(output)?;
        let first = |places: &[Option<u64>]| places.iter().flatten().next().copied();
        Some(Usage {
            input_tokens: input.unwrap_or(0),
            cached_tokens: first(&self.cached).or(hit).unwrap_or(0),
            cache_write_tokens: first(&self.cache_write).unwrap_or(0),
            output_tokens: output.unwrap_or(0),
            reasoning_tokens: first(&self.reasoning).unwrap_or(0),
        })
    }
}
